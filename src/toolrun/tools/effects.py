"""What a call of a tool does to the world, as far as its author says so. Pure.

What matters is what may be done when nobody knows whether a call has acted: repeat it, ask, or leave it to a person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from toolrun.errors import DefinitionError
from toolrun.json import JSON


class Effects(StrEnum):
    """What a second call would do."""

    NONE = "none"
    """Nothing: the tool only reads."""
    IDEMPOTENT = "idempotent"
    """With the same arguments, nothing more than the first."""
    KEYED = "keyed"
    """With the same idempotency key, nothing more than the first: the destination knows the key."""
    ONCE = "once"
    """The same again, such as a second e-mail."""


HARMLESS: Final = frozenset({Effects.NONE, Effects.IDEMPOTENT})
"""It does no harm to repeat such a call with the same arguments."""
_WORDS: Final = frozenset(it.value for it in Effects)
_HINTS: Final[Mapping[Effects, str]] = {Effects.NONE: "readOnlyHint", Effects.IDEMPOTENT: "idempotentHint"}


@dataclass(frozen=True)
class Done:
    """What `verify` returns if the call has acted: the result that the call would have had, if it is known."""

    result: object = None
    verdict: str = field(default="done", init=False, repr=False)
    """Tells the two apart where they are JSON: as the answer of a tool."""


@dataclass(frozen=True)
class NotDone:
    """What `verify` returns if the call has not acted."""

    verdict: str = field(default="not_done", init=False, repr=False)


Verify: TypeAlias = Callable[[str, dict[str, Any]], object]
"""`verify(key, arguments)`: `Done`, `NotDone` or None, or a coroutine of that. It only reads."""


def read_effects(value: object) -> Effects | None:
    """The declaration, whose author may write it as text. Raises DefinitionError for anything else."""
    if value is None or isinstance(value, Effects):
        return value
    try:
        return Effects(str(value))
    except ValueError:
        choices = ", ".join(f"'{it}'" for it in Effects)
        raise DefinitionError(f"effects must be one of {choices}; got {value!r}") from None


def declared_effects(tool: object) -> Effects | None:
    """What a tool says of its effects, in our own terms or as MCP's hints, which are claims of its server."""
    effects = getattr(tool, "effects", None)
    if isinstance(effects, str) and effects in _WORDS:  # a foreign object may mean something else by it
        return Effects(effects)
    hints = getattr(tool, "annotations", None) or {}
    if hints.get("readOnlyHint") is True:
        return Effects.NONE
    if hints.get("idempotentHint") is True:
        return Effects.IDEMPOTENT
    return Effects.NONE if getattr(tool, "inline", False) is True else None


def hints_of(effects: Effects | None) -> dict[str, JSON]:
    """The same as annotations for MCP clients."""
    return {_HINTS[effects]: True} if effects is not None and effects in _HINTS else {}
