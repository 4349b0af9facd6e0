"""A call into a worker on a node of a Ray cluster, beside the same worker on this machine, and beside a bare Ray actor.

RAY_ADDRESS and Ray's other variables name a cluster that this machine is a node of. Without them, it makes one of two
machines, as network namespaces on this one (as root; others have one node). (The file is not called ray.py, because
Python would then find it in place of Ray.) All three are measured in each round, and the figures are medians over the
rounds, so that noise hits all alike. Ratios hold; absolute times are those of a busy machine.
usage: ray_workers.py [rounds] [calls]
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

from harness import Target, print_table, print_targets

from toolrun.config.model import Config, ToolSettings, WorkerSettings
from toolrun.processes.engine import ProcessSpec
from toolrun.processes.local import LocalEngine
from toolrun.processes.ray.cluster_client import ClusterSettings
from toolrun.processes.ray.ray_engine import RayEngine
from toolrun.processes.sandbox.policy import ProjectPaths
from toolrun.scripts.on_node import make, recipe
from toolrun.scripts.pool import Pool
from toolrun.scripts.pool_state import PoolLimits
from toolrun.scripts.request import Request
from toolrun.scripts.script_process import worker_options
from toolrun.scripts.script_version import make_version

SCRIPT = b'''# /// script
# dependencies = []
# [tool.toolrun]
# concurrency = 64
# ///
async def echo(value: int) -> int:
    """Give it back."""
    return value

def spin(turns: int) -> int:
    """Use the processor."""
    for _ in range(turns):
        pass
    return turns
'''
BARE = """
import asyncio, json, os, sys, time
answers = os.dup(1); os.dup2(2, 1)
import ray
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR", configure_logging=False)

@ray.remote
class Bare:
    async def echo(self, value):
        return value

