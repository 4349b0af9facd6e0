"""One structured line for each call, through the standard `logging` (logger `toolrun.call`).

Failures are errors; refused calls, slow ones and those with arguments that the tool ignored are warnings, the rest is
info. The line is for people; the same data
is in `record.call` for formatters that write JSON.

It runs on the event loop, so it looks at the beginning of a large value only, and asks no foreign object for anything.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
from itertools import islice
from typing import Any, Final, cast

from toolrun.errors import CallError, ErrorKind
from toolrun.execution.observer import Observer
from toolrun.execution.settle import is_quick
from toolrun.json import JSON, loads
from toolrun.logger import Indented, get_logger
from toolrun.redaction import Redactor
from toolrun.result import ToolResult, normalise, render
from toolrun.text import one_line, show
from toolrun.tools.context import Call
from toolrun.worker.normalise import clean

logger = get_logger("toolrun.call")

_is_enabled_for = logger.isEnabledFor
_INFO: Final = logging.INFO
_MAX_VALUE: Final = 500
_MAX_TEXT: Final = 200_000
_MAX_VALUES: Final = 2_000
_MAX_DEPTH: Final = 32
_MAX_REPAIRS: Final = 20
_UNSEEN: Final = "(not shown: the arguments are too large to look for secrets in them)"
_REFUSED: Final = frozenset({ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS, ErrorKind.OVERLOADED})


class LogObserver(Observer):
    """Writes the log line."""

    def __init__(self, *, slow_call: float = 1.0, redactor: Redactor | None = None) -> None:
        self._slow_ms = slow_call * 1000
        self._redactor = redactor or Redactor()

    def call_finished(self, call: Call, result: ToolResult) -> None:
        kind = result.error_kind
        slow = result.execution_time_ms > self._slow_ms
        if kind is None and not slow and not result.dropped and not _is_enabled_for(_INFO):
            return  # most calls, in most programs
        if kind is not None:
            level = logging.WARNING if kind in _REFUSED else logging.ERROR
        else:
            level = logging.WARNING if slow or result.dropped else logging.INFO
        if not _is_enabled_for(level):
            return
        excerpt = _Excerpt()
        arguments = excerpt.of(_read(call.arguments))
        redactor = self._redactor.with_arguments(arguments)
        fields: dict[str, object] = {
            "tool": _shown(redactor, result.tool_name),
            "call_id": call.id,
            "outcome": "ok" if kind is None else kind.value,
            "ms": round(result.execution_time_ms, 3),
            "arguments": _shown(redactor, arguments) if isinstance(arguments, str) else redactor.value(arguments),
            "repairs": [redactor.text(str(repair)) for repair in result.repairs[:_MAX_REPAIRS]],
        }
        if result.dropped:
            fields["ignored"] = _shown(redactor, ", ".join(result.dropped))
        if kind is None:
            fields["result"] = _UNSEEN if excerpt.is_cut else _shown(redactor, _Excerpt().of(result.result))
        else:
            error = _UNSEEN if excerpt.is_cut else _shown(redactor, result.error)
            fields |= {"error": error, "side_effects": str(result.side_effects)}
            if call.error is not None and not issubclass(type(call.error), CallError) and _traceback_of(call.error):
                fields["raised"] = f"{type(call.error).__name__} {_place(call.error)}"
        below = ""
        if call.error is not None and not excerpt.is_cut and _is_enabled_for(logging.DEBUG):
            below = redactor.hide(_traceback(call.error))
        logger.log(level, "%s%s", self._line(fields, slow), Indented(below), extra={"call": fields})

    def _line(self, fields: dict[str, object], slow: bool) -> str:
        head = f"{fields['tool']} {fields['outcome']} {fields['ms']} ms"
        if slow:
            head += f" (slow: over {self._slow_ms:g} ms)"
        # What is text has been redacted and cut already; the rest is redacted JSON.
        rest = [
            f"{key}={one_line(value) if isinstance(value, str) else _cut(render(cast(JSON, value)))}"
            for key, value in fields.items()
            if key not in ("tool", "outcome", "ms") and value not in (None, [], "")
        ]
        return " ".join([head, *rest])


def _read(arguments: object) -> object:
    """The arguments of a call. Those of a refused one may still be JSON text, or no JSON at all."""
    if isinstance(arguments, str | bytes) and len(arguments) <= _MAX_TEXT:
        with contextlib.suppress(ValueError):
            return loads(arguments)
    return arguments


class _Excerpt:
    """The beginning of a value of any type, as JSON data."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES
        self.is_cut = False
        """Whether something was left out: it may hold what must not be shown elsewhere."""

    def of(self, value: Any, depth: int = 0) -> JSON:
        self._left -= 1
        kind = type(value)
        if kind is str or kind is bytes:
            self.is_cut |= len(value) > _MAX_TEXT
            return normalise(value[:_MAX_TEXT])
        if kind is dict or kind is list or kind is tuple:
            if depth > _MAX_DEPTH or self._left < 0:
                self.is_cut = True
                return "…"
            return self._members(value, depth) if kind is dict else self._items(value, depth)
        if kind in (int, float, bool, type(None)):
            return normalise(value)
        return f"<{kind.__name__}>"

    def _members(self, members: dict[Any, Any], depth: int) -> JSON:
        self.is_cut |= len(members) > self._left
        shown = islice(members.items(), max(0, self._left))
        return {self._name(key): self.of(item, depth + 1) for key, item in shown}

    def _items(self, items: Any, depth: int) -> JSON:
        self.is_cut |= len(items) > self._left
        return [self.of(item, depth + 1) for item in islice(items, max(0, self._left))]

    def _name(self, key: object) -> str:
        return clean(key[:_MAX_VALUE]) if type(key) is str else show(key)


def _shown(redactor: Redactor, value: JSON) -> str:
    return _cut(redactor.hide(value) if isinstance(value, str) else render(cast(JSON, redactor.value(value))))


def _cut(text: str) -> str:
    shown = one_line(text[:_MAX_VALUE])
    return shown if len(text) <= _MAX_VALUE else f"{shown}… ({len(text):,} characters)"


def _traceback(error: BaseException) -> str:
    """Not as `exc_info`, which would show what the exception says, and ask a foreign one for it."""
    text, seen = "", set[int]()
    raised: BaseException | None = error
    while raised is not None and id(raised) not in seen:
        seen.add(id(raised))
        words = str(raised) if is_quick(None, raised) else "(its text is not asked for)"
        frames = "".join(traceback.format_tb(_traceback_of(raised)))
        text = f"Traceback (most recent call last):\n{frames}{type(raised).__name__}: {words[:_MAX_TEXT]}\n{text}"
        raised = _attribute(raised, "__cause__") or _attribute(raised, "__context__")
    return text.rstrip()


def _place(error: BaseException) -> str:
    """The innermost line of the traceback: where to look."""
    frame = traceback.extract_tb(_traceback_of(error), limit=-1)[-1]
    return f"at {frame.filename}:{frame.lineno} in {frame.name}"


def _traceback_of(error: BaseException) -> Any:
    return _attribute(error, "__traceback__")


def _attribute(error: BaseException, name: str) -> Any:
    """Python's own attribute of an exception, whatever its class says."""
    return getattr(BaseException, name).__get__(error)
