"""A server that we start ourselves, and talk to over its pipes.

The process machinery is that of the workers: a process group of its own, a clean environment, stderr drained, and
nothing survives, also if this process is killed. A server that says nothing any more after a call was given up is
asked whether it lives, and killed if it does not answer: whoever looks after it starts it again.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from toolrun.mcp.client.channel import Handlers, Server
from toolrun.mcp.client.json_rpc import LostError, Params, Pending, Read, Result, Rpc
from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import Exit, ProcessSpec
from toolrun.tools.context import OnProgress

logger = logging.getLogger("toolrun.mcp")

_PASSED_ON: Final = frozenset({"USER", "LOGNAME", "SHELL", "TERM"})
_CLOSE: Final = 2.0
"""Seconds that a server has to end by itself."""
_TAIL_LINES: Final = 20
_NO_HEADERS: Final[Mapping[str, str]] = {}


class StdioChannel:
    """Listens to the process."""

    def __init__(self, server: Server, handlers: Handlers) -> None:
        """Starts the process. Raises LostError if that cannot be done."""
        self.lost = asyncio.Event()
        self.loss: LostError | None = None
        self._name = server.name
        self._grace = server.mcp.grace
        self._timer: asyncio.TimerHandle | None = None
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._is_doubted_again = False
        """Whether a call was given up while it was waited for an answer after another."""
        self._silent = ""
        self._rpc = Rpc(server.name, self._send, handlers.on_request, handlers.on_notification, server.max_bytes)
        self._rpc.on_cancelled = self._doubt
        try:
            self._worker = server.engine.start(_spec(server), self)
        except OSError as error:
            raise LostError(f"'{server.settings.command}' cannot be started: {error}") from error

    @property
    def tail(self) -> str:
        """The last lines that it wrote on stderr."""
        return "\n".join(self._tail)

    async def request(
        self,
        method: str,
        params: Params | None,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        request_id: str | None = None,
    ) -> Result:
        return await self._rpc.request(method, params, request_id=request_id)

    async def notify(self, method: str, params: Params | None, *, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        self._rpc.notify(method, params)

    def begin(self, params: Params, read: Read, on_progress: OnProgress | None) -> Pending | None:
        return self._rpc.begin("tools/call", params, read=read, on_progress=on_progress)

    async def call(
        self, params: Params, on_progress: OnProgress | None, *, headers: Mapping[str, str] = _NO_HEADERS
    ) -> Result:
        return await self._rpc.request("tools/call", params, on_progress=on_progress)

    def meet(self, tool: str, schema: dict[str, Any]) -> str | None:
        return None

    def parameter_headers(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        return _NO_HEADERS

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rpc.lose(LostError("it was closed"))
        await self._worker.close(_CLOSE)

    def received(self, data: bytes) -> None:
        self._rpc.received(data)

    def logged(self, line: str) -> None:
        self._tail.append(line)
        logger.info("MCP server '%s': %s", self._name, line)

    def ended(self, exit: Exit) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.loss = LostError(self._silent or f"it {exit.describe()}", exit.tail)
        self._rpc.lose(self.loss)
        self.lost.set()

    def _send(self, data: bytes) -> None:
        self._worker.send(data)

    def _doubt(self) -> None:
        """A call was given up. A server that goes on with it and answers nobody else meanwhile is of no use."""
        if self._timer is not None:
            self._is_doubted_again = True
        elif not self.lost.is_set():
            self._is_doubted_again = False
            heard = self._rpc.heard
            self._rpc.ask("ping")  # a server that does not know it says so, and that is an answer too
            self._timer = asyncio.get_running_loop().call_later(self._grace, self._judge, heard)

    def _judge(self, heard: int) -> None:
        self._timer = None
        if self._rpc.heard == heard and not self.lost.is_set():
            self._silent = f"it said nothing for {self._grace:g} s after a call was given up, so it was killed"
            logger.warning("MCP server '%s': %s", self._name, self._silent)
            self._worker.kill()
        elif self._is_doubted_again:
            self._doubt()


@asynccontextmanager
async def open_stdio(server: Server, handlers: Handlers) -> AsyncIterator[StdioChannel]:
    channel = StdioChannel(server, handlers)
    try:
        yield channel
    finally:
        await channel.close()


def _spec(server: Server) -> ProcessSpec:
    """Raises LostError for a program that is not there."""
    settings = server.settings
    variables = child_environment(server.environ, _PASSED_ON.__contains__)
    variables |= {name: str(value) for name, value in settings.env.items()}
    directory = server.root / Path(settings.cwd).expanduser()
    command = str(Path(settings.command).expanduser()) if settings.command.startswith("~") else settings.command
    if "/" in command:
        command = str(directory / command)
    program = shutil.which(command, path=variables.get("PATH"))
    if program is None:
        where = "" if "/" in command else " on the PATH"
        raise LostError(f"its program '{settings.command}' was not found{where}; install it, or correct 'command'")
    if not directory.is_dir():
        raise LostError(f"its directory '{directory}' is not there; correct 'cwd'")
    return ProcessSpec(
        name=server.name,
        program=Path(program),
        arguments=settings.args,
        directory=directory,
        variables=variables,
        label=f"MCP server {server.name}",
    )
