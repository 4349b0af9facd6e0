"""What is repaired, what is left alone, and how it is recorded."""

from __future__ import annotations

import copy
import json
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.json import JSON
from toolrun.schema import ArgumentSchema, Checked
from toolrun.schema.reading import folded, scalars
from toolrun.schema.repair_record import Repair
from toolrun.schema.value import same

Schema: TypeAlias = dict[str, Any]

INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
STRING: Schema = {"type": "string"}
NULL: Schema = {"type": "null"}
ON_OFF: Schema = {"enum": ["on", "off"]}
EXPRESSION: Schema = {"$ref": "#/$defs/expression"}


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def any_of(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def point(**required: Schema) -> Schema:
    return {"type": "object", "properties": dict(required), "required": list(required)}


TAGGED: Schema = {"oneOf": [point(k={"const": "a"}, n=INTEGER), point(k={"const": "b"}, n=BOOLEAN)]}


def check(schema: Schema, value: JSON, **root: Any) -> Checked:
    """Checks the value as the one argument `v`."""
    return ArgumentSchema({"type": "object", "properties": {"v": schema}, **root}).check({"v": value})


@pytest.mark.parametrize(
    ("schema", "sent", "expected"),
    [
        (INTEGER, "5", 5),
        (INTEGER, " +5\n", 5),
        (INTEGER, "-5", -5),
        (INTEGER, "5.0", 5),
        (INTEGER, "1e3", 1000),
        (INTEGER, "12345678901234567890123", 12345678901234567890123),
        (NUMBER, "5", 5),
        (NUMBER, "-2.5e-3", -0.0025),
        (NUMBER, "1e300", 1e300),
        (BOOLEAN, "true", True),
        (BOOLEAN, " FALSE ", False),
        (BOOLEAN, "yes", True),
        (BOOLEAN, "No", False),
        (any_of(BOOLEAN, NULL), "YES", True),
        ({"type": ["boolean", "null"]}, "no", False),
        (NULL, "null", None),
        (NULL, "None", None),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["integer", "number"]}, "5", 5),
        ({"type": ["integer", "boolean"]}, "true", True),
        ({"const": 3}, "3", 3),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "integer", "enum": [1, 2]}, "2", 2),
        ({"enum": [True, "auto"]}, "True", True),
        (ON_OFF, "ON ", "on"),
        ({"const": "Straße"}, "STRASSE", "Straße"),
        ({"enum": ["in_progress", "done"]}, "In Progress", "in_progress"),
        ({"enum": ["in-progress", "done"]}, "in_progress", "in-progress"),
        ({"enum": ["in progress", "done"]}, " IN--PROGRESS", "in progress"),
        ({"type": "string", "enum": ["1", "2"]}, 2, "2"),
        ({"enum": ["1", "2"]}, 2.0, "2"),
        ({"enum": ["2.5", "3"]}, 2.5, "2.5"),
        ({"enum": ["true", "false", "auto"]}, True, "true"),
        (STRING, ["x"], "x"),
        (INTEGER, [5], 5),
        (INTEGER, ["5"], 5),
        (ON_OFF, ["ON"], "on"),
        (any_of(INTEGER, NULL), [5], 5),
        (array_of(STRING), "['x', \"it's\"]", ["x", "it's"]),
        (array_of(BOOLEAN), "[True, False,]", [True, False]),
        (point(x=STRING), "{'x': 'a\\'b'}", {"x": "a'b"}),
        (array_of(STRING), '["x", "y"]', ["x", "y"]),
        (array_of(INTEGER), '["1", 2]', [1, 2]),
        (array_of(STRING), "x", ["x"]),
        (array_of(INTEGER), "5", [5]),
        (array_of(INTEGER), 5, [5]),
        (array_of(ON_OFF), "ON", ["on"]),
        (array_of(INTEGER), ["1", 2, "3"], [1, 2, 3]),
        ({"type": "array", "prefixItems": [INTEGER, BOOLEAN], "items": NUMBER}, ["1", "true", "2.5"], [1, True, 2.5]),
        (point(x=INTEGER), '{"x": "1"}', {"x": 1}),
        (point(x=point(y=INTEGER)), {"x": {"y": "1"}}, {"x": {"y": 1}}),
        ({"type": "object", "additionalProperties": INTEGER}, {"a": "1", "b": 2}, {"a": 1, "b": 2}),
        (any_of(INTEGER, NULL), "7", 7),
        (any_of(INTEGER, NULL), "null", None),
        (any_of(INTEGER, NUMBER), "7", 7),
        (any_of(array_of(INTEGER), NULL), "[1]", [1]),
        (any_of(array_of(STRING), NULL), "None", None),
        (any_of(INTEGER, array_of(INTEGER)), "5", 5),
        (TAGGED, {"k": "b", "n": "true"}, {"k": "b", "n": True}),
        ({"allOf": [INTEGER, {"minimum": 3}]}, "5", 5),
        ({"allOf": [point(x=INTEGER), point(y=BOOLEAN)]}, {"x": "1", "y": "true"}, {"x": 1, "y": True}),
        (any_of(any_of(INTEGER, NULL), BOOLEAN), "5", 5),
    ],
)
def test_what_has_one_reading_is_repaired(schema: Schema, sent: JSON, expected: JSON) -> None:
    checked = check(schema, sent)
    assert checked.problems == ()
    assert same(checked.arguments["v"], expected)
    assert type(checked.arguments["v"]) is type(expected)
    assert checked.repairs
    assert all(repair.path.startswith("v") for repair in checked.repairs)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (INTEGER, ""),
        (INTEGER, "5.5"),
        (INTEGER, "007"),
        (INTEGER, "0x10"),
        (INTEGER, "1_000"),
        (INTEGER, "1,000"),
        (INTEGER, "٣"),
        (INTEGER, "five"),
        (INTEGER, "9" * 65),
        (INTEGER, True),
        (INTEGER, 5.5),
        (NUMBER, "nan"),
        (NUMBER, "Infinity"),
        (NUMBER, "1e999"),
        (NUMBER, "1e-999"),
        (NUMBER, ".5"),
        (NUMBER, "5."),
        (BOOLEAN, "on"),
        (BOOLEAN, "y"),
        ({"type": ["boolean", "integer"]}, "yes"),
        (BOOLEAN, "1"),
        (BOOLEAN, 1),
        (NULL, "nil"),
        (STRING, 5),
        (STRING, None),
        (ON_OFF, "o"),
        ({"enum": ["on", "ON"]}, "On"),
        ({"enum": ["1", "1.0"]}, 1),
        ({"enum": ["-5", "10"]}, "5"),
        ({"enum": ["a b", "a-b"]}, "a_b"),
        ({"enum": ["1", "2"]}, True),
        (STRING, ["x", "y"]),
        (STRING, [5]),
        (STRING, []),
        (STRING, [["x"]]),
        (STRING, [None]),
        (point(x=INTEGER), [{"x": 1}]),
        (array_of(STRING), "M, L"),
        (array_of(STRING), "M;L"),
        (array_of(STRING), "M|L"),
        (array_of(STRING), "M\nL"),
        (array_of(STRING), "null"),
        (array_of(STRING), "None"),
        (array_of(STRING), " NULL "),
        (array_of(any_of(STRING, NULL)), "null"),
        (array_of(STRING), "['x', 'y'"),
        (array_of(STRING), "['x' 'y']"),
        (point(x=INTEGER), "{'x': 1, 'x': 2}"),
        (array_of(STRING), "[x, y]"),
        (array_of(STRING), '{"x": 1}'),
        (array_of(STRING), " "),
        (array_of(STRING), None),
        (array_of(INTEGER), "x"),
        (array_of(point(x=INTEGER)), {"x": 1}),
        ({"type": "array"}, "x"),
        ({"type": "array", "items": {}}, "x"),
        ({"type": "array", "items": INTEGER, "minItems": 2}, 5),
        (point(x=INTEGER), "[1]"),
        (array_of(array_of(INTEGER)), 5),
        (array_of(array_of(NUMBER)), [1, 2]),
        (array_of(array_of(NUMBER)), [[1, 2], 3]),
        (array_of(array_of(STRING)), ["x"]),
        (array_of(any_of(array_of(STRING), NULL)), ["x"]),
        (array_of(any_of(array_of(INTEGER), point(x=INTEGER))), [1]),
    ],
)
def test_what_has_no_reading_is_left_and_refused(schema: Schema, sent: JSON) -> None:
    checked = check(schema, sent)
    assert checked.problems
    assert same(checked.arguments["v"], sent)
    assert checked.repairs == ()


