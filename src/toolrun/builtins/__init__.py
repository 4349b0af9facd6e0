"""Handlers that ship with toolrun, for catalog entries of type `builtin`. One file per tool.

A module that needs others is imported when its tool is called for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from toolrun.builtins.echo import echo
from toolrun.builtins.random_uuid import generate_uuid
from toolrun.json import JSON
from toolrun.tools.context import ToolContext, current_call, running_context

if TYPE_CHECKING:
    from toolrun.errors import MissingExtraError

Handler = Callable[[dict[str, Any]], object]
"""Takes the arguments as one dict and returns the result; may be async. Authors annotate the dict as they like."""


def _math_eval(arguments: dict[str, JSON]) -> JSON:
    try:
        from toolrun.builtins.math.math_eval import math_eval

        return {"result": math_eval(_text(arguments, "expression"))}
    except ImportError as error:  # of lark; of pint, which is imported for the first unit
        from toolrun.errors import SideEffects, ToolError
        from toolrun.extra import missing

        message = str(missing("math", error, "The calculator"))
        raise ToolError(message, side_effects=SideEffects.NOT_STARTED) from error


def _get_current_datetime(arguments: dict[str, JSON]) -> JSON:
    from toolrun.builtins.clock import current_datetime

    configured = _context().config.get("timezone", "")
    return current_datetime(_text(arguments, "timezone", "") or str(configured))


def _search_web(arguments: dict[str, JSON]) -> JSON:
    from toolrun.builtins.search import search_web

    return search_web(_text(arguments, "query"), _number(arguments, "max_results"), _context())


async def _control_speaker_volume(arguments: dict[str, JSON]) -> JSON:
    from toolrun.builtins.volume import control_volume

    return await control_volume(_text(arguments, "action"), _number(arguments, "level"), _context())


BUILTINS: Final[dict[str, Handler]] = {
    "control_speaker_volume": _control_speaker_volume,
    "echo": echo,
    "generate_uuid": generate_uuid,
    "get_current_datetime": _get_current_datetime,
    "math_eval": _math_eval,
    "search_web": _search_web,
}


_MATH_PACKAGES: Final = ("lark", "pint")


def find_missing(handler: str) -> MissingExtraError | None:
    """What a call of this handler would lack: a package that comes with an extra and is not installed."""
    from toolrun.extra import is_installed, missing

    lacking = [it for it in _MATH_PACKAGES if not is_installed(it)] if handler == "math_eval" else []
    return missing("math", ImportError(name=lacking[0]), "The calculator") if lacking else None


def _text(arguments: dict[str, JSON], name: str, default: str | None = None) -> str:
    """An argument that must be a string. The schema in the catalog may be laxer than the handler."""
    from toolrun.errors import InvalidArgumentsError

    value = arguments.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        problem = f"missing '{name}'" if name not in arguments else f"'{name}' must be a string"
        raise InvalidArgumentsError(f"Invalid parameters: {problem}")
    return value


def _number(arguments: dict[str, JSON], name: str) -> int | None:
    """An optional argument that must be a whole number."""
    from toolrun.errors import InvalidArgumentsError

    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or value % 1:
        raise InvalidArgumentsError(f"Invalid parameters: '{name}' must be a whole number")
    return int(value)


def _context() -> ToolContext:
    """The configuration and secrets of the called tool; empty outside a call."""
    return ToolContext() if current_call.get() is None else running_context()
