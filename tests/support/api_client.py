"""The HTTP API of a project in this process, asked without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson

from toolrun import Runtime
from toolrun.server.api import HttpApi

LIMIT = 60.0


@dataclass(frozen=True)
class Asked:
    """A running API, and a client of it."""

    runtime: Runtime
    api: HttpApi
    client: httpx2.AsyncClient

    async def get(self, path: str, **query: object) -> Any:
        """The JSON of an answer that is as it should be."""
        answer = await self.client.get(path, params={name: str(value) for name, value in query.items()})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: object = None, status: int = 200) -> Any:
        answer = await self.client.post(path, json={} if body is None else body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def call(self, tool: str, **arguments: object) -> Any:
        return await self.post(f"/api/tools/{tool}/call", {"arguments": arguments})

    async def events(self, path: str, body: object = None) -> Sequence[tuple[str, Any]]:
        """All events of a stream that ends: their names, and their data."""
        accept = {"accept": "text/event-stream"}
        answer = await self.client.post(path, json={} if body is None else body, headers=accept)
        assert answer.headers["content-type"] == "text/event-stream", answer.text
        return read_events(answer.text)


class Listener:
    """A client of a stream that stays open."""

    def __init__(self) -> None:
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()
        self._events: list[tuple[str, Any]] = []
        self._text = ""
        self.is_slow = asyncio.Event()
        """Cleared, it reads nothing."""
        self.is_slow.set()

    async def next(self, name: str) -> Any:
        """The data of the next event of that name; others are passed over."""
        async with asyncio.timeout(LIMIT):
            while True:
                while self._events:
                    found, data = self._events.pop(0)
                    if found == name:
                        return data
                self._text += (await self._parts.get()).decode()
                blocks, _, self._text = self._text.rpartition("\n\n")
                self._events += read_events(blocks)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        await self.is_slow.wait()
        if message["type"] == "http.response.body":
            self._parts.put_nowait(message["body"])


@asynccontextmanager
async def listening(api: HttpApi, path: str = "/api/events") -> AsyncIterator[Listener]:
    """A client that reads events, and leaves at the end."""
    listener, gone = Listener(), asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    serving = asyncio.ensure_future(api.before(_nothing_else)(scope, receive, listener.send))
    try:
        await listener.next("ready")
        yield listener
    finally:
        listener.is_slow.set()
        gone.set()
        async with asyncio.timeout(LIMIT):
            await serving


def read_events(text: str) -> list[tuple[str, Any]]:
    events = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            events.append((lines["event"], orjson.loads(lines["data"])))
    return events


def write_tools(root: Path, tools: str, config: str = "") -> None:
    """A project in that folder."""
    (root / "tools").mkdir(parents=True, exist_ok=True)
    (root / "toolrun.toml").write_text(config)
    (root / "tools/own.py").write_text(f"from toolrun import ToolContext, tool\n{tools}")


@asynccontextmanager
async def asked(root: Path, tools: str = "", config: str = "") -> AsyncIterator[Asked]:
    """The API of a project with these tools."""
    write_tools(root, tools, config)
    async with Runtime.open(root / "toolrun.toml", consumer="serve") as runtime:
        api = HttpApi(runtime)
        app = api.before(_nothing_else)
        async with (
            api.running(),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=app), base_url="http://toolrun", timeout=LIMIT
            ) as client,
        ):
            yield Asked(runtime, api, client)


async def _nothing_else(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError(f"{scope['path']} was passed on")
