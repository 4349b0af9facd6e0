"""`toolrun serve` as a process of its own, and clients for it. Every wait has a limit."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from support.console import LIMIT, TOOLRUN, environment

ERAS = ("legacy", "2026-07-28")
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def text_of(answer: CallToolResult) -> str:
    """The text of an answer that begins with text."""
    first = answer.content[0]
    assert isinstance(first, TextContent)
    return first.text


class Served:
    """A running server, and what it has written on stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        self.log: list[str] = []
        self.url = ""
        self._stderr = process.stderr
        self._drain = threading.Thread(target=self._read, daemon=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.url.split("/")[2].rpartition(":")
        return host, int(port)

    def begin(self) -> None:
        """Wait until it serves."""
        for line in self._stderr:
            self.log.append(line.rstrip())
            if line.startswith("Serving"):
                self.url = line.split()[4].rstrip(";")
                self._drain.start()
                return
        raise AssertionError(f"the server ended with {self.process.wait(LIMIT)}: {self.log}")

    def _read(self) -> None:
        self.log += (line.rstrip() for line in self._stderr)

    def end(self) -> int:
        """Wait until it has ended by itself, and everything that it wrote is read."""
        code = self.process.wait(LIMIT)
        self._drain.join(LIMIT)
        return code


@contextmanager
def served(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """`toolrun serve --http` on a free port, without a token if none is given; stopped at the end."""
    token = () if "--token" in arguments else ("--no-token",)
    with serving("--http", "0", *token, *arguments, cwd=cwd, env=env) as server:
        yield server


@contextmanager
def serving(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """`toolrun serve` once it serves; stopped at the end."""
    command = [str(TOOLRUN), "serve", *arguments]
    with subprocess.Popen(command, cwd=cwd, env=environment(env), text=True, stderr=subprocess.PIPE) as process:
        try:
            server = Served(process)
            server.begin()
            yield server
        finally:
            process.terminate()
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()


@asynccontextmanager
async def http_client(url: str, era: str, token: str = "", **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LIMIT) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, **options) as client,
    ):
        yield client


@asynccontextmanager
async def stdio_client(project: Path, era: str, **options: Any) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=str(TOOLRUN), args=["serve"], cwd=project, env=environment())
    async with Client(parameters, mode=era, **options) as client:
        yield client


def request(method: str, number: int = 1, **params: Any) -> dict[str, Any]:
    """A request of the newer era, which needs nothing before it."""
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": method,
        "params": {**params, "_meta": {**_META, **params.get("_meta", {})}},
    }


def headers(method: str, name: str = "") -> dict[str, str]:
    """What goes with such a request over HTTP."""
    found = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
    }
    return {**found, "mcp-name": name} if name else found


def line(message: Mapping[str, Any]) -> str:
    return json.dumps(message) + "\n"
