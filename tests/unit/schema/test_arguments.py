"""Which arguments pass, how they are read, and what holds for every schema."""

from __future__ import annotations

import copy
import json
import math
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.schema import ArgumentSchema, Checked, Problem
from toolrun.schema.explain import explain
from toolrun.schema.origin import Origin

Schema: TypeAlias = dict[str, Any]

ADD: Schema = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def obj(required: list[str] | None = None, /, **properties: Any) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def check(schema: Any, arguments: object, *, strict: bool = False) -> Checked:
    return ArgumentSchema(schema).check(arguments, strict=strict)


def messages(schema: Any, arguments: object, *, strict: bool = False) -> list[str]:
    return [problem.message for problem in check(schema, arguments, strict=strict).problems]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2.0}, True),
        ({"a": 1}, False),
        ({"a": 1, "b": "2"}, False),
        ({"a": 1, "b": 2, "c": 3}, False),
        ({"a": 1, "b": True}, False),
        ({1: 2}, False),
        ({"a": {1}, "b": 2}, False),
        ({"a": "\ud800", "b": "\ud800"}, False),
        ('{"a": 1, "b": 2}', False),
        (None, False),
        ([], False),
    ],
)
def test_only_arguments_that_need_nothing_are_accepted(arguments: object, expected: bool) -> None:
    assert ArgumentSchema(ADD).is_valid(arguments) is expected


@pytest.mark.parametrize("levels", [200, 200_000])
def test_arguments_nested_too_deep_are_refused_and_end_nothing(levels: int) -> None:
    schema = ArgumentSchema(obj(a={"$ref": "#"}))
    arguments: dict[str, Any] = {}
    for _ in range(levels):
        arguments = {"a": arguments}
    assert not schema.is_valid(arguments)
    assert "nested deeper than 100 levels" in schema.check(arguments).problems[0].message
    while arguments:  # freed from the outside: the interpreter frees nested objects recursively
        arguments = arguments.pop("a")


def test_arguments_that_hold_themselves_are_refused() -> None:
    arguments: dict[str, Any] = {"a": 1, "b": 2}
    arguments["c"] = [arguments]
    assert "nested deeper" in messages(ADD, arguments)[0]


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2}', b'{"a": 1, "b": 2}', bytearray(b' {"a":1,"b":2}\n')])
def test_arguments_may_be_json_text(text: object) -> None:
    assert check(ADD, text) == Checked({"a": 1, "b": 2})


@pytest.mark.parametrize("nothing", [None, "", "  ", "null", "{}", b""])
def test_no_arguments_are_an_empty_object(nothing: object) -> None:
    assert check(obj(), nothing) == Checked({})


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": 2, "a": 3}',
        '{"a": 1, "b": 2, "a": true}',
        b'{"a": 1, "\\u0061": 3, "b": 2}',
        '"{\\"a\\": 1, \\"a\\": 3}"',
    ],
)
def test_a_key_that_comes_twice_with_different_values_is_refused(text: str | bytes) -> None:
    checked = check(ADD, text)
    assert checked.problems
    assert checked.arguments == {}


def test_the_refusal_of_a_key_that_comes_twice_names_it() -> None:
    nested = '{"a": 1, "b": 2, "filter": [{"tag": "x", "tag": "y"}]}'
    assert messages(ADD, nested) == ["'tag' is sent twice, with different values: send it once"]


def test_a_key_that_comes_twice_with_the_same_value_is_no_problem() -> None:
    checked = check(ADD, '{"a": 1, "b": 2, "a": 1.0, "b": 2}')
    assert (checked.arguments, checked.problems) == ({"a": 1, "b": 2}, ())


def test_an_object_sent_as_text_with_a_key_twice_is_no_object() -> None:
    schema = obj(where={"type": "object"})
    assert check(schema, {"where": '{"x": 1}'}).arguments == {"where": {"x": 1}}
    assert check(schema, {"where": '{"x": 1, "x": 2}'}).problems


