"""How arguments differ from recorded ones."""

from __future__ import annotations

import pytest

from toolrun.json import JSON
from toolrun.recording.difference import describe_difference, key_of

Arguments = dict[str, JSON]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 2}, {"a": 2.0}),
        ({"a": [{"b": 3.0}]}, {"a": [{"b": 3}]}),
        ({"a": 2**70}, {"a": 2**70}),
    ],
)
def test_equal_arguments_are_the_same_call(one: Arguments, other: Arguments) -> None:
    assert key_of(one) == key_of(other)
    assert describe_difference(one, other) == ""


@pytest.mark.parametrize(
    ("given", "recorded", "words"),
    [
        ({"a": 1}, {"a": True}, "a is 1, recorded true"),
        ({"a": "1"}, {"a": 1}, 'a is "1", recorded 1'),
        ({"a": None}, {}, "a (null) was not recorded"),
        ({}, {"a": "x"}, 'a is missing, recorded "x"'),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a.b[1] is 2, recorded 3"),
        ({"a": [1]}, {"a": [1, 2]}, "a is [1], recorded [1, 2]"),
        ({"a": 0, "b": 0}, {"a": 1, "b": 1}, "a is 0, recorded 1; b is 0, recorded 1"),
        ({"a": 0.5}, {"a": 0}, "a is 0.5, recorded 0"),
    ],
)
def test_a_difference_is_told_with_its_place_and_both_values(given: Arguments, recorded: Arguments, words: str) -> None:
    assert describe_difference(given, recorded) == words
    assert key_of(given) != key_of(recorded)


def test_many_differences_are_counted() -> None:
    given: Arguments = {f"a{number}": 0 for number in range(9)}
    assert describe_difference(given, {}).endswith("; and 5 more")
