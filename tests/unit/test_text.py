"""What is shown, what may have been meant."""

from __future__ import annotations

import datetime
import tomllib
from typing import Any

import pytest

from toolrun.text import close_names, comparing, cut, plural, section, show, suggestion, visible


def test_a_shown_value_is_short_and_on_one_line() -> None:
    assert show("a\nb") == '"a\\nb"'
    assert show("ü") == '"ü"'
    assert len(show("x" * 1000)) == 80
    assert len(show(["x" * 1000], 20)) == 20
    assert show([datetime.date(2024, 5, 1), {1}]) == '["2024-05-01", "<set>"]'


def test_a_suggestion_names_what_is_close_and_else_what_is_known() -> None:
    assert suggestion("timout", ["timeout", "strict"]) == "did you mean 'timeout'?"
    assert suggestion("TIMEOUT", ["timeout", "strict"]) == "did you mean 'timeout'?"
    assert suggestion("xyz", ["timeout", "strict"]) == "known are strict, timeout"
    assert suggestion("xyz", []) == "none are known"
    assert suggestion("ech", ["echo", "each", "math"], limit=2) == "did you mean 'echo' or 'each'?"


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("getweather", ["get_weather"]),
        ("Get-Weather", ["get_weather"]),
        ("get_wether", ["get_weather"]),
        ("weather", ["get_weather"]),
        ("entirely_else", []),
        ("", []),
    ],
)
def test_case_and_separators_do_not_count_for_what_is_close(name: str, close: list[str]) -> None:
    assert close_names(name, ["get_weather", "play_song"]) == close


def test_a_name_that_nobody_misspells_is_compared_with_nothing() -> None:
    assert close_names("a" * 16_000_000, ["a" * 100, "b"]) == []
    assert close_names("a" * 99, ["a" * 16_000_000, "a" * 98]) == ["a" * 98]


def test_names_are_compared_only_as_far_as_their_letters_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [f"{'ab' * 40}{number:05d}" for number in range(20_000)]
    compared: list[str] = []

    def compare(name: str, names: list[str], **_: object) -> list[str]:
        compared.extend(names)
        return []

    monkeypatch.setattr("difflib.get_close_matches", compare)
    assert close_names("ab" * 45, known) == []
    assert compared == []
    assert close_names(known[7].upper(), known) == [known[7]]
    close_names("ab" * 45, known[:90])
    assert len(compared) == 90
    assert comparing(["abc"], ["de", "f"]) == 11 * 19


def test_one_or_many() -> None:
    assert [plural(0, "tool"), plural(1, "tool"), plural(2, "property")] == ["0 tools", "1 tool", "2 properties"]


def test_control_characters_are_escaped_and_lines_joined() -> None:
    assert visible("a\x1b[31mb\nc\u202ed") == "a\\x1b[31mb\\nc\\u202ed"


@pytest.mark.parametrize(
    ("names", "header"),
    [
        (("tool", "weather"), "[tool.weather]"),
        (("tool", "home.lights"), '[tool."home.lights"]'),
        (("servers", 'a "b"', "permissions"), '[servers."a \\"b\\"".permissions]'),
        (("tool", "über"), '[tool."über"]'),
        (("tool", ""), '[tool.""]'),
    ],
)
def test_the_header_of_a_section_is_valid_toml(names: tuple[str, ...], header: str) -> None:
    assert section(*names) == header
    table: Any = tomllib.loads(header)
    for name in names:
        table = table[name]
    assert table == {}


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("abcd", "abcd"), ("abcde", "abc…"), ("a" * 100, "aaa…")])
def test_a_text_is_cut_to_a_length_that_counts_the_sign_for_more(text: str, shown: str) -> None:
    assert cut(text, 4) == shown


def test_a_shown_value_ends_where_there_is_no_more_room_whatever_it_holds() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert show(endless) == "[" * 79 + "…"
    assert show(dict.fromkeys(range(1000), 1), 20) == '{"0": 1, "1": 1, "2…'
    assert show([1] * 1000, 10) == "[1, 1, 1,…"
    assert show(["x" * 100], 104) == f'["{"x" * 100}"]'
    assert show(["x" * 101], 104) == f'["{"x" * 101}…'
    assert show([1, 2, 3], 9) == "[1, 2, 3]"
    assert show({(1, 2): 3, "a": (True, None, 1.5)}) == '{"a": [true, null, 1.5]}'