def test_arguments_encoded_twice_are_a_repair() -> None:
    checked = check(ADD, json.dumps(json.dumps({"a": 1, "b": "2"})))
    assert checked.arguments == {"a": 1, "b": 2}
    assert [repair.reason for repair in checked.repairs] == ["arguments encoded as JSON twice", "number sent as text"]
    assert checked.repairs[0].path == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ('{"a": 1,, "b": 2}', "not valid JSON: unexpected character, expected a string key: line 1 column 9 (char 8)"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": "\ud800"}', "not valid JSON"),
        (b"\xff", "not valid JSON"),
        ("[" * 5000, "not valid JSON"),
        ("[1, 2]", "must be an object, got [1, 2] (array)"),
        ('"text"', 'must be an object, got "text" (string)'),
        (7, "must be an object, got 7 (integer)"),
        (object(), 'must be an object, got "<object>" (object)'),
        ('{"a": "' + "x" * 10_000_000 + '"}', "larger than 10,000,000 characters"),
        ({"a": math.nan, "b": 1}, "'a' must be a number, got NaN"),
        ({"a": {1}, "b": 1}, "'a' is a set, which JSON cannot express"),
        ({"a": [{"x": b""}], "b": 1}, "'a[0].x' is a bytes, which JSON cannot express"),
        ({"a": "\ud800", "b": 1}, "'a' is not valid text: \"\\ud800\" holds half a character"),
        ({"\ud800": 1}, 'the name "\\ud800" is not valid text'),
        ({1: 1}, "the name 1 is not valid text"),
    ],
    ids=lambda value: str(value).partition(" at 0x")[0][:30].encode("ascii", "replace").decode(),
)
def test_what_cannot_be_read_is_said(arguments: object, complaint: str) -> None:
    checked = check(ADD, arguments)
    assert complaint in explain(checked.problems)
    assert len(checked.problems) == 1
    assert explain(checked.problems).encode()


WRAPPERS = ["args", "arguments", "input", "kwargs", "parameters", "params", "properties", "tool_input", "function_args"]


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("encode", [dict, json.dumps])
def test_arguments_in_a_wrapper_are_taken_out(name: str, encode: Any) -> None:
    checked = check(ADD, {name: encode({"a": 1, "b": "2"})})
    assert checked.arguments == {"a": 1, "b": 2}
    assert [repair.path for repair in checked.repairs] == ["", "b"]
    assert checked.repairs[0].reason == f"arguments wrapped in '{name}'"


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (obj(input={"type": "object"}), {"input": {"a": 1}}),
        (ADD | {"required": [], "additionalProperties": True}, {"args": {"a": 1}}),
    ],
)
def test_a_wrapper_that_the_schema_may_mean_is_kept(schema: Schema, arguments: Any) -> None:
    assert check(schema, arguments) == Checked(arguments)


OPEN: Schema = obj(a={"type": "integer"}, dry_run={"type": "boolean"}) | {"additionalProperties": True}


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("encode", [dict, json.dumps])
@pytest.mark.parametrize("inner", [{"a": 1}, {"a": "1"}, {"dryRun": True}, {"a": 1, "x": 2}], ids=str)
def test_a_function_that_takes_any_names_gets_its_own_out_of_a_wrapper(name: str, encode: Any, inner: Any) -> None:
    checked = ArgumentSchema(OPEN, Origin.SIGNATURE).check({name: encode(inner)})
    expected = ArgumentSchema(OPEN, Origin.SIGNATURE).check(inner)
    assert (checked.arguments, checked.problems) == (expected.arguments, ())
    assert f"arguments wrapped in '{name}'" in [repair.reason for repair in checked.repairs]


