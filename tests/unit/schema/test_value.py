"""JSON values: sameness, paths and how they are shown."""

from __future__ import annotations

import pytest

from toolrun.json import JSON
from toolrun.schema.value import is_too_deep, join, lookup, pointer, same, size
from toolrun.text import show


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None, True]}, '{"a": [1, null, true]}'),
        ("é", '"é"'),
        ("\ud800", '"\\ud800"'),
        (float("nan"), "NaN"),
        ({1, 2}, '"<set>"'),
        ({(1, 2): 3}, "{}"),
    ],
)
def test_values_are_shown_as_json_that_can_be_encoded(value: object, text: str) -> None:
    assert show(value) == text
    assert show(value).encode()


def test_a_value_that_holds_itself_is_shown_cut() -> None:
    value: list[object] = []
    value.append(value)
    assert show(value, limit=10) == "[[[[[[[[[…"


def test_paths_name_odd_keys_unmistakably() -> None:
    assert join(join(join("", "filter"), "tags"), 0) == "filter.tags[0]"
    assert join("a", "b.c") == 'a["b.c"]'
    assert join("", "") == '[""]'


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(1, 1.0, True), (1, True, False), ([1], [1.0], True), ({"a": 0}, {"a": False}, False), ("1", 1, False)],
)
def test_sameness_is_that_of_json(one: JSON, other: JSON, expected: bool) -> None:
    assert same(one, other) is expected


def test_a_pointer_leads_to_its_value() -> None:
    document: JSON = {"a/b": [{"~": 1}]}
    assert lookup(document, pointer("a/b", 0, "~")) == 1
    assert lookup(document, "") is document
    assert lookup(document, pointer("a/b", 1)) is None
    assert lookup(document, pointer("a/b", "x")) is None


def test_counting_stops_above_the_limit() -> None:
    assert size({"a": [1, 2], "b": "text"}, 100) == 5
    assert size([1] * 1000, 10) == 11


def test_depth_counts_containers_below_each_other() -> None:
    value: JSON = []
    for _ in range(100):
        value = [value]
    assert not is_too_deep(value)
    assert is_too_deep([value])
