"""Keys: a caller who says "this is the same call" gets what became of it, and the call is not made a second time.

Equal arguments never make two calls the same; only the caller can know that. What a repeat gets:

    done, or settled as done           the stored answer; if that was not kept: it runs again if it has no effects, or
                                       always the same ones, and otherwise is an error
    failed, refused, settled not done  nothing: it runs again
    running                            the answer when it is there, also from another process
    in doubt                           it runs again if that does no harm; `verify` may say what happened;
                                       otherwise an error that says which call is in doubt
    the same key, another call         an error

A key belongs to the newest attempt. Taking it is one transaction with the start row of that attempt, so of many who
want it one gets it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Final

from toolrun.errors import CallTimeoutError, InDoubtError, InvalidArgumentsError, SideEffects, UnavailableError
from toolrun.execution.call_journal import KeyTakenError
from toolrun.execution.finalise import Finalised
from toolrun.journal.attempt import Attempt, RunsIn
from toolrun.journal.call_record import CallRecord, CallState, show_id
from toolrun.journal.statements import sql
from toolrun.journal.stored_answer import read_answer
from toolrun.json import JSON, dumps, loads
from toolrun.redaction import Redactor
from toolrun.result import normalise
from toolrun.tools.effects import HARMLESS, Effects

if TYPE_CHECKING:
    from toolrun.journal.journal import Journal
    from toolrun.tools.context import Call

_POLL: Final = (0.05, 0.1, 0.25)
"""Seconds between looks at a call that runs in another process."""
_MAY_REPEAT: Final = HARMLESS | {Effects.KEYED}


@dataclass(frozen=True, slots=True)
class _RunningKey:
    loop: asyncio.AbstractEventLoop
    ended: asyncio.Event


@dataclass(frozen=True, slots=True)
class KeyedCall:
    """The newest attempt under a key."""

    id: int
    process: int
    state: str
    fingerprint: bytes | None
    attempt: int
    at: int
    effects: str | None
    settled_as: str | None
    error: str | None
    ended_at: int | None
    given_up_at: int
    place: str
    settle_us: int
    tool: str
    answer: str | None

    @property
    def is_done(self) -> bool:
        return self.state == CallState.DONE or self.settled_as == "done"

    @property
    def may_run_again(self) -> bool:
        """Whether the attempt is over, and another one is needed and does no harm."""
        if self.is_done:
            return self.answer is None and self.effects in HARMLESS
        if self.state in (CallState.FAILED, CallState.CANCELLED, CallState.REFUSED) or self.settled_as == "not_done":
            return True
        return self.state == CallState.IN_DOUBT and self.effects in _MAY_REPEAT


class KeyInUseError(InvalidArgumentsError):
    """The key is that of another call."""


class StillRunningError(CallTimeoutError):
    """The call with the key runs longer than its repeat could wait."""


class DoubtError(InDoubtError):
    """The call with the key is in doubt, and this attempt is the one."""

    def __init__(self, found: KeyedCall, program: str, advice: str = "") -> None:
        place = RunsIn(found.place)
        self.attempt = Attempt(
            found.id, found.process, found.given_up_at, found.ended_at, place=place, settle_us=found.settle_us
        )
        self._found = found
        self._program = program
        shown = show_id(found.id)
        if advice:
            super().__init__(advice.format(call=shown))
            return
        advice = f"Find out, then run: {program} effects settle {shown} --done (or --not-done)"
        super().__init__(
            f"Call {shown} of '{found.tool}' with this key may have acted, and nobody knows whether it did. "
            f"toolrun does not repeat it. {advice}"
        )

    def while_it_may_act(self) -> DoubtError:
        """The same for a call that has not acted yet."""
        return DoubtError(
            self._found,
            self._program,
            "Call {call} has not acted so far, but may still be running. Repeat it later with its key.",
        )


def hash_key(scope: str, key: str) -> bytes:
    """The key as it is stored and passed on: opaque, and different for each principal."""
    text = f"{len(scope)} {scope} {key}"  # with the length, because both may contain anything
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def inherit_key(call: Call, parent: Call) -> bytes:
    """The key of a call that the tool of a call with a key makes: the same when that call is made again.

    A program has no names for its steps, so this is the one key with arguments in it. It does not depend on the order
    of calls that are made side by side; of equal ones the number counts. A call that was not done has no number of its
    own: who makes it again means the same step.
    """
    assert parent.key is not None
    assert call.fingerprint is not None
    if parent.steps is None:
        parent.steps = {}
    numbers = parent.steps.setdefault(call.fingerprint, set())
    call.step = next(it for it in count(1) if it not in numbers)
    numbers.add(call.step)
    return hashlib.sha256(b"step\0" + parent.key + call.fingerprint + call.step.to_bytes(8, "big")).digest()[:16]


def leave_step(call: Call) -> None:
    """The call was not done, as far as is known."""
    if call.parent is not None and call.parent.steps is not None and call.fingerprint is not None:
        call.parent.steps[call.fingerprint].discard(call.step)


def fingerprint(tool: str, arguments: object, redactor: Redactor, filled: str | None = None) -> bytes:
    """Tells whether a key is used for another call. Not part of the key: then that could not be noticed.

    Secrets are left out, because who has the file could try values until the hash fits. So is what a model makes up,
    anew for each attempt, for a parameter that toolrun fills itself.
    """
    given = arguments
    if isinstance(arguments, str | bytes):
        with contextlib.suppress(ValueError):  # what was repaired stays as it came
            given = loads(arguments)
    if filled is not None and isinstance(given, dict):
        given = {name: value for name, value in given.items() if name != filled}
    text = dumps(normalise(redactor.value(normalise(given))), sort_keys=True)
    return hashlib.sha256(tool.encode("utf-8", "surrogatepass") + b"\0" + text).digest()[:16]


class Ledger:
    """What is known of keys, in one journal."""

    def __init__(self, journal: Journal, program: str = "toolrun") -> None:
        self._journal = journal
        self._program = program
        self._running: dict[bytes, _RunningKey] = {}
        """Calls of this process, by key."""

    async def look_up(self, call: Call, tool: str) -> Finalised | None:
        """What a call returned that was made before; None if the call is to be made. Raises CallError."""
        key = call.key
        assert key is not None
        found: KeyedCall | None = None
        try:
            async with asyncio.timeout(call.remaining()):
                for pause in _pauses():
                    found = await asyncio.wrap_future(self._journal.run(lambda connection: self._find(connection, key)))
                    if found is None or not self._is_running(found, tool, call.fingerprint):
                        break
                    await self._wait(call, key, pause)
        except TimeoutError:
            raise _still_waiting(call, found) from None
        if found is None or found.may_run_again:
            return None
        call.replayed_from = found.id
        value, call.edited = _replayed(found)
        return value

    def claim(self, record: CallRecord) -> asyncio.Future[None]:
        """Take the key for a call that is about to run, and write its start. KeyTakenError if somebody was faster."""
        record.claim = self._journal.run(lambda connection: self._claim(connection, record))
        claiming = asyncio.wrap_future(record.claim)
        claiming.add_done_callback(lambda done: self._claimed(record, done))
        return claiming

    def withdraw(self, record: CallRecord) -> bool:
        """The call does not run after all. Returns whether it has the key, or will have it."""
        claim = record.claim
        assert claim is not None
        return not claim.cancel() and (not claim.done() or claim.exception() is None)

    def release(self, record: CallRecord) -> None:
        """The call is over: those who wait for it may look."""
        if record.key is not None:
            running = self._running.pop(record.key, None)
            if running is not None:
                running.ended.set()

    def _claimed(self, record: CallRecord, claiming: asyncio.Future[None]) -> None:
        if record.key is not None and not claiming.cancelled() and claiming.exception() is None:
            self._running[record.key] = _RunningKey(claiming.get_loop(), asyncio.Event())

    def _find(self, connection: sqlite3.Connection, key: bytes) -> KeyedCall | None:
        row = connection.execute(sql("find_key"), (key,)).fetchone()
        if row is None:
            return None
        found = KeyedCall(*row)
        if found.state == CallState.STARTED and not self._journal.is_alive(found.process):
            connection.execute(sql("doubt_calls_of"), (found.process,))
            return KeyedCall(*connection.execute(sql("find_key"), (key,)).fetchone())
        return found

    def _claim(self, connection: sqlite3.Connection, record: CallRecord) -> None:
        assert record.key is not None
        found = self._find(connection, record.key)
        if found is not None:
            if not found.may_run_again:
                raise KeyTakenError
            connection.execute(sql("give_up_key"), (found.id,))
            record.attempt = found.attempt + 1
        self._journal.write_now(connection, record)

    def _is_running(self, found: KeyedCall, tool: str, print_: bytes | None) -> bool:
        """Whether to wait for the call that has the key. Raises CallError for one that must not be repeated."""
        if found.fingerprint != print_ or found.tool != tool:
            raise KeyInUseError(
                f"The key is already in use for another call, {show_id(found.id)} of '{found.tool}'. "
                "Use a new key for another tool or other arguments."
            )
        if found.is_done or found.may_run_again:
            return False
        if found.state == CallState.IN_DOUBT:
            raise DoubtError(found, self._program)
        return True

    async def _wait(self, call: Call, key: bytes, pause: float) -> None:
        """Wait until there may be news of the call that runs under the same key."""
        caller = call.parent
        while caller is not None:
            if caller.key == key:
                raise InvalidArgumentsError("The call would wait for itself: the call that makes it has the same key.")
            caller = caller.parent
        running = self._running.get(key)
        is_here = running is not None and running.loop is asyncio.get_running_loop()
        await (running.ended.wait() if running is not None and is_here else asyncio.sleep(pause))


def _pauses() -> Iterator[float]:
    yield from _POLL
    while True:
        yield _POLL[-1]


def _replayed(found: KeyedCall) -> tuple[Finalised, JSON]:
    if found.answer is not None:
        return read_answer(found.answer)
    moment = datetime.fromtimestamp(found.at / 1_000_000).astimezone()
    raise UnavailableError(
        f"The call with this key was done on {moment:%Y-%m-%d at %H:%M:%S} (call {show_id(found.id)}); "
        "its answer was not kept. toolrun does not make it again.",
        side_effects=SideEffects.DONE,
    )


def _still_waiting(call: Call, found: KeyedCall | None) -> CallTimeoutError:
    if found is None:
        return CallTimeoutError(
            f"Tool '{call.name}' did not start: the journal did not answer before the deadline",
            side_effects=SideEffects.NOT_STARTED,
        )
    return StillRunningError(f"Call {show_id(found.id)} with the same key is still running")
