"""A tour of toolrun on the terminal: good calls, bad calls, and what a model gets to read in each case.

script/demo tour            the tour
script/demo tour --check    the same without colours; exit code 1 if a step did not go as expected
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from toolrun import ErrorKind, Health, Runtime, ToolResult
from toolrun.testing import WorkerProcess, find_workers

PROJECT = Path(__file__).parent


@dataclass(frozen=True)
class Step:
    """One call of the tour, and how it must end."""

    title: str
    tool: str
    arguments: dict[str, Any]
    text: str
    """What the model must read, at the start of its answer."""
    kind: ErrorKind | None = None
    repairs: int = 0
    shows_envelope: bool = False
    processes: int | None = None
    """How many processes of scripts there must be then; None: it is not about them."""

    def is_met_by(self, result: ToolResult) -> bool:
        outcome = (result.error_kind, len(result.repairs))
        return outcome == (self.kind, self.repairs) and result.text.startswith(self.text)


STEPS = [
    Step("An async function", "add", {"a": 2, "b": 3}, "5"),
    Step("A handler that ships with toolrun", "math_eval", {"expression": "sqrt(16) + 2^3"}, '{"result":12}'),
    Step(
        "Arguments that were nearly right: repaired",
        "set_light",
        {"room": "Kitchen", "brightness": "80"},
        '{"room":"kitchen","brightness":80}',
        repairs=2,
        shows_envelope=True,
    ),
    Step(
        "Arguments that nobody can repair: refused, the tool never ran",
        "set_light",
        {"room": "garage", "brightness": 80},
        "Error: Invalid parameters: 'room' must be one of",
        ErrorKind.INVALID_ARGUMENTS,
    ),
    Step(
        "A tool that does not exist",
        "get_wether",
        {"city": "Berlin"},
        'Error: Unknown tool "get_wether"',
        ErrorKind.UNKNOWN_TOOL,
    ),
    Step(
        "A tool that raises",
        "water_plants",
        {"litres": 2.5},
        "Error: the tank is empty",
        ErrorKind.TOOL_ERROR,
    ),
    Step(
        "A tool that hangs: answered at its deadline",
        "wait_for_parcel",
        {},
        "Error: Tool 'wait_for_parcel' timed out after 1 s",
        ErrorKind.TIMEOUT,
    ),
    Step(
        "A script: with a package of its own, in a process of its own",
        "photos.estimate",
        {"photos": 1200},
        "5.0 GB",
        processes=1,
    ),
    Step(
        "A script that hangs in a program that it has started: both are killed at the deadline",
        "photos.verify_backup",
        {},
        "Error: Tool 'photos.verify_backup' timed out after 1 s",
        ErrorKind.TIMEOUT,
        processes=0,
    ),
]

TRY_NEXT = [
    "list",
    "describe set_light",
    "call set_light room=office brightness=40",
    "call math_eval expression='5 km / 20 minutes'",
    "call photos.estimate photos=24",
    "doctor",
]


@dataclass
class Screen:
    """Where the tour is shown."""

    console: Console
    failures: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def workers(self) -> list[WorkerProcess]:
        """The workers of the tour, and what is left of those that it had: a process may outlive its worker."""
        workers = find_workers()
        self._seen |= {worker.tag for worker in workers if worker.host == os.getpid()}
        return [worker for worker in workers if worker.tag in self._seen]

    def line(self, *parts: str | tuple[str, str]) -> None:
        self.console.print(Text.assemble(*parts), soft_wrap=True)

    def heading(self, text: str) -> None:
        self.line(("\n" + text, "bold"))

    def fact(self, label: str, text: str, style: str = "") -> None:
        first, *rest = text.splitlines() or [""]
        self.line((f"   {label:<12}", "dim"), (first, style))
        for line in rest:
            self.line(" " * 15, (line, style))

    def expect(self, subject: str, is_met: bool) -> None:
        if not is_met:
            self.failures.append(subject)
            self.fact("", "this is not what was expected", "bold red")


def show_tools(screen: Screen, runtime: Runtime) -> None:
    screen.line((f"toolrun · {len(runtime.manager)} tools in {PROJECT.name}", "bold"))
    for tool in runtime.manager:
        screen.line((f"   {tool.name:<22}", "cyan"), tool.description.partition("\n")[0])
    for problem in runtime.problems:
        screen.fact("problem", str(problem), "red")
    screen.expect("loading the tools", len(runtime.manager) == 9 and not runtime.problems)


async def show_step(screen: Screen, number: int, step: Step, runtime: Runtime) -> None:
    screen.heading(f"{number}  {step.title}")
    screen.fact("call", f"{step.tool} {json.dumps(step.arguments)}", "cyan")
    result = await runtime.executor.execute(step.tool, step.arguments)
    for label, repair in zip(["repaired", *[""] * len(result.repairs)], result.repairs, strict=False):
        screen.fact(label, str(repair), "yellow")
    if result.success:
        outcome = "ok"
    else:
        outcome = f"{result.error_kind} · side effects: {str(result.side_effects).replace('_', ' ')}"
    screen.fact("outcome", f"{outcome} · {result.execution_time_ms:.1f} ms", "green" if result.success else "red")
    screen.fact("model gets", result.text)
    if step.shows_envelope:
        entries = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.to_dict().items()]
        screen.fact("envelope", "{" + ",\n ".join(entries) + "}")
    if step.processes is not None and sys.platform == "linux":
        await show_processes(screen, step.processes)
    screen.expect(step.title, step.is_met_by(result))


async def show_processes(screen: Screen, expected: int) -> None:
    """What the system says of the tour's scripts, and of what they started. A killed process needs a moment to end."""
    for _ in range(100):
        workers = screen.workers()
        count = sum(worker.processes for worker in workers)
        if count == expected:
            break
        await asyncio.sleep(0.05)
    for worker in workers:
        name, memory = Path(worker.label).name, f"{worker.memory / 1_000_000:.0f} MB"
        screen.fact("processes", f"pid {worker.pid} runs {name} ({memory}), and stays for the next call", "green")
    if not workers:
        screen.fact("processes", "none left, of the script and of what it started", "green")
    screen.expect("the processes", count == expected)


