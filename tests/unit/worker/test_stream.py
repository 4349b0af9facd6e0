"""Results that yield: what is collected, and the limits."""

from __future__ import annotations

import asyncio
import csv
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from toolrun import ErrorKind, SideEffects, ToolExecutor, tool
from toolrun.worker.stream import MAX_ITEMS, MAX_LENGTH, EndlessStreamError, collect, collect_async, is_stream


class Closing:
    """A generator that tells when it is closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def numbers(self) -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            self.is_closed = True

    async def numbers_later(self) -> AsyncIterator[int]:
        try:
            for number in itertools.count():
                yield number
        finally:
            self.is_closed = True


@dataclass
class Page:
    number: int

    def __iter__(self) -> Iterator[int]:
        return iter((self.number,))

    def __next__(self) -> int:
        return self.number


@pytest.mark.parametrize(
    "value", [(it for it in "ab"), map(str, ()), iter([]), csv.reader([]), Closing().numbers_later()]
)
def test_iterators_are_streams(value: object) -> None:
    assert is_stream(value)


@pytest.mark.parametrize("value", [[1], (1,), {1: 2}, "text", range(3), {}.keys(), Page(1), None, 5])
def test_what_has_a_form_of_its_own_is_no_stream(value: object) -> None:
    assert not is_stream(value)


def test_as_many_items_as_the_limit_are_collected_and_not_one_more() -> None:
    assert collect(iter(range(MAX_ITEMS))) == list(range(MAX_ITEMS))
    with pytest.raises(EndlessStreamError, match=r"more than 10,000 items; yield less"):
        collect(iter(range(MAX_ITEMS + 1)))


@pytest.mark.parametrize("item", ["x" * (MAX_LENGTH // 2), b"x" * (MAX_LENGTH // 2), [0] * (MAX_LENGTH // 2)])
def test_items_that_are_large_together_are_refused(item: Any) -> None:
    assert collect(iter([item, item])) == [item, item]
    with pytest.raises(EndlessStreamError, match=r"more than 10,000,000 characters"):
        collect(iter([item, item, item]))


async def test_a_generator_that_does_not_end_is_closed() -> None:
    blocking, turned, later = Closing(), Closing(), Closing()
    with pytest.raises(EndlessStreamError):
        collect(blocking.numbers())
    for stream in (turned.numbers(), later.numbers_later()):
        with pytest.raises(EndlessStreamError):
            await collect_async(stream)
    assert (blocking.is_closed, turned.is_closed, later.is_closed) == (True, True, True)


def endless() -> Iterator[int]:
    """Never end."""
    return itertools.count()


async def endless_inline() -> Iterator[int]:
    """Never end."""
    return itertools.count()


async def endless_later() -> Iterator[int]:
    """Never end."""
    await asyncio.sleep(0)
    return itertools.count()


@pytest.mark.parametrize("function", [endless, endless_inline, endless_later])
async def test_a_tool_that_yields_without_end_fails_and_says_so(executor: ToolExecutor, function: Any) -> None:
    executor.manager.add(tool(name="endless")(function))
    result = await executor.execute("endless")
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert result.error == "the tool yielded more than 10,000 items; yield less, or return a summary"


async def test_a_stream_that_waits_for_ever_ends_at_the_deadline(executor: ToolExecutor) -> None:
    is_cancelled = asyncio.Event()

    async def waiting() -> AsyncIterator[int]:
        yield 1
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()

    @executor.manager.add
    async def stuck() -> AsyncIterator[int]:
        """Wait for ever."""
        return waiting()

    result = await executor.execute("stuck", timeout=0.05)
    assert result.error_kind is ErrorKind.TIMEOUT
    async with asyncio.timeout(5):
        await is_cancelled.wait()


async def test_what_a_stream_raises_is_the_tools_failure(executor: ToolExecutor) -> None:
    @executor.manager.add
    def broken() -> Iterator[float]:
        """Divide."""
        return (1 / number for number in (1, 0))

    result = await executor.execute("broken")
    assert (result.error_kind, result.error) == (ErrorKind.TOOL_ERROR, "division by zero")


class Counting:
    """An iterator that is no generator, and may be told to block."""

    def __init__(self, threads: list[str], release: threading.Event | None = None) -> None:
        self.threads, self.release, self.left = threads, release, 2

    def __iter__(self) -> Counting:
        return self

    def __next__(self) -> int:
        self.threads.append(threading.current_thread().name)
        if self.release is not None:
            self.release.wait(10)
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left


def returning(value: object) -> list[Any]:
    async def suspends() -> Any:
        await asyncio.sleep(0)
        return value

    async def ends_at_once() -> Any:
        return value

    def is_inline() -> Any:
        return value

    return [tool(description="A tool.", inline=it is is_inline)(it) for it in (suspends, ends_at_once, is_inline)]


async def test_whatever_a_tool_on_the_loop_yields_is_collected_in_a_thread(executor: ToolExecutor) -> None:
    for index in range(3):
        threads: list[str] = []
        for stream in (Counting(threads), (it for it in Counting(threads)), map(int, Counting(threads))):
            made = returning(stream)[index]
            executor.manager.add(made)
            assert (await executor.execute(made.__name__)).result == [1, 0]
        assert set(threads) == {"toolrun"}


async def test_an_iterator_that_blocks_is_given_up_at_the_deadline_and_counted(executor: ToolExecutor) -> None:
    release = threading.Event()
    for made in returning(Counting([], release)):
        executor.manager.add(made)
        result = await executor.execute(made.__name__, timeout=0.1)
        assert (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.UNKNOWN)
    assert sum(executor.health().abandoned.values()) == 3
    release.set()
