"""What a type hint means, and the meaning of the most common ones. How all others are read is in `hint.py`."""

from __future__ import annotations

import sys

from . import convert as of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .convert import Convert

    Schema = dict[str, Any]

_TYPING = {"types", "typing", "typing_extensions"}


class TypeSpec:
    """What a hint means: a schema, and how a value is made."""

    __slots__ = ("as_is", "convert", "dump", "exact", "is_described", "names", "note", "schema")

    def __init__(
        self, schema: Schema, convert: Convert | None = None, exact: type | None = None, *, as_is: bool = False
    ) -> None:
        self.schema = schema
        self.convert = convert
        """None if every value will do."""
        self.exact = exact
        """Values of this very type need no conversion."""
        self.as_is = as_is or convert is None
        """Whether a value that fits the schema needs none either, which is of use to those who have checked it."""
        self.dump: Convert | None = None
        """What makes JSON of a value, where the type has a way of its own."""
        self.is_described = False
        """Whether the hint itself says what the value is for."""
        self.names: frozenset[str] = frozenset()
        """The fields of a record."""
        self.note = ""
        """A rule that the schema cannot express, for its description."""

    def described(self, description: str) -> Schema:
        """What the schema says of the value: what it is for, and the rule."""
        text = "\n".join(filter(None, (description, self.note)))
        return {"description": text} if text else {}


class HintProblem:
    """What in a hint cannot be expressed."""

    def __init__(self, reason: str, consequence: str = "", detail: str = "", unresolved: str = "") -> None:
        self.reason = reason
        self.consequence = consequence
        self.detail = detail
        """The reason that pydantic gives."""
        self.unresolved = unresolved
        """Why a name in the hint stands for nothing, if that is the reason."""

    def __str__(self) -> str:
        return f"{self.reason}; {self.consequence}" if self.consequence else self.reason


PLAIN: dict[object, TypeSpec] = {
    str: TypeSpec({"type": "string"}, of.text, str, as_is=True),
    int: TypeSpec({"type": "integer"}, of.integer, int),
    float: TypeSpec({"type": "number"}, of.number, float),
    bool: TypeSpec({"type": "boolean"}, of.boolean, bool, as_is=True),
    type(None): TypeSpec({"type": "null"}, of.null, type(None), as_is=True),
    list: TypeSpec({"type": "array"}, of.array(None), list, as_is=True),
    dict: TypeSpec({"type": "object"}, of.mapping(None, None), dict, as_is=True),
    object: TypeSpec({}),
}
"""The hints that most parameters have."""
PLAIN[None] = PLAIN[type(None)]
PLAIN_NAMES: dict[str, type | None] = {
    **{it.__name__: it for it in (str, int, float, bool, list, dict)},
    "None": None,
}
"""Where annotations are text."""


def name_of(hint: Any) -> str:
    """What a generic hint is called in `typing`, `collections.abc` or `builtins`; empty for any other."""
    if hint is getattr(sys.modules.get("typing"), "Any", None):
        return "Any"
    kind = type(hint)
    if kind.__name__ in ("UnionType", "Union", "TypeVar") and kind.__module__ in _TYPING:
        return kind.__name__
    origin = getattr(hint, "__origin__", hint)
    if isinstance(origin, type):
        known = ("builtins", "collections", "collections.abc", "typing")
        return origin.__name__ if origin.__module__ in known else ""
    return str(getattr(origin, "_name", None) or "")