@pytest.mark.parametrize("separator", [*",;|\n，、；｜،؛", ", ", " 、 "])
def test_a_text_that_names_several_things_is_no_single_item(separator: str) -> None:
    assert check(array_of(STRING), f"M{separator}L").problems


@pytest.mark.parametrize("around", ["{}", "'{}'", '"{}"', "`{}`", "<{}>", "({})", "{}.", " {} ", "'{}'."])
@pytest.mark.parametrize("word", ["null", "None", "NIL", "undefined", "n/a", "NaN"])
def test_a_word_for_no_value_is_no_single_item(word: str, around: str) -> None:
    assert check(array_of(STRING), around.format(word)).problems


def test_a_single_value_for_a_list_in_an_object_is_one_item() -> None:
    assert check(array_of(point(tags=array_of(STRING))), [{"tags": "x"}]).arguments == {"v": [{"tags": ["x"]}]}
    assert check(point(**{"0": array_of(STRING)}), {"0": "x"}).arguments == {"v": {"0": ["x"]}}


def test_what_several_alternatives_read_differently_is_left() -> None:
    checked = check(any_of({"enum": ["Up", "down"]}, {"enum": ["UP", "left"]}), "up")
    assert checked.arguments == {"v": "up"}
    assert checked.repairs == ()
    assert checked.problems


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (STRING, "5"),
        (STRING, '["x"]'),
        ({"type": ["string", "integer"]}, "5"),
        (any_of(INTEGER, STRING), "5"),
        ({}, "5"),
        ({"enum": ["ON", "on"]}, "ON"),
        (array_of(STRING), ["5", "true"]),
        (any_of(BOOLEAN, array_of(any_of(STRING, INTEGER))), ["1"]),
    ],
)
def test_what_is_valid_is_never_touched(schema: Schema, sent: JSON) -> None:
    checked = check(schema, sent)
    assert checked.arguments == {"v": sent}
    assert checked.problems == ()
    assert checked.repairs == ()


