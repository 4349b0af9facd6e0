"""Writes a recording: one line for each tool that is offered, and one for each call when it ends.

A line is one write to a file that is open for appending. So `kill -9` loses at most the line that is being written, and
several processes may record into one file. A call that cannot be written is counted; it does not fail.

Calls that a tool makes are not recorded: at playback the tool does not run, so it does not make them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self, cast
from weakref import WeakKeyDictionary

from toolrun.errors import ConfigError, ErrorKind
from toolrun.execution.observer import Observer
from toolrun.json import JSON, dump_line
from toolrun.logger import get_logger
from toolrun.recording.recording_file import (
    HEADER,
    MAX_BYTES,
    VERSION,
    Line,
    RecordedDefinition,
    RecordingFile,
    conflict,
    is_recording,
    parse_recording,
)
from toolrun.redaction import Redactor
from toolrun.regular_file import read_regular_file
from toolrun.result import ToolResult, normalise
from toolrun.tools.context import Call, Progress, current_call
from toolrun.tools.manager import ToolManager
from toolrun.tools.protocol import Tool, origin_of, schema_of

logger = get_logger("toolrun.recording")

_REFUSED: Final = (ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS)
_SCHEMA: Final = "inputSchema"


class _RunningCall:
    """What is recorded of a call while it runs: now, because a tool may change what it was given."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.sent = self.arguments = _snapshot(call.arguments)
        self.reports: list[Progress] = []
        self._listener = call.on_progress

    def checked(self) -> None:
        self.arguments = _snapshot(self.call.arguments)

    def report(self, progress: Progress) -> None:
        self.reports.append(progress)
        if self._listener is not None:
            self._listener(progress)


class Recorder(Observer):
    """Records the calls of an executor in full: `ToolExecutor(manager, observers=[recorder])`. Close it at the end."""

    def __init__(self, path: str | Path, *, secrets: Iterable[str] = (), overwrite: bool = False) -> None:
        """An existing recording is extended, unless it is to be overwritten. Raises ConfigError.

        `secrets` are values that are replaced by `***` wherever they stand.
        """
        self.path = Path(path)
        self.recorded = 0
        """Calls that were written."""
        self.missing = 0
        """Lines that could not be written, because of `failure`."""
        self.failure = ""
        self._redactor = Redactor(secrets)
        self._lock = threading.RLock()  # tools may be added in any thread
        self._watched: list[tuple[ToolManager, Callable[[], object]]] = []
        self._running: WeakKeyDictionary[Call, _RunningCall | None] = WeakKeyDictionary()
        """None: a tool made the call."""
        try:
            self._file, existing = _open(self.path, overwrite)
        except OSError as error:
            raise ConfigError(f"The recording {path} cannot be written: {error.strerror or error}") from error
        self._definitions = existing.definitions
        self._offered: dict[str, Tool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop recording."""
        with self._lock:
            for manager, listener in self._watched:
                manager.on_change.remove(listener)
            self._watched.clear()
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def watch(self, manager: ToolManager) -> None:
        """Record the tools of a manager, now and whenever they change. The first call of an executor does so, too."""
        if any(manager is watched for watched, _ in self._watched):
            return

        def define() -> None:
            with self._lock:
                for tool in manager:
                    if self._offered.get(tool.name) is not tool:
                        self._offered[tool.name] = tool
                        self._define(tool)

        self._watched.append((manager, define))
        manager.on_change.append(define)
        define()

    def call_started(self, call: Call) -> None:
        if current_call.get() is not None:
            self._running[call] = None
            return
        running = self._running[call] = _RunningCall(call)
        call.on_checked, call.on_progress = running.checked, running.report

    def call_finished(self, call: Call, result: ToolResult) -> None:
        was_started = call in self._running  # else it was refused before
        running = self._running.pop(call) if was_started else _RunningCall(call)
        if running is None or _is_of_the_ledger(call, result):
            return
        manager = getattr(call.host, "manager", None)
        if isinstance(manager, ToolManager):
            self.watch(manager)
        tool = manager.get(call.name) if isinstance(manager, ToolManager) and isinstance(call.name, str) else None
        name = tool.name if tool is not None else result.tool_name
        try:
            self._write(self._call_line(name, running, result))
            self.recorded += 1
        except (OSError, TypeError, ValueError, RecursionError) as error:
            self._miss(f"a call of '{name}'", error)

    def _miss(self, what: str, error: Exception) -> None:
        self.missing += 1
        self.failure = str(getattr(error, "strerror", None) or error)
        if self.missing == 1:
            logger.error("%s lacks %s: %s", self.path, what, self.failure)

    def _define(self, tool: Tool) -> None:
        try:
            line: Line = {"tool": tool.name, **self._hidden(_definition_line(tool), with_keys=False)}
            before = self._definitions.get(tool.name)
            if before is not None and before.line == line:
                return
            self._write(line)
        except (OSError, TypeError, ValueError, RecursionError) as error:
            self._miss(f"the tool '{tool.name}'", error)
            return
        definition = self._definitions[tool.name] = RecordedDefinition(tool.name, line, origin_of(tool))
        if before is not None and conflict(before, definition):
            logger.warning(
                "%s: the schema of '%s' is different from before, so the file cannot be played. Record into a new "
                "one (--overwrite).",
                self.path,
                tool.name,
            )

    def _call_line(self, name: str, running: _RunningCall, result: ToolResult) -> Line:
        line: Line = {"call": name}
        call, sent = running.call, running.sent
        is_refused = result.error_kind in _REFUSED and call.loop is None  # by toolrun, not by a server
        if isinstance(running.arguments, dict) and not is_refused:
            line["arguments"] = self._hidden(running.arguments)
            if result.repairs or result.dropped or running.arguments != sent:
                line["sent"] = self._hidden(sent)
        else:
            line["sent"] = self._hidden(sent)
        reports = [report for report in map(_report_line, running.reports) if "progress" in report]
        if reports:
            line["progress"] = self._hidden(reports)
        if result.error is None or result.result is not None:
            line["result"] = self._hidden(result.result)
        if result.content:
            line["content"] = self._hidden(list(result.content))
        if result.meta is not None:
            line["meta"] = self._hidden(result.meta)
        if result.error is not None:
            error: dict[str, JSON] = {"kind": str(result.error_kind), "message": self._hidden(result.error)}
            if result.detail:
                error["detail"] = self._hidden(result.detail)
            line["error"] = error | {"side_effects": str(result.side_effects)}
        line["ms"] = round(result.execution_time_ms, 1)
        return line

    def _write(self, line: Line) -> None:
        data = dump_line(line)
        with self._lock:
            if self._file < 0:
                raise OSError("the recording is closed")
            _append(self._file, data)

    def _hidden(self, value: Any, *, with_keys: bool = True) -> Any:
        """The value without secrets. The keys of a schema are kept: they are the names of parameters."""
        hide = self._redactor.hide_values
        if isinstance(value, str):
            return hide(value)
        if isinstance(value, dict):
            items = {key: self._hidden(item, with_keys=with_keys) for key, item in value.items()}
            return {hide(key): item for key, item in items.items()} if with_keys else items
        if isinstance(value, list):
            return [self._hidden(item, with_keys=with_keys) for item in value]
        return value


def _open(path: Path, overwrite: bool) -> tuple[int, RecordingFile]:
    """A file to append to, with a header, and what it holds. Raises OSError and ConfigError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        data = read_regular_file(path, MAX_BYTES)
    except FileNotFoundError:
        data = b""
    if data.strip() and not is_recording(data):  # also if it is to be overwritten: it may be somebody's work
        raise ConfigError(f"{path} is not a recording, so toolrun does not write into it")
    existing = parse_recording(data, path) if data.strip() and not overwrite else RecordingFile()
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o600)
    try:
        os.fchmod(file, 0o600)
        if overwrite or not data.strip():
            os.ftruncate(file, 0)
            _append(file, dump_line({HEADER: VERSION}))
        elif existing.cut_off:
            logger.warning("%s: the last line is cut off, and is removed", path)
            os.ftruncate(file, len(data) - existing.cut_off)
        elif not data.endswith(b"\n"):
            _append(file, b"\n")
    except OSError:
        os.close(file)
        raise
    return file, existing


