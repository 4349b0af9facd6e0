"""What becomes of the outcome of a body: the data of an answer, or the reason why there is none.

Both ask foreign objects (`model_dump`, `__str__`, a sequence that makes its items when asked), which may take any time
or never end, and both may be large. What is plain and small is finalised at once, on the event loop; everything else in
a thread, as a part of the body: inside the deadline, and abandoned at it. Knows nothing of loops and threads itself.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from toolrun.errors import CallError, ErrorKind, SideEffects
from toolrun.execution.body import Outcome
from toolrun.execution.failure import Failure, explain
from toolrun.execution.large_result import normalise_large, render_large
from toolrun.execution.secrecy import hide_secrets
from toolrun.json import JSON
from toolrun.redaction import Redactor
from toolrun.result import Content, Large, is_small, meta_of, normalise_result

_PLAIN: Final = frozenset({BaseException.__str__, OSError.__str__, KeyError.__str__})
"""How exceptions are made into text without any code of their own."""
_HEAP_TYPE: Final = 1 << 9
"""The flag of types that are not part of Python itself."""
_HARMLESS: Final = frozenset({"__module__", "__doc__", "__init__", "__dict__", "__weakref__", "__annotations__"}).union(
    {"__static_attributes__", "__firstlineno__", "__annotate__", "__annotate_func__"}
)


@dataclass(slots=True)
class Finalised:
    """What a tool returned, normalised. The object itself is not kept: it may be large."""

    data: JSON
    blocks: tuple[dict[str, JSON], ...]
    text: str | None
    """For a model, if it was made already."""
    meta: dict[str, JSON] | None = None
    artifact: object = None
    shown: JSON = None
    """The data without secrets, if there is one in it."""
    has_secret: bool = False


def is_quick(value: object, error: BaseException | None) -> bool:
    """Whether an outcome can be finalised on the event loop, where nothing may take long."""
    if error is None:
        return type(value) is Finalised or (type(value) is Content and value.is_normal) or is_small(value)
    return _is_plain(type(error)) and is_small(_asked(error))


def finalise(
    value: object, error: BaseException | None, tool: str, limit: int | None, redactor: Redactor | None = None
) -> Outcome:
    """In a thread: the outcome with a `Finalised` value, or with a `Failure` beside the error. Never raises."""
    if error is not None:
        return _normalised(explain(error, tool)), error
    try:
        data, blocks = normalise_result(value, normalise_large)
        shown = data
        if redactor is not None:
            shown, blocks = hide_secrets(data, redactor), tuple(hide_secrets(list(blocks), redactor))
        finalised = Finalised(data, blocks, render_large(list(blocks) or shown, limit))
        finalised.shown, finalised.has_secret = shown, shown is not data
        content = value.value if type(value) is Large else value
        if type(content) is Content:
            meta = meta_of(content)
            finalised.meta = meta if redactor is None else hide_secrets(meta, redactor)
            finalised.artifact = content.artifact
        return finalised, None
    except BaseException as raised:  # noqa: BLE001  a foreign object's own methods
        return explain(raised, tool), raised


def _normalised(failure: Failure) -> Failure:
    """The failure with what the tool said all the same as JSON data."""
    said = failure.answer
    if said is None or said.is_normal:
        return failure
    try:
        blocks = normalise_result(Content(said.blocks), normalise_large)[1]
        data = None if said.data is None else normalise_large(said.data)
        return failure._replace(answer=Content(list(blocks), data, meta_of(said), is_normal=True))
    except BaseException:  # noqa: BLE001  as above
        return failure._replace(answer=None)


def _is_plain(kind: type[BaseException]) -> bool:
    """Whether an exception can be explained without any code of its own: all of it is Python's or ours."""
    if type(kind) is not type:  # its metaclass may answer anything
        return False
    if not all(map(_adds_nothing, kind.__mro__)) or issubclass(kind, BaseExceptionGroup):
        return False
    return kind.__str__ in _PLAIN


def _adds_nothing(kind: type) -> bool:
    """Whether a class is written in C, is ours, or changes nothing but how its objects are made."""
    if not kind.__flags__ & _HEAP_TYPE:
        return True
    members = vars(kind)
    module, name = members.get("__module__"), kind.__name__
    if type(module) is not str:
        return False
    if module.partition(".")[0] == "toolrun" and vars(sys.modules.get(module, sys)).get(name) is kind:
        return True
    return members.keys() <= _HARMLESS and type(kind.__qualname__) is str


def _asked(error: BaseException) -> tuple[object, ...]:
    """All that `explain` asks a plain exception for."""
    asked: tuple[object, ...] = (BaseException.args.__get__(error),)  # type: ignore[attr-defined]  # a slot of the type
    if isinstance(error, OSError):
        return (*asked, error.errno, error.strerror, error.filename, error.filename2)
    if isinstance(error, CallError):
        own = [vars(error).get(name) for name in ("detail", "answer", "kind", "side_effects")]
        return (*asked, *(it for it in own if type(it) is not SideEffects and type(it) is not ErrorKind))
    return asked
