"""Types and functions that tools may be made of. The annotations here are text, as in many users' modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import NotRequired, Required, TypedDict

from pydantic import BaseModel, field_validator


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


class Colour(Enum):
    RED = "red"
    BLUE = 2


class Level(StrEnum):
    HIGH = "high"


@dataclass
class Point:
    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list)


class Place(TypedDict):
    city: str
    zip: NotRequired[int]


class Trip(TypedDict, total=False):
    start: Required[Place]
    stops: list[Place]


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def check(cls, n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n


class Strict(BaseModel, strict=True):
    at: datetime
    ids: set[int]


class Tree(TypedDict):
    children: list[Tree]


def function_of(hint: object = NOTHING, default: object = NOTHING) -> Callable[..., object]:
    """A function of one parameter, `value`, whose annotation is a type."""

    def required(value):  # type: ignore[no-untyped-def]
        return value

    def optional(value=default):  # type: ignore[no-untyped-def]
        return value

    function = required if default is NOTHING else optional
    function.__annotations__ = {} if hint is NOTHING else {"value": hint}
    return function


def book(when: datetime, place: Place, guests: list[Point], level: Level = Level.HIGH, note: str | None = None) -> str:
    """Book a table."""
    return f"{when} {place} {guests} {level} {note}"


def unresolvable(a: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Takes what does not exist."""