def test_a_reading_that_breaks_another_rule_is_taken_so_that_the_refusal_speaks_of_that_rule() -> None:
    checked = check({"type": "integer", "minimum": 10}, "5")
    assert [problem.message for problem in checked.problems] == ["'v' must be at least 10, got 5"]


@pytest.mark.parametrize("reference", ["#/$defs/n", "#/%24defs/n", "#/$defs/a~1b%20%25~0"])
def test_local_references_are_followed(reference: str) -> None:
    checked = check({"$ref": reference}, "5", **{"$defs": {"n": INTEGER, "a/b %~": INTEGER}})
    assert checked.arguments == {"v": 5}


@pytest.mark.parametrize("root", [{}, {"$id": "https://example.org/tool"}])
def test_recursive_schemas_are_repaired_at_every_level(root: Schema) -> None:
    tree: Schema = {"type": "object", "properties": {"n": INTEGER, "children": array_of({"$ref": "#/$defs/tree"})}}
    sent: JSON = {"n": "1", "children": [{"n": "2", "children": '[{"n": "3"}]'}]}
    checked = check({"$ref": "#/$defs/tree"}, sent, **{**root, "$defs": {"tree": tree}})
    assert checked.arguments == {"v": {"n": 1, "children": [{"n": 2, "children": [{"n": 3}]}]}}
    assert [str(repair) for repair in checked.repairs] == [
        'v.n: "1" → 1 (number sent as text)',
        'v.children[0].n: "2" → 2 (number sent as text)',
        'v.children[0].children: "[{\\"n\\": \\"3\\"}]" → [{"n": "3"}] (list sent as text)',
        'v.children[0].children[0].n: "3" → 3 (number sent as text)',
    ]


