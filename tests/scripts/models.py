"""Functions whose parameters need pydantic, and results that are its models."""

import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from typing import Annotated, NotRequired, Required, TypedDict, Unpack

from pydantic import AfterValidator, BaseModel, Field, field_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass


def _shown(*values):
    return [[type(value).__name__, repr(value)] for value in values]


def _even(number):
    if number % 2:
        raise ValueError("must be even")
    return number


class Inner(BaseModel):
    n: int = Field(ge=0, description="How many")


class Outer(BaseModel):
    """Something outside."""

    inner: Inner
    more: list[Inner] = []
    at: datetime | None = None
    wait: timedelta = timedelta(seconds=90)

    @field_validator("more")
    @classmethod
    def check(cls, more):
        if len(more) > 2:
            raise ValueError("too many")
        return more


class Number(BaseModel):
    x: int


class Text(BaseModel):
    x: str


class Strict(BaseModel, strict=True):
    at: datetime
    ids: set[int]


class Place(TypedDict):
    city: str


@pydantic_dataclass
class Checked:
    n: Annotated[int, Field(ge=1)]


@dataclass
class Limited:
    n: int = Field(default=1, ge=1)


@dataclass
class Mixed:
    inner: Inner
    n: Annotated[int, Field(le=9)] = 3


def models(a: Outer, b: Outer | None = None, c: list[Inner] = ()):
    """Take models.

    Args:
        b: Not what the class says.
    """
    return _shown(a, b, c)


def either(a: Number | Text, b: Number | int | None = None):
    """Take one model or the other."""
    return _shown(a, b)


def strict(a: Strict):
    """Take a strict model."""
    return _shown(a.at, sorted(a.ids))


def constrained(
    a: Annotated[int, Field(ge=1, lt=9)],
    b: Annotated[str, Field(pattern="^a", description="A word")] = "a",
    c: Annotated[list[Place], Field(min_length=1)] = (),
    d: Annotated[int, AfterValidator(_even)] = 2,
    e: Annotated[int, Field(description="Only text")] = 1,
):
    """Take what is limited."""
    return _shown(a, b, c, d, e)


def patterns(
    a: Annotated[str, Field(pattern=r"^\d+$")],
    b: Annotated[set[int], Field(min_length=1)] = frozenset({1}),
    c: dict[Annotated[str, Field(pattern=r"^\p{Lu}$")], int] = {},
    d: Annotated[str, Field(pattern=re.compile("^abc$", re.IGNORECASE))] = "abc",
):
    """Take what matches.

    Args:
        a: How many.
    """
    return _shown(a, sorted(b), c, d)


def further_models(**rest: Inner):
    """Take models by any name."""
    return _shown(sorted(rest.items()))


class Options(TypedDict, total=False):
    inner: Required[Inner]
    depth: Annotated[NotRequired[int], Field(ge=1)]


def optional_models(**rest: Unpack[Options]):
    """Take the names of a TypedDict."""
    return _shown(sorted(rest.items()))


def with_fields(
    a: int = Field(ge=1, description="At least one"),
    b: int = Field(default=5),
    c: list[int] = Field(default_factory=lambda: [1]),
):
    """Take pydantic's fields as defaults."""
    return _shown(a, b, c)


def dataclasses(a: Checked, b: Limited = None, c: Mixed = None):
    """Take dataclasses that pydantic knows more about."""
    return _shown(a, b, c)


def foreign(a: IPv4Address = IPv4Address("10.0.0.1"), b: "OrderedDict[str, int]" = None):
    """Take types that only pydantic knows."""
    return _shown(a, b)


def model():
    """Return a model."""
    return Outer(inner=Inner(n=1), at=datetime(2024, 5, 1))


def nested():
    """Return models in containers."""
    return {"a": [Outer(inner=Inner(n=1)), Checked(n=2), Mixed(Inner(n=3))]}
