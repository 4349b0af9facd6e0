"""Whatever a tool returns becomes JSON data."""

from __future__ import annotations

import collections
import functools
import itertools
import json
import math
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from toolrun import ToolResult
from toolrun.execution import large_result
from toolrun.execution.large_result import normalise_large
from toolrun.json import loads
from toolrun.result import is_small, normalise
from toolrun.worker.codec import encode
from toolrun.worker.stream import EndlessStreamError

BIG = 2**70  # too big for the fast way, so that everything beside it goes the slow one


class Colour(Enum):
    RED = "red"
    NUMBER = 7


class Level(StrEnum):
    HIGH = "high"


class Mixed(str, Enum):  # noqa: UP042  the older form, which str() shows differently
    A = "a"


class Size(IntEnum):
    L = 3


@dataclass
class Point:
    x: object
    y: object = 2
    _cache: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    start: Point
    end: Point


@dataclass(frozen=True)
class Labelled(Line):
    """A dataclass whose fields are not its `__dict__`: two are in slots, one is on the class, one is no field."""

    label: str = "a"
    is_new: bool = field(default=True, init=False)
    hint: InitVar[int] = 0

    def __post_init__(self, hint: int) -> None:
        object.__setattr__(self, "cache", [hint])


class Pair(NamedTuple):
    left: int
    right: object


class Matrix:
    """As numpy's."""

    def tolist(self) -> list[list[float]]:
        return [[1.0, math.nan]]


class Room(BaseModel):
    name: str
    opened: date


NORMALISED: list[tuple[object, object]] = [
    ("text", "text"),
    (b"caf\xc3\xa9", "café"),
    (bytearray(b"x"), "x"),
    (memoryview(b"x"), "x"),
    (b"\xff\x00", "data:application/octet-stream;base64,/wA="),
    (None, None),
    (True, True),
    (1.5, 1.5),
    (math.nan, None),
    (-math.inf, None),
    (type("Celsius", (float,), {})(1.5), 1.5),
    (BIG, BIG),
    (Point(1), {"x": 1, "y": 2}),
    (Line(Point(1), Point(2, [Point(3)])), {"start": {"x": 1, "y": 2}, "end": {"x": 2, "y": [{"x": 3, "y": 2}]}}),
    (Labelled(Point(1), Point(2)), {"start": {"x": 1, "y": 2}, "end": {"x": 2, "y": 2}, "label": "a", "is_new": True}),
    (Matrix(), [[1.0, None]]),
    (Room(name="den", opened=date(2024, 5, 1)), {"name": "den", "opened": "2024-05-01"}),
    (datetime(2024, 5, 1, 12, 30, tzinfo=UTC), "2024-05-01T12:30:00+00:00"),
    (datetime(2024, 5, 1, tzinfo=timezone(timedelta(hours=2))), "2024-05-01T00:00:00+02:00"),
    (date(2024, 5, 1), "2024-05-01"),
    (time(12, 30), "12:30:00"),
    (time(12, 30, tzinfo=UTC), "12:30:00+00:00"),
    (timedelta(minutes=1.5), 90.0),
    (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (Colour.RED, "red"),
    (Colour.NUMBER, 7),
    (Level.HIGH, "high"),
    (Mixed.A, "a"),
    (Size.L, 3),
    ({Colour.RED: 1, Size.L: 2, Mixed.A: 3}, {"red": 1, "3": 2, "a": 3}),
    ({None: 1, True: 2, 3: 4, date(2024, 5, 1): 5}, {"null": 1, "true": 2, "3": 4, "2024-05-01": 5}),
    ({(1, 2): 3}, {"(1, 2)": 3}),
    ({math.nan: 1}, {"null": 1}),
    (Decimal("3"), 3),
    (Decimal("3.10"), "3.10"),
    (Decimal("Infinity"), None),
    (Decimal("sNaN"), None),
    (1 + 2j, "(1+2j)"),
    (Path("/etc/hosts"), "/etc/hosts"),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"a"}), ["a"]),
    ((1, (2,)), [1, [2]]),
    (Pair(1, Pair(2, "x")), [1, [2, "x"]]),
    (collections.deque([1, 2]), [1, 2]),
    (range(3), [0, 1, 2]),
    ({"a": 1}.keys(), ["a"]),
    ({"a": 1}.values(), [1]),
    (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (collections.ChainMap({"a": 1}), {"a": 1}),
    (collections.UserString("text"), "text"),
    (ValueError("no"), "ValueError: no"),
    (datetime, "<class 'datetime.datetime'>"),
    (Room, "<class 'unit.test_result.Room'>".replace("unit.test_result", __name__)),
    ("half \ud800 a character", "half \ufffd a character"),
    ("\ud83d\ude00", "😀"),
    ({"\udfff": ["\ud800"]}, {"\ufffd": ["\ufffd"]}),
]