def test_parts_with_references_of_other_kinds_are_left_alone() -> None:
    anchored: Schema = {"$defs": {"n": {"$anchor": "number", "type": "integer"}}}
    assert check({"$ref": "#number"}, "5", **anchored).problems
    own_base: Schema = {"$id": "https://example.org/x", "$ref": "#/$defs/n", "$defs": {"n": INTEGER}}
    assert check(own_base, "5", **{"$defs": {"n": STRING}}).problems


def test_references_that_lead_in_a_circle_end() -> None:
    schema = {"anyOf": [{"$ref": "#/$defs/loop"}, INTEGER]}
    loop: Schema = {"allOf": [{"$ref": "#/$defs/loop"}], "type": "integer"}
    assert check(schema, "5", **{"$defs": {"loop": loop}}).arguments == {"v": 5}


def test_older_drafts_are_repaired_too() -> None:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": INTEGER}}
    pair: Schema = {"type": "array", "items": [{"$ref": "#/definitions/n"}, BOOLEAN]}
    assert check(pair, ["1", "true"], **draft).arguments == {"v": [1, True]}


def test_alternatives_that_share_recursive_parts_do_not_multiply() -> None:
    operations = [point(op={"const": op}, left=EXPRESSION, right=EXPRESSION) for op in "+-*/"]
    sent: JSON = "7"
    for depth in range(20):
        sent = {"op": "+-*/"[depth % 4], "left": "1", "right": sent}
    checked = check(EXPRESSION, sent, **{"$defs": {"expression": any_of(*operations, INTEGER)}})
    assert checked.problems == ()
    assert len(checked.repairs) == 21


def test_a_repair_that_would_take_too_long_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolrun.schema.repair.MAX_WORK", 1000)
    assert check(array_of(INTEGER), ["1"] * 10).problems == ()
    checked = check(array_of(INTEGER), ["1"] * 100)
    assert checked.repairs == ()
    assert checked.problems


def test_a_repair_is_one_short_readable_line() -> None:
    assert str(Repair("b", "2", 2, "number sent as text")) == 'b: "2" → 2 (number sent as text)'
    line = str(Repair("", {"args": "x" * 1000}, {}, "wrapped"))
    assert line.startswith('arguments: {"args": "xxx')
    assert "… → {} (wrapped)" in line
    assert len(line) < 200


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SMALL = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e15, 1e15) | TEXT
KINDS: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
    "integer": (INTEGER, st.integers(-(10**60), 10**60)),
    "number": (NUMBER, st.floats(allow_nan=False, allow_infinity=False)),
    "boolean": (BOOLEAN, st.booleans()),
    "array": ({"type": "array"}, st.lists(SMALL, max_size=4).map(list)),
    "object": ({"type": "object"}, st.dictionaries(TEXT, SMALL, max_size=4).map(dict)),
}


