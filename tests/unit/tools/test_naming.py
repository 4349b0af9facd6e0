"""naming.py."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.tools.naming import NameRule, fit_names, name_of_function

STRICT = NameRule("A-Za-z0-9_-")
LETTER_FIRST = NameRule("A-Za-z0-9_", starts_with_letter=True)


@pytest.mark.parametrize(
    ("file", "function", "name"),
    [
        ("weather", "weather", "weather"),
        ("weather", "forecast", "weather.forecast"),
        ("sun-times", "sun_times", "sun-times"),
        ("sun_times", "sun-times", "sun_times.sun-times"),
    ],
)
def test_a_function_that_is_named_like_its_file_gives_a_tool_of_that_name(file: str, function: str, name: str) -> None:
    assert name_of_function(file, function) == name


def test_a_name_that_is_accepted_stays() -> None:
    assert fit_names(["add", "set-light", "x_1"], STRICT) == {"add": "add", "set-light": "set-light", "x_1": "x_1"}


def test_foreign_characters_become_underscores() -> None:
    assert fit_names(["photos.estimate", "filter[id]", ""], STRICT) == {
        "photos.estimate": "photos_estimate",
        "filter[id]": "filter_id_",
        "": "_",
    }
    assert LETTER_FIRST.fit("2fa-code") == "_2fa_code"


def test_names_that_would_be_the_same_are_told_apart() -> None:
    fitted = fit_names(["a.b", "a_b", "a/b"], STRICT)
    assert fitted["a_b"] == "a_b"
    assert re.fullmatch("a_b_[0-9a-f]{8}", fitted["a.b"])
    assert len(set(fitted.values())) == 3


def test_a_long_name_keeps_its_beginning_and_gets_a_mark() -> None:
    one, other = fit_names(["x" * 100, "x" * 101], STRICT).values()
    assert one != other
    assert one.startswith("x" * 55 + "_")
    assert len(one) == len(other) == 64


@pytest.mark.parametrize("rule", [STRICT, LETTER_FIRST, NameRule("A-Za-z0-9_.-", 128)])
@given(st.lists(st.text(max_size=150) | st.from_regex(r"\A[a.b/_]{1,3}\Z"), unique=True))
def test_all_fit_are_distinct_and_do_not_depend_on_the_order(rule: NameRule, names: list[str]) -> None:
    fitted = fit_names(names, rule)
    assert list(fitted) == names
    assert all(map(rule.accepts, fitted.values()))
    assert len(set(fitted.values())) == len(names)
    assert fit_names(reversed(names), rule) == fitted
    assert all(fitted[name] == name for name in names if rule.accepts(name))