@pytest.mark.parametrize(("value", "expected"), NORMALISED)
def test_whatever_a_tool_returns_becomes_json_data(value: object, expected: object) -> None:
    assert normalise(value) == expected
    assert normalise([value]) == [expected]
    assert normalise({"v": value, "big": BIG}) == {"v": expected, "big": BIG}, "the same on the slow way"


def test_an_integer_that_python_does_not_write_as_digits_becomes_hexadecimal_text() -> None:
    assert normalise([10**4000]) == [10**4000]
    for value in (10**5000, -(10**5000)):
        assert normalise(value) == hex(value)
        assert normalise({"n": value}) == {"n": hex(value)}


def test_a_generator_is_named_and_not_consumed() -> None:
    numbers = (n for n in range(3))
    assert "generator" in str(normalise(numbers))
    assert list(numbers) == [0, 1, 2]


async def counted() -> AsyncIterator[int]:
    yield 1


STREAMS: dict[str, tuple[Callable[[], object], list[object]]] = {
    "generator": (lambda: (n for n in range(3)), [0, 1, 2]),
    "map": (lambda: map(str, [1, 2]), ["1", "2"]),
    "zip": (lambda: zip("ab", [1, 2], strict=True), [["a", 1], ["b", 2]]),
    "list_iterator": (lambda: iter([1]), [1]),
    "nested": (lambda: (iter([n]) for n in range(2)), [[0], [1]]),
}
BESIDE = [1, BIG, float("inf"), "\ud800"]
"""Among them what makes an encoder begin anew."""


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("beside", BESIDE, ids=ascii)
def test_an_iterator_inside_of_a_result_is_collected_once_also_where_an_encoder_begins_anew(
    kind: str, beside: object
) -> None:
    make, items = STREAMS[kind]

    def result() -> object:
        shared = make()
        return {"rows": [make(), (make(),)], "twice": [shared, shared], "n": beside}

    expected = {"rows": [items, [items]], "twice": [items, items], "n": normalise(beside)}
    assert normalise_large(result()) == expected
    assert loads(encode(result(), collects=True)) == expected, "the worker says the same"


@pytest.mark.parametrize("make", [make for make, _ in STREAMS.values()], ids=STREAMS)
@pytest.mark.parametrize("beside", BESIDE, ids=ascii)
def test_an_iterator_that_is_no_result_is_left_alone(make: Callable[[], Any], beside: object) -> None:
    stream = make()
    for shown in (normalise({"rows": stream, "n": beside}), loads(encode({"rows": stream, "n": beside}))):
        assert shown == {"rows": f"<{type(stream).__name__}>", "n": normalise(beside)}
    assert list(stream), "nobody has read it"


def test_an_asynchronous_iterator_inside_of_a_result_says_what_to_do() -> None:
    expected = "<async_generator: inside a result it is not collected; return a list here>"
    for beside in (1, BIG):
        assert normalise_large({"rows": counted(), "n": beside}) == {"rows": expected, "n": beside}


def test_iterators_inside_of_a_result_have_the_limits_of_one_that_is_a_result() -> None:
    closed = []

    def endless() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append(True)

    for convert in (normalise_large, functools.partial(encode, collects=True)):
        with pytest.raises(EndlessStreamError, match="more than 10,000 items"):
            convert({"rows": [endless()]})
        with pytest.raises(EndlessStreamError, match="more than 10,000,000 characters"):
            convert([iter(["x" * 4_000_000]) for _ in range(3)])
    assert closed == [True, True]


