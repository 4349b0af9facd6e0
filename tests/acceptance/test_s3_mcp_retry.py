"""S3.12: connecting with an MCP server is tried again, with growing delays, and says what is wrong."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import fields
from pathlib import Path

import pytest

import toolrun
from acceptance.processes import LIMIT
from acceptance.project import Project
from acceptance.puppet import add_server, starts
from toolrun import ErrorKind
from toolrun.config.model import McpSettings

FAILS = "sys.exit('cannot reach the MQTT broker at localhost:1883')"
FAILS_ONCE = f"""\
if len((HERE / "starts").read_text().splitlines()) == 1:
    {FAILS}
"""


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "toolrun")
    return caplog


@pytest.mark.scenario("S3.12.1")
async def test_s3_12_1_the_first_attempt_succeeds_without_delays(
    project: Project, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that runs WHEN connecting THEN the first attempt succeeds AND no delays AND tools are there."""
    add_server(project)
    async with project.open() as runtime:
        await asyncio.wait_for(runtime.ready(), LIMIT)
        assert {"run", "wait_for"} <= {tool.name for tool in runtime.manager}
        assert (await runtime.executor.execute("run", {"code": "answer = 6 * 7"})).result == "42"
    assert "MCP connection succeeded on attempt 1" in log.text
    assert "attempt 1 of 3 in 0 s" in log.text
    assert "attempt 2" not in log.text
    assert starts(project) == 1


@pytest.mark.scenario("S3.12.2")
async def test_s3_12_2_the_second_attempt_succeeds_after_two_seconds(
    project: Project, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that is away a moment THEN a retry after 2 s succeeds AND the tools are there AND it says so."""
    add_server(project, FAILS_ONCE)
    async with project.open() as runtime:
        await asyncio.wait_for(runtime.ready(), LIMIT)
        assert (await runtime.executor.execute("run", {"code": "answer = 6 * 7"})).result == "42"
    assert "connection attempt 1 of 3 failed" in log.text
    assert "connection attempt 2 of 3 in 2 s" in log.text
    assert "MCP connection succeeded on attempt 2" in log.text
    assert starts(project) == 2


@pytest.mark.scenario("S3.12.3")
async def test_s3_12_3_after_three_attempts_the_rest_works_without_it(
    project: Project, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that is away for good THEN all fail AND stderr is told AND the message AND local tools work."""
    add_server(project, FAILS, delays=[0, 0.01, 0.02])
    async with project.open() as runtime:
        await asyncio.wait_for(runtime.ready(), LIMIT)
        assert starts(project) == 3
        assert (await runtime.executor.execute("local")).result == "here"
        refused = await runtime.executor.execute("run", {"code": ""})
        assert refused.error_kind is ErrorKind.UNKNOWN_TOOL
        assert "'zwave' (it ended with exit code 1)" in refused.text
    [error] = [it.getMessage() for it in log.records if it.name == "toolrun.mcp" and it.levelno == logging.ERROR]
    assert "MCP connection failed after 3 attempts" in error
    assert "cannot reach the MQTT broker at localhost:1883" in error


@pytest.mark.scenario("S3.12.4")
async def test_s3_12_4_the_delays_are_0_2_and_4_seconds(project: Project, log: pytest.LogCaptureFixture) -> None:
    """GIVEN a server that fails THEN the delays are 0, 2 and 4 s AND 6 s in all AND each is told with its number."""
    add_server(project, FAILS)
    async with project.open() as runtime:
        await asyncio.wait_for(runtime.ready(), LIMIT)
        assert sum(runtime.config.mcp.delays) == 6
    told = [it.getMessage().partition("connection attempt ")[2] for it in log.records if " of 3 in " in it.getMessage()]
    assert told == ["1 of 3 in 0 s", "2 of 3 in 2 s", "3 of 3 in 4 s"]


@pytest.mark.scenario("S3.12.5")
async def test_s3_12_5_what_the_server_says_on_stderr_is_in_the_error(
    project: Project, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that writes to stderr WHEN connecting fails THEN the error has it AND stdout is not mixed in."""
    words = "ModuleNotFoundError: No module named paho"
    add_server(project, f"print('on stdout', flush=True); sys.stderr.write('{words}\\n'); sys.exit(1)", delays=[0])
    async with project.open() as runtime:
        await asyncio.wait_for(runtime.ready(), LIMIT)
        [server] = runtime.servers
        assert server.tail == words
    [error] = [it.getMessage() for it in log.records if it.levelno == logging.ERROR]
    assert f"Its stderr:\n{words}\n" in error
    assert "on stdout" not in error


@pytest.mark.scenario("S3.12.6")
async def test_s3_12_6_the_message_says_what_to_do(project: Project, log: pytest.LogCaptureFixture) -> None:
    """GIVEN a server that fails for good THEN the message is actionable AND says degraded mode AND what to check."""
    add_server(project, FAILS, delays=[0], hint="Is the MQTT broker running?")
    async with project.open() as runtime:
        await asyncio.wait_for(runtime.ready(), LIMIT)
    [error] = [it.getMessage() for it in log.records if it.levelno == logging.ERROR]
    assert "MCP server 'zwave'" in error
    assert "Degraded mode: the tools of 'zwave' are missing. Everything else works: local." in error
    assert "What to check: Is the MQTT broker running? Then [servers.zwave] in the configuration." in error
    assert "It is tried again" in error


@pytest.mark.scenario("S3.12.7")
async def test_s3_12_7_only_what_needs_the_server_waits_for_it(project: Project) -> None:
    """GIVEN attempts under way WHEN other things start THEN they go on AND only what needs the tools waits."""
    gate = project.root / "gate"
    add_server(project, f"while not Path({str(gate)!r}).exists(): time.sleep(0.005)")
    async with project.open() as runtime:
        needs_it = asyncio.create_task(runtime.executor.execute("run", {"code": "answer = 6 * 7"}))
        all_ready = asyncio.create_task(runtime.ready())
        assert (await runtime.executor.execute("local")).result == "here"
        assert not needs_it.done()
        assert not all_ready.done()
        gate.touch()
        assert (await asyncio.wait_for(needs_it, LIMIT)).result == "42"
        await asyncio.wait_for(all_ready, LIMIT)


@pytest.mark.scenario("S3.12.8")
async def test_s3_12_8_number_and_delays_of_attempts_are_set_in_one_place(
    project: Project, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN other delays in the configuration THEN these are used AND the defaults stand in one place."""
    add_server(project, FAILS, delays=[0.01, 0.02])
    async with project.open() as runtime:
        await asyncio.wait_for(runtime.ready(), LIMIT)
        assert starts(project) == 2
    assert "connection attempt 2 of 2 in 0.02 s" in log.text
    assert "MCP connection failed after 2 attempts" in log.text

    [delays] = [field.default for field in fields(McpSettings) if field.name == "delays"]
    sources = Path(toolrun.__file__).parent.rglob("*.py")
    assert delays == (0.0, 2.0, 4.0)
    assert [path.name for path in sources if "2.0, 4.0" in path.read_text(encoding="utf-8")] == ["model.py"]
