"""Most parameters are a plain text, integer, number or boolean, or a list of such: their exact type decides. Pure.

To look at the types takes less time than to ask the validator, and says as well that the values are JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from toolrun.json import JSON, Schema
from toolrun.schema.value import CLOSED

_TYPES: Final[dict[JSON, type]] = {"string": str, "integer": int, "number": float, "boolean": bool}
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples"})
_SCALAR: Final = _ANNOTATIONS | {"type"}
_LIST: Final = _ANNOTATIONS | {"type", "items"}
_ROOT: Final = _ANNOTATIONS | {"type", "properties", "required", "additionalProperties", "$defs", CLOSED}
"""Keywords beside which nothing else decides whether a value is valid."""
_SMALLEST: Final = -1_000_000_000
_LARGEST: Final = 1_000_000_000
"""Integers beyond these take longer to compare."""
_FEW: Final = 1000
"""Items of a list that are looked at in no time."""
_IS_FINE: Final[dict[type, Callable[[Any], bool]]] = {
    str: str.isascii,
    int: lambda value: _SMALLEST < value < _LARGEST,
    float: isfinite,
    bool: lambda value: True,
}
"""Whether a value of that type is JSON, as a glance can tell."""
_LOOK: Final = {
    str: "type({0}) is str and {0}.isascii()",
    int: f"type({{0}}) is int and {_SMALLEST} < {{0}} < {_LARGEST}",
    float: "type({0}) is float and isfinite({0})",
    bool: "type({0}) is bool",
}
"""The same, with the look at the type, as source."""
_MAX_COMPILED: Final = 30


def exact_validator(root: Schema, is_valid: Callable[[object], bool]) -> Callable[[object], bool] | None:
    """What does the same as `is_valid`, and asks it only where types do not decide. None if they never do."""
    exact, items = _exact_types(root)
    if not exact:
        return None
    listed = root.get("required", [])
    required = frozenset(map(str, listed if isinstance(listed, list) else ()))

    def is_valid_fast(arguments: object) -> bool:
        if type(arguments) is not dict:
            return False
        values: dict[str, Any] = arguments
        if len(values) > len(exact):
            return is_valid(arguments)
        if not required.issubset(values):
            return False
        for name, value in values.items():
            kind = exact.get(name)
            if kind is None or type(value) is not kind:
                return is_valid(arguments)
            if not (_are_exact(values[name], items[name]) if name in items else _IS_FINE[kind](value)):
                return is_valid(arguments)
        return True

    needed = {name: kind for name, kind in exact.items() if name in required}
    is_compiled = 0 < len(needed) == len(required) <= _MAX_COMPILED and list not in needed.values()
    return _compile(needed, is_valid, is_valid_fast) if is_compiled else is_valid_fast


def _compile(
    needed: dict[str, type], is_valid: Callable[[object], bool], otherwise: Callable[[object], bool]
) -> Callable[[object], bool]:
    """The look at arguments that are just the required ones, as one expression: a loop takes twice the time.

    Names come from the schema, which may be anybody's: they are in the source as `repr` quotes them.
    """
    values = [f"value_{number}" for number in range(len(needed))]
    looks = [_LOOK[kind].format(value) for value, kind in zip(values, needed.values(), strict=True)]
    source = f"""
def is_valid_compiled(arguments):
    if type(arguments) is not dict or len(arguments) != {len(needed)}:
        return otherwise(arguments)
    try:
        {", ".join(values)}, = {", ".join(f"arguments[{name!r}]" for name in needed)},
    except KeyError:  # instead of a name that is required there is another
        return False
    return {" and ".join(looks)} or is_valid(arguments)
"""
    scope: dict[str, Any] = {"otherwise": otherwise, "is_valid": is_valid, "isfinite": isfinite}
    exec(source, scope)  # nothing but numbered names, quoted texts and the expressions of `_LOOK`
    compiled: Callable[[object], bool] = scope["is_valid_compiled"]
    return compiled


def _exact_types(root: Schema) -> tuple[dict[str, type], dict[str, type]]:
    """The types of the parameters for which nothing but a type matters, and of the items of those that are lists."""
    exact: dict[str, type] = {}
    items: dict[str, type] = {}
    properties = root.get("properties")
    if not isinstance(root.get("required", []), list) or not root.keys() <= _ROOT or not isinstance(properties, dict):
        return exact, items
    for name, schema in properties.items():
        kind, kind_of_items = _scalar_type(schema), _item_type(schema)
        if kind is not None:
            exact[name] = kind
        elif kind_of_items is not None:
            exact[name], items[name] = list, kind_of_items
    return exact, items


def _scalar_type(schema: JSON) -> type | None:
    if not isinstance(schema, dict) or not schema.keys() <= _SCALAR:
        return None
    kind = schema.get("type")
    return _TYPES.get(kind) if isinstance(kind, str) else None


def _item_type(schema: JSON) -> type | None:
    if not isinstance(schema, dict) or not schema.keys() <= _LIST or schema.get("type") != "array":
        return None
    return _scalar_type(schema.get("items"))


def _are_exact(values: list[Any], kind: type) -> bool:
    """Whether all items have exactly that type and, as a glance can tell, are JSON."""
    if not values:
        return True
    if len(values) > _FEW or set(map(type, values)) != {kind}:
        return False
    if kind is int:
        return bool(min(values) > _SMALLEST and max(values) < _LARGEST)
    return all(map(str.isascii if kind is str else isfinite, values))
