"""S3.12: connecting with an MCP server is tried again, with growing delays, and says what is wrong."""

from __future__ import annotations

import ast
import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from devices import Simulation

import toolrun
from acceptance.clock import Clock, Told, told
from acceptance.processes import LIMIT, Recorder
from acceptance.project import Project, declaration
from acceptance.puppet import add_server, starts
from providers.ollama import OllamaServer
from support.brokers import BrokerProcess
from support.gateway_process import add, open_gateway, repeat_result, switch_on, visit, write_project
from support.speaking import need_program
from support.zwave_process import SERVER, eventually
from toolrun import ErrorKind
from toolrun.config.model import McpSettings
from toolrun.mcp.client.supervisor import ConnectionState

FAILS = "sys.exit('cannot reach the MQTT broker at localhost:1883')"
FAILS_ONCE = f"""\
if len((HERE / "starts").read_text().splitlines()) == 1:
    {FAILS}
"""
HELD_BACK = """\
import os, sys, time
with open({starts!r}, "a") as file:
    file.write("x")
if os.path.getsize({starts!r}) == 1:
    sys.exit("cannot reach the MQTT broker")
while not os.path.exists({gate!r}):
    time.sleep(0.005)
os.execv(sys.executable, [sys.executable, {server!r}])
"""
"""The Z-Wave server, which fails at its first start and waits at its second."""


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "toolrun")
    return caplog


