"""What can happen to the machines of a cluster, and what the callers are told. On a real cluster."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faults_ray.ray_project import LEASE, RayProject, fields, until
from support.direct_cluster import is_alive
from support.ray_cluster import RayCluster
from toolrun import ErrorKind, Runtime, SideEffects, ToolResult

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ray")]
HALF = {"CPU": 0.5}
Project = RayProject


@pytest.fixture
def project(tmp_path: Path, ray_cluster: RayCluster) -> RayProject:
    return RayProject(tmp_path, ray_cluster)


async def warm(runtime: Runtime, tool: str, replicas: int, timeout: float = 60.0) -> set[str]:
    """Have so many replicas running; the machines that they are on."""
    together = replicas * pool_of(runtime, tool).limits.concurrency

    async def call_all() -> set[str]:
        calls = [runtime.executor.execute(tool, {"value": 0, "seconds": 0.3}, timeout=60) for _ in range(together)]
        return {fields(it)["machine"] for it in await asyncio.gather(*calls)}

    async with asyncio.timeout(timeout):
        while len([it for it in pool_of(runtime, tool).workers if it.state.value == "ready"]) < replicas:
            await call_all()
        return await call_all()


def pool_of(runtime: Runtime, tool: str) -> Any:
    [script] = [it for it in runtime.scripts if it.name == tool]
    return script.pool


def inner(cluster: RayCluster, name: str) -> list[int]:
    return [it.pid for it in cluster.workers(name)]


async def load(
    runtime: Runtime, tool: str, callers: int, over: asyncio.Event, answers: list[tuple[int, ToolResult]]
) -> None:
    """Callers that call one after the other until told otherwise; each call has a value of its own."""
    numbers = iter(range(1_000_000))

    async def caller() -> None:
        while not over.is_set():
            value = next(numbers)
            result = await runtime.executor.execute(tool, {"value": value, "seconds": 0.01}, timeout=60)
            answers.append((value, result))

    await asyncio.gather(*(caller() for _ in range(callers)))


@pytest.mark.usefixtures("two_machines")
@pytest.mark.parametrize(
    ("times", "calls"), [(1, 200), pytest.param(10, 50_000, marks=[pytest.mark.real_time, pytest.mark.timeout(3000)])]
)
async def test_a_machine_that_is_lost_under_load_costs_an_idempotent_tool_no_answer(
    project: RayProject, times: int, calls: int
) -> None:
    """Lost, and brought back, so often; until so many calls were answered."""
    project.script("safe", "effects = 'idempotent'\n# concurrency = 4", replicas=2, resources=HALF, retries=3)
    cluster, over = project.cluster, asyncio.Event()
    with cluster.entered():
        async with project.open() as runtime:
            assert len(await warm(runtime, "safe", 2)) == 2, "the replicas are on two machines"
            answers: list[tuple[int, ToolResult]] = []
            task = asyncio.create_task(load(runtime, "safe", 8, over, answers))
            for turn in range(1, times + 1):
                await until(lambda: len(answers) >= calls * turn // (times + 1), "calls were answered", 600.0)  # noqa: B023
                before = {id(it) for it in pool_of(runtime, "safe").workers}
                await asyncio.to_thread(cluster.kill, "node")
                await until(lambda: is_whole(runtime, "safe", before), "two replicas again")  # noqa: B023
                if turn < times:
                    await asyncio.to_thread(cluster.start, "node")
                    await until(lambda: len(answers) >= calls * turn // times, "calls were answered", 600.0)  # noqa: B023
                    await replace_one(runtime, "safe")
            await until(lambda: len(answers) >= calls, "all calls were answered", 600.0)
            over.set()
            await task
    check_values(answers)
    assert all(result.success for _, result in answers), [it.error for _, it in answers if not it.success][:3]


def is_whole(runtime: Runtime, tool: str, before: set[int]) -> bool:
    """Whether there are two replicas, and one of them is new."""
    workers = pool_of(runtime, tool).workers
    return len([it for it in workers if it.state.value == "ready"]) == 2 and bool({id(it) for it in workers} - before)


async def replace_one(runtime: Runtime, tool: str) -> None:
    """The machine that has come back gets a replica: one that ends by itself is placed where there are none."""
    worker = pool_of(runtime, tool).workers[0]
    before = {id(it) for it in pool_of(runtime, tool).workers}
    worker.outdated()
    await until(lambda: is_whole(runtime, tool, before), "another replica")


@pytest.mark.usefixtures("two_machines")
async def test_each_call_that_was_in_flight_on_a_lost_machine_is_told_so_and_all_others_are_right(
    project: RayProject,
) -> None:
    project.script("once", "effects = 'once'\n# concurrency = 4", replicas=2, resources=HALF)
    over, answers = asyncio.Event(), list[tuple[int, ToolResult]]()
    with project.cluster.entered():
        async with project.open() as runtime:
            assert len(await warm(runtime, "once", 2)) == 2
            task = asyncio.create_task(load(runtime, "once", 8, over, answers))
            await until(lambda: len(answers) >= 40, "calls were answered")
            await asyncio.to_thread(project.cluster.kill, "node")
            await until(lambda: any(not it.success for _, it in answers), "the first call that was lost")
            over.set()
            await task
    check_values([it for it in answers if it[1].success])
    lost = [result for _, result in answers if not result.success]
    assert {(it.error_kind, it.side_effects) for it in lost} == {(ErrorKind.WORKER_LOST, SideEffects.UNKNOWN)}
    assert len(lost) <= 4, "only those in flight there"


def check_values(answers: list[tuple[int, ToolResult]]) -> None:
    assert len(answers) > 20
    assert set(Counter(value for value, _ in answers).values()) == {1}
    assert not [value for value, result in answers if fields(result)["value"] != value]


@pytest.mark.usefixtures("two_machines")
async def test_a_call_behind_a_cut_cable_is_answered_when_its_worker_is_gone(project: RayProject) -> None:
    project.script("once", "effects = 'once'", replicas=2, resources=HALF)
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "once", 2)
            calls = [
                asyncio.create_task(runtime.executor.execute("once", {"value": 1, "seconds": 60}, timeout=60))
                for _ in range(2)
            ]
            await until(lambda: all(it.load for it in pool_of(runtime, "once").workers), "both are busy")
            remote = inner(project.cluster, "node")
            assert remote
            await asyncio.to_thread(project.cluster.cut, "node")
            async with asyncio.timeout(LEASE + 3):
                done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            alive = [pid for pid in remote if is_alive(pid)]
            [lost] = [it.result() for it in done]
            assert not alive, "nothing runs there any more when the caller is told"
            assert (lost.error_kind, lost.side_effects) == (ErrorKind.WORKER_LOST, SideEffects.UNKNOWN)
            assert "was lost with its node" in (lost.error or "")
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            result = await runtime.executor.execute("once", {"value": 2}, timeout=60)
            assert fields(result)["value"] == 2


async def test_an_actor_that_is_killed_is_replaced_and_its_call_is_answered(project: RayProject) -> None:
    project.script("once", "effects = 'once'", replicas=1, resources=HALF)
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "once", 1)
            call = asyncio.create_task(runtime.executor.execute("once", {"value": 1, "seconds": 60}, timeout=60))
            await until(lambda: pool_of(runtime, "once").workers[0].load, "it is busy")
            [actor] = [
                it.pid
                for name in project.cluster.machines
                for it in project.cluster.processes(name)
                if it.command.startswith("ray::ReplicaActor")
            ]
            os.kill(actor, signal.SIGKILL)
            lost = await call
            assert (lost.error_kind, lost.side_effects) == (ErrorKind.WORKER_LOST, SideEffects.UNKNOWN)
            again = await runtime.executor.execute("once", {"value": 2}, timeout=60)
            assert fields(again)["value"] == 2


async def test_a_deadline_kills_the_process_on_its_machine_and_an_edit_is_used_by_the_next_call(
    project: RayProject,
) -> None:
    path = project.script("once", "effects = 'once'", replicas=1, resources=HALF)
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "once", 1)
            before = [pid for name in project.cluster.machines for pid in inner(project.cluster, name)]
            late = await runtime.executor.execute("once", {"value": 1, "seconds": 60}, timeout=0.5)
            assert late.error_kind is ErrorKind.TIMEOUT
            await until(lambda: not [pid for pid in before if is_alive(pid)], "the end of the process")
            path.write_text(path.read_text().replace('"value": value', '"value": value + 1000'))
            result = await runtime.executor.execute("once", {"value": 2}, timeout=60)
            assert fields(result)["value"] == 1002


async def test_secrets_and_arguments_are_in_no_file_of_ray(
    project: RayProject, caplog: pytest.LogCaptureFixture
) -> None:
    project.script("once", "secrets = ['KEY']", replicas=1, resources=HALF, secrets=["KEY"])
    caplog.set_level("INFO", "toolrun.worker")
    with project.cluster.entered():
        async with project.open() as runtime:
            result = await runtime.executor.execute("once", {"value": 77312645, "secret": True}, timeout=60)
            assert fields(result)["length"] == len("canary-5f0c77e1")
            worker = pool_of(runtime, "once").workers[0]
            node, place = worker.describe().node, worker.describe().place
    [line] = [record.getMessage() for record in caplog.records if "using 15 letters" in record.getMessage()]
    assert line.startswith(f"once (node {node}, {place}): ")
    found = [
        (path, word)
        for name in project.cluster.machines
        for path in project.cluster.session_folder(name).rglob("*")
        if path.is_file() and not path.is_symlink()
        for word in (b"canary-5f0c77e1", b"77312645", b"PRIVATE KEY")
        if word in path.read_bytes()
    ]
    assert not found


async def test_a_gateway_goes_on_with_its_local_tools_when_the_head_is_dead(
    project: RayProject, capfd: pytest.CaptureFixture[str]
) -> None:
    project.script("once", "effects = 'once'", replicas=1, resources=HALF)
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "once", 1)
            capfd.readouterr()
            await asyncio.to_thread(project.cluster.kill, "head")
            gone = await runtime.executor.execute("once", {"value": 1}, timeout=20)
            assert gone.error_kind in (ErrorKind.WORKER_LOST, ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT)
            here = await runtime.executor.execute("here", {"value": 3})
            assert here.result == 3
            assert capfd.readouterr().out == ""