@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("no"), TypeError("no"), SystemExit(3)], ids=repr)
def test_what_an_iterator_inside_of_a_result_raises_is_the_answer(error: BaseException) -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise error

    for convert in (normalise_large, functools.partial(encode, collects=True)):
        with pytest.raises(type(error)) as raised:
            convert({"rows": fails()})
        assert raised.value is error


def test_what_contains_itself_is_cut_where_it_begins_anew() -> None:
    ring: dict[str, object] = {"n": 1}
    ring["list"] = [ring, Point(1, ring)]
    assert normalise(ring) == {"n": 1, "list": ["…", {"x": 1, "y": "…"}]}
    shared = [1]
    assert normalise([shared, shared, BIG]) == [[1], [1], BIG], "twice the same is no circle"


def test_a_web_of_objects_that_all_know_each_other_ends() -> None:
    nodes: list[list[object]] = [[] for _ in range(30)]
    for node in nodes:
        node.extend(nodes)
    found = normalise(nodes)
    assert isinstance(found, list)
    assert len(found) == 30
    assert "…" in json.dumps(found, ensure_ascii=False)


def test_very_deep_nesting_is_cut() -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    assert "…" in json.dumps(normalise(deep), ensure_ascii=False)
    assert normalise([[[[[["x"]]]]]]) == [[[[[["x"]]]]]]


class Broken:
    """All that can fail, does."""

    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__
    __hash__ = object.__hash__

    def model_dump(self) -> object:
        raise RuntimeError("dump")


class NoText:
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]

    __repr__ = __str__


class Dumps:
    def to_dict(self) -> object:
        return {"inner": Point(1), "nan": math.nan}


class DumpsItself:
    def to_dict(self) -> object:
        return self


class HasBrokenProperty:
    @property
    def model_dump(self) -> object:
        raise RuntimeError("property")

    isoformat = model_dump


class BrokenMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("iter")

    def __len__(self) -> int:
        return 1


class BrokenSequence(Sequence[int]):
    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError(index)

    def __len__(self) -> int:
        return 1


class BrokenDict(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("items")


def test_objects_that_cannot_be_read_become_text() -> None:
    assert normalise(Broken()) == "<Broken>"
    assert normalise({Broken(): NoText()}) == {"<Broken>": "<NoText>"}
    assert normalise(Dumps()) == {"inner": {"x": 1, "y": 2}, "nan": None}
    assert normalise(DumpsItself()) == "…"
    assert normalise([BrokenDict(a=1), BIG]) == [{"a": 1}, BIG]
    for value in (HasBrokenProperty(), BrokenMapping(), BrokenSequence(), object()):
        assert type(value).__name__ in str(normalise([value, BIG]))


HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.datetimes(timezones=st.timezones()),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.complex_numbers(),
    st.sampled_from([*Colour, *Size, Level.HIGH, int, Room]),
    st.builds(pow, st.just(10), st.integers(4000, 5000)),
    st.builds(Broken),
)
ANYTHING = st.recursive(
    st.one_of(
        HASHABLE, st.decimals(), st.builds(NoText), st.builds(Dumps), st.builds(BrokenMapping), st.builds(ValueError)
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(HASHABLE, inner),
        st.builds(Point, inner, inner),
        st.builds(Pair, st.integers(), inner),
        st.lists(inner).map(tuple),
        st.lists(inner).map(collections.deque),
        st.sets(HASHABLE),
    ),
    max_leaves=20,
)


def mutable(value: object) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from mutable(item)


@given(ANYTHING)
def test_anything_becomes_json_that_shares_nothing_with_it(value: object) -> None:
    outcome = normalise(value)
    assert json.loads(json.dumps(outcome, allow_nan=False)) == outcome
    assert set(mutable(outcome)).isdisjoint(mutable(value))
    assert ToolResult("t", outcome).text


def test_what_a_value_holds_many_times_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    value: object = "x"
    for _ in range(1_000):
        value = [value, {"both": value}]
    measured: list[object] = []

    def measure(part: object) -> bool:
        measured.append(part)
        return is_small(part)

    monkeypatch.setattr(large_result, "is_small", measure)
    assert normalise_large(value)
    assert len(measured) < 1_000
