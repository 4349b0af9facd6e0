"""JSON with comments: read, and changed in one place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.errors import ConfigError
from toolrun.json import JSON
from toolrun.mcp.hosts.jsonc import parse, plain, with_entry

ENTRY: JSON = {"command": "toolrun", "args": ["serve"]}

COMMENTED = """\
// our servers
{
  /* kept */
  "inputs": [1, 2,],
  "servers": {
    "url": {"url": "https://x.example//y"}, // not "a comment"
    // the last one
  },
}
"""


def test_comments_and_trailing_commas_are_read_over() -> None:
    assert parse(COMMENTED) == {"inputs": [1, 2], "servers": {"url": {"url": "https://x.example//y"}}}
    assert len(plain(COMMENTED)) == len(COMMENTED)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1', "line 1, column 8"),
        ('{\n  // one\n  "a": 1 "b": 2\n}', "line 3, column 10"),
        ('{"a": "open', "line 1"),
        ('{"a",}', "line 1, column 6"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=place):
        parse(text)


def test_an_entry_is_put_after_the_last_and_its_comments() -> None:
    changed = with_entry(COMMENTED, "servers", "toolrun", {"command": "x"})
    assert changed == COMMENTED.replace(
        "    // the last one\n",
        '    // the last one\n    "toolrun": {\n      "command": "x"\n    }\n',
    )


def test_a_comma_goes_before_the_comments() -> None:
    text = '{\n\t"servers": {\n\t\t"a": {} // one\n\t}\n}\n'
    changed = '{\n\t"servers": {\n\t\t"a": {}, // one\n\t\t"b": 1\n\t}\n}\n'
    assert with_entry(text, "servers", "b", 1) == changed


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", '{\n  "servers": {\n    "b": 1\n  }\n}\n'),
        ("  \n", '{\n  "servers": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "servers": {\n    "b": 1\n  }\n}'),
        ('{"servers": {}}', '{"servers": {\n  "b": 1\n}}'),
        ('{"servers":{"a":{}}}', '{"servers":{"a":{}, "b": 1}}'),
        ('{\r\n  "x": 1\r\n}\r\n', '{\r\n  "x": 1,\r\n  "servers": {\r\n    "b": 1\r\n  }\r\n}\r\n'),
        ('{\n  "servers": {\n    "b": {"old": 1}, // ours\n  }\n}', '{\n  "servers": {\n    "b": 1, // ours\n  }\n}'),
        ('{"servers": {"b": 0}, "servers": {"b": 2}}', '{"servers": {"b": 0}, "servers": {"b": 1}}'),
    ],
)
def test_an_entry_fits_into_what_is_there(text: str, changed: str) -> None:
    assert with_entry(text, "servers", "b", 1) == changed


@pytest.mark.parametrize("text", ["[]", "5", '{"servers": []}', '{"servers": null}', '{"servers": {}', "null"])
def test_a_file_that_is_something_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        with_entry(text, "servers", "b", 1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(alphabet='a/*"\\ ,{}\n', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='b/*", ', max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(["servers", "x", "//", "inputs"]), VALUES),
    st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
    st.text(max_size=3),
    st.sampled_from([None, 0, 1, 2, "\t"]),
    st.booleans(),
)
def test_everything_else_stays_whatever_is_there(
    document: dict[str, object], servers: dict[str, object], name: str, indent: int | str | None, has_comments: bool
) -> None:
    document["servers"] = servers
    text = json.dumps(document, indent=indent)
    if has_comments:
        text = f"/* , */ {text} // end"
    assert parse(with_entry(text, "servers", name, ENTRY)) == {**document, "servers": {**servers, name: ENTRY}}
