"""Servers that die: their calls are told, their tools stay, and they are started again."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from faults.bench import is_unavailable, until
from faults_mcp.bench import Servers
from toolrun import ErrorKind, SideEffects, ToolResult


def is_lost(result: ToolResult) -> bool:
    """The server died, and nobody knows what the tool had done by then."""
    return (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.UNKNOWN)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os._exit(3)", "it ended with exit code 3"),
        ("os.kill(os.getpid(), 9)", "it was killed by SIGKILL"),
        ("raise LookupError('no bridge')", "it ended with exit code 1"),
        ("os.close(1); os._exit(0)", "it ended with exit code 0"),
    ],
)
async def test_a_server_that_dies_in_a_call_is_started_again(servers: Servers, era: str, code: str, words: str) -> None:
    servers.add("subject", era)
    async with servers.open() as tools:
        before = await tools.works()
        result = await tools.fault(code)
        assert is_lost(result)
        assert words in str(result.error)
        assert "'subject'" in str(result.error)
        assert await tools.works() != before
    assert len(servers.starts()) == 2


async def test_what_it_said_on_stderr_is_told_to_the_model(servers: Servers) -> None:
    async with servers.open() as tools:
        result = await tools.fault("sys.stderr.write('the broker is gone\\n'); sys.stderr.flush(); os._exit(1)")
        assert "the broker is gone" in result.text


async def test_no_call_is_made_twice(servers: Servers, tmp_path: Path) -> None:
    async with servers.open() as tools:
        await tools.fault(f"open({str(tmp_path / 'acts')!r}, 'a').write('x'); os._exit(1)")
        await tools.works()
    assert (tmp_path / "acts").read_text() == "x"


async def test_all_calls_under_way_are_told(servers: Servers, tmp_path: Path) -> None:
    async with servers.open() as tools, tools.bystander():
        started = [asyncio.Event() for _ in range(5)]
        calls = [
            asyncio.create_task(
                tools.call(
                    "subject__wait_for", path=str(tmp_path / "never"), value="x", on_progress=lambda _, it=it: it.set()
                )
            )
            for it in started
        ]
        for it in started:
            await it.wait()
        await tools.run("os._exit(1)")
        assert all(map(is_lost, await asyncio.gather(*calls)))
        await tools.works()


async def test_a_server_that_dies_between_calls_is_there_for_the_next(servers: Servers) -> None:
    async with servers.open() as tools:
        pid = await tools.works()
        async with tools.bystander():
            os.kill(pid, signal.SIGKILL)
            await until(lambda: len(servers.starts()) == 2, "a new process")
            assert await tools.works() == servers.starts()[1]


async def test_a_server_that_does_not_come_back_keeps_its_tools_which_say_so(servers: Servers) -> None:
    async with servers.open() as tools:
        servers.at_start("subject", "sys.exit('no bridge')")
        result = await tools.fault("os._exit(1)")
        assert is_lost(result)
        await until(lambda: "no bridge" in tools.server().tail, "a failed attempt")
        result = await tools.run("")
        assert is_unavailable(result)
        assert "no bridge" in result.text
        assert "subject__run" in tools.runtime.manager

        servers.at_start("subject", "")
        await until(lambda: tools.server().session is not None, "a new connection")
        await tools.works()


async def test_a_server_that_dies_again_and_again_is_not_started_in_a_circle(servers: Servers) -> None:
    """Each time it answers the handshake, and dies of what comes next."""
    async with servers.open(delays=[0, 0.01, 30], longest_delay=30) as tools:
        for _ in range(3):
            await until(lambda: tools.server().session is not None, "a connection")
            await tools.run("os._exit(1)")
        await until(lambda: tools.server().state == "waiting", "the wait for the third attempt")
        assert is_unavailable(await tools.run("", timeout=5))
    assert len(servers.starts()) == 3


async def test_calls_wait_for_the_next_attempt_within_their_deadline(servers: Servers) -> None:
    servers.at_start("subject", "if len(Path('starts').read_text().split()) in (2, 3): sys.exit('not yet')")
    async with servers.open(delays=[0, 0.1, 0.2, 0.3]) as tools:
        await tools.fault("os._exit(1)")
        await until(lambda: tools.server().state == "waiting", "the back-off")
        assert await tools.works() == servers.starts()[3]


async def test_a_call_does_not_wait_for_an_attempt_after_its_deadline(servers: Servers) -> None:
    servers.at_start("subject", "if len(Path('starts').read_text().split()) > 1: sys.exit('not yet')")
    async with servers.open(delays=[0, 300, 300]) as tools:
        await tools.fault("os._exit(1)")
        await until(lambda: tools.server().state == "waiting", "the back-off")
        result = await tools.run("")
        assert is_unavailable(result)
        assert "not yet" in result.text
    assert len(servers.starts()) == 2


async def test_the_first_lines_on_stderr_are_kept_too(servers: Servers) -> None:
    async with servers.open() as tools:
        code = "for n in range(100): sys.stderr.write(f'line {n}.\\n')\nsys.stderr.flush(); os._exit(1)"
        result = await tools.fault(code)
        words = result.detail.splitlines()
        assert words[1:11] == [f"line {n}." for n in range(10)]
        assert words[11] == "… [70 lines left out] …"
        assert words[12:] == [f"line {n}." for n in range(80, 100)]


async def test_a_grandchild_does_not_outlive_its_server(servers: Servers, tmp_path: Path) -> None:
    from faults.bench import is_alive, orphan

    async with servers.open() as tools:
        await tools.run(orphan(tmp_path / "orphan"))
        pid = int((tmp_path / "orphan").read_text())
        assert is_alive(pid)
        await tools.fault("os._exit(1)")
        await until(lambda: not is_alive(pid), "the end of what it had started")
