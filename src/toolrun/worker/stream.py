"""What a tool yields → a list, within limits. For the host and for the worker.

A function may return a generator, or any other iterator, or what holds one, without being one. Its items are collected
where the function ran and while its deadline still counts; whoever renders the result then knows its size. Knows
nothing of calls.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_ITEMS = 10_000
MAX_LENGTH = 10_000_000
"""Characters, bytes and members of all items together; what is deeper inside is not counted here."""
_TURN = 0.005
"""Seconds after which the event loop gets a turn."""
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
_ITERATOR = {"__next__", "__iter__"}
_ASYNC_ITERATOR = {"__anext__", "__aiter__"}
_RENDERED = {"model_dump", "to_dict", "tolist", "__dataclass_fields__", "__await__"}
"""What has a form of its own is not collected."""
_classes_of = type.__dict__["__mro__"].__get__
_members_of = type.__dict__["__dict__"].__get__
"""What a class is, without asking its metaclass, which may answer anything."""


class EndlessStreamError(ValueError):
    """A tool yielded more than a result can hold."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the tool yielded more than {what}; yield less, or return a summary")


def is_stream(value: object) -> bool:
    """Whether a result is an iterator, synchronous or asynchronous, and nothing else."""
    classes = [_members_of(it) for it in _classes_of(type(value))]
    for members in classes:
        if "__next__" in members or "__anext__" in members:
            break
    else:
        return False
    names: set[str] = set().union(*classes)
    return (names >= _ITERATOR or names >= _ASYNC_ITERATOR) and names.isdisjoint(_RENDERED)


def is_async(stream: object) -> bool:
    """Whether a stream has to be collected on an event loop."""
    return any("__anext__" in _members_of(it) for it in _classes_of(type(stream)))


def collect_blocking(value: Any) -> Any:
    """In a thread: the items of an iterator; for an asynchronous one what collects them on a loop; else the value."""
    if not is_stream(value):
        return value
    return collect_async(value) if is_async(value) else collect(value)


def collect(stream: Iterator[Any]) -> list[Any]:
    """Raises EndlessStreamError, and whatever the iterator raises."""
    items: list[Any] = []
    collect_some(stream, items, 0)
    return items


def collect_some(stream: Iterator[Any], items: list[Any], length: int) -> int:
    """The same for one of several iterators: `length` is that of the others, and returned with this one's added."""
    collected = _Items(items, length)
    try:
        for item in stream:
            collected.add(item)
    finally:
        _close(stream)
    return collected.length


async def collect_async(stream: Any) -> list[Any]:
    """The same on an event loop, for both kinds of iterators. Others get their turn in between."""
    if not is_async(stream):
        return await _collect_in_turns(stream)
    items = _Items()
    try:
        async for item in stream:
            items.add(item)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    return items.items


async def _collect_in_turns(stream: Iterator[Any]) -> list[Any]:
    from asyncio import sleep
    from time import perf_counter

    items, began = _Items(), perf_counter()
    try:
        for item in stream:
            items.add(item)
            if perf_counter() - began > _TURN:
                await sleep(0)
                began = perf_counter()
    finally:
        _close(stream)
    return items.items


def _close(stream: Any) -> None:
    """Run the `finally` of a generator that was not exhausted. A file or a cursor may be in use elsewhere."""
    if hasattr(type(stream), "gi_frame"):
        stream.close()


class _Items:
    def __init__(self, items: list[Any] | None = None, length: int = 0) -> None:
        self.items: list[Any] = [] if items is None else items
        self.length = length

    def add(self, item: Any) -> None:
        if len(self.items) >= MAX_ITEMS:
            raise EndlessStreamError(f"{MAX_ITEMS:,} items")
        self.items.append(item)
        self.length += len(item) if isinstance(item, _SIZED) else 1
        if self.length > MAX_LENGTH:
            raise EndlessStreamError(f"{MAX_LENGTH:,} characters")