@pytest.mark.parametrize("arguments", [{"args": {"x": 2}}, {"args": {}}, {"args": {"a": 1}, "b": 1}, {"x": {}}])
def test_a_function_that_takes_any_names_gets_what_may_be_meant_for_it_as_it_is(arguments: Any) -> None:
    assert ArgumentSchema(OPEN, Origin.SIGNATURE).check(arguments) == Checked(arguments)


@pytest.mark.parametrize("arguments", [{"args": {"a": 1, "b": 2}, "x": 1}, {"args": [1, 2]}, {"args": "1"}])
def test_what_is_no_wrapper_is_an_unknown_name(arguments: Any) -> None:
    unknown = [f"unknown parameter '{name}'" for name in arguments]
    assert messages(ADD, arguments) == ["missing 'a'", "missing 'b'", *unknown]


CLOSED: list[Schema] = [
    ADD | {"additionalProperties": False},
    ADD | {"unevaluatedProperties": False},
    {"$ref": "#/$defs/x", "$defs": {"x": ADD | {"additionalProperties": False}}},
    {"allOf": [ADD, {"$ref": "#/$defs/x"}], "$defs": {"x": ADD | {"additionalProperties": False}}},
    {"oneOf": [ADD | {"additionalProperties": False}, obj(["q"], q={}) | {"additionalProperties": False}]},
]


@pytest.mark.parametrize("schema", CLOSED, ids=str)
@pytest.mark.parametrize("origin", [Origin.DECLARED, Origin.SERVER])
def test_names_that_somebody_decided_to_refuse_are_refused(schema: Schema, origin: Origin) -> None:
    checked = ArgumentSchema(schema, origin).check({"a": 1, "x": 0, "b": 2, "y": None})
    assert [problem.message for problem in checked.problems] == ["unknown parameter 'x'", "unknown parameter 'y'"]
    assert checked.dropped == ()


@pytest.mark.parametrize("schema", CLOSED, ids=str)
def test_a_schema_of_our_own_making_decides_nothing_so_what_it_does_not_know_is_dropped(schema: Schema) -> None:
    checked = ArgumentSchema(schema, Origin.SIGNATURE).check({"a": 1, "x": 0, "b": 2, "y": None})
    assert checked == Checked({"a": 1, "b": 2}, dropped=("x", "y"))


@pytest.mark.parametrize(
    "schema",
    [
        ADD,
        {"allOf": [obj(["a"], a={"type": "integer"}), obj(["b"], b={"type": "integer"})]},
        ADD | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        ADD | {"not": {"required": ["z"], "additionalProperties": False}},
    ],
    ids=str,
)
def test_names_of_which_nothing_is_said_are_dropped_or_left_to_a_server(schema: Schema) -> None:
    sent: dict[str, Any] = {"a": 1, "x": 0, "b": 2, "y": None}
    assert check(schema, sent) == Checked({"a": 1, "b": 2}, dropped=("x", "y"))
    assert ArgumentSchema(schema, Origin.SERVER).check(sent) == Checked(sent)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (ADD | {"additionalProperties": True}, {"a": 1, "b": 2, "x": 1}),
        (ADD | {"additionalProperties": {"type": "integer"}}, {"a": 1, "b": 2, "x": 1}),
        (ADD | {"patternProperties": {"^x-": {}}}, {"a": 1, "b": 2, "x-1": 1}),
        (ADD | {"unevaluatedProperties": {"type": "integer"}}, {"a": 1, "b": 2, "x": 1}),
        (ADD | {"anyOf": [obj(x={"type": "integer"}), obj(y={})]}, {"a": 1, "b": 2, "x": 1, "y": 2}),
        (ADD | {"if": {"required": ["c"]}, "then": obj(d={})}, {"a": 1, "b": 2, "c": 1, "d": 1}),
        (ADD | {"dependentSchemas": {"a": obj(e={})}}, {"a": 1, "b": 2, "e": 1}),
        ({"type": "object", "required": ["r"]}, {"r": 1}),
        ({"type": "object", "const": {"k": 1}}, {"k": 1}),
    ],
    ids=str,
)
def test_arguments_that_the_schema_may_know_are_kept(schema: Schema, arguments: Any) -> None:
    assert ArgumentSchema(schema).is_valid(arguments)
    assert check(schema, arguments, strict=True) == Checked(arguments)


