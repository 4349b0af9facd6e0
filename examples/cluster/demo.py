"""Two machines, a tool on both, and one of them loses its power while calls run.

    script/demo cluster            with a moment to watch
    script/demo cluster --check    once, without a terminal; exit code 1 if a step did not work

Root has two machines, as network namespaces on this one. Others have one node, and a worker is killed instead of it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from machines import why_not
from rich.console import Console
from small_cluster import RayCluster

from toolrun import Runtime

HERE = Path(__file__).parent
CALLERS = 12
LIMIT = 90.0
"""Seconds in which a step must be seen."""


class StepError(Exception):
    """A step of the demo did not work."""


@dataclass
class Calls:
    """What the callers have seen."""

    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    nodes: Counter[str] = field(default_factory=Counter)
    """Where the calls of the last moment ran."""
    is_over: bool = False
    sent: int = 0


async def call(runtime: Runtime, calls: Calls) -> None:
    """Call the tool, one call after the other. Each answer must be that of its call."""
    while not calls.is_over:
        calls.sent += 1
        number = calls.sent
        result = await runtime.executor.execute("counting", {"number": number})
        answer = result.result if result.success else None
        if isinstance(answer, dict) and answer["number"] == 2 * number:
            calls.answered += 1
            calls.nodes[str(answer["node"])] += 1
        else:
            calls.wrong.append(str(result.text)[:300])
            return


async def until(calls: Calls, is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LIMIT
    while not is_so():
        if calls.wrong:
            raise StepError(f"a call had no answer, or a wrong one: {calls.wrong[0]}")
        if time.monotonic() > end:
            raise StepError(f"this did not happen within {LIMIT:g} s, with {calls.answered} calls answered: {what}")
        await asyncio.sleep(0.1)


async def watch(calls: Calls, nodes: int, say: Callable[[str], None], what: str) -> None:
    """Wait until calls run on so many nodes."""
    calls.nodes.clear()
    await until(calls, lambda: len(calls.nodes) >= nodes and calls.nodes.total() >= 200, what)
    where = ", ".join(f"{count} on {node}" for node, count in sorted(calls.nodes.items()))
    say(f"   {calls.answered} calls answered; the last ones: {where}")


async def show(cluster: RayCluster, say: Callable[[str], None]) -> Calls:
    calls = Calls()
    nodes = len(cluster.machines)
    async with Runtime.open(HERE / "toolrun.toml") as runtime:
        callers = [asyncio.create_task(call(runtime, calls)) for _ in range(CALLERS)]
        try:
            await watch(calls, nodes, say, f"calls run on {nodes} node(s)")
            if cluster.is_alone:
                pid = next(it.pid for it in cluster.workers("head"))
                say(f"2  A worker is killed (pid {pid}).")
                os.kill(pid, signal.SIGKILL)
                await watch(calls, 1, say, "calls go on")
            else:
                say("2  The machine 10.77.0.2 loses its power.")
                cluster.kill("node")
                calls.nodes.clear()
                await until(calls, lambda: calls.nodes["10.77.0.1"] >= 200, "calls go on without the lost machine")
                say(f"   {calls.answered} calls answered; those that were lost with it were made again on 10.77.0.1.")
                say("3  It comes back.")
                await asyncio.to_thread(cluster.start, "node")
                await watch(calls, nodes, say, "the machine gets calls again")
        finally:
            calls.is_over = True
            await asyncio.gather(*callers)
    return calls


def run(say: Callable[[str], None]) -> None:
    """Raises StepError or OSError."""
    if reason := why_not():
        say(f"One node, because {reason}.")
    say("1  The cluster starts: toolrun cluster head, toolrun cluster node. This takes a moment.")
    with RayCluster() as cluster:
        say(f"   Its nodes are {', '.join(cluster.alive())}.")
        with cluster.entered():
            calls = asyncio.run(show(cluster, say))
    if calls.wrong:
        raise StepError(f"{len(calls.wrong)} of {calls.sent} calls had no answer, or a wrong one: {calls.wrong[0]}")
    say(f"All {calls.sent} calls were answered, each with its own number.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/demo cluster", description="A cluster that loses a machine.")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a step did not work")
    parser.parse_args()
    logging.getLogger("toolrun").setLevel(logging.CRITICAL)  # the demo says what there is to say
    console = Console(highlight=False, soft_wrap=True)
    try:
        run(lambda text: console.print(text, markup=False))
    except (StepError, OSError) as error:
        print(f"script/demo cluster: {error}", file=sys.stderr)  # noqa: T201  this is a program
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
