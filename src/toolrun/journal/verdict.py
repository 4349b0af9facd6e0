"""What a journal says of a call that has ended: did its effect happen? Pure.

An exception is no proof that nothing happened. `httpx.ReadTimeout` comes after a request was sent, and a `KeyError` may
come while its answer is read. So where the author says that effects matter, only `ToolError`, the author's own word,
means that nothing happened. What a worker or a server reports of an exception is not the author's word. Where nobody
says that effects matter, a refused connection or an unresolved name means that nothing was sent.
"""

from __future__ import annotations

from collections import deque
from inspect import isawaitable
from itertools import islice
from typing import Final

from toolrun.errors import CallError, ErrorKind, SideEffects, ToolError
from toolrun.execution.failure import ForeignError, NotReachedError, explain
from toolrun.execution.prepared import MadeCoroutine
from toolrun.journal.call_record import CallState
from toolrun.tools.effects import HARMLESS, Effects
from toolrun.worker.stream import is_stream

_LOST: Final = frozenset({ErrorKind.TIMEOUT, ErrorKind.UNAVAILABLE})
"""How a tool fails that has sent something and heard nothing."""

_MAX_PLACES: Final = 1000
"""Parts of a result that are looked at."""


def state_of_failure(
    kind: ErrorKind, side_effects: SideEffects | None, error: BaseException | None, effects: Effects | None
) -> CallState:
    """The state of a call whose body was started and failed. `effects` is None if its author did not say."""
    if effects in HARMLESS:
        return CallState.CANCELLED if kind is ErrorKind.CANCELLED else CallState.FAILED
    if side_effects is SideEffects.NOT_STARTED and (effects is None or _is_our_word(error)):
        return CallState.FAILED
    if side_effects is SideEffects.UNKNOWN:
        return CallState.IN_DOUBT
    if effects is not None:
        is_own_word = isinstance(error, ToolError) and not isinstance(error, ForeignError)
        return CallState.FAILED if is_own_word else CallState.IN_DOUBT
    return CallState.IN_DOUBT if kind in _LOST else CallState.FAILED


def _is_our_word(error: BaseException | None) -> bool:
    """Whether toolrun itself says that the tool has not started. A tool that found a door closed may have acted before
    it came there, and where effects matter that is possible enough."""
    return error is None or (isinstance(error, CallError) and not isinstance(error, NotReachedError))


def state_of_outcome(value: object, error: BaseException | None, effects: Effects | None) -> CallState:
    """The state of a call, by what its body returned or raised. IN_DOUBT if the body itself has not ended with it."""
    if error is not None:
        failure = explain(error, "")
        return state_of_failure(failure.kind, failure.side_effects, error, effects)
    try:
        has_ended = not (isawaitable(value) or _holds_stream(value) or type(value) is MadeCoroutine)
    except BaseException:  # noqa: BLE001  it asks a foreign object what it is
        has_ended = True
    return CallState.DONE if has_ended else CallState.IN_DOUBT


def _holds_stream(value: object) -> bool:
    """Whether a result is an iterator, or a plain container with one in it: what it yields is still to be made."""
    places = deque([value])
    for _ in range(_MAX_PLACES):
        if not places:
            return False
        place = places.popleft()
        if is_stream(place):
            return True
        if type(place) is dict:
            places.extend(islice(place.values(), _MAX_PLACES))
        elif type(place) is list or type(place) is tuple:
            places.extend(place[:_MAX_PLACES])
    return False
