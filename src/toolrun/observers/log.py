"""One structured line for each call, through the standard `logging` (logger `toolrun.call`).

Failures are errors, refused calls and slow ones are warnings, the rest is info. The line is for people; the same data
is in `record.call` for formatters that write JSON.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final

from toolrun.context import Call
from toolrun.errors import CallError, ErrorKind
from toolrun.observers.observer import Observer
from toolrun.redaction import Redactor
from toolrun.result import ToolResult, render

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
        outcome = "ok" if kind is None else kind.value
        fields: dict[str, object] = {
            "tool": result.tool_name,
            "call_id": call.id,
            "outcome": outcome,
            "ms": round(result.execution_time_ms, 3),
            "arguments": self._redactor.value(call.arguments),
            "repairs": [self._redactor.text(str(repair)) for repair in result.repairs],
        }
        if kind is None:
            fields["result"] = self._shown(result.result)
        else:
            fields |= {"error": self._redactor.text(result.error or ""), "side_effects": str(result.side_effects)}
            if call.error is not None and not isinstance(call.error, CallError) and call.error.__traceback__:
                fields["raised"] = f"{type(call.error).__name__} {_place(call.error)}"
        logger.log(level, "%s", self._line(fields, slow), extra={"call": fields}, exc_info=self._traceback(call))

    def _line(self, fields: dict[str, object], slow: bool) -> str:
        head = f"{self._redactor.text(str(fields['tool']))} {fields['outcome']} {fields['ms']} ms"
        if slow:
            head += f" (slow: over {self._slow_ms:g} ms)"
        rest = [
            f"{key}={self._shown(value)}"
            for key, value in fields.items()
            if key not in ("tool", "outcome", "ms") and value not in (None, [], "")
        ]
        return " ".join([head, *rest])

    def _shown(self, value: object) -> str:
        text = value if isinstance(value, str) else render(self._redactor.value(value))  # type: ignore[arg-type]  # redacting keeps JSON
        text = self._redactor.text(text[: _MAX_VALUE * 4])
        return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}… ({len(text):,} characters)"

    @staticmethod
    def _traceback(call: Call) -> BaseException | None:
        return call.error if logger.isEnabledFor(logging.DEBUG) else None


def _place(error: BaseException) -> str:
    """The innermost line of the traceback: where to look."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"at {frame.filename}:{frame.lineno} in {frame.name}"
