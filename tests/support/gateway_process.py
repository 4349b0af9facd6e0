"""`toolrun voice` as a process, with a project of its own, and somebody on the broker who talks to it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiomqtt

from providers.base import Asked, Step
from support.brokers import LIMIT, BrokerProcess
from support.console import TOOLRUN, environment
from support.zwave_process import SERVER

LOCAL_TOOL = '''\
from toolrun import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''


def write_project(
    root: Path,
    model_url: str,
    broker_url: str,
    report_timeout: int = 20,
    command: Sequence[str] = (sys.executable, str(SERVER)),
    **more: str,
) -> None:
    """A project with a local tool, the Z-Wave server and an Ollama. `more` are further lines of its sections."""
    (root / "tools").mkdir()
    (root / "tools/local.py").write_text(LOCAL_TOOL)
    sections = {
        "servers.zwave": f"""\
command = {json.dumps(command[0])}
args = {json.dumps(command[1:])}
env = {{ MQTT_URL = {json.dumps(broker_url)}, ZWAVE_REPORT_TIMEOUT = "{report_timeout}" }}
hint = "Is the MQTT broker running?"
parameters = {{ command = "action" }}
""",
        "mcp": "delays = [0, 0.2, 0.4]\nlongest_delay = 0.5\n",
        "model": f'use = "ollama:qwen3:0.6b"\nbase_url = "{model_url}"\n',
        "voice": "delays = [0.1, 0.3]\n",
    }
    for title, lines in more.items():
        sections[title] = sections.get(title, "") + lines
    (root / "toolrun.toml").write_text("".join(f"[{title}]\n{lines}\n" for title, lines in sections.items()))


def switch_on(name: str = "Switch One") -> Step:
    """The model asks for a device to be switched on, with the names of parameters that models like."""
    return Step(calls=[Asked("control_zwave_device", {"device_name": name, "command": "on"})])


def add(a: int, b: int) -> Step:
    return Step(calls=[Asked("add", {"a": a, "b": b})])


def last_result(body: dict[str, Any]) -> str:
    """The result of the last tool, as the model reads it."""
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    return str(results[-1])


def repeat_result(body: dict[str, Any]) -> Step:
    """The model says what the tool said."""
    return Step(text=last_result(body).splitlines()[0])


class Gateway:
    """The process, as seen from its ends."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._errors: list[str] = []
        self._news = asyncio.Event()

    @property
    def log(self) -> str:
        return "".join(self._errors)

    async def read_errors(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            self._errors.append(line.decode())
            self._news.set()

    async def has_said(self, *parts: str) -> None:
        """Wait until all of these are on stderr."""
        try:
            async with asyncio.timeout(LIMIT):
                while not all(part in self.log for part in parts):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"the gateway never said {parts}, but:\n{self.log}") from None

    async def ask(self, line: str) -> str:
        """The answer on stdout to a line on stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        return await self.next_answer()

    async def next_answer(self) -> str:
        """The next line on stdout; empty at its end."""
        assert self._process.stdout is not None
        async with asyncio.timeout(LIMIT):
            return (await self._process.stdout.readline()).decode().rstrip("\n")

    def zwave_server(self) -> int:
        """The process of the Z-Wave server that the gateway has started."""
        [found] = [pid for pid in _children(self._process.pid) if str(SERVER).encode() in _command(pid)]
        return found

    async def ended(self) -> int:
        """Wait until it ends by itself: its exit code."""
        return await self._process.wait()

    async def end(self, how: signal.Signals | None = None) -> int:
        """End its input, or send it a signal: its exit code."""
        if how is not None:
            self._process.send_signal(how)
        elif self._process.stdin is not None:
            self._process.stdin.close()
        async with asyncio.timeout(LIMIT):
            return await self._process.wait()


@asynccontextmanager
async def open_gateway(
    root: Path, *options: str, env: dict[str, str] | None = None, prefix: Sequence[str] = ()
) -> AsyncIterator[Gateway]:
    """Start it; killed at the end if it still runs. `prefix` comes before `voice`."""
    has_input = "--stdin" in options
    process = await asyncio.create_subprocess_exec(
        str(TOOLRUN),
        *prefix,
        "voice",
        *options,
        cwd=root,
        env=environment(env),
        stdin=PIPE if has_input else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    gateway = Gateway(process)
    reading = asyncio.create_task(gateway.read_errors())
    try:
        yield gateway
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), LIMIT)
            except TimeoutError:
                process.kill()
        await reading
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


class Visitor:
    """Somebody on the broker, who says things on `voice/utterance` and reads all other topics of the gateway."""

    def __init__(self, client: aiomqtt.Client) -> None:
        self._client = client
        self.messages: list[tuple[str, Any]] = []
        """Topics without their prefix, and what was on them: JSON, or the text of the status."""

    async def say(self, text: str, id: str) -> None:
        await self._client.publish("voice/utterance", json.dumps({"text": text, "id": id}), qos=1)

    async def until(self, is_so: Callable[[str, Any], bool]) -> Any:
        """Read on to the next message that is as wanted: its content."""
        async with asyncio.timeout(LIMIT):
            async for message in self._client.messages:
                topic, text = message.topic.value.removeprefix("voice/"), bytes(message.payload).decode()
                if not message.topic.value.startswith("voice/") or topic == "utterance":
                    continue
                content = text if topic == "status" else json.loads(text)
                self.messages.append((topic, content))
                if is_so(topic, content):
                    return content
        raise AssertionError("the broker is gone")

    async def is_online(self) -> None:
        await self.until(lambda topic, content: (topic, content) == ("status", "online"))

    async def answer(self, id: str) -> Any:
        """The answer to an utterance."""
        return await self.until(lambda topic, content: topic == "answer" and content["id"] == id)

    async def tool(self, event: str) -> Any:
        return await self.until(lambda topic, content: topic == "tool" and content["event"] == event)


@asynccontextmanager
async def visit(broker: BrokerProcess) -> AsyncIterator[Visitor]:
    async with aiomqtt.Client("127.0.0.1", broker.port) as client:
        await client.subscribe("voice/#", qos=1)
        yield Visitor(client)


def _children(pid: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            found += [child, *_children(child)]
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
