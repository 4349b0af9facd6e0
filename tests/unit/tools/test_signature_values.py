"""JSON arguments become values of the annotated types."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from support.hints import Colour, Even, Level, Place, Point, Strict, function_of
from toolrun.errors import InvalidArgumentsError
from toolrun.tools.signature import Signature, read_signature


def signature_of(hint: object) -> Signature:
    return read_signature(function_of(hint), {})


@pytest.mark.parametrize(
    ("hint", "given", "expected"),
    [
        (int, 3.0, 3),
        (int, 1e30, int(1e30)),
        (float, 3, 3.0),
        (int | None, 3.0, 3),
        (int | None, None, None),
        (int | str, 3.0, 3),
        (int | str, "3", "3"),
        (int | float, 3.5, 3.5),
        (Literal[1, 2], 2.0, 2),
        (list[int], [1.0, 2], [1, 2]),
        (list[int] | None, [1.0], [1]),
        (list[list[float]], [[1]], [[1.0]]),
        (dict[str, float], {"a": 1}, {"a": 1.0}),
        (Colour, 2, Colour.BLUE),
        (Level, "high", Level.HIGH),
        (Point, {"x": 1.0}, Point(1)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2.0)]),
        (Place, {"city": "Rome", "zip": 187.0}, {"city": "Rome", "zip": 187}),
        (Even, {"n": 4}, Even(n=4)),
        (Strict, {"at": "2024-05-01T12:00:00", "ids": [1]}, Strict(at=datetime(2024, 5, 1, 12), ids={1})),
        (datetime, "2024-05-01T12:00:00", datetime(2024, 5, 1, 12)),
        (date | None, "2024-05-01", date(2024, 5, 1)),
        (uuid.UUID, "00000000-0000-0000-0000-000000000005", uuid.UUID(int=5)),
        (Path, "/etc", Path("/etc")),
        (Decimal, "0.10", Decimal("0.10")),
        (set[int], [2, 1], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[int, str], {"7": "a"}, {7: "a"}),
        (Annotated[int, Field(ge=1)], 3.0, 3),
    ],
)
def test_a_value_arrives_as_the_annotated_type(hint: object, given: object, expected: object) -> None:
    arguments = {"value": given}
    converted = signature_of(hint).convert(arguments)
    assert [*leaves(converted["value"])] == [*leaves(expected)]
    assert arguments == {"value": given}
    assert arguments["value"] is given


def leaves(value: object) -> Iterator[tuple[type, object]]:
    """The value and all that is in it, each with its type: 1 and 1.0 are equal."""
    yield type(value), value
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)


@pytest.mark.parametrize(
    ("hint", "given", "reason"),
    [
        (Even, {"n": 3}, "'value' cannot be used: ['n'] Value error, must be even"),
        (list[Even], [{"n": 2}, {"n": 5}], "'value'[1] cannot be used: ['n'] Value error, must be even"),
        (datetime, "yesterday", "'value' is not a date-time such as '2024-05-01T12:30:00Z': 'yesterday'"),
        (float, 10**400, "'value' cannot be used: int too large to convert to float"),
    ],
)
def test_a_value_that_the_type_refuses_is_an_invalid_argument(hint: object, given: object, reason: str) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        signature_of(hint).convert({"value": given})
    assert str(caught.value).startswith(f"Invalid parameters: {reason}")
