"""The times of the specification, waited for: S0.5.2, S0.8.3, S2.1.3, S2.1.4 and S3.12.4 on the clock of the system.

Opt-in, because it takes a minute: `script/test -m real_time`. Lower bounds are exact. Upper ones are wide: a busy
machine may be late, but not early.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

import pytest

from acceptance.clock import told
from acceptance.processes import LIMIT, Recorder, own_workers, watched
from acceptance.project import Project
from acceptance.proofs import call_record
from acceptance.puppet import add_server
from toolrun import ErrorKind, ToolExecutor, ToolManager

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

COUNT = '''
    # /// script
    # dependencies = []
    # ///
    import os

    def count() -> int:
        """Tell the process."""
        return os.getpid()
'''


async def sleep(seconds: float) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "done"


async def test_a_call_of_more_than_a_second_is_slow_and_a_shorter_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    executor = ToolExecutor(ToolManager([sleep]))
    caplog.set_level(logging.INFO, "toolrun.call")
    for seconds, level in ((1.02, logging.WARNING), (0.5, logging.INFO)):
        caplog.clear()
        assert (await executor.execute("sleep", {"seconds": seconds})).execution_time_ms >= seconds * 1000
        assert call_record(caplog).levelno == level
    await executor.close()


async def test_a_call_is_answered_after_thirty_seconds() -> None:
    executor = ToolExecutor(ToolManager([sleep]))
    started = monotonic()
    result = await executor.execute("sleep", {"seconds": 600})
    assert 30 <= monotonic() - started < 60
    assert result.error_kind is ErrorKind.TIMEOUT
    assert 30_000 <= result.execution_time_ms < 60_000
    await executor.close()


async def test_a_worker_ends_when_it_was_idle_for_its_time_and_calls_keep_it(project: Project) -> None:
    project.write("toolrun.toml", "[workers]\nidle_timeout = 4\n")
    project.write("tools/count.py", COUNT)
    async with project.open() as runtime:
        pids = []
        for _ in range(4):
            pids.append((await runtime.executor.execute("count")).result)
            await asyncio.sleep(2)
        assert len(set(pids)) == 1, "8 s with a call every 2 s"
        last = monotonic()
        pids.append((await runtime.executor.execute("count")).result)
        async with watched(int(str(pids[0]))) as ended:
            await asyncio.wait_for(ended.wait(), LIMIT)
            assert monotonic() - last >= 4
        assert len(set(pids)) == 1
        assert not own_workers()


async def test_a_server_that_fails_is_started_after_0_2_and_4_seconds(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr("toolrun.mcp.client.mcp_source.LocalEngine", lambda: recorder)
    add_server(project, "sys.exit('cannot reach the MQTT broker')")
    with told("toolrun.mcp") as messages:
        opened = monotonic()
        async with project.open() as runtime:
            await asyncio.wait_for(runtime.ready(), 120)
        assert any("MCP connection failed after 3 attempts" in message for message in messages.messages)
    first, second, third = recorder.started_at
    assert first - opened < 2, "without a delay"
    assert second - first >= 2
    assert third - second >= 4
    assert third - opened < 60
