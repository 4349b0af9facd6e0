"""A server that runs as a process of ours, reached over its pipes.

The process is run as a worker is: in a process group, with a clean environment and a drained stderr, and it does not
survive us, even if this process is killed. When a call was given up and the server then stays silent, it gets a ping;
if it does not answer within the grace period, it is killed, and its supervisor starts it again.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from toolrun.errors import UnavailableError
from toolrun.logger import get_logger
from toolrun.mcp.client.channel import Handlers, Server
from toolrun.mcp.client.json_rpc import JsonRpc, LostError, OnLateAnswer, Params, Result
from toolrun.mcp.client.server_sandbox import confine_server
from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import Exit, ProcessSpec
from toolrun.text import plural
from toolrun.tools.context import OnProgress

logger = get_logger("toolrun.mcp")

_PASSED_ON: Final = frozenset({"USER", "LOGNAME", "SHELL", "TERM"})
_CLOSE: Final = 2.0
"""Seconds that a server has to end after its input was closed."""
_CLOSE_UNHEARD: Final = 0.2
"""The same for one that has not said anything yet."""
_FIRST_LINES: Final = 10
_LAST_LINES: Final = 20
_PROBE_METHOD: Final = "server/discover"
_GREETINGS: Final = (_PROBE_METHOD, "initialize")


class StdioChannel:
    """JSON-RPC with a process. The engine tells it what the process writes, and when it ends."""

    def __init__(self, server: Server, spec: ProcessSpec, handlers: Handlers) -> None:
        """Start the process. Raises LostError if it cannot be started."""
        self.lost = asyncio.Event()
        self.loss: LostError | None = None
        self._name = server.name
        self._grace = server.mcp.grace
        self._timer: asyncio.TimerHandle | None = None
        self._words = _Words()
        self._is_greeted = False
        """Whether the era of the server is known."""
        self._must_ping_again = False
        """Whether another call was given up while the answer to a ping was awaited."""
        self._silence = ""
        """Why the process was killed, if it was for its silence."""
        try:
            self._worker = server.engine.start(spec, self)
        except OSError as error:
            raise LostError(f"'{server.settings.command}' cannot be started: {error}") from error
        self._rpc = JsonRpc(
            server.name, self._worker.send, handlers.on_request, handlers.on_notification, server.max_bytes
        )
        self._rpc.on_cancelled = self._ping
        # Not methods that pass everything on: there is one of each for every call.
        self.submit = self._rpc.submit
        self.received = self._rpc.received

    @property
    def tail(self) -> str:
        """The first and the last lines that it wrote on stderr."""
        return self._words.text()

    async def request(
        self,
        method: str,
        params: Params | None,
        *,
        on_progress: OnProgress | None = None,
        request_id: str | None = None,
        on_late_answer: OnLateAnswer | None = None,
    ) -> Result:
        if not self._is_greeted and method not in _GREETINGS:
            self._is_greeted = True
            self._words = _Words()  # until now it talked about its start, and about our questions for its era
        return await self._rpc.request(
            method, params, on_progress=on_progress, request_id=request_id, on_late_answer=on_late_answer
        )

    async def notify(self, method: str, params: Params | None = None) -> None:
        self._rpc.notify(method, params)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rpc.lose(LostError("it was closed"))
        await self._worker.close(_CLOSE if self._rpc.heard else _CLOSE_UNHEARD)

    def logged(self, line: str) -> None:
        if _PROBE_METHOD not in line:  # our question, which it did not understand
            self._words.add(line)
        logger.info("MCP server '%s': %s", self._name, line)

    def ended(self, exit: Exit) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.loss = LostError(self._silence or f"it {exit.describe()}", self.tail)
        self._rpc.server_ended(self.loss)
        self.lost.set()

    def _ping(self) -> None:
        """A call was given up. A server that goes on with it and answers nothing else meanwhile must be restarted."""
        if self._timer is not None:
            self._must_ping_again = True
        elif not self.lost.is_set():
            self._must_ping_again = False
            heard = self._rpc.heard
            self._rpc.ask("ping")  # an error is an answer, too
            self._timer = asyncio.get_running_loop().call_later(self._grace, self._check_silence, heard)

    def _check_silence(self, heard: int) -> None:
        self._timer = None
        if self._rpc.heard == heard and not self.lost.is_set():
            self._silence = f"it said nothing for {self._grace:g} s after a call was given up, so it was killed"
            logger.warning("MCP server '%s': %s", self._name, self._silence)
            self._worker.kill()
        elif self._must_ping_again:
            self._ping()


class _Words:
    """The first lines, which often have the cause, and the last ones."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._count = 0

    def add(self, line: str) -> None:
        self._count += 1
        (self._first if len(self._first) < _FIRST_LINES else self._last).append(line)

    def text(self) -> str:
        left_out = self._count - len(self._first) - len(self._last)
        gap = [f"… [{plural(left_out, 'line')} left out] …"] if left_out else []
        return "\n".join([*self._first, *gap, *self._last])


@asynccontextmanager
async def open_stdio(server: Server, handlers: Handlers) -> AsyncIterator[StdioChannel]:
    try:
        spec = await confine_server(server, _spec(server))
    except UnavailableError as error:
        raise LostError(str(error)) from error
    channel = StdioChannel(server, spec, handlers)
    try:
        yield channel
    finally:
        await channel.close()


def _spec(server: Server) -> ProcessSpec:
    """Raises LostError if the program or its directory does not exist."""
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
        raise LostError(f"its directory '{directory}' does not exist; correct 'cwd'")
    return ProcessSpec(
        name=server.name,
        program=Path(program),
        arguments=settings.args,
        directory=directory,
        variables=variables,
        label=f"MCP server {server.name}",
    )
