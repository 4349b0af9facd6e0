"""POST /api/tools/NAME/call: one call of a tool, answered with its envelope or with events.

Every other request takes its time to be found, checked and answered. A call of a tool that runs in this process takes
less time than all of that, so this path is as short as possible: no tasks, no timers that fire, no copies.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import (
    Annotated,
    Any,
    Final,
    NotRequired,  # pydantic, which needs it, brings it
)

from annotated_types import Gt  # pydantic, which needs it, brings it
from typing_extensions import TypedDict

from toolrun.execution.approval import Answer, ApprovalRequest, Caller, calling_as
from toolrun.journal.ledger import KeyInUseError, StillRunningError
from toolrun.mcp.call_key import HEADER, unquoted
from toolrun.mcp.server.fast_path import HAS_BEGUN, Receive, Scope, Send, noting
from toolrun.processes.framing import LARGE
from toolrun.result import ToolResult
from toolrun.server.api_answer import EventStream, Write, failure, send_answer, send_events, send_json, wait_until_gone
from toolrun.server.api_body import parse_body, read_body
from toolrun.server.api_state import ApiState
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.request_error import RequestError
from toolrun.server.running_calls import log_listener, refusal_listener
from toolrun.text import show
from toolrun.tools.call_log import LogLine
from toolrun.tools.context import OnProgress, Progress
from toolrun.tools.protocol import is_seconds

_PREFIX: Final = "/api/tools/"
_SUFFIX: Final = "/call"
_SOON: Final = 0.05
"""Seconds after which somebody watches whether the client is still there. Most calls have ended by then."""
_MAX_BODY: Final = 16 * 1024 * 1024
_MAX_REPORTS: Final = 256
"""Reports of progress and log lines that wait for a client to read; then the oldest are dropped."""
_EVENT_STREAM: Final = b"text/event-stream"
_KEY_REFUSED: Final[dict[type[BaseException], int]] = {StillRunningError: 409, KeyInUseError: 422}
"""As the draft about the header Idempotency-Key has it: whoever repeats a call looks at the status alone."""


class CallBody(TypedDict, total=False):
    """A call."""

    arguments: dict[str, Any] | str | None
    """An object, or JSON text of one."""
    key: str | None
    timeout: Annotated[float, Gt(0)] | None
    conversation: str | None


class RepairView(TypedDict):
    """One change that was made to the arguments."""

    path: str
    before: Any
    after: Any
    reason: str


class Envelope(TypedDict):
    """The answer to a call: `result` if it succeeded, `error` if not."""

    success: bool
    result: NotRequired[Any]
    error: NotRequired[str]
    tool_name: str
    execution_time_ms: float
    error_kind: str | None
    side_effects: str | None
    repairs: list[RepairView]
    dropped: list[str]
    edited: Any
    call_id: str | None
    recorded_as: str | None
    key: str | None
    replayed: bool
    text: str


class CallRoute:
    """The route of one server."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._executor = state.executor
        self.operation = Operation(
            "POST",
            "/api/tools/{name}/call",
            self._never,
            "Call a tool",
            Envelope,
            body=CallBody,
            failures={409: "The call with the same key is still running.", 422: "The key is that of another call."},
            events={
                "started": "{call}: its id among the running calls",
                "progress": "{progress, total, message}",
                "log": "{after_us, level, text}: a line that the tool logged",
                "result": "the envelope",
            },
            max_body=_MAX_BODY,
        )
        self._young: dict[_Watch, None] = {}
        """Of calls that have not lasted long, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None
        self._kept: set[asyncio.Task[ToolResult]] = set()
        """Calls with a key whose clients have left."""

    @staticmethod
    def tool_of(path: str) -> str | None:
        """The tool that is to be called; None if this is another path."""
        if path.endswith(_SUFFIX) and path.startswith(_PREFIX):
            name = path[len(_PREFIX) : -len(_SUFFIX)]
            return name if name and "/" not in name else None
        return None

    async def close(self) -> None:
        """Give up the calls that nobody waits for."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._kept:
            task.cancel()
        if self._kept:
            await asyncio.wait(self._kept)

    async def answer(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            first = await receive()
            body = first.get("body", b"")
            if first["type"] == "http.request" and not first.get("more_body") and len(body) <= LARGE:
                request = parse_body(body)
            else:
                request = await read_body(scope, receive, _MAX_BODY, first)
            wants_events, key_header = False, None
            for header, value in scope["headers"]:
                if header == b"accept":
                    wants_events = _EVENT_STREAM in value
                elif header == b"idempotency-key":
                    key_header = value
            if scope.get("query_string"):
                self.operation.read_query(scope["query_string"])
            arguments = request.get("arguments") if type(request) is dict else None
            is_usual = type(arguments) is dict and len(request) == 1 and key_header is None
            options = {} if is_usual else self._options(request, key_header)
        except Exception as error:  # noqa: BLE001  the client gets an answer, whatever is wrong
            await send_answer(noting(scope, send), failure(error), self._state.hide)
            return
        if wants_events:
            stream = _Stream(self._state, self, name, arguments, options)
            await send_events(EventStream(stream.run), receive, noting(scope, send), self._state.hide)
            return
        errors: list[BaseException] = []
        if options:
            refusal_listener.set(errors.append)
        result = await self._call(name, arguments, options, receive)
        if result is not None:
            scope[HAS_BEGUN] = True
            status = next((_KEY_REFUSED.get(type(error), 200) for error in errors), 200)
            await send_json(send, self._state.hide(envelope(result)), status)

    async def _call(self, name: str, arguments: Any, options: dict[str, Any], receive: Receive) -> ToolResult | None:
        """The answer; None if nobody waits for it any more."""
        watch = _Watch(asyncio.current_task(), receive)
        self._young[watch] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SOON, self._look, None)
        try:
            return await self.execute(name, arguments, options)
        except asyncio.CancelledError:
            if watch.is_gone:
                return None
            raise
        finally:
            if watch.task is None:
                self._young.pop(watch, None)
            else:
                await watch.end()

    def _look(self, last: _Watch | None) -> None:
        """Watch the clients of calls that were there the last time, up to `last`: one timer for all calls."""
        self._timer = None
        if not self._young:
            return
        if last in self._young:
            for watch in list(self._young):
                del self._young[watch]
                watch.start()
                if watch is last:
                    break
        if self._young:
            newest = next(reversed(self._young))
            self._timer = asyncio.get_running_loop().call_later(_SOON, self._look, newest)

    async def execute(
        self, name: str, arguments: Any, options: dict[str, Any], on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Make the call. One with a key goes on if this is cancelled: its client repeats it, and wants its answer.

        Who is told of its progress can wait, also for the answer of a person.
        """
        if not options and on_progress is None:
            return await self._executor.execute(name, arguments)
        key, timeout = options.get("key"), options.get("timeout")
        on_approval = None if on_progress is None else wait_for_answer
        with calling_as(Caller(False, options.get("conversation") or "", on_approval)):
            calling = self._executor.execute(name, arguments, timeout=timeout, on_progress=on_progress, key=key)
            if key is None:
                return await calling
            task = asyncio.create_task(calling)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return await asyncio.shield(task)

    def _options(self, request: Any, key_header: bytes | None) -> dict[str, Any]:
        """What is said beside the arguments. Raises RequestError."""
        timeout = request.get("timeout") if type(request) is dict else None
        if type(timeout) in (int, float) and not is_seconds(timeout):
            raise RequestError(400, f"timeout must be a number of seconds > 0; got {show(timeout)}")
        self.operation.check_body(request)
        key = request.get("key")
        if key_header is not None:
            said = unquoted(key_header.decode("latin-1"))
            if key is not None and key != said:
                raise RequestError(400, f"the call has two keys: in its body, and in the header {HEADER}")
            key = said
        return {"key": key, "timeout": timeout, "conversation": request.get("conversation")}

    async def _never(self, request: ApiRequest) -> Any:
        raise AssertionError("calls are answered by `answer`")


class _Watch:
    """Cancels a call whose client has left."""

    __slots__ = ("_caller", "_receive", "is_gone", "task")

    def __init__(self, caller: asyncio.Task[Any] | None, receive: Receive) -> None:
        self._caller = caller
        self._receive = receive
        self.is_gone = False
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._watch())

    async def end(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _watch(self) -> None:
        await wait_until_gone(self._receive)
        self.is_gone = True
        assert self._caller is not None
        self._caller.cancel()


class _Stream:
    """One call that is answered in events."""

    def __init__(self, state: ApiState, route: CallRoute, name: str, arguments: Any, options: dict[str, Any]) -> None:
        self._state = state
        self._route = route
        self._call = (name, arguments, options)
        self._reports: deque[Progress | LogLine] = deque(maxlen=_MAX_REPORTS)
        self._news = asyncio.Event()

    async def run(self, write: Write) -> None:
        task = asyncio.create_task(self._execute())
        try:
            await asyncio.sleep(0)  # it runs up to where it waits for something
            running = self._state.running_calls.of_task(task)
            await write("started", {"call": None if running is None else running.id})
            while not task.done() or self._reports:
                while self._reports:
                    await write(*_event(self._reports.popleft()))
                self._news.clear()
                if not task.done():
                    await self._news.wait()
            await write("result", envelope(await task))
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _execute(self) -> ToolResult:
        log_listener.set(self._report)  # in the task of this call alone
        try:
            return await self._route.execute(*self._call, on_progress=self._report)
        finally:
            self._news.set()

    def _report(self, said: Progress | LogLine) -> None:
        self._reports.append(said)
        self._news.set()


def _event(it: Progress | LogLine) -> tuple[str, dict[str, Any]]:
    if isinstance(it, LogLine):
        return "log", it._asdict()
    return "progress", {"progress": it.progress, "total": it.total, "message": it.message}


async def wait_for_answer(request: ApprovalRequest) -> Answer | None:
    """Somebody answers with /api/approvals, and then this is cancelled."""
    await asyncio.Event().wait()
    return None


def envelope(result: ToolResult) -> dict[str, Any]:
    """The answer as programs get it, and as a model would read it."""
    return {**result.to_dict(full=True), "text": result.text}
