"""Type hints become JSON Schema."""

from __future__ import annotations

import math
import typing
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict, Union, Unpack

import jsonschema_rs
import pytest
from pydantic import Field

from support.hints import NOTHING, Colour, Even, Level, Place, Point, Tree, Trip, book, function_of, unresolvable
from toolrun import ToolContext, tool
from toolrun.errors import DefinitionError
from toolrun.tools.signature import Signature, read_signature


def signature_of(hint: object = NOTHING, default: object = NOTHING) -> Signature:
    signature = read_signature(function_of(hint, default), {})
    jsonschema_rs.meta.validate(signature.schema)
    return signature


def schema_of(hint: object = NOTHING, default: object = NOTHING) -> Any:
    """The schema of the one parameter, references resolved."""
    schema: Any = signature_of(hint, default).schema
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert schema.get("required") == (["value"] if default is NOTHING else None)
    return resolved(schema["properties"]["value"], schema.get("$defs", {}))


def resolved(schema: Any, definitions: Any) -> Any:
    if isinstance(schema, list):
        return [resolved(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    target = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
    merged = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return {key: resolved(value, definitions) for key, value in merged.items() if key != "title"}


POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "y": {"type": "number", "default": 0.5},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
}
PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
    "required": ["city"],
}
NULL, INTEGER, STRING = {"type": "null"}, {"type": "integer"}, {"type": "string"}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (NOTHING, {}),
        (Any, {}),
        (str, STRING),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (None, NULL),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (typing.List, {"type": "array"}),  # noqa: UP006  what users write
        (typing.Dict, {"type": "object"}),  # noqa: UP006
        (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045
        (int | None, {"anyOf": [INTEGER, NULL]}),
        (Union[int, str], {"anyOf": [INTEGER, STRING]}),  # noqa: UP007
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1, None], {"enum": ["a", 1, None]}),
        (list[dict[str, int]], {"type": "array", "items": {"type": "object", "additionalProperties": INTEGER}}),
        (dict[str, list[int] | None], {"additionalProperties": {"anyOf": [{"type": "array", "items": INTEGER}, NULL]}}),
        (Colour, {"enum": ["red", 2]}),
        (Level, {"type": "string", "enum": ["high"]}),
        (Point, POINT),
        (list[Point] | None, {"anyOf": [{"type": "array", "items": POINT}, NULL]}),
        (Place, PLACE),
        (Optional[list[Place]], {"anyOf": [{"type": "array", "items": PLACE}, NULL]}),  # noqa: UP045
        (Trip, {"properties": {"start": PLACE, "stops": {"type": "array", "items": PLACE}}, "required": ["start"]}),
        (Even, {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}),
        (Annotated[int, "How many"], {"type": "integer", "description": "How many"}),
        (Annotated[int, Field(ge=1, lt=9)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
        (Annotated[str, Field(description="A word", pattern="^a")], {"description": "A word", "pattern": "^a"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string", "format": "path"}),
        (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
        (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2}),
    ],
)
def test_every_kind_of_hint_has_its_schema(hint: object, schema: dict[str, object]) -> None:
    found = schema_of(hint)
    assert {key: value for key, value in found.items() if key in schema} == schema
    assert schema or not found


def test_a_type_that_contains_itself_is_referred_to_by_name() -> None:
    signature = signature_of(Tree)
    children = {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert signature.schema["properties"] == {"value": {"$ref": "#/$defs/Tree"}}
    assert signature.schema["$defs"] == {
        "Tree": {"type": "object", "properties": {"children": children}, "required": ["children"]}
    }


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (int, 3, 3),
        (str, Level.HIGH, "high"),
        (int | None, None, None),
        (list[str], ["a"], ["a"]),
        (NOTHING, "x", "x"),
        (Colour, Colour.RED, "red"),
        (Point, Point(1), {"x": 1, "y": 0.5, "tags": []}),
        (datetime, datetime(2024, 5, 1), "2024-05-01T00:00:00"),
        (Annotated[int, Field(ge=1)], 2, 2),
        (int, Field(default=5, ge=1), 5),
        (float, math.inf, NOTHING),
        (Annotated[float, Field(ge=0)], math.inf, NOTHING),
        (str, Field(default_factory=str), NOTHING),
        (list, (object(),), NOTHING),
        (datetime, object(), NOTHING),
    ],
)
def test_a_default_is_in_the_schema_where_json_can_express_it(hint: object, default: object, shown: object) -> None:
    assert schema_of(hint, default).get("default", NOTHING) == shown


def test_a_field_as_the_default_gives_description_constraints_and_whether_it_is_required() -> None:
    optional = schema_of(int, Field(default=5, description="How many", ge=1))
    assert optional == {"type": "integer", "description": "How many", "minimum": 1, "default": 5}
    required: Any = signature_of(int, Field(description="How many", le=9)).schema
    assert required["required"] == ["value"]
    assert required["properties"]["value"] == {"type": "integer", "description": "How many", "maximum": 9}


def test_annotations_that_are_text_are_resolved_where_the_function_is() -> None:
    signature = read_signature(book, {"when": "The time", "nobody": "?"})
    schema: Any = signature.schema
    assert schema["required"] == ["when", "place", "guests"]
    assert schema["properties"]["when"]["description"] == "The time"
    assert resolved(schema["properties"]["place"], schema.get("$defs", {})) == PLACE
    converted = signature.convert({"when": "2024-05-01T00:00:00", "place": {"city": "Rome"}, "guests": [{"x": 1}]})
    assert converted == {"when": datetime(2024, 5, 1), "place": {"city": "Rome"}, "guests": [Point(1)]}


def test_the_context_may_stand_anywhere_and_is_not_in_the_schema() -> None:
    def first(context: ToolContext, a: int) -> None: ...
    def last(a: int, *, host: ToolContext | None = None) -> None: ...
    def described(a: int, here: Annotated[Optional[ToolContext], "The host"] = None) -> None: ...  # noqa: UP045

    for function, name in ((first, "context"), (last, "host"), (described, "here")):
        signature = read_signature(function, {})
        assert signature.context_parameter == name
        assert signature.schema["properties"] == {"a": INTEGER}
        assert signature.schema["required"] == ["a"]


def test_further_keyword_arguments_leave_the_schema_open() -> None:
    def anything(a: int, **rest: str) -> None: ...

    schema = read_signature(anything, {}).schema
    assert (schema["properties"], schema["additionalProperties"]) == ({"a": INTEGER}, {"type": "string"})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *args: None, "parameter 'args' cannot be passed by name; a model passes all arguments by name"),
        (lambda a, /: None, "parameter 'a' cannot be passed by name"),
        (unresolvable, "the type hint of parameter 'a' cannot be resolved (name 'Missing' is not defined)"),
        (function_of(Callable[[int], int]), "parameter 'value' has a type that JSON cannot express: "),
        (function_of(Iterator), "parameter 'value' has a type that JSON cannot express: "),
        (max, "its parameters are not known"),
    ],
)
def test_a_function_that_a_model_cannot_call_is_refused_with_the_reason(
    function: Callable[..., object], message: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_signature(function, {})
    assert message in str(caught.value)


def test_two_contexts_are_refused() -> None:
    def both(a: ToolContext, b: ToolContext) -> None: ...

    with pytest.raises(DefinitionError, match="parameters 'a' and 'b' are both a ToolContext; keep one"):
        read_signature(both, {})


class Options(TypedDict):
    limit: int


def never_callable() -> list[Any]:
    def rest(**options: Unpack[int]) -> None:  # type: ignore[misc]
        """Take."""

    def plain_rest(**options: Unpack[dict[str, int]]) -> None:  # type: ignore[misc]
        """Take."""

    def class_of(kind: type[int]) -> None:
        """Take."""

    def old_class_of(kinds: list[typing.Type[int]]) -> None:  # noqa: UP006  the older form
        """Take."""

    def optional_class(kind: type[int] | None = None) -> None:
        """Take."""

    def any_class(kind: type) -> None:
        """Take."""

    def of_bytes(option: Literal[b"a"]) -> None:
        """Take."""

    def some_bytes(option: Literal["a", b"b"]) -> None:
        """Take."""

    return [rest, plain_rest, class_of, old_class_of, optional_class, any_class, of_bytes, some_bytes]


@pytest.mark.parametrize("function", never_callable(), ids=lambda it: it.__name__)
def test_a_function_that_no_json_could_call_is_refused(function: Any) -> None:
    with pytest.raises(DefinitionError, match="has a type that JSON cannot express"):
        tool(function)


def test_unpacked_options_are_parameters() -> None:
    def rest(**options: Unpack[Options]) -> None:
        """Take."""

    assert tool(rest).schema["properties"] == {"limit": {"type": "integer"}}
