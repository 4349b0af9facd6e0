"""What can happen to the machines of a cluster, and what the callers are told. On a real cluster.

What is not marked `cluster` runs with all other tests, where machines can be made; `script/cluster` runs all.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from faults_ray.ray_project import HALF, LEASE, RayProject, fields, pool_of, ready, until, warm
from support.direct_cluster import is_alive
from support.ray_cluster import RayCluster
from toolrun import ErrorKind, Runtime, SideEffects, ToolResult

pytestmark = pytest.mark.xdist_group("ray")
LOST = (ErrorKind.WORKER_LOST, SideEffects.UNKNOWN)


@pytest.fixture
def project(tmp_path: Path, ray_cluster: RayCluster) -> RayProject:
    return RayProject(tmp_path, ray_cluster)


class Load:
    """Callers that call one after the other until told otherwise; each call has a value of its own."""

    def __init__(self, runtime: Runtime, tool: str, callers: int) -> None:
        self.answers: list[tuple[int, ToolResult]] = []
        self.moments: list[float] = []
        """When they came."""
        self._runtime = runtime
        self._tool = tool
        self._numbers = iter(range(1_000_000))
        self._is_over = False
        self._count = callers
        self._callers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        self._callers = [asyncio.create_task(self._call()) for _ in range(self._count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await asyncio.wait(self._callers)

    async def _call(self) -> None:
        while not self._is_over:
            value = next(self._numbers)
            result = await self._runtime.executor.execute(self._tool, {"value": value, "seconds": 0.01}, timeout=60)
            self.answers.append((value, result))
            self.moments.append(monotonic())

    async def reach(self, count: int) -> None:
        await until(lambda: len(self.answers) >= count, f"{count} calls were answered", 600.0)

    @property
    def lost(self) -> list[ToolResult]:
        return [result for _, result in self.answers if not result.success]

    def check(self) -> None:
        """Each call was answered once, and if at all, then with its own value."""
        assert len(self.answers) > 20
        assert set(Counter(value for value, _ in self.answers).values()) == {1}
        assert not [value for value, it in self.answers if it.success and fields(it)["value"] != value]

    def rate(self, start: float, end: float) -> float:
        """Answers per second."""
        return (bisect_left(self.moments, end) - bisect_left(self.moments, start)) / (end - start)

    def seconds_until_full(self, loss: float, before: float) -> float | None:
        """Seconds from a loss to the first half of a second with three quarters of the rate before."""
        steps = (it / 10 for it in range(int((monotonic() - loss - 0.5) * 10)))
        return next((it for it in steps if self.rate(loss + it, loss + it + 0.5) >= 0.75 * before), None)


TOOLS = ("safe", "once")
THIRD = {"CPU": 0.3}
"""So that all replicas fit on one machine."""


@pytest.mark.usefixtures("two_machines")
@pytest.mark.parametrize(
    ("times", "calls"), [(1, 200), pytest.param(10, 50_000, marks=[pytest.mark.real_time, pytest.mark.timeout(3000)])]
)
async def test_a_machine_that_is_lost_under_load_costs_an_idempotent_tool_nothing_and_another_its_calls_there(
    project: RayProject, times: int, calls: int, record_property: Callable[[str, object], None]
) -> None:
    """Lost, and brought back, so often; until so many calls were answered. `slow` has a call on each machine then."""
    project.script("safe", "effects = 'idempotent'\n# concurrency = 4", replicas=2, resources=THIRD, retries=3)
    project.script("once", "effects = 'once'\n# concurrency = 4", replicas=2, resources=THIRD)
    project.script("slow", "effects = 'once'", replicas=2, resources=THIRD)
    cluster, before, recoveries = project.cluster, 0.0, list[float]()
    with cluster.entered():
        async with project.open() as runtime:
            for tool in TOOLS:
                assert len(await warm(runtime, tool, 2)) == 2, "the replicas are on two machines"
            async with Load(runtime, "safe", 8) as safe, Load(runtime, "once", 6) as once:
                for turn in range(1, times + 1):
                    await safe.reach(calls * turn // (times + 1))
                    before = before or safe.rate(monotonic() - 1.0, monotonic())
                    loss = await lose(cluster, runtime)
                    if times > 1:
                        await until(lambda: safe.seconds_until_full(loss, before) is not None, "the full rate")  # noqa: B023
                        recoveries.append(safe.seconds_until_full(loss, before) or 0.0)
                    if turn < times:
                        await asyncio.to_thread(cluster.start, "node")
                        await safe.reach(calls * turn // times)
                        for tool in TOOLS:
                            await replace_one(runtime, tool)
                await safe.reach(calls)
    safe.check()
    once.check()
    assert not [it.error for it in safe.lost]
    assert {(it.error_kind, it.side_effects) for it in once.lost} <= {LOST}
    assert len(once.lost) <= 4 * times, "only those in flight there"
    record_property("seconds until the full rate", recoveries)
    print("seconds until the full rate:", recoveries)
    assert max(recoveries, default=0.0) <= 6.0, "on a machine that has nothing else to do"


async def lose(cluster: RayCluster, runtime: Runtime) -> float:
    """A machine loses its power, with a call in flight there; then there are two replicas again. When that was."""
    assert len(await warm(runtime, "slow", 2)) == 2, "its replicas are on two machines as well"
    before = {tool: {id(it) for it in pool_of(runtime, tool).workers} for tool in TOOLS}
    calls = [runtime.executor.execute("slow", {"value": it, "seconds": 10}, timeout=60) for it in range(2)]
    slow = asyncio.gather(*calls)
    await until(lambda: sum(it.load for it in pool_of(runtime, "slow").workers) == 2, "one runs on each")
    loss = monotonic()
    await asyncio.to_thread(cluster.kill, "node")
    ends = [fields(it)["value"] if it.success else (it.error_kind, it.side_effects) for it in await slow]
    assert ends in ([0, LOST], [LOST, 1]), "the one that ran there is lost, and no other"
    for tool in TOOLS:
        await until(lambda: is_whole(runtime, tool, before[tool]), f"two replicas of {tool} again")  # noqa: B023
    return loss


def is_whole(runtime: Runtime, tool: str, before: set[int]) -> bool:
    """Whether there are two replicas, and one of them is new."""
    now = {id(it) for it in pool_of(runtime, tool).workers}
    return ready(runtime, tool) == 2 and bool(now - before)


async def replace_one(runtime: Runtime, tool: str) -> None:
    """The machine that has come back gets a replica: one that ends by itself is placed where there are none."""
    worker = pool_of(runtime, tool).workers[0]
    before = {id(it) for it in pool_of(runtime, tool).workers}
    worker.outdated()
    await until(lambda: is_whole(runtime, tool, before), "another replica")


@pytest.mark.usefixtures("two_machines")
async def test_a_call_behind_a_cut_cable_is_answered_when_its_worker_is_gone_and_not_again_when_it_is_healed(
    project: RayProject,
) -> None:
    project.script("once", "effects = 'once'", replicas=2, resources=HALF)
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "once", 2)
            calls = [
                asyncio.create_task(runtime.executor.execute("once", {"value": 1, "seconds": 60}, timeout=60))
                for _ in range(2)
            ]
            await until(lambda: all(it.load for it in pool_of(runtime, "once").workers), "both are busy")
            remote = [it.pid for it in project.cluster.workers("node")]
            assert remote
            await asyncio.to_thread(project.cluster.cut, "node")
            async with asyncio.timeout(LEASE + 3):
                done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            alive = [pid for pid in remote if is_alive(pid)]
            [lost] = [it.result() for it in done]
            assert not alive, "nothing runs there any more when the caller is told"
            assert (lost.error_kind, lost.side_effects) == LOST
            assert "was lost with its node" in (lost.error or "")
            await asyncio.to_thread(project.cluster.heal, "node")
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            result = await runtime.executor.execute("once", {"value": 2}, timeout=60)
            assert fields(result)["value"] == 2


@pytest.mark.cluster
@pytest.mark.usefixtures("two_machines")
async def test_a_cable_that_is_healed_within_the_lease_costs_no_call(project: RayProject) -> None:
    project.workers["lease"] = 12.0
    project.script("once", "effects = 'once'", replicas=2, resources=HALF)
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "once", 2)
            calls = [
                asyncio.create_task(runtime.executor.execute("once", {"value": it, "seconds": 4}, timeout=60))
                for it in range(2)
            ]
            workers = list(pool_of(runtime, "once").workers)
            await until(lambda: all(it.load for it in workers), "both are busy")
            await asyncio.to_thread(project.cluster.cut, "node")
            await until(lambda: any(it.state.value != "ready" for it in workers), "one gets no new calls")
            await asyncio.to_thread(project.cluster.heal, "node")
            assert [fields(await it)["value"] for it in calls] == [0, 1]