@pytest.fixture
def recorder(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Notes when servers are started, which are real, by a clock that stands still."""
    clock.stop()
    recorder = Recorder(lambda: clock.elapsed)
    monkeypatch.setattr("toolrun.mcp.client.mcp_source.LocalEngine", lambda: recorder)
    return recorder


async def pass_attempts(delays: Sequence[float], clock: Clock, recorder: Recorder, messages: Told) -> None:
    """Let the attempts from the second on fail, each at its moment and not a quarter of a second before it."""
    attempts = len(delays)
    for number, delay in enumerate(delays, start=1):
        if delay:
            await messages.until(f"connection attempt {number} of {attempts} in {delay:g} s")
            await clock.advance(delay - 0.25)
            assert recorder.starts == number - 1, "not a moment before"
            await clock.advance(0.25)


@pytest.mark.scenario("S3.12.1")
async def test_s3_12_1_the_first_attempt_succeeds_without_delays(
    project: Project, clock: Clock, recorder: Recorder, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that runs WHEN connecting THEN the first attempt succeeds AND no delays AND tools are there."""
    add_server(project)
    async with project.open() as runtime:
        await runtime.ready()
        assert clock.elapsed == 0, "no delay, however short: the clock was not moved"
        assert [tool.name for tool in runtime.manager] == ["local", "run", "wait_for"]
        run: Any = runtime.manager.get("run")
        assert (run.description, run.schema["required"]) == (
            "Run some code. What it calls `answer` is the answer.",
            ["code"],
        )
        assert (await runtime.executor.execute("run", {"code": "answer = 6 * 7"})).result == "42"
        assert runtime.servers[0].state is ConnectionState.CONNECTED
    assert "MCP connection succeeded on attempt 1 (" in log.text
    assert "attempt 1 of 3 in 0 s" in log.text
    assert "attempt 2" not in log.text
    assert not [it for it in log.records if it.levelno >= logging.WARNING]
    assert recorder.started_at == [0.0]
    assert starts(project) == 1


@pytest.mark.scenario("S3.12.2")
async def test_s3_12_2_the_second_attempt_succeeds_after_two_seconds(
    project: Project, clock: Clock, recorder: Recorder, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that is away a moment THEN a retry after 2 s succeeds AND the tools are there AND it says so."""
    add_server(project, FAILS_ONCE)
    with told("toolrun.mcp") as messages:
        async with project.open() as runtime:
            await messages.until("connection attempt 2 of 3 in 2 s")
            assert "connection attempt 1 of 3 failed: it ended with exit code 1" in log.text
            assert runtime.servers[0].state is ConnectionState.WAITING
            await clock.advance(1.75)
            assert recorder.started_at == [0.0]
            assert "run" not in runtime.manager
            await clock.advance(0.25)
            await runtime.ready()
            assert recorder.started_at == [0.0, 2.0]
            assert {"run", "wait_for"} <= {tool.name for tool in runtime.manager}
            assert (await runtime.executor.execute("run", {"code": "answer = 6 * 7"})).result == "42"
    assert "MCP connection succeeded on attempt 2 (" in log.text
    assert "attempt 3" not in log.text
    assert starts(project) == 2


@pytest.mark.scenario("S3.12.3")
async def test_s3_12_3_after_three_attempts_the_rest_works_without_it(
    project: Project, clock: Clock, recorder: Recorder, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that is away for good THEN all fail AND stderr is told AND the message AND local tools work."""
    add_server(project, FAILS)
    with told("toolrun.mcp") as messages:
        async with project.open() as runtime:
            await pass_attempts((0, 2, 4), clock, recorder, messages)
            await runtime.ready()
            assert recorder.started_at == [0.0, 2.0, 6.0]
            assert runtime.servers[0].state is ConnectionState.UNREACHABLE
            assert (await runtime.executor.execute("local")).result == "here"
            assert [tool.name for tool in runtime.manager] == ["local"]
            refused = await runtime.executor.execute("run", {"code": ""})
            assert refused.error_kind is ErrorKind.UNKNOWN_TOOL
            assert "'zwave' (it ended with exit code 1)" in refused.text
    [error] = [it.getMessage() for it in log.records if it.name == "toolrun.mcp" and it.levelno == logging.ERROR]
    assert "MCP connection failed after 3 attempts" in error
    assert "cannot reach the MQTT broker at localhost:1883" in error


@pytest.mark.scenario("S3.12.4")
async def test_s3_12_4_the_delays_are_0_2_and_4_seconds(
    project: Project, clock: Clock, recorder: Recorder, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that fails THEN the delays are 0, 2 and 4 s AND 6 s in all AND each is told with its number."""
    add_server(project, FAILS)
    with told("toolrun.mcp") as messages:
        async with project.open() as runtime:
            settled = asyncio.create_task(runtime.ready())
            await pass_attempts((0, 2, 4), clock, recorder, messages)
            await settled
            assert clock.elapsed == 6, "seconds for all attempts"
    assert recorder.started_at == [0.0, 2.0, 6.0]
    said = [it.getMessage().partition("connection attempt ")[2] for it in log.records if " of 3 in " in it.getMessage()]
    assert said == ["1 of 3 in 0 s", "2 of 3 in 2 s", "3 of 3 in 4 s"]


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
    assert f"Its stderr:\n{words}\n" in error.replace("\n    ", "\n")
    assert "on stdout" not in error


@pytest.mark.scenario("S3.12.6")
async def test_s3_12_6_the_message_says_what_to_do(
    project: Project, clock: Clock, recorder: Recorder, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN a server that fails for good THEN the message is actionable AND says degraded mode AND what to check.

    The house of the specification's example block: three local tools, and a Z-Wave server without its broker. What each
    line of that block tells stands in our message, in the same order.
    """
    add_server(project, FAILS, hint="Is the MQTT broker running, and zwave-mcp-server installed?")
    (project.root / "tools/local.py").unlink()
    project.declare(
        *(
            declaration(name, {"type": "builtin", "handler": handler})
            for name, handler in (
                ("datetime", "get_current_datetime"),
                ("search", "search_web"),
                ("volume", "control_speaker_volume"),
            )
        )
    )
    with told("toolrun.mcp") as messages:
        async with project.open() as runtime:
            await pass_attempts((0, 2, 4), clock, recorder, messages)
            await runtime.ready()
    [error] = [it.getMessage() for it in log.records if it.levelno == logging.ERROR]
    assert error.splitlines() == [
        # ❌ Failed to initialize MCP tools after 3 attempts
        #    Reason: Connection to stdio server 'zwave' failed
        "MCP server 'zwave': MCP connection failed after 3 attempts: it ended with exit code 1",
        #    MCP Server stderr: [stderr output here]
        "    Its stderr:",
        "    cannot reach the MQTT broker at localhost:1883",
        #    Check: MQTT broker running, zwave-mcp-server installed
        "    What to check: Is the MQTT broker running, and zwave-mcp-server installed? "
        "Then [servers.zwave] in the configuration.",
        # ⚠️ Continuing with local tools only (datetime, search, volume)
        "    Degraded mode: the tools of 'zwave' are missing. Everything else works: datetime, search, volume.",
        "    toolrun tries again in 8 s, and keeps trying.",
    ]


@pytest.mark.scenario("S3.12.7")
async def test_s3_12_7_only_what_needs_the_server_waits_for_it(tmp_path: Path) -> None:
    """GIVEN retries under way WHEN broker, model and speech start THEN they do AND only what needs the tools waits.

    The whole gateway as a process, with a real broker and a real synthesiser. The first attempt to start the Z-Wave
    server fails, and the second waits for the test.
    """
    need_program("espeak-ng")
    broker, gate = BrokerProcess("mosquitto", tmp_path), tmp_path / "gate"
    broker.start()
    player, played = tmp_path / "pw-play", tmp_path / "played.wav"
    player.write_text(f'#!/bin/sh\ncp "$1" "{played}.part" && mv "{played}.part" "{played}"\n')
    player.chmod(0o755)
    held_back = tmp_path / "zwave.py"
    held_back.write_text(HELD_BACK.format(gate=str(gate), starts=str(tmp_path / "starts"), server=str(SERVER)))
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    try:
        with OllamaServer() as model:
            write_project(tmp_path, model.url, broker.url, command=[sys.executable, str(held_back)])
            async with (
                Simulation.open(broker.url) as house,
                visit(broker) as visitor,
                open_gateway(tmp_path, "--stdin", "--mqtt", broker.url, "--speak", env=env) as gateway,
            ):
                await visitor.is_online()
                await gateway.has_said("attempt 1 of 3 failed")
                model.play(add(2, 3), repeat_result)
                await visitor.say("what is two and three?", "u1")
                assert (await visitor.answer("u1"))["speech"] == "5.", "MQTT, the model and local tools are there"
                assert await gateway.next_answer() == "5."
                await eventually(says(played, "RIFF"), "the answer was spoken")
                model.play(switch_on(), repeat_result)
                await visitor.say("turn on switch one", "u2")
                assert (await visitor.tool("started"))["tool"] == "control_zwave_device"
                await eventually(says(tmp_path / "starts", "xx"), "the second attempt is under way")
                assert "succeeded" not in gateway.log, "and all the while the server was not there"
                switch = house["Switch One"]
                assert not switch.state, "what needs it waits"
                gate.touch()
                assert (await visitor.answer("u2"))["speech"] == "Switch One is now on."
                assert switch.state
                await gateway.has_said("MCP connection succeeded on attempt 2", "All servers are connected; 5 tools")
            assert model.violations == []
            assert model.remaining == 0
    finally:
        broker.kill()


def says(path: Path, beginning: str) -> Callable[[], Awaitable[bool]]:
    async def is_so() -> bool:
        return has_begun()

    def has_begun() -> bool:
        return path.exists() and path.read_bytes().startswith(beginning.encode())

    return is_so


@pytest.mark.scenario("S3.12.8")
async def test_s3_12_8_number_and_delays_of_attempts_are_set_in_one_place(
    project: Project, clock: Clock, recorder: Recorder, log: pytest.LogCaptureFixture
) -> None:
    """GIVEN other delays in the configuration THEN these are used AND the defaults stand in one place."""
    add_server(project, FAILS, delays=[1, 7.5, 20, 0.5])
    with told("toolrun.mcp") as messages:
        async with project.open() as runtime:
            await pass_attempts((1, 7.5, 20, 0.5), clock, recorder, messages)
            await runtime.ready()
    assert recorder.started_at == [1.0, 8.5, 28.5, 29.0]
    assert "MCP connection failed after 4 attempts" in log.text

    [delays] = [field.default for field in fields(McpSettings) if field.name == "delays"]
    assert delays == (0.0, 2.0, 4.0)
    package = Path(toolrun.__file__).parent
    reading = {path.name for path in package.rglob("*.py") if ".delays" in path.read_text(encoding="utf-8")}
    assert reading == {"supervisor.py", "gateway.py"}, "the latter's are those of the MQTT broker"
    numbers = {
        node.value
        for node in ast.walk(ast.parse((package / "mcp/client/supervisor.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    }
    assert numbers.isdisjoint({3, 4, 6}), "what retries has none of the numbers"
