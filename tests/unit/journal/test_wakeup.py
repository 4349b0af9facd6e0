"""A thread that has nothing to do is woken once for whatever has come."""

from __future__ import annotations

import threading

from toolrun.journal.wakeup import FirstUse, Wakeup

LONG = 60.0


def test_who_sleeps_is_woken() -> None:
    wakeup = Wakeup()
    thread = threading.Thread(target=wakeup.wait, args=(LONG,))
    thread.start()
    wakeup.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_wakeup_that_came_before_the_sleep_is_not_lost_and_several_are_one() -> None:
    wakeup = Wakeup()
    for _ in range(3):
        wakeup.set()
    wakeup.wait(LONG)  # returns, because it was set
    asleep = threading.Thread(target=wakeup.wait, args=(LONG,))
    asleep.start()
    asleep.join(0.05)
    assert asleep.is_alive()  # the three were one
    wakeup.set()
    asleep.join(10)


def test_a_sleep_ends_by_itself() -> None:
    Wakeup().wait(0.001)


def test_the_first_use_starts_what_is_to_be_woken_once() -> None:
    started: list[int] = []
    first = FirstUse(lambda: started.append(1))
    assert started == []
    threads = [threading.Thread(target=first.set) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert started == [1]
