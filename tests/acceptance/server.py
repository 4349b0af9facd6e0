"""`toolrun serve` as a process with pipes: the proofs that its stdout is the protocol's, shared by S0 and S3."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from devices import Simulation

from support.brokers import BrokerProcess
from support.console import LIMIT, TOOLRUN, environment, write_project
from support.zwave_process import SERVER

LAMP = """
    import sys
    from toolrun import ToolContext

    print("printed while loading")

    @tool
    async def switch_lamp(context: ToolContext, on: bool) -> str:
        "Switch the lamp."
        context.logger.warning("node 7 answers")
        print("printed by the tool")
        print("said by the tool", file=sys.stderr)
        return "on" if on else "off"
"""
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
MESSAGES: tuple[dict[str, Any], ...] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "switch_lamp", "arguments": {"on": True}}},
    {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "switch_lamp", "arguments": {}}},
    {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "nobody", "arguments": {}}},
)


def conversation(root: Path) -> tuple[str, str]:
    """What the server says on stdout and on stderr, logging everything that it can, in a whole session."""
    write_project(root, lamp=LAMP)
    done = subprocess.run(
        [TOOLRUN, "-vv", "serve"],
        cwd=root,
        env=environment(),
        input="".join(json.dumps(message) + "\n" for message in MESSAGES),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return done.stdout, done.stderr


async def prove_debug_output_of_zwave(root: Path) -> None:
    """What the Z-Wave server logs while its tool executes is on stderr, and its stdout has nothing but messages.

    The server of examples/home, as toolrun starts it, with a broker and devices. The pipes are read as they are.
    """
    broker = BrokerProcess("amqtt", root)
    broker.start()
    environ = {**os.environ, "MQTT_URL": broker.url, "ZWAVE_REPORT_TIMEOUT": "20", "ZWAVE_LOG_LEVEL": "debug"}
    arguments = {"deviceName": "Switch One", "action": "on"}
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call"}
    messages = (*MESSAGES[:3], {**call, "params": {"name": "control_zwave_device", "arguments": arguments}})
    try:
        async with Simulation.open(broker.url) as house:
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(SERVER), env=environ, stdin=PIPE, stdout=PIPE, stderr=PIPE
            )
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            reading = asyncio.create_task(process.stderr.read())
            try:
                async with asyncio.timeout(LIMIT):
                    process.stdin.write("".join(json.dumps(message) + "\n" for message in messages).encode())
                    answers = [json.loads(await process.stdout.readline()) for _ in range(3)]
                    process.stdin.close()
                    rest, log = await process.stdout.read(), (await reading).decode()
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()
                await reading
            assert house["Switch One"].state is True
    finally:
        broker.kill()
    assert {answer["id"]: answer["jsonrpc"] for answer in answers} == {1: "2.0", 2: "2.0", 3: "2.0"}
    [called] = [answer for answer in answers if answer["id"] == 3]
    assert called["result"]["content"][0]["text"] == "Switch One is now on."
    assert rest == b"", "every line on stdout was a message"
    assert f"control_zwave_device {arguments}: Switch One is now on." in log, "what it logged while executing"


def prove_debug_output(root: Path) -> None:
    """What is logged while a tool runs, by the tool and by the server, is on stderr."""
    stdout, stderr = conversation(root)
    assert "toolrun.tool.switch_lamp: node 7 answers" in stderr
    assert "switch_lamp ok" in stderr
    assert "said by the tool" in stderr.splitlines()
    assert "node 7" not in stdout
    assert "switch_lamp ok" not in stdout


def prove_responses(root: Path) -> None:
    """Each request is answered on stdout by one line of JSON, which ends with a newline."""
    stdout, _ = conversation(root)
    assert stdout.endswith("\n")
    answers = {answer["id"]: answer for answer in map(json.loads, stdout.splitlines())}
    assert sorted(answers) == [1, 2, 3, 4, 5]
    assert answers[3]["result"]["content"] == [{"type": "text", "text": "on"}]
    assert answers[4]["result"]["isError"] is True
    assert answers[5]["error"]["code"] == -32602


def prove_clean_stdout(root: Path) -> None:
    """Every line on stdout is JSON-RPC, although tools print; what they print is on stderr."""
    stdout, stderr = conversation(root)
    messages = [json.loads(line) for line in stdout.splitlines()]
    assert messages
    for message in messages:
        assert message["jsonrpc"] == "2.0"
        assert {"result", "error", "method"} & message.keys()
    assert {"printed while loading", "printed by the tool"} <= set(stderr.splitlines())
