"""What the journal knows: the calls, one of them in full, what they were like by tool and over time, conversations."""

from __future__ import annotations

from time import time_ns
from typing import Any, Final

from typing_extensions import TypedDict  # pydantic, which needs it, brings it

from toolrun.journal.call_page import OUTCOMES, CallFilter, TimeSpan, percentile
from toolrun.journal.call_record import read_id, show_id
from toolrun.journal.history import History, PastCall
from toolrun.journal.kept_conversation import KeptConversation
from toolrun.journal.tool_statistics import ToolStatistics
from toolrun.json import JSONDecodeError, loads
from toolrun.server.api_state import ApiState
from toolrun.server.call_view import CallDetail, CallRow, view_call, view_row
from toolrun.server.operation import ApiRequest, Operation, Parameter
from toolrun.server.request_error import RequestError
from toolrun.text import shown_name

_EVER: Final = 1 << 62
_SECOND: Final = 1_000_000
_HOUR: Final = 3600 * _SECOND
_SLOTS: Final = 120
"""Spans of time, if nobody says how long one is."""
_MAX_SLOTS: Final = 2_000
_SINCE: Final = Parameter(
    "since", "From this time on: `10m`, `2h`, `14:30`, `2026-11-16`, or as answers have it.", "time"
)
_TOOL: Final = Parameter("tool", "The name of a tool.")
MISSING_CALL: Final = {404: "There is no such call."}


class CallsAnswer(TypedDict):
    """A page of calls, the newest first."""

    calls: list[CallRow]
    next: str | None
    """What to send as `before` for the next page; null at the end. A search may find nothing on a page."""
    total: int | None
    """How many there are on all pages, on the first one; null on others, and for a search (`q`, `consumer`)."""


class SlowestCall(TypedDict):
    """The call that took longest."""

    id: str
    run_us: int


class ToolStatisticsView(TypedDict):
    """What the calls of a tool were like."""

    tool: str
    calls: int
    failed: int
    outcomes: dict[str, int]
    """`ok`, or why they failed, and how often."""
    repairs: dict[str, int]
    """Why arguments were repaired, and how often."""
    p50_us: int
    p95_us: int
    p99_us: int
    slowest: SlowestCall | None


class StatsAnswer(TypedDict):
    """By tool, the most used first."""

    tools: list[ToolStatisticsView]


class SeriesAnswer(TypedDict):
    """Lists of the same length, with one item for each span of time in which calls began."""

    times: list[int]
    """Seconds since 1970 at which a span begins."""
    step: float
    """Seconds."""
    outcomes: dict[str, list[int]]
    repaired: list[int]
    p50_ms: list[float | None]
    p95_ms: list[float | None]
    p99_ms: list[float | None]
    busy: list[float]
    """How many calls ran at once, on average."""
    busy_workers: list[float]
    """How many of them in workers."""


class ConversationView(TypedDict):
    """A stored conversation."""

    id: str
    consumer: str
    model: str
    created_at: int
    updated_at: int
    messages: int
    questions: int
    first_question: str
    """The beginning of it."""


class ConversationsAnswer(TypedDict):
    """Those that were used last, the newest first."""

    conversations: list[ConversationView]
    total: int
    """How many there are, also beyond `limit`."""


class MessageView(TypedDict):
    """A message as it is stored."""

    role: str
    at: int
    body: Any


class ConversationAnswer(TypedDict):
    """A conversation with its messages, and the calls that were made in it."""

    id: str
    model: str
    messages: list[MessageView]
    calls: list[CallRow]


def history_operations(state: ApiState) -> list[Operation]:
    routes = _HistoryRoutes(state)
    paging = (
        Parameter("before", "`next` of the page before."),
        Parameter("limit", "Calls on a page.", "number", 50, 1, 500),
    )
    filters = (
        _TOOL,
        Parameter("outcome", "What became of them.", "|".join(OUTCOMES)),
        Parameter("q", "Text in the arguments, the result or the error."),
        _SINCE,
        Parameter("until", "Before this time.", "time"),
        Parameter("conversation", "The id of a stored conversation."),
        Parameter("consumer", "Who made them, such as `serve`, `chat` or `cli`."),
    )
    step = Parameter("step", "Seconds of each span; 0 for a good one.", "number", 0, 0, 86_400)
    return [
        Operation("GET", "/api/calls", routes.calls, "List the calls", CallsAnswer, query=(*filters, *paging)),
        Operation("GET", "/api/calls/{id}", routes.call, "Show a call", CallDetail, failures=MISSING_CALL),
        Operation(
            "GET", "/api/stats", routes.stats, "Statistics of calls, by tool", StatsAnswer, query=(_SINCE, _TOOL)
        ),
        Operation(
            "GET",
            "/api/series",
            routes.series,
            "Statistics of calls over time",
            SeriesAnswer,
            query=(_SINCE, step, _TOOL),
        ),
        Operation(
            "GET",
            "/api/conversations",
            routes.conversations,
            "List stored conversations",
            ConversationsAnswer,
            query=(Parameter("limit", "How many.", "number", 50, 1, 500),),
        ),
        Operation(
            "GET",
            "/api/conversations/{id}",
            routes.conversation,
            "Show a stored conversation",
            ConversationAnswer,
            failures={404: "There is no such conversation."},
        ),
    ]


