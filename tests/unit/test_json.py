"""JSON text, with integers of any size."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.json import dump_line, dumps, loads

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**64), 10**40])
def test_long_whole_numbers_are_read_exactly(number: int) -> None:
    assert loads(f'{{"id": [{number}]}}') == {"id": [number]}
    assert loads(f"{number}".encode()) == number
    for value in (number, [number], {"of": number}):
        text = f'{{"text": "{"x" * 20_000}", "id": {json.dumps(value)}}}'
        assert loads(text)["id"] == loads(text.encode())["id"] == value


def test_a_number_that_nobody_converts_is_read_as_well_as_can_be() -> None:
    with pytest.raises(ValueError, match="infinity"):
        loads("9" * 5000)
    assert loads(f"0.{'1' * 5000}") == pytest.approx(1 / 9)


@given(values)
def test_what_is_written_is_read_again(value: object) -> None:
    assert loads(dumps(value)) == value
    assert loads(dumps(value).decode()) == value
    assert dump_line(value) == dumps(value) + b"\n"


def test_keys_are_sorted_on_request_also_beside_long_numbers() -> None:
    assert dumps({"b": 1, "a": 2}, sort_keys=True) == b'{"a":2,"b":1}'
    assert dumps({"b": 10**40, "a": 2}, sort_keys=True) == b'{"a":2,"b":1' + b"0" * 40 + b"}"


@pytest.mark.parametrize(
    "value", [{1, 2}, [10**40, object()], [10**40, math.nan], ["\ud800"], {"a": 10**40, "b": "\ud800"}]
)
def test_what_is_not_json_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError):
        dumps(value)
    with pytest.raises(TypeError):
        dump_line(value)


def test_a_text_nested_too_deeply_for_python_is_read_as_well_as_can_be() -> None:
    deep = "[" * 900 + "1" * 25 + "]" * 900
    value = loads(deep)
    for _ in range(900):
        (value,) = value
    assert value == pytest.approx(int("1" * 25))


def test_a_mistake_has_its_position() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        loads('{"a": 1,\n nope}')
    assert (caught.value.lineno, caught.value.colno) == (2, 2)
