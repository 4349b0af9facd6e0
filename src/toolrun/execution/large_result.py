"""Results of any size → JSON data and text, in a thread: no call into C takes long, so other threads run meanwhile."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from toolrun.json import JSON
from toolrun.result import SMALL_CHARS, around_gap, dumps_rendered, is_content, is_small, normalise, render, shorten
from toolrun.worker.normalise import Walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PIECE: Final = 1000
"""Members of a large value that are converted in one call, if they are small."""


def normalise_large(value: object) -> JSON:
    """`normalise` for values of any size: no call into C takes long, so that other threads can run meanwhile.

    Raises what an iterator in the value raises, and EndlessStreamError.
    """
    pieces = _Pieces(collects=True)
    try:
        return cast(JSON, pieces.value(value, ()))
    except RuntimeError:  # the tool has a thread that changes what it returned: in one call nobody can
        if pieces.has_read_streams:
            raise
        return normalise(value)


class _Pieces(Walk):
    """Goes through what is large, and converts what is small in one call."""

    def __init__(self, *, collects: bool) -> None:
        super().__init__(collects=collects)
        self._large: set[int] = set()
        """The ids of what is known to be large: a value may hold it many times."""

    def value(self, value: Any, above: tuple[int, ...]) -> Any:
        if id(value) not in self._large:
            if is_small(value):
                return normalise(value)
            self._large.add(id(value))
        return super().value(value, above)

    def members(self, members: dict[Any, Any], above: tuple[int, ...]) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        for piece in _cut(dict.items(members), _PIECE):
            part = dict(piece)
            is_whole = self._has_no_large(part.values()) and is_small(part)
            whole |= cast(dict[str, Any], normalise(part)) if is_whole else super().members(part, above)
        return whole

    def items(self, items: Iterator[object], above: tuple[int, ...]) -> list[Any]:
        whole: list[Any] = []
        for piece in _cut(items, _PIECE):
            is_whole = self._has_no_large(piece) and is_small(piece)
            whole += cast(list[Any], normalise(piece)) if is_whole else super().items(iter(piece), above)
        return whole

    def _has_no_large(self, members: Iterable[object]) -> bool:
        """What holds something large is large: then its members need not be counted once more."""
        return not self._large or self._large.isdisjoint(map(id, members))


def _cut(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece


def render_large(value: JSON, limit: int | None) -> str:
    """`shorten(render(value), limit)` for values of any size, like `normalise_large`."""
    if isinstance(value, str) or is_small(value) or (isinstance(value, list) and is_content(value)):
        return shorten(render(value), limit)
    if limit is None:
        return "".join(_written(value))
    head, tail, total = "", "", 0
    for part in _written(value):  # never joined as a whole, which would be one long call
        total += len(part)
        head += part[: max(0, limit - len(head))]
        tail = (tail + part)[-limit:]
    return head if total <= limit else around_gap(head, tail, total, limit)


def _written(value: JSON) -> Iterator[str]:
    if not isinstance(value, str) and is_small(value):
        yield dumps_rendered(value).decode()
    elif isinstance(value, list):
        yield from _enclosed("[]", (it for piece in _cut(value, _PIECE) for it in _written_items(piece)))
    elif isinstance(value, dict):
        parts = (dict(piece) for piece in _cut(value.items(), _PIECE))
        yield from _enclosed("{}", (it for part in parts for it in _written_members(part)))
    elif isinstance(value, str):
        pieces = (value[at : at + SMALL_CHARS] for at in range(0, len(value), SMALL_CHARS))
        yield from ('"', *(dumps_rendered(piece).decode()[1:-1] for piece in pieces), '"')
    else:
        yield dumps_rendered(value).decode()


def _written_items(piece: list[JSON]) -> Iterator[str]:
    if is_small(piece):
        yield dumps_rendered(piece).decode()[1:-1]
    else:
        yield from ("".join(_written(item)) for item in piece)


def _written_members(piece: dict[str, JSON]) -> Iterator[str]:
    if is_small(piece):
        yield dumps_rendered(piece).decode()[1:-1]
    else:
        yield from (f"{dumps_rendered(key).decode()}:{''.join(_written(item))}" for key, item in piece.items())


def _enclosed(ends: str, parts: Iterable[str]) -> Iterator[str]:
    yield ends[0]
    comma = ""
    for part in parts:
        yield comma + part
        comma = ","
    yield ends[1]