async def main():
    node = next((it["NodeID"] for it in ray.nodes() if it["Alive"] and it["NodeID"] != here), here)
    actor = Bare.options(num_cpus=0.5, max_concurrency=64, label_selector={"ray.io/node-id": node}).remote()
    await actor.echo.remote(0)
    for line in sys.stdin:
        calls, width = json.loads(line)
        times, begun = [], time.perf_counter()
        async def caller():
            for _ in range(calls // width):
                start = time.perf_counter()
                await actor.echo.remote(1)
                times.append(time.perf_counter() - start)
        await asyncio.gather(*(caller() for _ in range(width)))
        os.write(answers, json.dumps([sorted(times), time.perf_counter() - begun]).encode() + b"\\n")

here = ray.get_runtime_context().get_node_id()
asyncio.run(main())
"""
FLAT = 100_000
OF_A_REPLICA = ("ray::ReplicaActor", "toolrun.scripts.on_node", "toolrun/worker/")
Pids = Callable[[], list[int]]
Run = Callable[[int, int], Awaitable[tuple[list[float], float]]]
"""So many calls, so many at a time: how long each took, in order of length, and all of them."""


def version_and_config(root: Path) -> tuple[Config, Path]:
    settings = ToolSettings(resources={"CPU": 0.5})
    workers = WorkerSettings(cache=str(root / "cache"))
    return Config(path=None, root=root, workers=workers, tool={"bench": settings}), root / "tools" / "bench.py"


@asynccontextmanager
async def pool_on(engine: LocalEngine | RayEngine, root: Path, workers: int = 1) -> AsyncIterator[Pool]:
    config, path = version_and_config(root)
    version = make_version(SCRIPT, None, config)
    wanted = recipe(path, version, worker_options(version), config, ProjectPaths(root), {}, is_description=False)

    async def spec() -> ProcessSpec:
        if isinstance(engine, RayEngine):
            return await engine.place(wanted, lambda line: None)
        return await make(wanted.content, lambda line: None)

    limits = PoolLimits(concurrency=64 // workers, max_workers=workers, spreads=isinstance(engine, RayEngine))
    pool = Pool("bench", engine, spec, limits)
    try:
        await pool.run(Request("echo", {"value": 1}))
        yield pool
    finally:
        await pool.close()


def through(pool: Pool, function: str = "echo", argument: str = "value", value: int = 1) -> Run:
    async def run(calls: int, width: int) -> tuple[list[float], float]:
        times: list[float] = []
        begun = perf_counter()

        async def caller() -> None:
            for _ in range(calls // width):
                start = perf_counter()
                assert await pool.run(Request(function, {argument: value})) == value
                times.append(perf_counter() - start)

        await asyncio.gather(*(caller() for _ in range(width)))
        return sorted(times), perf_counter() - begun

    return run


def start_bare_actor() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def bare_actor(child: subprocess.Popen[bytes]) -> Run:
    async def run(calls: int, width: int) -> tuple[list[float], float]:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps([calls, width]).encode() + b"\n")
        child.stdin.flush()
        times, taken = json.loads(await asyncio.to_thread(child.stdout.readline))
        return list(times), float(taken)

    return run


def memory(pid: int | str = "self") -> float:
    """Megabytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(runs: dict[str, Run], rounds: int, calls: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, list[float]]] = {name: {"p50": [], "p99": [], "one": [], "many": []} for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times, taken = await run(calls, 1)
            found[name]["p50"].append(times[len(times) // 2] * 1000)
            found[name]["p99"].append(times[len(times) * 99 // 100] * 1000)
            found[name]["one"].append(len(times) / taken)
            times, taken = await run(calls * 4, 64)
            found[name]["many"].append(len(times) / taken)
    return {name: {key: median(values) for key, values in it.items()} for name, it in found.items()}


async def compare(engine: RayEngine, root: Path, rounds: int, calls: int, on_nodes: Pids) -> list[Target]:
    child = start_bare_actor()
    local = LocalEngine()
    try:
        async with pool_on(local, root) as here, pool_on(engine, root) as there:
            runs = {"this machine": through(here), "a node": through(there), "a bare async actor": bare_actor(child)}
            await measure(runs, 1, calls // 4)
            found = await measure(runs, rounds, calls)
            grown = await growth(through(there), on_nodes)
    finally:
        await local.close()
        child.kill()
        child.communicate()
    rows = [
        [name, f"{it['p50']:.3f}", f"{it['p99']:.3f}", f"{it['one']:,.0f}", f"{it['many']:,.0f}"]
        for name, it in found.items()
    ]
    print_table(
        "A call of a trivial function",
        ["where", "p50 ms", "p99 ms", "one at a time /s", "64 in flight /s"],
        rows,
    )
    node, machine, bare = found["a node"], found["this machine"], found["a bare async actor"]
    return [
        Target("p50, × a bare async actor", node["p50"] / bare["p50"], 0.4),
        Target("p50, × this machine", node["p50"] / machine["p50"], 4.0),
        Target("p99, × the p50 of a bare actor", node["p99"] / bare["p50"], 1.0),
        Target("64 in flight, × a bare actor one at a time", node["many"] / bare["one"], 10.0, at_least=True),
        Target("64 in flight, × this machine", node["many"] / machine["many"], 0.5, at_least=True),
        *(Target(f"growth of {who} over {FLAT:,} calls, MB", it, 2.0) for who, it in grown.items()),
    ]


async def growth(run: Run, on_nodes: Pids) -> dict[str, float]:
    """Megabytes, in ten parts after a first one: `run` remembers how long each call took, and uses that room again.

    Processes on other machines cannot be seen from here.
    """
    await run(FLAT // 10, 64)
    pids: list[int | str] = list(on_nodes())
    watched: dict[str, list[int | str]] = {"the gateway": ["self"]}
    if pids:
        watched["the actor, the replica and its worker"] = pids
    before = {who: sum(map(memory, them)) for who, them in watched.items()}
    for _ in range(10):
        await run(FLAT // 10, 64)
    return {who: sum(map(memory, them)) - before[who] for who, them in watched.items()}


async def scale(engine: RayEngine, root: Path) -> list[Target]:
    rates: dict[int, float] = {}
    for replicas in (1, 2, 4):
        async with pool_on(engine, root, replicas) as pool:
            run = through(pool, "spin", "turns", 200_000)
            async with asyncio.timeout(120):
                while len(pool.ready) < replicas:  # a replica takes seconds to start, and all calls a moment
                    await run(512, 64)
            _, taken = await run(512, 64)
            rates[replicas] = 512 / taken
    cores = len(os.sched_getaffinity(0))
    print_table(
        f"Calls that use a processor for some milliseconds; this machine and its nodes share {cores} cores",
        ["replicas", "calls /s", "× one replica"],
        [[str(replicas), f"{rate:,.0f}", f"{rate / rates[1]:.2f}"] for replicas, rate in rates.items()],
    )
    return [] if cores < 2 else [Target("two replicas, × one", rates[2] / rates[1], 1.5, at_least=True)]


async def measure_all(on_nodes: Pids, rounds: int = 5, calls: int = 2000) -> bool:
    engine = RayEngine(ClusterSettings(os.environ["RAY_ADDRESS"]), os.environ)
    with tempfile.TemporaryDirectory() as folder:
        try:
            targets = await compare(engine, Path(folder), rounds, calls, on_nodes)
            targets += await scale(engine, Path(folder))
        finally:
            await engine.close()
    return print_targets(targets)


def main(*counts: int) -> bool:
    if "RAY_ADDRESS" in os.environ:
        return asyncio.run(measure_all(list, *counts))
    sys.path.append(str(Path(__file__).parents[1] / "examples" / "cluster"))
    from machines import why_not
    from small_cluster import RayCluster

    with RayCluster(head_cpus=2 if why_not() else 0) as cluster, cluster.entered():

        def on_nodes() -> list[int]:
            seen = [it for name in cluster.machines for it in cluster.processes(name)]
            return [it.pid for it in seen if any(word in it.command for word in OF_A_REPLICA)]

        return asyncio.run(measure_all(on_nodes, *counts))


if __name__ == "__main__":
    sys.exit(0 if main(*map(int, sys.argv[1:])) else 1)
