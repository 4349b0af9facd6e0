"""JSON arguments arrive as the types that a script's hints name, or are refused with place and reason."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from support.script_types import (
    NOTHING,
    Circle,
    Colour,
    Even,
    Pair,
    Place,
    Point,
    Scaled,
    Shape,
    Speed,
    Square,
    Tree,
    UserId,
    bind,
    function_of,
    spec_of,
)
from toolrun.worker.describe import InvalidArgumentsError, read_function


def test_a_field_as_the_default_makes_the_default_of_each_call() -> None:
    spec = spec_of(list[int], Field(default_factory=lambda: [1]))
    first, second = bind(spec, {}), bind(spec, {})
    assert first == second == {"value": [1]}
    assert first["value"] is not second["value"]
    assert bind(spec_of(int, Field(default=5)), {}) == {"value": 5}
    required = read_function(function_of(int, Field(ge=1)))
    assert required.schema["required"] == ["value"]
    assert bind(required, {"value": 2.0}) == {"value": 2}


@pytest.mark.parametrize(
    ("hint", "given", "expected"),
    [
        (NOTHING, 3.0, 3.0),
        (Any, {"a": 1}, {"a": 1}),
        (int, 3.0, 3),
        (int, 10**30, 10**30),
        (float, 3, 3.0),
        (int | None, 3.0, 3),
        (int | None, None, None),
        (int | str, 3.0, 3),
        (int | str, "3", "3"),
        (int | float, 3.5, 3.5),
        (float | int, 3, 3),
        (datetime | str, "soon", "soon"),
        (str | list[str], ["a"], ["a"]),
        (bool | int, True, True),
        (Literal[1, 2], 2.0, 2),
        (list[int], [1.0, 2], [1, 2]),
        (list[list[float]], [[1]], [[1.0]]),
        (dict[str, float], {"a": 1}, {"a": 1.0}),
        (dict[int, str], {"7": "a"}, {7: "a"}),
        (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
        (Colour, 2, Colour.BLUE),
        (Speed, 2.0, Speed.FAST),
        (Shape, "FLAT", Shape.FLAT),
        (Point, {"x": 1.0}, Point(1)),
        (Point, {"x": 1, "more": 2}, Point(1)),
        (Scaled, {"size": 2, "factor": 3}, Scaled(6, 1)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2.0)]),
        (Place, {"city": "Rome", "zip": 187.0, "more": 1}, {"city": "Rome", "zip": 187, "more": 1}),
        (Even, {"n": 4}, Even(n=4)),
        (UserId, 3.0, 3),
        (datetime, "2024-05-01T12:00:00", datetime(2024, 5, 1, 12)),
        (datetime, "2024-05-01T12:00:00Z", datetime(2024, 5, 1, 12, tzinfo=timezone.utc)),  # noqa: UP017  for 3.9
        (date | None, "2024-05-01", date(2024, 5, 1)),
        (time, "12:30", time(12, 30)),
        (timedelta, 90, timedelta(seconds=90)),
        (timedelta, "P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        (timedelta, "-PT1M", timedelta(minutes=-1)),
        (uuid.UUID, "00000000-0000-0000-0000-000000000005", uuid.UUID(int=5)),
        (Path, "/etc", Path("/etc")),
        (bytes, "ä", "ä".encode()),
        (Decimal, "0.10", Decimal("0.10")),
        (Decimal, 0.1, Decimal("0.1")),
        (set[int], [2, 1], {1, 2}),
        (frozenset, ["a"], frozenset({"a"})),
        (tuple[int, str], [1.0, "a"], (1, "a")),
        (tuple[int, ...], [1.0, 2], (1, 2)),
        (tuple[()], [], ()),
        (Pair, [1.0], Pair(1)),
        (Pair, [1, "x"], Pair(1, "x")),
        (Literal[Colour.RED], "red", Colour.RED),
        (Circle | Square, {"side": 2}, Square(2.0)),
        (Circle | Square, {}, Circle()),
        (date, "2024-05-01T00:00:00Z", date(2024, 5, 1)),
        (timedelta, "1 day, 2:03:04", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        (timedelta, "P1W", timedelta(weeks=1)),
        (Annotated[int, Field(ge=1)], 3.0, 3),
    ],
    ids=lambda it: str(it)[:40],
)
def test_a_value_arrives_as_the_annotated_type(hint: object, given: object, expected: object) -> None:
    bound = bind(spec_of(hint), {"value": given})["value"]
    assert [*leaves(bound)] == [*leaves(expected)]


def leaves(value: object) -> Iterator[tuple[type, object]]:
    """The value and all that is in it, each with its type: 1 and 1.0 are equal."""
    yield type(value), value
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)


@pytest.mark.parametrize(
    ("hint", "given", "reason"),
    [
        (int, "5", "'value' must be an integer, not a string"),
        (int, True, "'value' must be an integer, not a boolean"),
        (int, 2.5, "'value' must be an integer, not a number"),
        (str, None, "'value' must be a string, not null"),
        (bool, 1, "'value' must be a boolean, not an integer"),
        (None, 1, "'value' must be null, not an integer"),
        (float, 10**400, "'value' cannot be used: int too large to convert to float"),
        (list[int], {"a": 1}, "'value' must be an array, not an object"),
        (list[int], [1, "x"], "'value'[1] must be an integer, not a string"),
        (dict[str, list[int]], {"a": [1, None]}, "'value'['a'][1] must be an integer, not null"),
        (dict[int, int], {"x": 1}, "'value'['x'] cannot be used: invalid literal"),
        (tuple[int, str], [1], "'value' must have 2 items, not 1"),
        (tuple[int, str], [1, 2], "'value'[1] must be a string, not an integer"),
        (set[int], 1, "'value' must be an array, not an integer"),
        (set, [[1]], "'value' cannot be used: unhashable type"),
        (int | str, [], "'value' must be an integer, not an array, or must be a string, not an array"),
        (Literal[1, "a"], True, "'value' must be one of 1, 'a'"),
        (Colour, "green", "'value' must be one of 'red', 2"),
        (Shape, [1, 2], "'value' must be one of 'ROUND', 'FLAT'"),
        (Point, {}, "'value' lacks 'x'"),
        (Point, {"x": 1, "tags": [2]}, "'value'['tags'][0] must be a string, not an integer"),
        (Point, "x", "'value' must be an object, not a string"),
        (Scaled, {"size": 1, "factor": 0}, "'value' cannot be used: factor must be positive"),
        (Place, {"zip": 1}, "'value' lacks 'city'"),
        (datetime, "yesterday", "'value' is not a date-time such as '2024-05-01T12:30:00Z': 'yesterday'"),
        (datetime, 5, "'value' must be a string, not an integer"),
        (timedelta, "soon", "'value' is not a duration such as 'PT90S'"),
        (timedelta, [], "'value' must be a number or a string, not an array"),
        (timedelta, "P", "'value' is not a duration such as 'PT90S'"),
        (timedelta, "P1DT", "'value' is not a duration such as 'PT90S'"),
        (date, "2024-05-01T12:00:00", "'value' is not a date such as '2024-05-01': '2024-05-01T12:00:00'"),
        (time, "noon", "'value' is not a time such as '12:30:00': 'noon'"),
        (Pair, [], "'value' must have 1 to 2 items, not 0"),
        (Decimal, "x", "'value' is not a number: 'x'"),
        (Decimal, "NaN", "'value' is not a number: 'NaN'"),
        (uuid.UUID, "5", "'value' cannot be used: badly formed"),
        (Even, {"n": -1}, "'value' cannot be used: ['n'] Input should be greater than or equal to 0"),
        (list[Even], [{"n": 2}, {}], "'value'[1] cannot be used: ['n'] Field required"),
    ],
    ids=lambda it: str(it)[:40],
)
def test_a_value_that_the_type_refuses_says_where_and_why(hint: object, given: object, reason: str) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        bind(spec_of(hint), {"value": given})
    assert str(caught.value).startswith(f"Invalid parameters: {reason}")


def test_missing_and_unknown_arguments_are_refused_by_name() -> None:
    def function(a: int, b: int, *, c: int = 3) -> None: ...

    spec = read_function(function)
    assert bind(spec, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    with pytest.raises(InvalidArgumentsError, match=r"^Invalid parameters: missing 'a', 'b'$"):
        bind(spec, {"c": 1})
    with pytest.raises(InvalidArgumentsError, match=r"^Invalid parameters: unknown 'd'$"):
        bind(spec, {"a": 1, "b": 2, "d": 3})


def test_values_of_a_type_that_contains_itself_are_made_at_every_depth() -> None:
    bound = bind(spec_of(Tree), {"value": {"value": 1, "children": [{"value": 2.0, "children": []}]}})
    assert bound == {"value": Tree(1, [Tree(2)])}
