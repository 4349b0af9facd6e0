"""Ctrl-C while a command works: the one place that handles it, whichever thread the event loop runs in.

The first signal cancels the work. What happens if the work does not end soon, and at further signals, is up to the
caller. A signal handler of the event loop would not do: it is not called while a tool blocks the loop.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeAlias

Reaction: TypeAlias = Callable[["Interrupt"], None]
_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None
"""As `signal.signal` takes and returns it."""


_SAME_SIGNAL: Final = 0.2
"""Seconds in which a second SIGTERM is the first one: `timeout` signals its child, and then the whole group."""


class Interrupt:
    """Handles signals from `__enter__` to `__exit__`. For the main thread, where Python calls signal handlers."""

    def __init__(
        self,
        cancel: Callable[[], object],
        *,
        grace: float,
        on_overdue: Reaction,
        on_repeat: Reaction,
        signals: tuple[signal.Signals, ...] = (signal.SIGINT,),
    ) -> None:
        """`cancel` cancels the work, from any thread. `on_overdue`: the work still runs `grace` seconds later.
        `on_repeat`: one more signal has come."""
        self.signal: signal.Signals | None = None
        """The first signal, if there was one."""
        self.is_overdue = False
        self._cancel = cancel
        self._on_overdue = on_overdue
        self._on_repeat = on_repeat
        self._signals = signals
        self._timer = threading.Timer(grace, self._be_overdue)
        self._timer.daemon = True
        self._has_ended = False
        self._came_at = 0.0
        self._before: dict[signal.Signals, _Handler] = {}

    def __enter__(self) -> Self:
        """A signal that is ignored stays so: whoever started us with nohup, or in the background, wants that."""
        handled = [it for it in self._signals if signal.getsignal(it) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.work_ended()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def work_ended(self) -> None:
        """The work has ended: there is nothing to cancel any more."""
        self._has_ended = True
        self._timer.cancel()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            if number != signal.SIGTERM or monotonic() - self._came_at > _SAME_SIGNAL:
                self._on_repeat(self)
            return
        self.signal, self._came_at = signal.Signals(number), monotonic()
        if not self._has_ended:
            self._timer.start()
            self._cancel()

    def _be_overdue(self) -> None:
        self.is_overdue = True
        self._on_overdue(self)
