"""Who sees a secret, the arguments of a call, a key or the text of a script: nothing of Ray does. On a real cluster."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from machines import descendants, process

from faults_ray.ray_project import HALF, RayProject, fields, pool_of
from support.process_memory import words_in
from support.ray_cluster import RayCluster
from toolrun.processes.ray.ray_engine import RayEngine

pytestmark = pytest.mark.xdist_group("ray")
SECRET = b"canary-5f0c77e1"
ARGUMENT = b"77312645"
SCRIPT = b"canary of the script"
OURS = ("toolrun.scripts.on_node", "toolrun/worker/")
"""The replica, its worker, and what waits for it: they are told everything, over TLS."""


def processes(cluster: RayCluster) -> tuple[dict[int, str], dict[int, str]]:
    """Ours and Ray's: those on the machines, and the child of this program that speaks with Ray."""
    seen = {it.pid: it.command for name in cluster.machines for it in cluster.processes(name)}
    here = {pid: it.command for pid in descendants(os.getpid()) if (it := process(pid)) and "ray.placer" in it.command}
    ours = {pid: command for pid, command in seen.items() if any(word in command for word in OURS)}
    assert here
    return ours, {pid: it for pid, it in {**seen, **here}.items() if pid not in ours}


@pytest.mark.parametrize("in_memory", [False, pytest.param(True, marks=pytest.mark.cluster)])
async def test_a_secret_is_in_no_file_variable_or_memory_of_ray_and_a_log_line_names_its_machine(
    tmp_path: Path, ray_cluster: RayCluster, caplog: pytest.LogCaptureFixture, in_memory: bool
) -> None:
    project = RayProject(tmp_path, ray_cluster)
    path = project.script("once", "secrets = ['KEY']", replicas=1, resources=HALF, secrets=["KEY"])
    path.write_text(f"{path.read_text()}\nTEXT = {SCRIPT.decode()!r}\n")
    caplog.set_level("INFO", "toolrun.worker")
    with ray_cluster.entered():
        async with project.open() as runtime:
            result = await runtime.executor.execute("once", {"value": int(ARGUMENT), "secret": True}, timeout=60)
            assert fields(result)["length"] == len(SECRET)
            pool = pool_of(runtime, "once")
            worker = pool.workers[0].describe()
            assert worker is not None
            assert isinstance(pool._engine, RayEngine)
            words = (SECRET, ARGUMENT, SCRIPT, pool._engine._identity.key.splitlines()[1])
            ours, others = processes(ray_cluster)

            def search(pids: dict[int, str]) -> dict[bytes, str]:
                return {
                    it: command for pid, command in pids.items() for it in words_in(pid, words, in_memory=in_memory)
                }

            if in_memory:  # the search finds what is there
                assert {SECRET, ARGUMENT, SCRIPT} <= set(await asyncio.to_thread(search, ours))
            assert len(others) > 5
            assert not await asyncio.to_thread(search, others)
    files = [
        (file, word)
        for name in ray_cluster.machines
        for file in ray_cluster.session_folder(name).rglob("*")
        if file.is_file() and not file.is_symlink()
        for word in (*words, b"PRIVATE KEY")
        if word in file.read_bytes()
    ]
    assert not files
    [line] = [record.getMessage() for record in caplog.records if "using 15 letters" in record.getMessage()]
    assert line.startswith(f"once (node {worker.node}, {worker.place}): ")
