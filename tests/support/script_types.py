"""Types that a script's functions may have for parameters, and what their hints are read as."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple, NewType, NotRequired, Required, TypedDict

import jsonschema_rs
from pydantic import BaseModel, Field

from toolrun.worker.describe import FunctionSpec, binding, read_function


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Speed(IntEnum):
    SLOW = 1
    FAST = 2


class Shape(Enum):
    ROUND = (1, 2)
    FLAT = (3, 4)


@dataclass
class Point:
    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list)
    label: str = field(default="", metadata={"description": "Its name"})
    kind: typing.ClassVar[str] = "point"
    made: bool = field(default=False, init=False)


@dataclass
class Scaled:
    size: int
    factor: InitVar[int]

    def __post_init__(self, factor: int) -> None:
        if factor < 1:
            raise ValueError("factor must be positive")
        self.size *= factor


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass
class Described:
    """What it is.

    More.
    """

    a: int


@dataclass
class Circle:
    radius: float = 1.0


@dataclass
class Square:
    side: float = 1.0


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Place(TypedDict):
    city: str
    zip: NotRequired[int]


class Trip(TypedDict, total=False):
    start: Required[Place]
    stops: list[Place]


class Node(TypedDict):
    children: list[Node]


class Even(BaseModel):
    n: int = Field(ge=0)


class Foreign:
    """A type of which nobody knows anything."""


UserId = NewType("UserId", int)

STRING, INTEGER, NUMBER, NULL = ({"type": it} for it in ("string", "integer", "number", "null"))
PAIR = {
    "type": "array",
    "minItems": 1,
    "maxItems": 2,
    "prefixItems": [{"title": "left", **INTEGER}, {"title": "right", "default": "r", **STRING}],
}
PLACE = {"type": "object", "properties": {"city": STRING, "zip": INTEGER}, "required": ["city"]}
POINT = {
    "type": "object",
    "properties": {
        "x": INTEGER,
        "y": {"type": "number", "default": 0.5},
        "tags": {"type": "array", "items": STRING},
        "label": {"type": "string", "default": "", "description": "Its name"},
    },
    "required": ["x"],
}


def function_of(hint: object = NOTHING, default: object = NOTHING) -> Callable[..., object]:
    def required(value):  # type: ignore[no-untyped-def]
        return value

    def optional(value=default):  # type: ignore[no-untyped-def]
        return value

    function = required if default is NOTHING else optional
    function.__annotations__ = {} if hint is NOTHING else {"value": hint}
    return function


def spec_of(hint: object = NOTHING, default: object = NOTHING) -> FunctionSpec:
    """What a function of one parameter, `value`, is read as."""
    spec = read_function(function_of(hint, default), {})
    jsonschema_rs.meta.validate(spec.schema)
    assert spec.schema["additionalProperties"] is False
    assert spec.schema.get("required") == (["value"] if default is NOTHING else None)
    return spec


def bind(spec: FunctionSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    return binding(spec)(arguments)