def test_strict_refuses_what_is_not_known() -> None:
    schema = obj(query={"type": "string"}, limit={"type": "integer"}) | {"additionalProperties": False}
    checked = check(schema, {"qeury": "x", "limit": "5", "zzz": 1}, strict=True)
    assert checked.dropped == ()
    assert checked.problems == (
        Problem("qeury", "unknown parameter 'qeury' (did you mean 'query'?)"),
        Problem("zzz", "unknown parameter 'zzz'"),
    )


NAMES = st.sampled_from(["a", "b", "c d", "$ref", "é/~%"])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(-1e9, 1e9)
    | TEXT
    | st.sampled_from(["5", "true", "[1]", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXT, inner, max_size=3),
    max_leaves=8,
)
ODD_VALUES = st.recursive(
    JSON_VALUES
    | st.text(st.characters(), max_size=4)
    | st.sampled_from([math.nan, math.inf, b"x", {1}, object(), (1, "2"), 10**400, "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.integers() | st.text(), inner, max_size=3),
    max_leaves=6,
)
SIMPLE: st.SearchStrategy[Any] = st.sampled_from(
    [
        True,
        False,
        {},
        {"type": "integer"},
        {"type": "number", "minimum": 0},
        {"type": "string", "minLength": 1},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["integer", "string"]},
        {"type": ["boolean", "null"]},
        {"enum": ["on", "Off", 1, None]},
        {"const": "x"},
        {"type": "array"},
        {"type": "object"},
        {"type": "string", "pattern": "^[a-z]*$"},
        {"$ref": "#/$defs/a"},
        {"$ref": "#/$defs/b"},
        {"$ref": "#"},
    ]
)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda first, items: {"type": "array", "prefixItems": first, "items": items}, branches, inner),
        st.builds(objects, st.dictionaries(NAMES, inner, max_size=3), st.lists(NAMES, max_size=2, unique=True), inner),
        st.builds(lambda keyword, parts: {keyword: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), branches),
        st.builds(lambda part: {"not": part}, inner),
        st.builds(lambda part: {"contains": part, "maxContains": 1}, inner),
        st.builds(lambda one, two: {"if": one, "then": two}, inner, inner),
    )


def objects(properties: Schema, required: list[str], others: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": others}


SUBSCHEMAS = st.recursive(SIMPLE, combined, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    root = objects(
        draw(st.dictionaries(NAMES, SUBSCHEMAS, max_size=4)), draw(st.lists(NAMES, max_size=2, unique=True)), {}
    )
    extra = draw(st.sampled_from(["any", "none", "unsaid"]))
    if extra == "unsaid":
        del root["additionalProperties"]
    elif extra == "none":
        root["additionalProperties"] = False
    if draw(st.booleans()):
        root[draw(st.sampled_from(["anyOf", "allOf", "oneOf"]))] = draw(st.lists(SUBSCHEMAS, min_size=1, max_size=2))
    return root | {"$defs": {"a": draw(SUBSCHEMAS), "b": draw(SUBSCHEMAS)}}


@given(schemas(), st.dictionaries(NAMES | TEXT, JSON_VALUES, max_size=4) | ODD_VALUES, st.booleans())
def test_every_check_ends_in_an_answer_that_holds(schema: Schema, arguments: Any, strict: bool) -> None:
    compiled = ArgumentSchema(schema)
    checked = compiled.check(arguments, strict=strict)
    assert checked.problems or compiled.is_valid(checked.arguments)
    assert explain(checked.problems).encode()
    assert all(str(repair).encode() for repair in checked.repairs)
    if compiled.is_valid(arguments):
        assert checked == Checked(arguments)
    assert compiled.describe().encode()


PLAIN = st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])})


