"""One structured line for each call, through the standard `logging` (logger `toolrun.call`).

Failures are errors, refused calls and slow ones are warnings, the rest is info. The line is for people; the same data
is in `record.call` for formatters that write JSON.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from typing import Final, cast

from toolrun.errors import CallError, ErrorKind
from toolrun.execution.observer import Observer
from toolrun.json import JSON, loads
from toolrun.redaction import Redactor
from toolrun.result import ToolResult, normalise, render
from toolrun.text import visible
from toolrun.tools.context import Call

logger = logging.getLogger("toolrun.call")

_is_enabled_for = logger.isEnabledFor
_INFO: Final = logging.INFO
_MAX_VALUE: Final = 500
_REFUSED: Final = frozenset({ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS, ErrorKind.OVERLOADED})


class LogObserver(Observer):
    """Writes the log line."""

    def __init__(self, *, slow_call: float = 1.0, redactor: Redactor | None = None) -> None:
        self._slow_ms = slow_call * 1000
        self._redactor = redactor or Redactor()

    def call_finished(self, call: Call, result: ToolResult) -> None:
        kind = result.error_kind
        slow = result.execution_time_ms > self._slow_ms
        if kind is None and not slow and not _is_enabled_for(_INFO):
            return  # most calls, in most programs
        if kind is not None:
            level = logging.WARNING if kind in _REFUSED else logging.ERROR
        else:
            level = logging.WARNING if slow else logging.INFO
        if not _is_enabled_for(level):
            return
        arguments = _read(call.arguments)
        redactor = self._redactor.with_arguments(arguments)
        fields: dict[str, object] = {
            "tool": _shown(redactor, result.tool_name),
            "call_id": call.id,
            "outcome": "ok" if kind is None else kind.value,
            "ms": round(result.execution_time_ms, 3),
            "arguments": _shown(redactor, arguments) if isinstance(arguments, str) else redactor.value(arguments),
            "repairs": [redactor.text(str(repair)) for repair in result.repairs],
        }
        if kind is None:
            fields["result"] = _shown(redactor, result.result)
        else:
            fields |= {"error": _shown(redactor, result.error), "side_effects": str(result.side_effects)}
            if call.error is not None and not isinstance(call.error, CallError) and call.error.__traceback__:
                fields["raised"] = f"{type(call.error).__name__} {_place(call.error)}"
        line = self._line(fields, slow)
        if call.error is not None and _is_enabled_for(logging.DEBUG):
            line += _traceback(redactor, call.error)
        logger.log(level, "%s", line, extra={"call": fields})

    def _line(self, fields: dict[str, object], slow: bool) -> str:
        head = f"{fields['tool']} {fields['outcome']} {fields['ms']} ms"
        if slow:
            head += f" (slow: over {self._slow_ms:g} ms)"
        # What is text has been redacted and cut already; the rest is redacted JSON.
        rest = [
            f"{key}={visible(value) if isinstance(value, str) else _cut(render(cast(JSON, value)))}"
            for key, value in fields.items()
            if key not in ("tool", "outcome", "ms") and value not in (None, [], "")
        ]
        return " ".join([head, *rest])


def _read(arguments: object) -> JSON:
    """The arguments of a call. Those of a refused one may still be JSON text, or no JSON at all."""
    if isinstance(arguments, str | bytes):
        with contextlib.suppress(ValueError):
            value: JSON = loads(arguments)
            return value
    return normalise(arguments)


def _shown(redactor: Redactor, value: JSON) -> str:
    return _cut(redactor.hide(value) if isinstance(value, str) else render(cast(JSON, redactor.value(value))))


def _cut(text: str) -> str:
    shown = visible(text[:_MAX_VALUE])
    return shown if len(text) <= _MAX_VALUE else f"{shown}… ({len(text):,} characters)"


def _traceback(redactor: Redactor, error: BaseException) -> str:
    """Below the line, one line for each of its own: as `exc_info` it would show what the exception says."""
    lines = redactor.hide("".join(traceback.format_exception(error)).rstrip()).split("\n")
    return "".join(f"\n{visible(line)}" for line in lines)


def _place(error: BaseException) -> str:
    """The innermost line of the traceback: where to look."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"at {frame.filename}:{frame.lineno} in {frame.name}"
