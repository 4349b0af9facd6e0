"""What a function returned or raised, as the lines of its answer. Knows nothing of where they are written."""

from __future__ import annotations

import sys

from . import codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from .serve import WorkerCall


def success(call: WorkerCall, result: object) -> bytes:
    return b'{"id":%d,"result":%b,"error":null}\n' % (call.id, codec.encode(result, collects=True))


def failure(call: WorkerCall, error: BaseException) -> bytes:
    error = _single(error)
    raised, message = codec.encode(_classes(error)), codec.encode(text_of(error) + refusal_of(error))
    return b'{"id":%d,"raised":%b}\n{"id":%d,"result":null,"error":%b}\n' % (call.id, raised, call.id, message)


def _single(error: BaseException) -> BaseException:
    """The one failure in a group: a task group puts even a single one into a group."""
    inner = getattr(error, "exceptions", None)
    while isinstance(inner, tuple) and len(inner) == 1 and isinstance(inner[0], BaseException):
        error, inner = inner[0], getattr(inner[0], "exceptions", None)
    return error


def _classes(error: BaseException) -> list[str]:
    own = getattr(type(error), "raised", None)
    if isinstance(own, tuple) and str(own[0]).startswith("toolrun."):
        return list(own)
    classes = [f"{it.__module__}.{it.__qualname__}" for it in type(error).__mro__ if it not in (BaseException, object)]
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and isinstance(number, int):
        import errno

        if number in errno.errorcode:
            classes.insert(0, f"errno.{errno.errorcode[number]}")
    return classes or ["builtins.BaseException"]


def refusal_of(error: BaseException) -> str:
    """What follows the text of an exception that is the sandbox's doing: what was refused, and how to allow it."""
    policy = getattr(sys.modules.get(f"{__package__}.sandbox"), "policy", None)
    if policy is None or isinstance(error, SystemExit):
        return ""
    from . import denial

    said = denial.explain(error, policy)
    return f"\n{said}" if said else ""


def text_of(error: BaseException) -> str:
    """The message of an exception, or its type where it has none or cannot say it."""
    if isinstance(error, SystemExit) and error.code is None:
        return "0"
    try:
        return str(error).strip() or type(error).__name__
    except BaseException:  # noqa: BLE001  the exception's own __str__
        return type(error).__name__


def frames_of(error: BaseException) -> TracebackType | None:
    """The frames of an exception without our own, which are the outermost."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__package__") == __package__:
        frames = frames.tb_next
    return frames
