"""How it ends: nothing of a server is left, whether toolrun is stopped or killed, and whatever the server does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults.bench import LIMIT, is_alive, orphan, reported, tagged, until
from faults_mcp.bench import Servers
from toolrun import ErrorKind, Runtime


def host(configuration: Path, code: str) -> subprocess.Popen[bytes]:
    program = Path(__file__).with_name("host.py")
    return subprocess.Popen([sys.executable, program, configuration, code], stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_nothing_survives_the_end_of_the_host(servers: Servers, signal_number: signal.Signals) -> None:
    """Neither the server, nor what it started and put into a session of its own."""
    path = servers.root / "orphan"
    code = orphan(path) + "\ntime.sleep(300)"
    with host(servers.configure(), code) as process:
        await until(path.exists, "the start of all processes")
        pid = int(path.read_text())
        assert is_alive(pid)
        process.send_signal(signal_number)
        await asyncio.to_thread(process.wait, LIMIT)
    await until(lambda: not tagged(servers.tag), "the end of the servers")
    assert not is_alive(pid)


@pytest.mark.parametrize(
    "at_start",
    [
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsys.stdin = open('/dev/zero', 'rb')",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "",
    ],
    ids=["deaf from the start", "ignores SIGTERM", "well-behaved"],
)
async def test_a_server_is_gone_when_the_runtime_is_closed(servers: Servers, at_start: str) -> None:
    servers.add("subject", start_timeout=0.3)
    servers.at_start("subject", at_start)
    async with servers.open():
        pids = servers.starts()
    assert pids
    assert not any(map(is_alive, servers.starts()))


async def test_calls_under_way_are_answered_when_the_runtime_is_closed(servers: Servers) -> None:
    async with Runtime.open(servers.configure()) as runtime:
        await runtime.ready()
        call = await reported(
            lambda on_progress: runtime.executor.execute(
                "subject__run", {"code": "progress(1); time.sleep(300)"}, on_progress=on_progress
            )
        )
    assert (await call).error_kind is ErrorKind.UNAVAILABLE


async def test_closing_does_not_wait_for_a_server_that_is_being_connected_with(servers: Servers) -> None:
    servers.at_start("subject", "time.sleep(300)")
    async with Runtime.open(servers.configure()):
        await until(servers.starts, "its start")
    assert not any(map(is_alive, servers.starts()))


async def test_opening_and_closing_at_once_leaves_nothing(servers: Servers) -> None:
    async with Runtime.open(servers.configure()) as runtime:
        opened = [it.name for it in runtime.servers]
    assert "subject" in opened
    assert not any(map(is_alive, servers.starts()))


async def test_a_killed_process_of_the_group_is_not_the_end_of_the_server(servers: Servers) -> None:
    async with servers.open() as tools:
        pid = await tools.works()
        child = await tools.run("import subprocess; answer = subprocess.Popen(['sleep', '300']).pid")
        os.kill(int(str(child.result)), signal.SIGKILL)
        assert await tools.works() == pid
