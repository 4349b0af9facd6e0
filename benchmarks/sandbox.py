"""What the sandbox costs: the start of a worker, and a call into a warm one, on each rung beside a plain process.

A start is wall time, from the request to the engine until the worker says that it is ready; all cases are started in
turn, in random order. A call is CPU time of both sides, on one core. "plain" has no walls and nothing that ends what it
leaves behind; "off" has the latter. The rungs below the highest are forced, which the product never does.
usage: sandbox.py [rounds]
"""

import asyncio
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from harness import Target, print_table, print_targets
from workers import on_one_core

from toolrun import Runtime
from toolrun.config.model import Permissions
from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import ProcessSpec
from toolrun.processes.local import LocalEngine
from toolrun.processes.sandbox.confine import Sandboxes
from toolrun.processes.sandbox.policy import OFF, STANDARD, STRICT, ProjectPaths, interpreter_roots, make_policy
from toolrun.processes.sandbox.system_support import BUBBLEWRAP, LANDLOCK, NAMESPACES, SystemSupport, probe
from toolrun.scripts.pool import Pool
from toolrun.scripts.pooled_worker import NoPool, PooledWorker
from toolrun.scripts.request import Request
from toolrun.worker import DIRECTORY

SCRIPT = '''# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b
'''
PLAIN = "plain"
CALLS = 500
DEFAULT = "standard: namespaces, the default"


async def make_specs(root: Path, interpreter: Path, support: SystemSupport) -> dict[str, ProcessSpec]:
    """One way to start the same worker for each case."""
    script = root / "tools" / "add.py"
    content = script.read_bytes()
    arguments = (str(script), "--source", str(len(content)), "--concurrency", "1")
    main = (f"{DIRECTORY}/__main__.py",)
    variables = child_environment({name: os.environ[name] for name in ("PATH", "HOME")}, lambda name: False)
    bare = ProcessSpec("add", interpreter, main, root, variables, content)

    async def confined(level: str, rung: str) -> ProcessSpec:
        project_paths = ProjectPaths(root, hidden=(root / "toolrun.toml",), protected=(root / "tools",))
        packages = (*interpreter_roots(interpreter), script.parent)
        policy = make_policy(level, Permissions(), "tool.add.permissions", project_paths, interpreter, packages)
        sandboxes = Sandboxes(root / "cache", project_paths, support=SystemSupport(rung, support.abi))
        return await sandboxes.confine(bare, policy, arguments, None)

    specs = {
        PLAIN: ProcessSpec("add", interpreter, main + arguments, root, variables, content),
        "off: what it starts ends with it": await confined(OFF, NAMESPACES),
    }
    if support.rung == NAMESPACES:
        specs[DEFAULT] = await confined(STANDARD, NAMESPACES)
        specs["strict: namespaces"] = await confined(STRICT, NAMESPACES)
    if support.abi:
        specs["standard: Landlock alone"] = await confined(STANDARD, LANDLOCK)
    if shutil.which("bwrap"):
        specs["standard: bubblewrap"] = await confined(STANDARD, BUBBLEWRAP)
    return specs


async def measure_starts(engine: LocalEngine, specs: Mapping[str, ProcessSpec], rounds: int) -> dict[str, list[float]]:
    """Wall ms until a worker is ready, one figure a round."""
    figures: dict[str, list[float]] = {name: [] for name in specs}
    shuffle = random.Random(1).shuffle
    order = list(specs)
    for number in range(rounds + 2):
        shuffle(order)
        for name in order:
            worker = PooledWorker("add", NoPool(), 0.0)
            start = time.perf_counter()
            worker.start(engine, specs[name])
            await worker.ready
            took = (time.perf_counter() - start) * 1000
            await worker.close(5.0)
            if number >= 2:  # the first starts find cold caches
                figures[name].append(took)
    return figures


async def measure_calls(engine: LocalEngine, specs: Mapping[str, ProcessSpec], rounds: int) -> dict[str, list[float]]:
    """CPU µs for each call into a warm worker, both sides, one figure a round."""
    figures: dict[str, list[float]] = {name: [] for name in specs}
    async with AsyncExitStack() as stack:
        cases: dict[str, tuple[Pool, list[int]]] = {}
        for name, spec in specs.items():

            async def make_spec(spec: ProcessSpec = spec) -> ProcessSpec:
                return spec

            pool = Pool("add", engine, make_spec)
            stack.push_async_callback(pool.close)
            assert await add(pool) == 3
            info = pool.workers[0].describe()
            assert info is not None
            cases[name] = (pool, family(int(info.place.split()[1])))
        with on_one_core([os.getpid(), *(pid for _, pids in cases.values() for pid in pids)]):
            for _ in range(rounds):
                for name, (pool, pids) in cases.items():
                    start = cpu(pids)
                    for _ in range(CALLS):
                        await add(pool)
                    figures[name].append((cpu(pids) - start) / CALLS / 1000)
    return figures


def cpu(pids: list[int]) -> int:
    """CPU nanoseconds of this process and others, which have one thread each. `stat` counts them in steps of 10 ms."""
    spent = (int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids)
    return time.process_time_ns() + sum(spent)


async def add(pool: Pool) -> object:
    return await pool.run(Request("add", {"a": 1, "b": 2}))


def ratio(figures: Mapping[str, list[float]], name: str) -> float:
    """Against plain in the same round."""
    return median(mine / plain for mine, plain in zip(figures[name], figures[PLAIN], strict=True))


def family(pid: int) -> list[int]:
    """A process and its descendants: the worker itself is one of them."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(descendant for child in children for descendant in family(int(child)))]


async def main(rounds: int) -> bool:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "tools").mkdir()
        (root / "tools" / "add.py").write_text(SCRIPT)
        (root / "toolrun.toml").write_text('[workers]\ncache = "cache"\n[journal]\nenabled = false\n')
        async with Runtime.open(root / "toolrun.toml") as runtime:
            interpreter = await runtime.scripts[0].prepare()
        specs = await make_specs(root, interpreter, probe())
        engine = LocalEngine()
        try:
            starts = await measure_starts(engine, specs, rounds)
            calls = await measure_calls(engine, specs, rounds)
        finally:
            await engine.close()
    rows = [
        (name, median(starts[name]), ratio(starts, name), median(calls[name]), ratio(calls, name)) for name in specs
    ]
    header = ("case", "start, ms", "× plain", "warm call, CPU µs", "× plain")
    print_table("A worker behind walls", header, rows)
    if DEFAULT not in specs:
        print("\nThis system does not allow namespaces: the targets are about them.")
        return True
    return print_targets(
        [
            Target("start on the default rung, × plain", ratio(starts, DEFAULT), 1.35),
            Target("warm call on the default rung, × plain", ratio(calls, DEFAULT), 1.05),
        ]
    )


if __name__ == "__main__":
    sys.exit(not asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)))
