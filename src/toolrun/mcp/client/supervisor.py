"""Keeps the session with one server up: connects, retries, notices a loss, and reports the state.

One task per server decides (`_run`), and one per session enters and leaves it (`_hold`), because a session that fails
cancels the task that entered it. Servers do not affect each other.

Over HTTP each call has a connection of its own, so a session that is lost may still answer calls that it has accepted.
It is left while they go on, and the next one is opened beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from importlib import import_module
from time import monotonic, perf_counter
from typing import Final

from toolrun.errors import CallError, SideEffects, UnavailableError
from toolrun.extra import missing
from toolrun.logger import Indented, get_logger
from toolrun.mcp.client.channel import Channel, Handlers, Server
from toolrun.mcp.client.era_memory import EraMemory, RememberedServer
from toolrun.mcp.client.json_rpc import BadAnswerError, LostError, NotSentError, Params, RpcError
from toolrun.mcp.client.session import MODERN, ListedTool, Session, WantedUpdates, answer
from toolrun.mcp.client.session_end import end_task, loss_of, task_in_block
from toolrun.mcp.client.stdio_channel import open_stdio
from toolrun.text import plural, section
from toolrun.tools.context import current_call

logger = get_logger("toolrun.mcp")

_STABLE: Final = 10.0
"""Seconds after which the loss of a session counts as the first one again."""
_GATHER: Final = 0.05
"""Seconds between a change of the tools and the next list: often several changes follow each other."""
_PATIENCE: Final = 5.0
"""Seconds that a server that spoke the newer era before, or could not be connected with otherwise, is asked for the
newer one alone. A process of unknown era is asked for both at once. Over HTTP, where the newer era knows no handshake,
it may take `discover_timeout` to answer."""
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "notice": logging.INFO, "warning": logging.WARNING}


def _as_listed(_: Server, tools: list[ListedTool]) -> list[ListedTool]:
    return tools


class ConnectionState(StrEnum):
    CONNECTING = "connecting"
    """The first attempt is under way. Calls wait for it."""
    CONNECTED = "connected"
    WAITING = "waiting"
    """An attempt has failed, and another one follows soon. Calls wait for it, if it comes before their deadline."""
    UNREACHABLE = "unreachable"
    """All attempts have failed; another one follows from time to time."""
    CLOSED = "closed"


class Supervisor:
    """Keeps one server connected. Belongs to one event loop."""

    def __init__(
        self,
        server: Server,
        on_listed: Callable[[Supervisor, list[ListedTool]], None],
        survivors: Callable[[], str],
        review: Callable[[Server, list[ListedTool]], list[ListedTool]] = _as_listed,
    ) -> None:
        """`on_listed` gets the tools whenever the server lists them; `survivors` says what works without it.

        `review` is run in a thread before: it says what becomes of the tools.
        """
        self.server = server
        self.name = server.name
        self.state = ConnectionState.CONNECTING
        self.error = ""
        """Why there is no session."""
        self.tail = ""
        """The last lines that the server wrote on stderr before that."""
        self.version = ""
        """The version of the protocol that the server speaks, once that is known."""
        self.info = ""
        self.connections = 0
        """How often it has been connected with."""
        self.first_attempts_over = asyncio.Event()
        """Set when the server is connected, or the first attempts have all failed."""
        self._on_listed = on_listed
        self._survivors = survivors
        self._review = review
        self._news = asyncio.Event()
        """Set when the state changes."""
        self.on_updated: Callable[[str], None] = _ignore
        """Called with the URI of a resource that the server says has been updated."""
        self._wanted_updates = WantedUpdates()
        self._changed = asyncio.Event()
        """Set when the server says that its tools have changed."""
        self.latest_session: Session | None = None
        """The session, which may have been lost in this very moment: its channel knows."""
        self._channel: Channel | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        """Those who hold a session over HTTP that was lost."""
        self._next_attempt = 0.0
        """When the next attempt to connect begins, on the clock of `time.perf_counter`, as the deadlines of calls."""
        self._memory = EraMemory(server.cache, server.root, server.settings)
        self._ways: tuple[float | None, ...] = ()
        """The ways to ask the server for its era, which take turns while they fail: see `_ways_to_ask`."""
        self._task = self._start()

    def _start(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._run(), name=f"MCP server {self.name}")

    async def restart(self) -> None:
        """End the session and what it runs on, and connect anew at once."""
        self._task.cancel()
        await asyncio.wait({self._task})
        self.latest_session, self.error, self.tail = None, "it is being restarted", ""
        self._set_state(ConnectionState.CONNECTING)
        self._task = self._start()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        for holder in tuple(self._leaving):
            await end_task(holder)
        self._set_state(ConnectionState.CLOSED)
        self.first_attempts_over.set()

    @property
    def session(self) -> Session | None:
        """The session, if there is one and it is not lost."""
        session = self.latest_session
        return None if session is None or session.channel.lost.is_set() else session

    async def connected(self) -> Session:
        """Wait for a session that is being opened. Raises UnavailableError if there is none to wait for."""
        assert self._task.get_loop() is asyncio.get_running_loop(), "a supervisor belongs to one event loop"
        call = current_call.get()
        if call is not None:
            call.phase = f"the MCP server '{self.name}' was not connected"
        while (session := self.session) is None:
            if self.state in (ConnectionState.UNREACHABLE, ConnectionState.CLOSED):
                raise self.unavailable(SideEffects.NOT_STARTED)
            if self.state is ConnectionState.WAITING and call is not None and self._next_attempt > call.deadline:
                raise self.unavailable(SideEffects.NOT_STARTED)  # waiting would not help
            await self._news.wait()
        if call is not None:
            call.phase = ""
        return session

    async def subscribe(self, uri: str) -> None:
        """Want updates of a resource, from this session and those after it.

        Raises UnavailableError, RpcError, BadAnswerError or LostError.
        """
        session = await self.connected()
        if not session.is_modern:
            await session.subscribe(uri)
        self._wanted_updates.add(uri)

    def unsubscribe(self, uri: str) -> None:
        self._wanted_updates.discard(uri)

    def unavailable(self, side_effects: SideEffects) -> CallError:
        hint = f"\nWhat to check: {self.server.settings.hint}" if self.server.settings.hint else ""
        last = f"Its last output on stderr:\n{self.tail}" if self.tail else ""
        reason = f": {self.error}" if self.error else ""
        return UnavailableError(
            f"The MCP server '{self.name}' is not available{reason}", side_effects=side_effects, detail=last + hint
        )

    async def _run(self) -> None:
        failures = losses = 0
        while True:
            await self._wait(failures)
            began = monotonic()
            loss = await self._attempt(failures)
            self.error, self.tail = str(loss), loss.tail
            if self.latest_session is None:
                failures += 1
                self._failed(failures)
            else:
                self.latest_session = None
                losses = 0 if monotonic() - began >= _STABLE else losses + 1
                failures = max(0, losses - 1)  # a server that is lost again and again gets the backoff, too
                self._log(logging.WARNING, f"the connection was lost: {loss}. Connecting again.{self._said()}")
            if failures >= len(self.server.mcp.delays):
                self.first_attempts_over.set()

    def _delay(self, failures: int) -> float:
        """Seconds before the next attempt, after so many failed ones."""
        mcp = self.server.mcp
        if failures < len(mcp.delays):
            return mcp.delays[failures]
        doublings = min(failures - len(mcp.delays) + 1, 32)
        return float(min(mcp.longest_delay, max(mcp.delays[-1], 1.0) * 2**doublings))

    async def _wait(self, failures: int) -> None:
        attempts, delay = len(self.server.mcp.delays), self._delay(failures)
        of = f" of {attempts}" if failures < attempts else ""
        self._log(logging.INFO, f"connection attempt {failures + 1}{of} in {delay:g} s")
        state = ConnectionState.WAITING if failures < attempts else ConnectionState.UNREACHABLE
        self._next_attempt = perf_counter() + delay
        self._set_state(state if failures else ConnectionState.CONNECTING)
        await asyncio.sleep(delay)

    async def _attempt(self, failures: int) -> LostError:
        """One session, from its start to its end. Returns why it ended."""
        limit, loop = self.server.start_timeout, asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        holder = loop.create_task(self._hold(opened, failures), name=f"MCP session {self.name}")
        is_late = False
        try:
            await asyncio.wait({opened, holder}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            is_late = not opened.done() and not holder.done()
            if opened.done() and self._channel is not None and self.server.transport != "stdio":
                async with task_in_block(self._channel.lost.wait()) as lost:
                    await asyncio.wait({holder, lost}, return_when=asyncio.FIRST_COMPLETED)
                if not holder.done() and self._channel.loss is not None:
                    self._leaving.add(holder)
                    holder.add_done_callback(self._left)
                    return self._channel.loss
            elif not is_late:
                await asyncio.wait({holder})
        finally:
            if holder not in self._leaving:
                await end_task(holder)
        loss = LostError(f"it was not ready within {limit:g} s") if is_late else loss_of(holder)
        if self._channel is not None:
            loss.tail = loss.tail or self._channel.tail
        return loss

    def _left(self, holder: asyncio.Task[None]) -> None:
        self._leaving.discard(holder)
        loss_of(holder)  # somebody has to ask for the exception of a task

    async def _hold(self, opened: asyncio.Future[None], failures: int) -> None:
        """Open a session, and stay in it until it ends."""
        self._changed.clear()
        self._channel = None
        async with await self._open() as channel:
            self._channel = channel
            session = Session(self.name, channel)
            await self._negotiate(session)
            tools = await self._list(session)
            self.version, self.info = session.version, session.info
            self._connected(session, tools, failures)
            opened.set_result(None)
            async with task_in_block(session.watch(self._changed.set, self._wanted_updates)):
                while await self._next_change(channel):
                    await self._list_again(session)
            raise channel.loss or LostError("the session ended")

    async def _negotiate(self, session: Session) -> None:
        remembered = await asyncio.to_thread(self._memory.recall)
        if not self._ways:
            self._ways = self._ways_to_ask(None if remembered is None else remembered.version == MODERN)
        patience, longest = self._ways[0], self.server.start_timeout / 2
        is_http = self.server.transport == "http"
        try:
            await session.negotiate(None if patience is None else min(patience, longest), is_stateless=is_http)
        except NotSentError:
            raise
        except BaseException:  # the probe may have killed it, or the handshake: try another way next time
            self._ways = (*self._ways[1:], patience)
            if remembered is not None and not self._task.cancelling():  # which says nothing about the server
                await asyncio.to_thread(self._memory.forget)
            raise
        self._ways = self._ways_to_ask(session.speaks_modern)
        if remembered is not None and not session.is_modern and remembered.info != session.info:
            await asyncio.to_thread(self._memory.forget)  # another version of the server: it may have learned more
        else:
            version = MODERN if session.speaks_modern else session.version
            await asyncio.to_thread(self._memory.remember, RememberedServer(version, session.info))

    def _ways_to_ask(self, is_modern: bool | None) -> tuple[float | None, ...]:
        """The patience with which a server is asked for its era, the likeliest way first. `is_modern`: if it is known.

        A start may fail for reasons of its own, so a server of the older era is asked for both at once before it is
        asked for the newer one alone, which it may never answer.
        """
        both = self.server.mcp.discover_timeout if self.server.transport == "http" else 0.0
        if is_modern is None:
            return (both, None, _PATIENCE)
        return (_PATIENCE, None, both) if is_modern else (None, both, _PATIENCE)

    async def _open(self) -> AbstractAsyncContextManager[Channel]:
        handlers = Handlers(answer, self._notified)
        if self.server.transport == "stdio":
            return open_stdio(self.server, handlers)
        try:  # in a thread: importing the SDK would hold up the event loop
            module = await asyncio.to_thread(import_module, "toolrun.mcp.client.http_channel")
        except ImportError as error:
            raise LostError(str(missing("mcp", error, "A server with a URL"))) from error
        opened: AbstractAsyncContextManager[Channel] = module.open_http(self.server, handlers)
        return opened

    def _connected(self, session: Session, tools: list[ListedTool], failures: int) -> None:
        about = f"{session.info or 'a server without a name'}, protocol {session.version}, {plural(len(tools), 'tool')}"
        level = logging.WARNING if failures else logging.INFO
        self._log(level, f"MCP connection succeeded on attempt {failures + 1} ({about})")
        self.latest_session, self.error, self.tail = session, "", ""
        self.connections += 1
        self._on_listed(self, tools)
        self._set_state(ConnectionState.CONNECTED)
        self.first_attempts_over.set()

    async def _list(self, session: Session) -> list[ListedTool]:
        return await asyncio.to_thread(self._review, self.server, await session.list_tools())

    async def _next_change(self, channel: Channel) -> bool:
        """Wait until the tools change. False if the session has ended."""
        async with task_in_block(channel.lost.wait()) as lost, task_in_block(self._changed.wait()) as changed:
            await asyncio.wait({lost, changed}, return_when=asyncio.FIRST_COMPLETED)
        self._changed.clear()
        return not channel.lost.is_set()

    async def _list_again(self, session: Session) -> None:
        await asyncio.sleep(_GATHER)
        try:
            async with asyncio.timeout(self.server.start_timeout):
                tools = await self._list(session)
            if not session.channel.lost.is_set():  # otherwise the next session has listed them, or will do so
                self._on_listed(self, tools)
        except (RpcError, BadAnswerError, TimeoutError) as error:
            self._log(logging.WARNING, f"its tools could not be listed again: {error}")

    def _notified(self, method: str, params: Params) -> None:
        if method == "notifications/tools/list_changed":
            self._changed.set()
        elif method == "notifications/resources/updated":
            if isinstance(uri := params.get("uri"), str):
                self.on_updated(uri)
        elif method == "notifications/message":
            level = _LEVELS.get(str(params.get("level")), logging.ERROR)
            self._log(level, str(params.get("data")))

    def _failed(self, failures: int) -> None:
        attempts = len(self.server.mcp.delays)
        if failures < attempts:
            self._log(logging.WARNING, f"connection attempt {failures} of {attempts} failed: {self.error}")
        elif failures == attempts:
            self._log(logging.ERROR, self._final_words(attempts))
        else:
            self._log(logging.INFO, f"connection attempt {failures} failed: {self.error}")

    def _final_words(self, attempts: int) -> str:
        hint = self.server.settings.hint or "is the server installed, and does it run when you start it by hand?"
        return (
            f"MCP connection failed after {plural(attempts, 'attempt')}: {self.error}{self._said()}\n"
            f"What to check: {hint} Then {section('servers', self.name)} in the configuration.\n"
            f"Degraded mode: the tools of '{self.name}' are missing. {self._survivors()}\n"
            f"toolrun tries again in {self._delay(attempts):g} s, and keeps trying."
        )

    def _log(self, level: int, message: str) -> None:
        first, _, rest = message.partition("\n")
        logger.log(level, "MCP server '%s': %s%s", self.name, first, Indented(rest), extra={"server": self.name})

    def _said(self) -> str:
        return f"\nIts stderr:\n{self.tail}" if self.tail else ""

    def _set_state(self, state: ConnectionState) -> None:
        self.state = state
        news, self._news = self._news, asyncio.Event()
        news.set()


def _ignore(uri: str) -> None:
    pass