def show_health(screen: Screen, health: Health) -> None:
    screen.heading("What is left of it")
    screen.fact("running", f"{health.running} calls, {health.queued} queued", "green")
    for tool, count in health.abandoned.items():
        screen.fact("abandoned", f"{count} thread in {tool}", "yellow")
        screen.fact("", "A thread cannot be killed: it is counted, and nobody waits for it.")
    screen.expect("health", health.running == 0 and dict(health.abandoned) == {"wait_for_parcel": 1})


def show_next(screen: Screen) -> None:
    screen.heading("Try next")
    screen.line(("   cd examples/quickstart", "cyan"))
    for command in TRY_NEXT:
        screen.line((f"   ../../.venv/bin/toolrun {command}", "cyan"))


async def tour(screen: Screen) -> None:
    def on_progress(line: str) -> None:
        screen.line((f"   {line}", "dim"))

    async with Runtime.open(PROJECT / "toolrun.toml", on_progress=on_progress) as runtime:
        show_tools(screen, runtime)
        for number, step in enumerate(STEPS, 1):
            await show_step(screen, number, step, runtime)
        show_health(screen, runtime.executor.health())
    show_next(screen)


def main() -> int:
    parser = argparse.ArgumentParser(description="A tour of toolrun on the terminal.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a step did not go as expected; no colours")
    is_check = parser.parse_args().check
    logging.getLogger("toolrun").addHandler(logging.NullHandler())  # the tour shows what the log would say
    screen = Screen(Console(color_system=None if is_check else "auto", highlight=False))
    try:
        asyncio.run(tour(screen))
    except KeyboardInterrupt:
        screen.line("\ninterrupted")
        return 130
    if is_check:
        failed = ", ".join(screen.failures)
        screen.heading(f"check: not as expected: {failed}" if failed else "check: everything went as expected")
    return 1 if is_check and screen.failures else 0


if __name__ == "__main__":
    sys.exit(main())
