"""What a script's functions say of themselves inside its environment: schemas, descriptions, and arguments as types.

The code under test runs on any Python from 3.9 on and may find no pydantic; `without_pydantic` is such an environment.
"""

from __future__ import annotations

import functools
import sys
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, List, Literal, Optional, Union  # noqa: UP035

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field

from support.script_types import (
    INTEGER,
    NOTHING,
    NULL,
    NUMBER,
    PAIR,
    PLACE,
    POINT,
    STRING,
    Colour,
    Described,
    Even,
    Foreign,
    Node,
    Pair,
    Place,
    Point,
    Scaled,
    Shape,
    Speed,
    Tree,
    Trip,
    UserId,
    bind,
    function_of,
    spec_of,
)
from toolrun.worker import describe, script
from toolrun.worker.describe import read_function
from toolrun.worker.docstring import read_docstring


@pytest.fixture
def without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)


def schema_of(hint: object = NOTHING, default: object = NOTHING) -> Any:
    return spec_of(hint, default).schema["properties"]["value"]


def array_of(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


OPTION = {"type": "string", "enum": ["a"]}
NEEDS_A = {"required": ["a"]}
STANDARD = [
    (NOTHING, {}),
    (Any, {}),
    (object, {}),
    (str, STRING),
    (int, INTEGER),
    (float, NUMBER),
    (bool, {"type": "boolean"}),
    (None, NULL),
    (list, {"type": "array"}),
    (dict, {"type": "object"}),
    (tuple, {"type": "array"}),
    (set, {"type": "array", "uniqueItems": True}),
    (typing.List, {"type": "array"}),  # noqa: UP006  what users write
    (typing.Dict[str, int], {"type": "object", "additionalProperties": INTEGER}),  # noqa: UP006
    (List[int], array_of(INTEGER)),  # noqa: UP006
    (list[dict[str, int]], array_of({"type": "object", "additionalProperties": INTEGER})),
    (Sequence[str], array_of(STRING)),
    (typing.Iterable[str], array_of(STRING)),
    (Mapping[str, Any], {"type": "object", "additionalProperties": {}}),
    (dict[int, str], {"type": "object", "additionalProperties": STRING}),
    (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045
    (int | None, {"anyOf": [INTEGER, NULL]}),
    (Union[int, str], {"anyOf": [INTEGER, STRING]}),  # noqa: UP007
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}),
    (Colour, {"enum": ["red", 2]}),
    (Speed, {"type": "integer", "enum": [1, 2]}),
    (Shape, {"type": "string", "enum": ["ROUND", "FLAT"]}),
    (Point, POINT),
    (Scaled, {"type": "object", "properties": {"size": INTEGER, "factor": INTEGER}, "required": ["size", "factor"]}),
    (list[Point] | None, {"anyOf": [array_of(POINT), NULL]}),
    (Place, PLACE),
    (Trip, {"type": "object", "properties": {"start": PLACE, "stops": array_of(PLACE)}, "required": ["start"]}),
    (UserId, INTEGER),
    (typing.TypeVar("T", bound=int), INTEGER),
    (datetime, {"type": "string", "format": "date-time"}),
    (date, {"type": "string", "format": "date"}),
    (time, {"type": "string", "format": "time"}),
    (timedelta, {"type": "string", "format": "duration"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (Decimal, {"anyOf": [NUMBER, STRING]}),
    (Path, {"type": "string", "format": "path"}),
    (bytes, {"type": "string", "format": "binary"}),
    (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
    (frozenset[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
    (tuple[int, ...], array_of(INTEGER)),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
    (typing.Tuple, {"type": "array"}),  # noqa: UP006
    (Pair, PAIR),
    (list[Pair], array_of(PAIR)),
    (Literal[Colour.RED, Colour.BLUE], {"enum": ["red", 2]}),
    (dict[Literal["a"], int], {"type": "object", "additionalProperties": INTEGER, "propertyNames": OPTION}),
    (Annotated[int, Field(description="How many")], {"type": "integer", "description": "How many"}),
    (Described, {"type": "object", "description": "What it is.\n\nMore.", "properties": {"a": INTEGER}, **NEEDS_A}),
    (tuple[int, str], {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, STRING]}),
    (Annotated[int, "How many"], {"type": "integer", "description": "How many"}),
    (list[Annotated[int, "One"]], array_of({"type": "integer", "description": "One"})),
    (list["Point"], array_of(POINT)),
    (List["Point"], array_of(POINT)),  # noqa: UP006
    ("list[Point] | None", {"anyOf": [array_of(POINT), NULL]}),
    ("'list[Point]'", array_of(POINT)),
]


@pytest.mark.parametrize(("hint", "schema"), STANDARD, ids=lambda it: str(it)[:40])
def test_every_kind_of_hint_has_its_schema_without_pydantic(
    hint: object, schema: dict[str, object], without_pydantic: None
) -> None:
    spec = spec_of(hint)
    assert spec.schema["properties"]["value"] == schema
    assert spec.problems == []


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Annotated[int, Field(ge=1, lt=9)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
        (Annotated[int, Field(description="How many")], {"type": "integer", "description": "How many"}),
        (Even, {"type": "object", "properties": {"n": {"minimum": 0, "title": "N", **INTEGER}}, "required": ["n"]}),
        (list[Even] | None, None),
    ],
)
def test_what_is_beyond_the_standard_library_is_pydantics(hint: object, schema: dict[str, object] | None) -> None:
    spec = spec_of(hint)
    found = spec.schema["properties"]["value"]
    assert found == (schema or {"anyOf": [array_of(schema_of(Even)), NULL]})
    assert spec.problems == []


@pytest.mark.parametrize(
    ("hint", "problem"),
    [
        (Foreign, "parameter 'value': Foreign has no form in JSON; any value is accepted"),
        (Callable[[int], int], "has no form in JSON; any value is accepted"),
        ("Missing", "the type hint 'Missing' cannot be resolved (name 'Missing' is not defined)"),
        ("'\"Missing\"'", "is text"),
        (list["Missing"], "the type hint 'Missing' cannot be resolved"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_a_hint_that_nothing_can_express_takes_any_value_with_a_warning(hint: object, problem: str) -> None:
    spec = spec_of(hint)
    ((parameter, found),) = spec.problems
    assert problem in f"parameter '{parameter}': {found}"
    assert spec.schema["properties"]["value"] in ({}, {"type": "array", "items": {}})
    assert bind(spec, {"value": [7]}) == {"value": [7]}


def test_constraints_that_cannot_be_checked_are_reported(without_pydantic: None) -> None:
    spec = spec_of(Annotated[int, Field(ge=1, description="How many")])
    assert spec.schema["properties"]["value"] == {"type": "integer", "description": "How many"}
    assert [(name, str(problem)) for name, problem in spec.problems] == [("value", "its constraints are not checked")]


def test_models_of_the_same_name_keep_their_own_definitions() -> None:
    def model(kind: type) -> type[BaseModel]:
        class Inner(BaseModel):
            a: kind  # type: ignore[valid-type]

        class Outer(BaseModel):
            inner: Inner

        return Outer

    def both(first, second):  # type: ignore[no-untyped-def]
        return first, second

    model.__globals__["kind"] = int
    one = model(int)
    model.__globals__["kind"] = str
    two = model(str)
    del model.__globals__["kind"]
    both.__annotations__ = {"first": one, "second": two}
    schema = read_function(both, {}).schema
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"first": {"inner": {"a": 1}}, "second": {"inner": {"a": "x"}}})
    assert not validator.is_valid({"first": {"inner": {"a": "x"}}, "second": {"inner": {"a": "x"}}})


@pytest.mark.parametrize("hint", [Tree, Node])
def test_a_type_that_contains_itself_is_referred_to_by_name(hint: type, without_pydantic: None) -> None:
    spec = spec_of(hint)
    name = hint.__name__
    assert spec.schema["properties"]["value"] == {"$ref": f"#/$defs/{name}"}
    children = spec.schema["$defs"][name]["properties"]["children"]
    assert children == array_of({"$ref": f"#/$defs/{name}"})


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (int, 3, 3),
        (int | None, None, None),
        (list[str], ["a"], ["a"]),
        (NOTHING, "x", "x"),
        (Colour, Colour.RED, "red"),
        (Point, Point(1), {"x": 1, "y": 0.5, "tags": [], "label": "", "made": False}),
        (datetime, datetime(2024, 5, 1), "2024-05-01T00:00:00"),
        (Path, Path("/etc"), "/etc"),
        (Decimal, Decimal("0.10"), "0.10"),
        (timedelta, timedelta(seconds=90), "PT1M30S"),
        (set[int], {2, 1}, [1, 2]),
        (int, Field(default=5, ge=1), 5),
        (float, float("inf"), NOTHING),
        (str, Field(default_factory=str), NOTHING),
        (list, (object(),), NOTHING),
        (datetime, object(), NOTHING),
    ],
)
def test_a_default_is_in_the_schema_where_json_can_express_it(hint: object, default: object, shown: object) -> None:
    assert schema_of(hint, default).get("default", NOTHING) == shown


def test_further_keyword_arguments_leave_the_schema_open() -> None:
    def anything(a: int, **rest: str) -> None: ...

    spec = read_function(anything)
    assert spec.schema["properties"] == {"a": INTEGER}
    assert spec.schema["additionalProperties"] == {"type": "string"}
    assert bind(spec, {"a": 1, "z": "2"}) == {"a": 1, "z": "2"}


def test_parameters_are_those_behind_the_decorators() -> None:
    def decorated(function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def wrapper(*args: object, **kwargs: object) -> object:
            return function(*args, **kwargs)

        return wrapper

    @functools.lru_cache
    @decorated
    def add(a: int, *, b: int = 2) -> int:
        return a + b

    spec = read_function(add, {})
    assert spec.schema["properties"] == {"a": INTEGER, "b": {"type": "integer", "default": 2}}
    assert spec.schema["required"] == ["a"]


def test_objects_that_are_called_and_partials_have_parameters_too() -> None:
    class Adder:
        def __call__(self, a: int, b: Point | None = None) -> int:
            return a

    def add(a: int, b: int) -> int:
        return a + b

    assert read_function(Adder()).schema["properties"]["b"] == {"anyOf": [POINT, NULL]}
    partial = read_function(functools.partial(add, b=2), {}).schema
    assert partial["required"] == ["a"]
    assert partial["properties"] == {"a": INTEGER, "b": {"type": "integer", "default": 2}}
    assert read_function(max).schema == {"type": "object", "properties": {}, "additionalProperties": True}


async def later(when: datetime, places: list[Place]) -> None:
    """Do it later.

    Args:
        when: The time.
    """


def test_a_description_has_all_that_a_model_is_told() -> None:
    described, warnings = describe.describe({"later": later, "plain": function_of("Missing")})
    assert described[0] == {
        "name": "later",
        "description": "Do it later.",
        "schema": {
            "type": "object",
            "properties": {
                "when": {"type": "string", "format": "date-time", "description": "The time."},
                "places": array_of(PLACE),
            },
            "additionalProperties": False,
            "required": ["when", "places"],
        },
        "async": True,
    }
    assert (described[1]["description"], described[1]["async"]) == ("", False)
    assert warnings == [
        "'plain': parameter 'value': the type hint 'Missing' cannot be resolved (name 'Missing' is not defined); "
        "any value is accepted"
    ]


@pytest.mark.parametrize(
    "docstring",
    [
        """Find a thing.

        Quickly.

        Args:
            name (str): Its name,
                in full.
            limit: How many.

        Returns:
            ignored: this
        """,
        """Find a thing.

        Quickly.

        Parameters
        ----------
        name : str
            Its name,
            in full.
        limit
            How many.

        Returns
        -------
        ignored
            this
        """,
        """Find a thing.

        Quickly.

        :param str name: Its name,
            in full.
        :param limit: How many.
        :returns: this
        """,
    ],
)
def test_the_three_styles_of_docstrings_are_read(docstring: str) -> None:
    assert read_docstring(docstring) == (
        "Find a thing.\n\nQuickly.",
        {"name": "Its name, in full.", "limit": "How many."},
    )


@pytest.mark.parametrize("docstring", [None, "", "  One line.  "])
def test_a_docstring_without_sections_is_the_description(docstring: str | None) -> None:
    assert read_docstring(docstring) == ((docstring or "").strip(), {})


def module_of(source: str) -> ModuleType:
    module = ModuleType("a_script")
    exec(source, vars(module))
    return module


def test_tools_are_the_public_functions_that_the_script_defines() -> None:
    module = module_of("""
from os.path import join
import functools
def first(a): ...
async def second(): ...
second_again = second
short = lambda: 1
def _private(): ...
class Thing: ...
thing = Thing()
@functools.lru_cache
def cached(a): ...
def generator(): yield
async def async_generator(): yield
def many(*args): ...
def placed(a, /): ...
""")
    functions, skipped = script.find_functions(module)
    assert list(functions) == ["first", "second", "cached"]
    assert {it["name"]: it["reason"] for it in skipped} == {
        "generator": "it is a generator; return a list instead",
        "async_generator": "it is a generator; return a list instead",
        "many": "parameter 'args' cannot be passed by name; a model passes all arguments by name",
        "placed": "parameter 'a' cannot be passed by name; a model passes all arguments by name",
    }


def test_all_decides_which_functions_are_tools() -> None:
    module = module_of("""
from os.path import basename
__all__ = ["_hidden", "basename", "Thing", "gone", "number"]
def _hidden(): ...
def other(): ...
class Thing: ...
number = 3
""")
    functions, skipped = script.find_functions(module)
    assert list(functions) == ["_hidden", "basename"]
    assert [it["name"] for it in skipped] == ["Thing", "gone", "number"]
    assert skipped[0]["reason"] == "it is a class, not a function"
    assert skipped[1]["reason"] == "it is in __all__, but not in the script"


@pytest.mark.parametrize(("function", "expected"), [(later, True), (module_of, False), (max, False)])
def test_async_functions_are_recognised(function: Callable[..., object], expected: bool) -> None:
    assert script.is_async(function) is expected
