"""Text that is almost JSON: what is read, what is refused, and that nothing is added."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.json import JSON
from toolrun.schema.lenient import UnreadableError, read_object, read_value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ("{'a': True, 'b': None, 'c': False}", {"a": True, "b": None, "c": False}),
        ("{'a': \"it's\", 'b': 'say \"x\"'}", {"a": "it's", "b": 'say "x"'}),
        ("{'a': 'it\\'s'}", {"a": "it's"}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('Sure, here you are:\n```\n{"a": 1,}\n```\nAnything else?', {"a": 1}),
        ('<tool_call>{"a": {"b": 2}}</tool_call>', {"a": {"b": 2}}),
        ('call({"a": 1})', {"a": 1}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": "\\ud83d\\ude00 \\/ \\u00e9",}', {"a": "😀 / é"}),
        ("'{\"a\": 1}'", {"a": 1}),
        ('{"a": -1.5e3, "b": 12345678901234567890123,}', {"a": -1500.0, "b": 12345678901234567890123}),
        ("{}.", {}),
        ("Here's what I'd send: {'a': 1}. It's fine", {"a": 1}),
        ('Arguments: {"a": 1}', {"a": 1}),
        ('I call "search" now: {"a": 1} ("safe")', {"a": 1}),
    ],
)
def test_what_can_mean_one_thing_is_read(text: str, expected: JSON) -> None:
    assert read_object(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": "x',
        '{"a": 1, "b": "x"',
        '{"a": 1,',
        '[{"a": 1}',
        '{"x": {"a": 1}',
        '({"a": 1}',
        '"{"a": 1}',
        '```json\n{"a": 1}',
        '{"a": 1},',
        '{"a": 1}}',
        '{"a": 1} or {"a": 2}',
        'from {"a": 1} to {',
        '{"a": 1, "a": 2,}',
        "{'a': 1, 'b': {'c': 1, 'c': 1}}",
        "{'a': 'it's'}",
        "{'a': 'x' 'y'}",
        "{a: 1}",
        '{"a": x}',
        '{"a": NaN,}',
        '{"a": Infinity,}',
        '{"a": 1e999,}',
        '{"a": 01,}',
        '{"a": .5,}',
        '{"a": 1_000,}',
        '{"a": 0x10,}',
        '{"a": (1, 2)}',
        '{"a": {1, 2}}',
        "{'a': b'x'}",
        "{'a': 'x\ny'}",
        "{'a': '\\/'}",
        "{'a': '\\ud800'}",
        "{'a': '\\x41'}",
        '{"a": "\x00",}',
        '{"a": "\ud800",}',
        '{"a": 1 /* one */}',
        "{,}",
        '"prefix": "a", "opts": {"dry_run": true}',
        'dry_run: true, opts: {"prefix": "a"}',
        'limit = 5 {"prefix": "a"}',
        'f(dry_run=True, {"prefix": "a"})',
        'f(options={"prefix": "a"})',
        '{"prefix": "a"}\n"limit": 5, "dry_run": true',
        '{"prefix": "a"} and dry_run=False',
        "{'prefix': 'a'} 'b",
        "'b {'prefix': 'a'}",
        ': {"a": 1}',
        "word " * 30_000 + '{"a": 1}',
        '1, {"a": 1}',
        "[1, 2,]",
        "just words",
        "",
        "{'a': " * 200 + "1" + "}" * 200,
        '{"a": [' + "1," * 20_000 + "]}",
        '{"a": ' + "9" * 5000 + ",}",
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_what_is_cut_off_or_can_mean_several_things_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_object(text)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)


@given(OBJECTS)
def test_json_is_read_as_json(value: dict[str, Any]) -> None:
    assert read_value(json.dumps(value)) == value
    assert read_value(json.dumps(value, ensure_ascii=False, indent=1)) == value


@given(OBJECTS, st.data())
def test_a_text_that_is_cut_off_anywhere_is_never_read(value: dict[str, Any], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([json.dumps(value), repr(value), f"Here: {json.dumps(value)}"]))
    end = data.draw(st.integers(0, text.rindex("}")))
    with pytest.raises(UnreadableError):
        read_object(text[:end])


WORDS = st.text(st.sampled_from("ab z"), max_size=4)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, PLAIN, min_size=1, max_size=4), st.data())
def test_a_part_of_an_object_is_never_read_unless_it_is_an_object_itself(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from([json.dumps(value), repr(value)]))
    start = data.draw(st.integers(1, len(text)))
    part = text[start : data.draw(st.integers(start, len(text)))].strip()
    if part.startswith("{") and part.endswith("}"):
        return
    with pytest.raises(UnreadableError):
        read_object(part)


@pytest.mark.parametrize("text", ['opts: {"a": 1}', '{"a": 1} opts : x', '{"a": 1}\nopts=[', 'say opts=x {"a": 1}'])
def test_a_known_name_beside_an_object_is_no_prose(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_object(text, ["opts"])
    assert read_object('options: {"a": 1}', ["opts"]) == {"a": 1}


@given(st.text(st.sampled_from("{}[]:,\"'\\nabu01 -.eTrueNo`("), max_size=40))
def test_every_key_and_text_stands_in_what_was_read(text: str) -> None:
    try:
        value = read_object(text)
    except UnreadableError:
        return
    for found in texts_in(value):
        for part in found.split():  # an escape stands for white space, quotes and backslashes
            assert all(piece in text for piece in part.replace("\\", "'").replace('"', "'").split("'")), (found, text)


def texts_in(value: JSON) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in texts_in(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    return [value] if isinstance(value, str) else []
