"""Ctrl-C while a command works. What the commands make of it is in tests/e2e."""

from __future__ import annotations

import signal
import threading

import pytest

from toolrun.cli import interrupt as interrupt_module
from toolrun.cli.interrupt import Interrupt

LIMIT = 30.0


class Work:
    """Notes what an interrupt does to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_overdue = threading.Event()

    def interrupt(self, grace: float = LIMIT, signals: tuple[signal.Signals, ...] = (signal.SIGINT,)) -> Interrupt:
        return Interrupt(
            lambda: self.events.append("cancel"),
            grace=grace,
            on_overdue=lambda _: self.is_overdue.set(),
            on_repeat=lambda it: self.events.append("repeat, overdue" if it.is_overdue else "repeat"),
            signals=signals,
        )


def test_the_first_signal_cancels_and_the_next_ones_repeat() -> None:
    work = Work()
    with work.interrupt() as interrupt:
        before = interrupt.signal
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
    assert (before, interrupt.signal) == (None, signal.SIGINT)
    assert work.events == ["cancel", "repeat", "repeat"]


def test_a_second_sigterm_at_once_is_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(interrupt_module, "monotonic", lambda: now[0])
    work = Work()
    with work.interrupt(signals=(signal.SIGTERM,)):
        signal.raise_signal(signal.SIGTERM)
        now[0] += 0.1
        signal.raise_signal(signal.SIGTERM)
        assert work.events == ["cancel"]
        now[0] += 0.2
        signal.raise_signal(signal.SIGTERM)
    assert work.events == ["cancel", "repeat"]


def test_work_that_does_not_end_is_overdue() -> None:
    work = Work()
    with work.interrupt(grace=0.0):
        signal.raise_signal(signal.SIGINT)
        assert work.is_overdue.wait(LIMIT)
        signal.raise_signal(signal.SIGINT)
    assert work.events == ["cancel", "repeat, overdue"]


def test_work_that_has_ended_is_neither_cancelled_nor_overdue() -> None:
    work = Work()
    with work.interrupt(grace=0.0) as interrupt:
        interrupt.work_ended()
        signal.raise_signal(signal.SIGINT)
    assert interrupt.signal is signal.SIGINT
    assert work.events == []
    assert not work.is_overdue.is_set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_every_signal_that_is_handled_has_its_handler_back_at_the_end(number: signal.Signals) -> None:
    work, before = Work(), signal.getsignal(number)
    with work.interrupt(signals=(signal.SIGINT, signal.SIGTERM)) as interrupt:
        signal.raise_signal(number)
    assert interrupt.signal is number
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(number: signal.Signals) -> None:
    work, before = Work(), signal.signal(number, signal.SIG_IGN)
    try:
        with work.interrupt(signals=(signal.SIGINT, signal.SIGTERM)) as interrupt:
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert (interrupt.signal, work.events) == (None, [])
