"""Handlers that ship with toolrun, for catalog entries of type `builtin`. Each takes the arguments as one dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from toolrun.settings import JSON

Handler = Callable[[dict[str, Any]], object]


def _echo(arguments: dict[str, JSON]) -> JSON:
    return {"echo": arguments}


def _math_eval(arguments: dict[str, JSON]) -> JSON:
    from toolrun.builtins.math_eval import math_eval as evaluate

    return {"result": evaluate(_text(arguments, "expression"))}


def _get_current_datetime(arguments: dict[str, JSON]) -> JSON:
    from toolrun.builtins.clock import current_datetime

    return current_datetime(_text(arguments, "timezone", ""))


def _generate_uuid(arguments: dict[str, JSON]) -> JSON:
    import uuid

    return {"uuid": str(uuid.uuid4())}


BUILTINS: Final[dict[str, Handler]] = {
    "echo": _echo,
    "generate_uuid": _generate_uuid,
    "get_current_datetime": _get_current_datetime,
    "math_eval": _math_eval,
}


def _text(arguments: dict[str, JSON], name: str, default: str | None = None) -> str:
    """An argument that must be text. The catalog's own schema may be laxer than the handler is."""
    from toolrun.errors import InvalidArgumentsError

    value = arguments.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        problem = f"missing '{name}'" if name not in arguments else f"'{name}' must be a string"
        raise InvalidArgumentsError(f"Invalid parameters: {problem}")
    return value
