"""What becomes of the outcome of a body: the data of an answer, or the reason why there is none.

Both ask foreign objects (`model_dump`, `__str__`, a sequence that makes its items when asked), which may take any time
or never end, and both may be large. What is plain and small is settled at once, on the event loop; everything else in
a thread, as a part of the body: inside the deadline, and abandoned at it. Knows nothing of loops and threads itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolrun.errors import CallError
from toolrun.execution.body import Outcome
from toolrun.execution.failure import explain
from toolrun.json import JSON
from toolrun.result import is_small, normalise_large, normalise_result, render_large

if TYPE_CHECKING:
    pass

_PLAIN: Final = frozenset({BaseException.__str__, OSError.__str__, KeyError.__str__})
"""How exceptions are made into text without any code of their own."""


@dataclass(slots=True)
class Settled:
    """A value that has been normalised."""

    value: object
    """As the tool returned it."""
    data: JSON
    blocks: tuple[dict[str, JSON], ...]
    text: str
    """For a model."""


def is_quick(value: object, error: BaseException | None) -> bool:
    """Whether an outcome can be settled on the event loop, where nothing may take long."""
    if error is None:
        return type(value) is Settled or is_small(value)
    kind = type(error)
    if issubclass(kind, BaseExceptionGroup) or kind.__str__ not in _PLAIN or not _has_plain_attributes(kind):
        return False
    return is_small(BaseException.args.__get__(error))  # type: ignore[attr-defined]  # a slot of the type


def settle(value: object, error: BaseException | None, tool: str, limit: int | None) -> Outcome:
    """In a thread: the outcome with a `Settled` value, or with a `Failure` beside the error. Never raises."""
    if error is not None:
        return explain(error, tool), error
    try:
        data, blocks = normalise_result(value, normalise_large)
        return Settled(value, data, blocks, render_large(list(blocks) or data, limit)), None
    except BaseException as raised:  # noqa: BLE001  a foreign object's own methods
        return explain(raised, tool), raised


def _has_plain_attributes(kind: type[Any]) -> bool:
    """Whether what `explain` reads of a `CallError` is no property of a class that somebody derived."""
    if not issubclass(kind, CallError):
        return True
    return not any(isinstance(getattr(kind, name, None), property) for name in ("detail", "side_effects", "kind"))
