"""Calls of an executor as records of a journal: what they were asked, what was run, how they ended."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from itertools import islice
from time import perf_counter, time_ns
from typing import Any, Final

from toolrun.errors import ErrorKind, InvalidArgumentsError, SideEffects
from toolrun.execution.call_journal import PARENTS_KEY
from toolrun.execution.finalise import Finalised
from toolrun.execution.prepared import PreparedTool
from toolrun.journal.attempt import has_ended, is_killed, runs_in, settle_time
from toolrun.journal.call_record import MORE, CallRecord, CallState, Ending, ToolRow
from toolrun.journal.conversation_row import current_conversation
from toolrun.journal.journal import Journal
from toolrun.journal.ledger import DoubtError, Ledger, fingerprint, hash_key, inherit_key, leave_step
from toolrun.journal.stored_answer import finalised_result, write_answer
from toolrun.journal.verdict import state_of_failure, state_of_outcome
from toolrun.journal.verification import Verdict, Verification, can_verify
from toolrun.journal.writer_job import NotRecordedError
from toolrun.json import JSON, dumps
from toolrun.redaction import Redactor
from toolrun.result import ToolResult, is_small, normalise
from toolrun.text import show
from toolrun.tools.context import Call, CallKey
from toolrun.tools.definition import hash_definition
from toolrun.tools.key_argument import KeyArgument
from toolrun.tools.protocol import source_of

_MAX_KEY: Final = 255
_LEAST_TIME: Final = 0.001
_MAX_NAME: Final = 128
"""Characters of the name of a tool that does not exist."""
_MAX_MEMBERS: Final = 100
_MAX_TEXT: Final = 10_000
"""Characters of a text that is written without a thought about its length."""
_DONE: Final = CallState.DONE
_new: Final = tuple.__new__
"""Makes an `Ending` in a third of the time that its own constructor takes."""
_NUMBERS: Final = frozenset({int, float, bool, type(None)})


class CallRecorder:
    """What an executor tells of its calls, for one journal."""

    def __init__(self, journal: Journal, *, is_required: bool = False, program: str = "toolrun") -> None:
        """`program` is how a person runs toolrun in this project."""
        self.journal = journal
        self._journal = journal
        self._is_required = is_required
        self._ledger = Ledger(journal, program)
        self.verification = Verification(journal, self)
        self.is_full = journal.is_full
        self._add = journal.add
        self._end = journal.end
        self._new_id = journal.new_id

    @property
    def problem(self) -> str | None:
        return self._journal.problem

    async def drain(self) -> None:
        with contextlib.suppress(NotRecordedError):  # what cannot be written does not stay in the queue
            await self._journal.drain()

    def set_key(self, call: Call, prepared: PreparedTool, key: str | CallKey) -> None:
        text, scope = (key.key, key.scope) if type(key) is CallKey else (key, "")
        if key is not PARENTS_KEY and (type(text) is not str or not 0 < len(text) <= _MAX_KEY):
            raise InvalidArgumentsError(f"Invalid key: a key is text of 1 to {_MAX_KEY} characters; {_what(text)}")
        given = call.arguments if call.sent is None else call.sent
        filled = getattr(prepared.tool, "key_argument", None)
        name = filled.name if isinstance(filled, KeyArgument) else None
        call.fingerprint = fingerprint(prepared.name, given, self._journal.redactor, name)
        if key is PARENTS_KEY:
            assert call.parent is not None
            call.key = inherit_key(call, call.parent)
        else:
            call.key = hash_key(scope, str(text))

    async def look_up(self, call: Call, prepared: PreparedTool) -> Finalised | None:
        while True:
            try:
                return await self._ledger.look_up(call, prepared.name)
            except DoubtError as doubt:
                known = await self._verify(call, prepared, doubt)
            if known is not None:
                return known

    async def _verify(self, call: Call, prepared: PreparedTool, doubt: DoubtError) -> Finalised | None:
        """The answer of the call in doubt, if it has acted; None if its key is to be looked up again."""
        if call.key is None or not can_verify(prepared):
            raise doubt
        attempt, timeout = doubt.attempt, call.remaining() / 2  # the rest is for the call itself
        found = await self.verification.settle(
            call.host, prepared, attempt, call.key.hex(), call.arguments, max(timeout, _LEAST_TIME)
        )
        if found.verdict is Verdict.TOO_EARLY:
            raise doubt.while_it_may_act()
        if found.verdict is Verdict.UNKNOWN:
            raise doubt
        if found.verdict is Verdict.NOT_DONE or found.problem is not None:
            return None
        call.replayed_from = attempt.id
        return Finalised(found.result, (), None)

    def start(self, call: Call, prepared: PreparedTool) -> asyncio.Future[None] | None:
        """A call that may act waits until its start is on disk; any other is written when there is time."""
        queued_us = int((perf_counter() - call.started) * 1_000_000)
        record = call.record = self._record(call, prepared, queued_us, queued_us)
        if prepared.is_harmless and call.key is None:
            self._add(record)
            return None
        call.on_late_end = partial(self._ended_late, call, record, prepared)
        if call.key is not None:
            record.key, record.fingerprint = call.key, call.fingerprint
            return self._ledger.claim(record)
        assert call.loop is not None
        if self._is_required:
            record.is_required = True
        return self._journal.add_and_wait(record, call.loop)

    def withdraw(self, call: Call) -> None:
        record = call.record
        assert isinstance(record, CallRecord)
        if record.key is not None and not self._ledger.withdraw(record):
            call.record = None  # the key is another call's, so this one is recorded without it
        record.is_withdrawn = True

    def finish(self, call: Call, prepared: PreparedTool | None, result: ToolResult) -> None:
        record: CallRecord | None = call.record  # type: ignore[assignment]  # nobody else makes one
        took_us = int(result.execution_time_ms * 1000)
        if record is None:
            self._finish_at_once(call, prepared, result, took_us)
            return
        result.record = (record.id, call.given_key)
        ending = self._ending(call, prepared, result, took_us - record.queued_us)
        if call.log is not None:
            record.log = call.log
        if call.on_late_end is None:  # it has neither effects nor a key, as most calls
            self._end(record, ending)
            return
        _leave_step(call, result)
        if record.is_withdrawn:
            record.ending = _refusal(result, took_us - record.queued_us)
            self._add(record)
        else:
            is_urgent = prepared is None or not prepared.is_harmless
            self._end(record, ending, is_urgent)
            if record.late_outcome is not None and prepared is not None:
                self._ended_late(call, record, prepared, *record.late_outcome)
            elif ending.state is CallState.IN_DOUBT and prepared is not None:
                self._note_end(call, record, prepared, call.error, is_late=False)
        if record.key is not None:
            self._ledger.release(record)

    def _finish_at_once(self, call: Call, prepared: PreparedTool | None, result: ToolResult, took_us: int) -> None:
        """Record a call that had no start: it was refused, or it ran inline, as most calls of most programs do."""
        if (
            result.error is None
            and prepared is not None
            and call.sent is None
            and call.parent is None
            and call.log is None
            and result.rendered is None
            and type(known := prepared.recorded) is ToolRow
            and (arguments := _short_text(call.arguments)) is not None
        ):  # with as little as possible
            self._add((known, prepared.effects, time_ns(), took_us, arguments, _text(result.result), call.given_id))
            return
        _leave_step(call, result)
        record = self._record(call, prepared, took_us)
        result.record = (record.id, call.given_key)
        is_inline = prepared is not None and prepared.inline is not None and prepared.is_harmless
        has_run = is_inline and call.key is None  # with a key it has a start
        if has_run and result.side_effects is not SideEffects.NOT_STARTED:
            record.ending = self._ending(call, prepared, result, took_us)
        else:
            record.ending = _refusal(result, took_us)
        self._add(record)

    def _ended_late(
        self, call: Call, record: CallRecord, prepared: PreparedTool, value: object, error: BaseException | None
    ) -> None:
        """The body has ended after its call was answered: perhaps nobody needs to doubt any more what it did."""
        if record.ending is None:  # the answer is on its way to whoever waits for it
            record.late_outcome = (value, error)
            return
        if record.ending.state is not CallState.IN_DOUBT:
            return
        match state_of_outcome(value, error, prepared.effects):
            case CallState.DONE if (result := finalised_result(prepared.name, value)) is not None:
                answer = None if record.key is None else write_answer(result)
                self._journal.settle(record.id, "done", "late", _text(result.result), answer)
            case CallState.DONE:
                self._journal.settle(record.id, "done", "late")
            case CallState.FAILED:
                self._journal.settle(record.id, "not_done", "late")
            case _:
                self._note_end(call, record, prepared, error, is_late=True)

    def _note_end(
        self, call: Call, record: CallRecord, prepared: PreparedTool, error: BaseException | None, *, is_late: bool
    ) -> None:
        """A call in doubt cannot act any more, or not for long: `verify` is believed when it says that it has not."""
        if call.gone is not None and is_killed(error):
            call.gone.add_done_callback(lambda _: self._journal.attempt_ended(record.id))
        elif has_ended(prepared.tool, error, is_late=is_late):
            self._journal.attempt_ended(record.id)

    def _record(self, call: Call, prepared: PreparedTool | None, age_us: int, queued_us: int = 0) -> CallRecord:
        if prepared is None:
            tool, effects = _unknown(call.name, self._journal.redactor), None
        else:
            known, effects = prepared.recorded, prepared.effects
            if type(known) is not ToolRow:
                known = prepared.recorded = _describe(prepared)
            tool = known
        arguments, at = _short_text(call.arguments), time_ns() // 1000 - age_us
        if arguments is not None:
            record = CallRecord(self._new_id(), tool, at, arguments, effects, queued_us)
        else:
            record = CallRecord(self._new_id(), tool, at, _head(call.arguments), effects, queued_us)
            record.is_cut = True
        if call.given_id is not None:
            record.given_id = call.given_id
        if call.sent is not None:
            original = _short_text(call.sent)
            record.original = _head(call.sent) if original is None else original
            if call.repairs:
                record.repairs = _text(normalise(call.repairs))
        if call.approval is not None:
            record.approval = call.approval
        if call.dropped:
            record.dropped = _text(normalise(call.dropped))
        if call.log is not None:
            record.log = call.log
        if call.parent is not None and isinstance(call.parent.record, CallRecord):
            record.parent = call.parent.record.id
        if (conversation := current_conversation.get()) is not None:
            record.conversation = conversation
        return record

    def _ending(self, call: Call, prepared: PreparedTool | None, result: ToolResult, run_us: int) -> Ending:
        if result.error_kind is None:
            text = _text(result.result if result.rendered is None else result.rendered)
            answer = None if call.key is None else write_answer(result)
            return _new(Ending, (_DONE, run_us, text, None, None, None, answer))
        effects = None if prepared is None else prepared.effects
        state = state_of_failure(result.error_kind, result.side_effects, call.error, effects)
        if state is CallState.IN_DOUBT:
            result.side_effects = SideEffects.UNKNOWN  # whatever it raised: its author says that effects matter
        side_effects = None if result.side_effects is None else result.side_effects.value
        return Ending(state, run_us, None, result.error, result.error_kind.value, side_effects)


def _leave_step(call: Call, result: ToolResult) -> None:
    if call.step and result.error is not None and result.side_effects is not SideEffects.DONE:
        leave_step(call)


def _what(key: object) -> str:
    if isinstance(key, str):
        return f"this one has {len(key)}" if key else "this one is empty"
    return f"got {show(key)}"


def _refusal(result: ToolResult, run_us: int) -> Ending:
    if result.error_kind is ErrorKind.CANCELLED:
        result.side_effects = SideEffects.NOT_STARTED  # nobody else knows that its body has not begun
    kind = None if result.error_kind is None else result.error_kind.value
    return Ending(CallState.REFUSED, run_us, None, result.error, kind, SideEffects.NOT_STARTED.value)


def _unknown(name: object, redactor: Redactor) -> ToolRow:
    """What somebody took for the name of a tool may be anything, a secret too."""
    if not isinstance(name, str):
        return ToolRow(f"<{type(name).__name__}>", "", "")
    return ToolRow(name if len(name) <= _MAX_NAME else redactor.hide_cut(name[:_MAX_NAME]), "", "")


def _describe(prepared: PreparedTool) -> ToolRow:
    tool = prepared.tool
    return ToolRow(tool.name, source_of(tool), hash_definition(tool), runs_in(tool), settle_time(prepared))


def _short_text(value: object) -> str | None:
    """JSON text of a value that can be written on the event loop, where nothing may take long; None of any other."""
    if type(value) is dict and len(value) <= _MAX_MEMBERS:
        for item in value.values():
            if type(item) not in _NUMBERS and (type(item) is not str or len(item) > _MAX_TEXT):
                break
        else:
            return _text(value)
    return _text(value) if is_small(value) else None


def _text(value: object) -> str:
    """JSON text of a value that may be changed later, or may be no JSON.

    Decoded at once: the bytes that orjson makes keep a page of memory each, and a new page costs more than the call.
    """
    try:
        return dumps(value).decode()
    except (TypeError, ValueError):
        return dumps(normalise(value)).decode()


def _head(value: object) -> str:
    """The beginning of a value of any type and size, without asking it for anything."""
    if isinstance(value, str | bytes):
        return _text(value[:_MAX_TEXT])
    if type(value) is dict:
        head = {str(name)[:_MAX_TEXT]: _beginning(item) for name, item in islice(value.items(), _MAX_MEMBERS)}
        if len(value) > _MAX_MEMBERS:
            head[MORE] = f"{len(value) - _MAX_MEMBERS} more"
        return _text(head)
    return _text(_beginning(value))


def _beginning(value: Any) -> JSON:
    if type(value) is str:
        return value[:_MAX_TEXT]
    return value if type(value) in _NUMBERS else f"<{type(value).__name__}>"
