"""JSON, TOML and YAML within limits, and the words for what is wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from toolrun.config.parse import MAX_BYTES, MAX_DEPTH, parse_json, parse_toml, parse_yaml, plain, read_text
from toolrun.errors import ConfigError


def test_text_is_read_with_and_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"\xef\xbb\xbfgr\xc3\xbcn\r\n", b"gr\xc3\xbcn\r\n"):
        path.write_bytes(data)
        assert read_text(path) == "grün\r\n"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        read_text(tmp_path / "missing")
    with pytest.raises(ConfigError, match="is a directory"):
        read_text(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_text(Path("a\0b"))
    (tmp_path / "latin").write_bytes(b"ab\xfc")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(at byte 2\)"):
        read_text(tmp_path / "latin")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
        read_text(tmp_path / "file" / "below")


def test_a_file_of_the_largest_size_is_read_and_a_larger_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * MAX_BYTES)
    assert len(read_text(path)) == MAX_BYTES
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than 1,000,000 bytes"):
        read_text(path)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_toml, "a = 1\nb = = 2\n", "line 2, column 5: Invalid value"),
        (parse_toml, "a = 1\nb = [1,\n\n", "line 2, column 8: Invalid value"),
        (parse_toml, f"a = {'9' * 5000}", "Exceeds the limit"),
        (parse_json, '{"a": 1,\n "é": nope}', "line 2, column 7: "),
        (parse_json, "", "line 1, column 1: "),
        (parse_json, '{"a": NaN}', "line 1, column 7: "),
        (parse_yaml, "a: [1\nb: 2", "line 2, column 2: while parsing a flow sequence, expected ',' or ']'"),
        (parse_yaml, "a: b: c", "line 1, column 5: mapping values are not allowed here"),
        (parse_yaml, "a: b\nc: \x01", r"line 2, column 4: character U\+0001 is not allowed in YAML"),
        (parse_yaml, "a: 1\n---\nb: 2", "line 2, column 1: "),
        (parse_yaml, "a: 0x_", "invalid literal"),
        (parse_yaml, "a: &x [1]\nb: *x", r"line 2, column 4: the alias \*x is not supported; write the value out"),
        (parse_yaml, "a: &x {b: 1}\nc:\n  <<: *x", r"line 3, column 7: the alias \*x is not supported"),
        (parse_yaml, "&x [*x]", r"line 1, column 5: the alias \*x is not supported"),
        (parse_yaml, 'a: !!int "x"', "line 1, column 4: the tag tag:yaml.org,2002:int is not supported"),
        (parse_yaml, "a: !!python/object/apply:os.getcwd []", "line 1, column 4: the tag .* is not supported"),
    ],
)
def test_a_syntax_error_says_where_and_what(parse: Callable[[str], object], text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        parse(text)


def test_an_alias_bomb_is_refused_at_its_first_alias() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    with pytest.raises(ConfigError, match=r"^line 2, column 10: the alias \*a0"):
        parse_yaml("\n".join(lines))


@pytest.mark.parametrize(("parse", "before"), [(parse_json, ""), (parse_yaml, ""), (parse_toml, "a = ")])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 20_000])
def test_what_is_nested_too_deeply_is_refused(parse: Callable[[str], object], before: str, depth: int) -> None:
    with pytest.raises(ConfigError, match=r"nested more than 100 levels deep|depth limit exceeded"):
        parse(before + "[" * depth + "]" * depth)


def test_a_date_in_yaml_stays_the_text_that_was_written() -> None:
    assert parse_yaml("[2024-05-01, 2024-05-01 10:00:00, 2024-13-45]") == [
        "2024-05-01",
        "2024-05-01 10:00:00",
        "2024-13-45",
    ]


def test_parsed_values_become_json() -> None:
    text = (
        "i = 1\nf = 0.5\nb = true\ns = 'x'\nl = [1, {a = 2}]\nday = 2024-05-01\nat = 2024-05-01T10:00:00Z\nt = 10:00:00"
    )
    assert plain(parse_toml(text)) == {
        "i": 1,
        "f": 0.5,
        "b": True,
        "s": "x",
        "l": [1, {"a": 2}],
        "day": "2024-05-01",
        "at": "2024-05-01T10:00:00+00:00",
        "t": "10:00:00",
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, {"b": float("inf")}]}, r"a\[1\].b is inf, which JSON cannot hold"),
        (float("nan"), "it is nan, which JSON cannot hold"),
        ({"a": {True: 1}}, "a has the key true, which is not a string; put it in quotes"),
        ({"a": b"x"}, "a has a value of type bytes"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        plain(value)
