"""Programs that use a real cluster beside each other, and those that it does not let in."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from machines import descendants, process

from faults_ray.ray_project import RayProject, fields, pool_of, until, warm
from support.direct_cluster import is_alive
from support.ray_cluster import RayCluster
from toolrun.processes.ray.ray_engine import RayEngine

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ray")]
ONE = {"CPU": 1}


def project(root: Path, cluster: RayCluster, *tools: str) -> RayProject:
    root.mkdir()
    made = RayProject(root, cluster)
    for tool in tools:
        made.script(tool, replicas=len(cluster.machines), resources=ONE)
    return made


async def test_two_gateways_share_a_cluster_and_the_end_of_one_gives_its_share_to_the_other(
    tmp_path: Path, ray_cluster: RayCluster
) -> None:
    count = len(ray_cluster.machines)
    first, second = project(tmp_path / "a", ray_cluster, "one"), project(tmp_path / "b", ray_cluster, "two", "three")

    def workers() -> set[int]:
        return {it.pid for name in ray_cluster.machines for it in ray_cluster.workers(name)}

    with ray_cluster.entered():
        async with second.open() as theirs:
            async with first.open() as ours:
                await warm(theirs, "two", count)
                before = workers()
                await warm(ours, "one", count)  # now nothing is left
                added = workers() - before
                calls = [
                    runtime.executor.execute(tool, {"value": value, "seconds": 0.2}, timeout=60)
                    for value in range(0, 20, 2)
                    for runtime, tool, value in ((ours, "one", value), (theirs, "two", value + 1))
                ]
                assert [fields(it)["value"] for it in await asyncio.gather(*calls)] == list(range(20))
                replicas = list(pool_of(theirs, "two").workers)
            await until(lambda: not [pid for pid in added if is_alive(pid)], "the end of the first gateway's workers")
            assert fields(await theirs.executor.execute("two", {"value": 7}, timeout=60))["value"] == 7
            assert pool_of(theirs, "two").workers == replicas, "those of the other one are the same"
            await warm(theirs, "three", count)  # in the places of the first


async def test_a_placer_that_is_killed_is_replaced_and_its_last_replicas_take_no_place_with_them(
    tmp_path: Path, ray_cluster: RayCluster
) -> None:
    """Ray ends it when the head is gone, and the system when memory is short."""
    made = project(tmp_path / "a", ray_cluster, "one", "two")
    made.workers["lease"] = 25.0  # the gateway waits for the old replica while the new one is there
    with ray_cluster.entered():
        async with made.open() as runtime:
            await warm(runtime, "one", 1)
            engine = pool_of(runtime, "one")._engine
            assert isinstance(engine, RayEngine)
            old = engine.workers
            assert old
            [placer] = [pid for pid in descendants(os.getpid()) if (it := process(pid)) and "ray.placer" in it.command]
            for name in ray_cluster.machines:
                for replica in ray_cluster.processes(name):
                    if "toolrun.scripts.on_node" in replica.command:
                        ray_cluster.stop(replica.pid)  # it cannot say that it ends
            os.kill(placer, signal.SIGKILL)
            await until(lambda: all(it.is_silent for it in old), "their actors end with it")
            assert fields(await runtime.executor.execute("two", {"value": 1}, timeout=60))["value"] == 1
            replicas = list(pool_of(runtime, "two").workers)
            assert set(old) & set(engine.workers), "nothing proves the end of the old one yet"
            await until(lambda: not set(old) & set(engine.workers), "its lease is over")
            assert fields(await runtime.executor.execute("two", {"value": 2}, timeout=60))["value"] == 2
            assert pool_of(runtime, "two").workers == replicas, "it was not let go of with the old one"


async def test_many_tools_that_wait_for_a_place_are_told_what_they_wait_for(
    tmp_path: Path, ray_cluster: RayCluster
) -> None:
    """And not that the head is gone, although each of them asks it something for as long as it waits."""
    names = [f"tool{number}" for number in range(8)]
    made = project(tmp_path / "a", ray_cluster)
    for name in names:
        made.script(name, replicas=1, resources={"CPU": 64})
    made.workers["start_timeout"] = 15.0
    with ray_cluster.entered():
        async with made.open() as runtime:
            calls = [runtime.executor.execute(name, {"value": 0}, timeout=90) for name in names]
            for result in await asyncio.gather(*calls):
                assert "no node of the cluster has CPU 64 free" in result.text


@pytest.mark.parametrize(
    ("token", "why"), [("f" * 64, "refuses this program's token"), ("", "this program has no token")]
)
async def test_a_gateway_with_a_wrong_token_or_none_says_so_and_its_local_tools_are_there(
    tmp_path: Path, ray_cluster: RayCluster, token: str, why: str
) -> None:
    made = project(tmp_path / "a", ray_cluster, "one")
    with ray_cluster.entered(), pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
        monkeypatch.setenv("HOME", str(tmp_path))  # where Ray looks for one as well
        if token:
            monkeypatch.setenv("RAY_AUTH_TOKEN", token)
        async with made.open() as runtime:
            [problem] = runtime.problems
            assert why in problem.message
            result = await runtime.executor.execute("here", {"value": 3})
            assert result.result == 3
