"""When to stop starting workers that die: a breaker, and the wait before the next start. Pure; time is an argument."""

from __future__ import annotations

from collections import deque
from typing import Final

DEATHS: Final = 5
WINDOW: Final = 60.0
"""So many deaths in so many seconds open the breaker."""
COOL_DOWN: Final = 30.0
"""Seconds after which one start is tried again."""
_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 5.0


class Breaker:
    """Counts deaths. Open: nothing is started. Then one probe is allowed; its success closes it again."""

    def __init__(self) -> None:
        self.deaths: deque[float] = deque(maxlen=DEATHS)
        self._closed_again: float | None = None

    def died(self, now: float) -> None:
        self.deaths.append(now)
        if len(self.deaths) == DEATHS and now - self.deaths[0] <= WINDOW:
            self._closed_again = now + COOL_DOWN

    def worked(self) -> None:
        """A worker answered a call: whatever was wrong is over."""
        self.deaths.clear()
        self._closed_again = None

    def open_for(self, now: float) -> float:
        """Seconds for which nothing is to be started; 0 if something may be."""
        return 0.0 if self._closed_again is None else max(0.0, self._closed_again - now)

    def wait(self, now: float) -> float:
        """Seconds to wait before the next start: none after the first death, then growing."""
        recent = sum(1 for death in self.deaths if now - death <= WINDOW)
        return 0.0 if recent < 2 else min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (recent - 2))
