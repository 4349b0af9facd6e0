"""What can happen to one replica on a node, and what its callers are told. On a real cluster."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from faults_ray.ray_project import HALF, SCRIPT, RayProject, busy, fields, pool_of, ready, until, warm
from support.direct_cluster import is_alive
from support.ray_cluster import RayCluster
from toolrun import ErrorKind, SideEffects

pytestmark = pytest.mark.xdist_group("ray")
ACTOR = "ray::ReplicaActor"
REPLICA = "toolrun.scripts.on_node"
LOST = (ErrorKind.WORKER_LOST, SideEffects.UNKNOWN)


@pytest.fixture
def project(tmp_path: Path, ray_cluster: RayCluster) -> RayProject:
    made = RayProject(tmp_path, ray_cluster)
    made.script("once", "effects = 'once'", replicas=1, resources=HALF)
    return made


def pids(cluster: RayCluster, word: str) -> list[int]:
    """The processes of all machines with a word in their command."""
    return [it.pid for name in cluster.machines for it in cluster.processes(name) if word in it.command]


def workers(cluster: RayCluster) -> list[int]:
    return [it.pid for name in cluster.machines for it in cluster.workers(name)]


async def test_a_call_that_is_given_up_takes_all_that_it_started_with_it_and_an_edit_is_used_by_the_next_one(
    project: RayProject,
) -> None:
    """At its deadline, and by its caller."""
    path = project.root / "tools" / "once.py"
    with project.cluster.entered():
        async with project.open() as runtime:
            call = await busy(runtime, "once", family=True)
            await until(lambda: pids(project.cluster, "offspring"), "the child of the tool")
            before = [*workers(project.cluster), *pids(project.cluster, "offspring")]
            call.cancel()
            await asyncio.wait([call])
            await until(lambda: not [pid for pid in before if is_alive(pid)], "the end of the processes")

            await warm(runtime, "once", 1)
            before = workers(project.cluster)
            assert before
            late = await runtime.executor.execute("once", {"value": 1, "seconds": 60}, timeout=0.5)
            assert (late.error_kind, late.side_effects) == (ErrorKind.TIMEOUT, SideEffects.UNKNOWN)
            await until(lambda: not [pid for pid in before if is_alive(pid)], "the end of the process")

            path.write_text(path.read_text().replace('"value": value', '"value": value + 1000'))
            result = await runtime.executor.execute("once", {"value": 2}, timeout=60)
            assert fields(result)["value"] == 1002


@pytest.mark.cluster
@pytest.mark.parametrize("word", [ACTOR, REPLICA, "toolrun/worker/__main__.py"])
async def test_whichever_process_of_a_replica_is_killed_its_call_is_lost_and_the_next_one_is_answered(
    project: RayProject, word: str
) -> None:
    with project.cluster.entered():
        async with project.open() as runtime:
            call = await busy(runtime, "once")
            before = workers(project.cluster)
            os.kill(max(pids(project.cluster, word)), signal.SIGKILL)
            lost = await call
            assert (lost.error_kind, lost.side_effects) == LOST
            assert not [pid for pid in before if is_alive(pid)]
            again = await runtime.executor.execute("once", {"value": 2}, timeout=60)
            assert fields(again)["value"] == 2


@pytest.mark.cluster
async def test_a_call_with_a_key_that_was_lost_is_in_doubt_and_is_not_made_again(project: RayProject) -> None:
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "once", 1)
            arguments = {"value": 1, "seconds": 60}
            call = asyncio.create_task(runtime.executor.execute("once", arguments, timeout=90, key="order-7"))
            await until(lambda: pool_of(runtime, "once").workers[0].load, "it is busy")
            os.kill(max(workers(project.cluster)), signal.SIGKILL)
            assert (await call).error_kind is ErrorKind.WORKER_LOST
            again = await runtime.executor.execute("once", arguments, timeout=90, key="order-7")
            assert again.error_kind is ErrorKind.IN_DOUBT


@pytest.mark.cluster
async def test_an_actor_that_is_stopped_disturbs_nobody(project: RayProject) -> None:
    """The replica keeps its lease by itself."""
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "once", 1)
            project.cluster.stop(pids(project.cluster, ACTOR)[0])
            result = await runtime.executor.execute("once", {"value": 2, "seconds": 5}, timeout=60)
            assert fields(result)["value"] == 2


@pytest.mark.cluster
async def test_a_replica_that_is_stopped_is_killed_with_its_worker_before_its_caller_is_told(
    project: RayProject,
) -> None:
    with project.cluster.entered():
        async with project.open() as runtime:
            call = await busy(runtime, "once")
            before = workers(project.cluster)
            project.cluster.stop(pids(project.cluster, REPLICA)[0])
            lost = await call
            assert (lost.error_kind, lost.side_effects) == LOST
            assert not [pid for pid in before if is_alive(pid)]


@pytest.mark.cluster
async def test_a_call_beyond_the_queue_is_overloaded_and_the_others_are_answered(project: RayProject) -> None:
    project.executor = {"max_concurrency": 1, "max_queue": 1}
    with project.cluster.entered():
        async with project.open() as runtime:
            await runtime.executor.execute("once", {"value": 0}, timeout=60)
            calls = [runtime.executor.execute("once", {"value": it, "seconds": 0.5}, timeout=60) for it in range(3)]
            results = await asyncio.gather(*calls)
            assert [it.error_kind for it in results] == [None, None, ErrorKind.OVERLOADED]


@pytest.mark.cluster
async def test_an_idle_replica_gives_back_what_it_has_reserved(project: RayProject) -> None:
    project.workers["idle_timeout"] = 1.0
    everything = {"CPU": 2}
    project.script("first", replicas=2, resources=everything)
    project.script("second", replicas=2, resources=everything)
    with project.cluster.entered():
        async with project.open() as runtime:
            count = len(project.cluster.machines)
            for tool in ("first", "second"):
                await warm(runtime, tool, count)
            await until(lambda: not ready(runtime, "first"), "the end of the idle replicas")


@pytest.mark.cluster
@pytest.mark.usefixtures("two_machines")
async def test_the_least_loaded_replica_gets_the_next_call(project: RayProject) -> None:
    project.script("many", "concurrency = 4", body=SCRIPT, replicas=2, resources=HALF)
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "many", 2)
            calls = [
                asyncio.create_task(runtime.executor.execute("many", {"value": it, "seconds": 1}, timeout=60))
                for it in range(4)
            ]
            await until(lambda: sum(it.load for it in pool_of(runtime, "many").workers) == 4, "all run")
            assert [it.load for it in pool_of(runtime, "many").workers] == [2, 2]
            assert len({fields(await it)["machine"] for it in calls}) == 2


@pytest.mark.cluster
@pytest.mark.usefixtures("two_machines")
async def test_the_replicas_of_an_edited_script_are_replaced_one_by_one_while_calls_are_answered(
    project: RayProject,
) -> None:
    """Each has all CPUs of its machine, so that a new one fits only where an old one has ended."""
    path = project.script("rolled", "effects = 'once'", replicas=2, resources={"CPU": 2})
    answers: list[int] = []
    is_over = asyncio.Event()
    with project.cluster.entered():
        async with project.open() as runtime:
            await warm(runtime, "rolled", 2)
            old = pool_of(runtime, "rolled")

            async def caller() -> None:
                while not is_over.is_set():
                    result = await runtime.executor.execute("rolled", {"value": 0, "seconds": 0.01}, timeout=60)
                    answers.append(fields(result)["value"])

            callers = [asyncio.create_task(caller()) for _ in range(2)]
            try:
                path.write_text(path.read_text().replace('"value": value', '"value": value + 1000'))
                await until(lambda: len(old.ready) < 2, "the first one ends")
                seen = len(answers)
                await until(lambda: len(answers) > seen, "the other one goes on")
                await until(lambda: pool_of(runtime, "rolled") is not old and ready(runtime, "rolled") == 2, "the end")
            finally:
                is_over.set()
                await asyncio.gather(*callers)
    first = answers.index(1000)
    assert answers[first:].count(0) <= 2, "those that ran when the calls went over to the new version"
