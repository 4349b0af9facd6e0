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
from toolrun.execution.finalise import is_quick
from toolrun.execution.observer import Observer
from toolrun.json import JSON, dumps, loads
from toolrun.logger import Indented, get_logger
from toolrun.redaction import Redactor
from toolrun.result import ToolResult, is_small, normalise, render
from toolrun.text import logged, one_line, show
from toolrun.tools.context import Call
from toolrun.worker.normalise import clean, name_of

logger = get_logger("toolrun.call")

_is_enabled_for = logger.isEnabledFor
_INFO: Final = logging.INFO
_FILE: Final = "log.py"
"""Short, because `logging` takes it apart for each line."""
_MAX_VALUE: Final = 500
_MAX_TEXT: Final = 200_000
_MAX_VALUES: Final = 2_000
_MAX_DEPTH: Final = 32
_MAX_REPAIRS: Final = 20
_UNSEEN: Final = "(not shown: the arguments are too large to look for secrets in them)"
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_IN_HEAD: Final = 5
"""Fields with which every line begins."""
_REFUSED: Final = frozenset(
    {ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS, ErrorKind.OVERLOADED, ErrorKind.NOT_APPROVED}
)


class LogObserver(Observer):
    """Writes the log line."""

    def __init__(self, *, slow_call: float = 1.0, redactor: Redactor | None = None) -> None:
        self._slow_ms = slow_call * 1000
        self._redactor = redactor or Redactor()

    def call_finished(self, call: Call, result: ToolResult) -> None:
        kind = result.error_kind
        slow = result.execution_time_ms > self._slow_ms
        level = _INFO  # most calls, in most programs, which do not want the line
        if kind is not None:
            level = logging.WARNING if kind in _REFUSED else logging.ERROR
        elif slow or result.dropped:
            level = logging.WARNING
        if not _is_enabled_for(level):
            return
        arguments, text, is_cut = _look(_read(call.arguments))
        redactor = self._redactor
        if redactor.may_hide(text):
            redactor = redactor.with_arguments(arguments)
            arguments = cast(JSON, redactor.value(arguments))
            text = _text(arguments)
        fields: dict[str, object] = {
            "tool": _shown(redactor, result.tool_name),
            "call_id": call.id,
            "outcome": "ok" if kind is None else kind.value,
            "ms": round(result.execution_time_ms, 3),
            "arguments": logged(text, _MAX_VALUE) if isinstance(arguments, str) else arguments,
            "repairs": [],
        }
        if result.repairs:
            fields["repairs"] = [redactor.text(str(repair)) for repair in result.repairs[:_MAX_REPAIRS]]
        if result.dropped:
            fields["ignored"] = _shown(redactor, ", ".join(result.dropped))
        if kind is None:
            fields["result"] = _UNSEEN if is_cut else _shown(redactor, _beginning(result))
        else:
            error = _UNSEEN if is_cut else _shown(redactor, result.error or "")
            fields |= {"error": error, "side_effects": str(result.side_effects)}
            if call.error is not None and not issubclass(type(call.error), CallError) and _traceback_of(call.error):
                fields["raised"] = f"{name_of(type(call.error))} {_place(call.error)}"
        below = ""
        if call.error is not None and not is_cut and _is_enabled_for(logging.DEBUG):
            below = redactor.hide(_traceback(call.error))
        line = self._line(fields, logged(text, _MAX_VALUE), slow)
        # Not `logger.log`, which would first look for the line of code that logs: it is always this one.
        message, parts = ("%s%s", (line, Indented(below))) if below else (line, ())
        record = logger.makeRecord("toolrun.call", level, _FILE, 0, message, parts, None, "call_finished")
        record.call = fields
        logger.handle(record)

    def _line(self, fields: dict[str, object], arguments: str, slow: bool) -> str:
        """What is text has been redacted and cut already; so have the arguments."""
        late = f" (slow: over {self._slow_ms:g} ms)" if slow else ""
        line = f"{fields['tool']} {fields['outcome']} {fields['ms']} ms{late}"
        line += f" call_id={one_line(str(fields['call_id']))}"
        if arguments:
            line += f" arguments={arguments}"
        for key in islice(fields, _IN_HEAD, None):
            value = fields[key]
            if value:
                shown = one_line(value) if isinstance(value, str) else logged(render(cast(JSON, value)), _MAX_VALUE)
                line += f" {key}={shown}"
        return line


def shown_content(call: Call, result: ToolResult, redactor: Redactor) -> tuple[str, str]:
    """The arguments of a call, and its result or error, as others may see them: without secrets, and not too long."""
    arguments, text, is_cut = _look(_read(call.arguments))
    redactor = redactor.with_arguments(arguments)
    said = _UNSEEN if is_cut else _shown(redactor, _beginning(result) if result.error is None else result.error)
    return _shown(redactor, arguments) if redactor.may_hide(text) else logged(text, _MAX_VALUE), said


def _read(arguments: object) -> object:
    """The arguments of a call. Those of a refused one may still be JSON text, or no JSON at all."""
    if (type(arguments) is str or type(arguments) is bytes) and len(arguments) <= _MAX_TEXT:
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
        if kind is int or kind is float or kind is bool or value is None:
            return normalise(value)
        return f"<{name_of(kind)}>"

    def _members(self, members: dict[Any, Any], depth: int) -> JSON:
        self.is_cut |= len(members) > self._left
        shown = islice(members.items(), max(0, self._left))
        return {self._name(key): self.of(item, depth + 1) for key, item in shown}

    def _items(self, items: Any, depth: int) -> JSON:
        self.is_cut |= len(items) > self._left
        return [self.of(item, depth + 1) for item in islice(items, max(0, self._left))]

    def _name(self, key: object) -> str:
        return clean(key[:_MAX_VALUE]) if type(key) is str else show(key)


def _look(arguments: object) -> tuple[JSON, str, bool]:
    """Arguments as JSON data that share nothing with them, their text, and whether something was left out."""
    if type(arguments) is dict and is_small(arguments):
        try:
            text = dumps(arguments)
            is_flat = _SCALARS.issuperset(map(type, arguments.values()))
            return arguments.copy() if is_flat else loads(text), text.decode(), False
        except (TypeError, RecursionError):
            pass  # no JSON
    excerpt = _Excerpt()
    data = excerpt.of(arguments)
    return data, _text(data), excerpt.is_cut


def _beginning(result: ToolResult) -> JSON:
    is_large = result.rendered is not None or type(result.shown) is str
    return _Excerpt().of(result.shown) if is_large else result.shown


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else render(value)


def _shown(redactor: Redactor, value: JSON) -> str:
    if isinstance(value, str):
        return logged(redactor.hide(value), _MAX_VALUE)
    text = render(value)
    if not redactor.has_values and type(value) in _SCALARS:
        return text
    return logged(render(cast(JSON, redactor.value(value))) if redactor.may_hide(text) else text, _MAX_VALUE)


def _traceback(error: BaseException) -> str:
    """Not as `exc_info`, which would show what the exception says, and ask a foreign one for it."""
    text, seen = "", set[int]()
    raised: BaseException | None = error
    while raised is not None and id(raised) not in seen:
        seen.add(id(raised))
        words = str(raised) if is_quick(None, raised) else "(its text is not asked for)"
        frames = "".join(traceback.format_tb(_traceback_of(raised)))
        text = f"Traceback (most recent call last):\n{frames}{name_of(type(raised))}: {words[:_MAX_TEXT]}\n{text}"
        cause = _attribute(raised, "__cause__")  # not asked for its truth, which may be code of its own
        raised = _attribute(raised, "__context__") if cause is None else cause
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
