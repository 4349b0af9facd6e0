"""Which calls of a turn may run: how many there may be, and how often the same one.

Counts and decides; runs nothing, and knows of time only whether it is over.
"""

from __future__ import annotations

from collections.abc import Collection

from toolrun.clients.round import Round
from toolrun.clients.turn_event import Ended
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.errors import ErrorKind
from toolrun.json import dumps
from toolrun.result import ToolCall
from toolrun.text import shown_name


class CallBudget:
    """What is left of the limits of one turn."""

    def __init__(self, limits: TurnLimits, wording: Wording, toolset: Collection[str] | None = None) -> None:
        self._limits = limits
        self._toolset = toolset
        """The tools that may be called; None: all of them."""
        self._wording = wording
        self._executed = 0
        self._times: dict[bytes, int] = {}
        """How often the model made a call in this turn, by its name and arguments."""

    def count_past(self, call: ToolCall) -> None:
        """Count a call of the part of this turn that another process ran."""
        self._executed += self._count(call) < self._limits.repeats

    def refuse_disallowed(self, round: Round, stopped: Ended | None, *, is_late: bool) -> Ended | None:
        """Refuse the calls that must not run, and count the others. Returns the limit that was reached, if any."""
        ended = None
        limits, wording = self._limits, self._wording
        for index, call in enumerate(round.calls):
            if round.results[index] is not None:
                self._count(call)
                self._executed += 1
            elif stopped is not None:
                round.refuse(index, wording.malformed if stopped is Ended.MALFORMED else wording.cut_off)
            elif self._toolset is not None and call.name not in self._toolset:
                round.refuse(index, f"Tool '{shown_name(call.name)}' not found", ErrorKind.UNKNOWN_TOOL)
            elif is_late:
                ended = Ended.TIME
                round.refuse(index, wording.time_over.format(seconds=limits.time))
            elif (times := self._count(call)) >= limits.repeats:
                ended = ended or Ended.REPEATS
                round.refuse(index, wording.repeated.format(count=times))
            elif self._executed >= limits.calls:
                ended = ended or Ended.CALLS
                round.refuse(index, wording.too_many.format(limit=limits.calls))
            else:
                self._executed += 1
        return ended

    def _count(self, call: ToolCall) -> int:
        """Count the call. Returns how often the model made the same call before."""
        key = _fingerprint(call)
        times = self._times.get(key, 0)
        self._times[key] = times + 1
        return times


def _fingerprint(call: ToolCall) -> bytes:
    """A key that is equal for calls with the same name and arguments."""
    try:
        return dumps([call.name, call.arguments], sort_keys=True)
    except (TypeError, RecursionError):  # not JSON, or nested too deeply
        return repr((call.name, call.arguments)).encode(errors="replace")
