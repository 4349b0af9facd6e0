"""How long a worker on a node may act without news from its gateway. Pure; time is an argument.

The replica sends numbered beats, and the gateway acknowledges each. An acknowledgement extends the lease from the
moment in which *its beat was sent*: one that was on its way for long, or lay in the buffer of a broken connection,
extends nothing. So the gateway, which got the last beat at some moment, knows that the lease ends no later than that
moment plus the lease's time, whatever else is on its way. The two clocks need not agree, only run at the same speed.

    beat is sent ──► beat arrives ──► acknowledged ──► lease = sent + 3 s
                     the gateway: ended = arrived + 3 s + what the kill may take
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final

BEAT: Final = 0.5
"""Seconds between two beats."""
SILENCE: Final = 3 * BEAT
"""Seconds without a beat after which a replica gets no new calls."""
FENCE: Final = 1.0
"""Seconds that the end of a worker may take once its lease is over."""
CHECK: Final = 0.1
"""Seconds between two looks at a lease."""
_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> float:
    """A clock that goes on while the machine sleeps, where there is one: a lease must not."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class Lease:
    """The lease as the replica knows it. It begins with the first acknowledgement."""

    def __init__(self, duration: float, moment: float) -> None:
        self._duration = duration
        self._until = moment + duration
        self._number = 0
        self._sent: deque[tuple[int, float]] = deque()

    def beat(self, moment: float) -> int:
        """The number of the beat that is sent now."""
        self._number += 1
        self._sent.append((self._number, moment))
        return self._number

    def acknowledge(self, number: int) -> None:
        """The gateway got this beat."""
        while self._sent and self._sent[0][0] <= number:
            sent, moment = self._sent.popleft()
            if sent == number:
                self._until = max(self._until, moment + self._duration)

    def is_over(self, moment: float) -> bool:
        return moment >= self._until


class Watch:
    """The same lease as the gateway knows it."""

    def __init__(self, duration: float, moment: float) -> None:
        self._duration = duration
        self._heard = moment

    def heard(self, moment: float) -> None:
        """A beat has come."""
        self._heard = moment

    def is_silent(self, moment: float) -> bool:
        """Whether beats are missing: the lease may still hold."""
        return moment - self._heard >= min(SILENCE, self._duration)

    def is_over(self, moment: float) -> bool:
        """Whether the lease is over for certain, and the worker gone."""
        return moment - self._heard >= self._duration + FENCE

    def age(self, moment: float) -> float:
        """Seconds since the last beat."""
        return moment - self._heard
