"""Measures cases side by side on a noisy machine.

Every case runs in short calibrated blocks; in each round all cases run once, in random order, so that noise hits all
alike. CPU time is what holds; ratios are the median over rounds of this case against the base in the same round.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Case:
    """One operation to measure."""

    name: str
    operation: Callable[[], Awaitable[object]]
    per_call: int = 1
    """Operations that one call of `operation` does."""
    repeats: int = 1
    cpu: list[float] = field(default_factory=list)
    """CPU nanoseconds for each operation, one figure a round."""

    async def block(self, count: int) -> int:
        operation = self.operation
        start = time.process_time_ns()
        for _ in range(count):
            await operation()
        return time.process_time_ns() - start

    async def calibrate(self, block_ms: float) -> None:
        target, count = block_ms * 1e6, 1
        await self.block(3)
        while (spent := max(await self.block(count), 1000)) < target / 2 and count < 1_000_000:
            count = max(count * 2, int(count * target / spent * 0.7))
        self.repeats = max(1, round(count * target / spent))


async def measure(cases: Sequence[Case], rounds: int, block_ms: float = 3.0) -> None:
    for case in cases:
        await case.calibrate(block_ms)
    shuffle = random.Random(1).shuffle
    for _ in range(rounds):
        order = list(cases)
        shuffle(order)
        gc.collect()
        for case in order:
            case.cpu.append(await case.block(case.repeats) / case.repeats / case.per_call)


def ratio(case: Case, base: Case) -> float:
    return statistics.median(mine / theirs for mine, theirs in zip(case.cpu, base.cpu, strict=True))


def micros(case: Case) -> float:
    return statistics.median(case.cpu) / 1000


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n## {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")


@dataclass(frozen=True)
class Target:
    """A figure that the project promises."""

    what: str
    measured: float
    limit: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def print_targets(targets: Sequence[Target]) -> bool:
    """Shows which promises hold; whether all do."""
    rows = [
        (it.what, it.measured, f"{'≥' if it.at_least else '≤'} {it.limit:g}", "yes" if it.is_met else "NO")
        for it in targets
    ]
    print_table("Targets", ("what", "measured", "target", "met"), rows)
    return all(target.is_met for target in targets)