@given(
    schemas() | st.builds(objects, st.dictionaries(NAMES, PLAIN), st.lists(NAMES, unique=True), st.booleans()),
    st.dictionaries(NAMES | TEXT, JSON_VALUES | ODD_VALUES, max_size=4) | ODD_VALUES,
    st.sampled_from(Origin),
)
def test_the_fast_path_judges_as_the_slow_one_does(schema: Schema, arguments: Any, origin: Origin) -> None:
    compiled = ArgumentSchema(schema, origin)
    is_listed = isinstance(arguments, dict) and (arguments.keys() <= compiled.names or not compiled.names)
    assert compiled.fast_validator()(arguments) is (compiled.is_valid(arguments) and is_listed)
    if compiled.fast_validator()(arguments):
        assert compiled.check(arguments) == Checked(arguments)


@given(schemas(), st.dictionaries(NAMES | TEXT, JSON_VALUES, max_size=4))
def test_a_check_changes_nothing_of_the_callers(schema: Schema, arguments: dict[str, Any]) -> None:
    before = copy.deepcopy((schema, arguments))
    ArgumentSchema(schema).check(arguments)
    assert (schema, arguments) == before


@given(schemas(), st.dictionaries(NAMES | TEXT, JSON_VALUES, max_size=4))
def test_a_check_of_what_was_checked_finds_nothing_more(schema: Schema, arguments: dict[str, Any]) -> None:
    compiled = ArgumentSchema(schema)
    checked = compiled.check(arguments)
    if not checked.problems:
        assert compiled.check(checked.arguments) == Checked(checked.arguments)


@st.composite
def fitting(draw: st.DrawFn, depth: int = 2) -> tuple[Schema, Any]:
    """A schema and a value that it takes."""
    kinds = ["integer", "number", "boolean", "string", "null", "enum"] + (["array", "object", "union"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "enum":
            options = draw(st.lists(TEXT, min_size=1, max_size=3, unique=True))
            return {"enum": options}, draw(st.sampled_from(options))
        case "array":
            schema, value = draw(fitting(depth - 1))
            return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 2))
        case "object":
            return draw(fitting_objects(depth - 1))
        case "union":
            schema, value = draw(fitting(depth - 1))
            return {"anyOf": [{"type": "object", "required": ["never"]}, schema]}, value
        case kind:
            values: Any = {
                "integer": st.integers(),
                "number": st.floats(allow_nan=False, allow_infinity=False),
                "boolean": st.booleans(),
                "string": TEXT,
                "null": st.none(),
            }
            return {"type": kind}, draw(values[kind])


@st.composite
def fitting_objects(draw: st.DrawFn, depth: int) -> tuple[Schema, Any]:
    members = draw(st.dictionaries(NAMES, fitting(depth), max_size=3))
    schema = obj(list(members), **{name: schema for name, (schema, _) in members.items()})
    return schema, {name: value for name, (_, value) in members.items()}


@given(fitting_objects(2))
def test_valid_arguments_pass_as_they_are(case: tuple[Schema, Any]) -> None:
    schema, arguments = case
    compiled = ArgumentSchema(schema)
    assert compiled.is_valid(arguments)
    checked = compiled.check(arguments)
    assert checked == Checked(arguments)
    assert checked.arguments is arguments
    assert compiled.check(json.dumps(arguments)).problems == ()


def test_a_schema_that_names_no_properties_keeps_all_arguments_and_one_with_none_refuses_them() -> None:
    given = {"anything": [1], "goes": {"here": None}}
    assert ArgumentSchema({"type": "object"}).check(given).arguments == given
    assert ArgumentSchema({"type": "object"}).is_valid(given)
    checked = ArgumentSchema({"type": "object", "properties": {}}).check(given)
    assert [problem.path for problem in checked.problems] == ["anything", "goes"]
