"""While a call waits for a person, the deadlines of bodies stand still: its own, and those of the calls that it is
inside of, whose bodies wait for it. The deadline that a caller has set goes on, for everything inside of that call.

A body may wait for several of its calls at once: its deadline goes on after the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolrun.tools.context import Call


@contextmanager
def paused_deadlines(call: Call) -> Iterator[None]:
    held: list[Call] = []
    outer: Call | None = call
    while outer is not None and not outer.has_own_deadline:
        held.append(outer)
        outer = outer.parent
    limit, now = float("inf") if outer is None else outer.deadline, perf_counter()
    for it in held:
        if not it.waiting:
            it.left = it.deadline - now
        it.waiting += 1
        it.deadline = limit
    try:
        yield
    finally:
        now = perf_counter()
        for it in reversed(held):
            it.waiting -= 1
            if not it.waiting:
                inside = limit if it.parent is None else it.parent.deadline
                it.deadline = min(now + it.left, inside)
        if len(held) > 1:
            host: Any = call.host
            with suppress(RuntimeError):  # the loop has ended, and with it all that runs there
                host.loop_state().deadlines.reset()