@given(st.data(), st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
def test_arguments_sent_as_text_come_back_as_they_were(data: st.DataObject, kinds: list[str]) -> None:
    schema: Schema = {f"p{i}": KINDS[kind][0] for i, kind in enumerate(kinds)}
    arguments: dict[str, JSON] = {f"p{i}": data.draw(KINDS[kind][1]) for i, kind in enumerate(kinds)}
    sent: dict[str, JSON] = {name: json.dumps(value) for name, value in arguments.items()}
    checked = ArgumentSchema({"type": "object", "properties": schema}).check(sent)
    assert checked.problems == ()
    assert same(dict(checked.arguments), arguments)
    assert len(checked.repairs) == len(arguments)


@given(TEXT, st.sampled_from([STRING, {"type": ["string", "integer"]}, any_of(STRING, BOOLEAN, NULL), {}]))
def test_text_is_never_changed_where_text_is_accepted(text: str, schema: Schema) -> None:
    sent: dict[str, JSON] = {"v": text, "list": [text], "wrong": "5"}
    checked = ArgumentSchema(
        {"type": "object", "properties": {"v": schema, "list": array_of(schema), "wrong": INTEGER}}
    ).check(sent)
    assert checked.arguments == {"v": text, "list": [text], "wrong": 5}
    assert [repair.path for repair in checked.repairs] == ["wrong"]


@given(st.recursive(SMALL, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)))
def test_the_objects_of_the_caller_are_never_changed(value: JSON) -> None:
    schema = array_of(any_of(INTEGER, array_of(INTEGER), {"type": "object", "additionalProperties": BOOLEAN}))
    sent: dict[str, JSON] = {"v": value, "w": ["1", {"x": "true"}, "[1]"], "extra": 1}
    before = copy.deepcopy(sent)
    ArgumentSchema({"type": "object", "properties": {"v": schema, "w": schema}}).check(sent)
    assert sent == before


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (["a", "b", "a", "a"], ["a", "b"]),
        ([1, 1.0, True, "1"], [1, True, "1"]),
        ([{"x": 1}, {"x": 1.0}, {"x": 2}, {"y": 1}], [{"x": 1}, {"x": 2}, {"y": 1}]),
        ([[1], [1], [2]], [[1], [2]]),
        ([None, None, 0, False], [None, 0, False]),
    ],
)
def test_a_list_that_stands_for_a_set_keeps_each_item_once(sent: list[JSON], kept: list[JSON]) -> None:
    schema: Schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    checked = ArgumentSchema(schema).check({"a": sent})
    assert checked.arguments == {"a": kept}
    assert repr(checked.arguments["a"]) == repr(kept)
    [repaired] = checked.repairs
    assert (repaired.path, repaired.before, repaired.after) == ("a", sent, kept)
    assert checked.problems == ()


def test_a_set_that_is_too_small_without_its_doubles_is_refused() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2}},
    }
    checked = ArgumentSchema(schema).check({"a": ["1", 1]})
    assert checked.problems
    assert ArgumentSchema(schema).check({"a": ["1", 1, 2]}).arguments == {"a": [1, 2]}


WORDS = st.sampled_from(["on", "ON", "o-n", "o n", "1", "1.0", "true", "True", "null", "None", "2.5", "x y"])
SCALARS = st.one_of(WORDS, st.sampled_from([1, 1.0, 2.5, 0, True, False, None]))


@given(options=st.lists(SCALARS, min_size=1, max_size=8), value=SCALARS)
def test_the_option_that_is_meant_is_the_one_that_a_look_at_each_of_them_finds(options: Any, value: JSON) -> None:
    if any(same(value, it) for it in options):
        return
    texts = [it for it in options if isinstance(it, str)]
    if isinstance(value, str):
        meant = [it for it in texts if folded(it) == folded(value)]
        meant = meant or [it for it in options if any(same(it, read) for read, _ in scalars(value))]
    else:
        meant = [it for it in texts if value is not None and any(same(value, read) for read, _ in scalars(it))]
    expected = meant[0] if len(meant) == 1 else value
    assert same(check({"enum": options}, value).arguments["v"], expected)


def test_options_are_looked_through_once_however_many_values_are_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def counted(text: str) -> str:
        nonlocal asked
        asked += 1
        return folded(text)

    monkeypatch.setattr("toolrun.schema.repair.folded", counted)
    options = [f"option-{n}" for n in range(100)]
    check(array_of({"enum": options}), ["nope", "no"] * 50)
    assert asked == len(options) + 100