def _append(file: int, data: bytes) -> None:
    """One line, or nothing of it. Raises OSError."""
    before = os.fstat(file).st_size
    try:
        written = os.write(file, data)
        while written < len(data):  # the disk is full, or the line is very long
            written += os.write(file, data[written:])
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file, before)
        raise


def _snapshot(arguments: object) -> JSON:
    """The arguments as they came, as JSON: an object, or text that was to be one."""
    if isinstance(arguments, bytes | bytearray):
        arguments = bytes(arguments).decode(errors="replace")
    return normalise(arguments)


def _report_line(report: Progress) -> Line:
    """As far as these are numbers, which nobody has checked."""
    parts = {"progress": report.progress, "total": report.total}
    numbers = {key: normalise(value) for key, value in parts.items() if isinstance(value, int | float)}
    line: Line = {key: value for key, value in numbers.items() if value is not None}
    return {**line, "message": normalise(str(report.message))} if report.message else line


def _definition_line(tool: Tool) -> Line:
    """Raises DefinitionError, a ValueError."""
    parts: dict[str, object] = {
        "title": getattr(tool, "title", None),
        "description": tool.description,
        _SCHEMA: schema_of(tool),
        "outputSchema": getattr(tool, "output_schema", None),
        "annotations": getattr(tool, "annotations", None),
        "icons": getattr(tool, "icons", None),
        "_meta": getattr(tool, "meta", None),
        "origin": origin_of(tool).value,
        "server": (server := getattr(tool, "mcp_server", None)),
        "parameters": getattr(tool, "parameter_names", None) or None,
        "more": getattr(listed := getattr(tool, "listed", None), "more", None) or None,
        "undescribed": None if getattr(listed, "is_described", True) else "yes",
    }
    kept = {key: value for key, value in parts.items() if isinstance(value, str | Mapping | list)}
    # What a server lists is passed on as it is, also what is empty.
    return cast(Line, normalise({key: it for key, it in kept.items() if it or server is not None or key == _SCHEMA}))


def _is_of_the_ledger(call: Call, result: ToolResult) -> bool:
    """Whether the journal refused a key, and the tool has said nothing: that is no answer of the tool."""
    if call.key is None or result.error is None:
        return False
    return call.replayed_from is not None or result.error_kind is ErrorKind.IN_DOUBT