class _HistoryRoutes:
    def __init__(self, state: ApiState) -> None:
        self._read = state.read

    async def calls(self, request: ApiRequest) -> CallsAnswer:
        asked = request.query
        wanted = CallFilter(
            tool=asked["tool"] or "",
            outcome=asked["outcome"] or "",
            text=asked["q"] or "",
            since=asked["since"] or 0,
            until=asked["until"] or _EVER,
            conversation=asked["conversation"] or "",
            consumer=asked["consumer"] or "",
        )

        def look(history: History) -> CallsAnswer:
            try:
                calls, more = history.page(wanted, asked["before"] or "", asked["limit"])
            except ValueError as error:
                raise RequestError(400, f"before: {error}") from None
            total = None if asked["before"] else history.count(wanted)
            return {"calls": [view_row(it, history.is_alive) for it in calls], "next": more, "total": total}

        return await self._read(look)

    async def call(self, request: ApiRequest) -> CallDetail:
        return await self._read(lambda history: view_call(history, find_call(history, request.parts["id"])))

    async def stats(self, request: ApiRequest) -> StatsAnswer:
        since, tool = request.query["since"] or 0, request.query["tool"] or ""
        found = await self._read(lambda history: history.statistics(since, tool))
        return {"tools": [_view_statistics(it) for it in found]}

    async def series(self, request: ApiRequest) -> SeriesAnswer:
        now = time_ns() // 1000
        since = request.query["since"] or now - _HOUR
        if since >= now:
            raise RequestError(400, "since must be in the past")
        step = request.query["step"] * _SECOND or max(_SECOND, (now - since) // _SLOTS // _SECOND * _SECOND)
        since -= since % step
        if (now - since) // step > _MAX_SLOTS:
            raise RequestError(400, f"step is too short: there would be more than {_MAX_SLOTS:,} spans")
        slots = await self._read(lambda history: history.over_time(since, now, step, request.query["tool"] or ""))
        return _view_series(slots, since, step, now)

    async def conversations(self, request: ApiRequest) -> ConversationsAnswer:
        limit = request.query["limit"]
        found, total = await self._read(lambda it: (it.conversations(limit), it.count_conversations()))
        return {"conversations": [_view_conversation(it) for it in found], "total": total}

    async def conversation(self, request: ApiRequest) -> ConversationAnswer:
        id = request.parts["id"]

        def look(history: History) -> ConversationAnswer:
            known = history.conversation(id)
            if known is None:
                raise RequestError(404, history.unknown_conversation(id))
            calls, _ = history.page(CallFilter(conversation=id), limit=500)
            return {
                "id": known.name,
                "model": known.model,
                "messages": [
                    {"role": role, "at": at, "body": _parsed(body)} for role, body, at in history.messages(id)
                ],
                "calls": [view_row(it, history.is_alive) for it in calls],
            }

        return await self._read(look)


def find_call(history: History, shown: str) -> PastCall:
    """The call that a client means. Raises RequestError."""
    id = read_id(shown)
    call = None if id is None else history.call(id)
    if call is None:
        raise RequestError(404, f"there is no call {shown_name(shown)} in the journal; ids are like 17-204")
    return call


def _view_conversation(it: KeptConversation) -> ConversationView:
    return {
        "id": it.conversation,
        "consumer": it.consumer,
        "model": it.model,
        "created_at": it.created_at,
        "updated_at": it.updated_at,
        "messages": it.messages,
        "questions": it.questions,
        "first_question": it.first_question,
    }


def _view_statistics(it: ToolStatistics) -> ToolStatisticsView:
    run_us, id = it.slowest
    return {
        "tool": it.tool,
        "calls": it.calls,
        "failed": it.failed,
        "outcomes": dict(it.outcomes),
        "repairs": dict(it.repairs),
        "p50_us": it.p50_us,
        "p95_us": it.p95_us,
        "p99_us": it.p99_us,
        "slowest": {"id": show_id(id), "run_us": run_us} if id else None,
    }


def _view_series(slots: list[TimeSpan], since: int, step: int, now: int) -> SeriesAnswer:
    for slot in slots:
        slot.run_us.sort()

    def part(number: float) -> list[float | None]:
        return [percentile(it.run_us, number) / 1000 if it.run_us else None for it in slots]

    last = (now - since) - (len(slots) - 1) * step or step
    lengths = [step] * (len(slots) - 1) + [last]
    return {
        "times": [(since + number * step) // _SECOND for number in range(len(slots))],
        "step": step / _SECOND,
        "outcomes": {name: [it.outcomes[name] for it in slots] for name in OUTCOMES},
        "repaired": [it.repaired for it in slots],
        "p50_ms": part(0.50),
        "p95_ms": part(0.95),
        "p99_ms": part(0.99),
        "busy": [round(it.busy_us / length, 3) for it, length in zip(slots, lengths, strict=True)],
        "busy_workers": [round(it.worker_us / length, 3) for it, length in zip(slots, lengths, strict=True)],
    }


def _parsed(body: str) -> Any:
    try:
        return loads(body)
    except JSONDecodeError:
        return body
