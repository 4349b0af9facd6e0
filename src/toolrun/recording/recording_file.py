"""The file format of recordings: JSON lines, made to be read, diffed and committed beside tests.

    {"toolrun_recording":1}                                             the header, with the version of the format
    {"tool":"add","description":…,"inputSchema":{…},"origin":…}         a tool that was offered
    {"call":"add","arguments":{…},"sent":{…},"result":5,"ms":0.2}       a call: the arguments as the tool got them, and
                                                                        as they were sent if those differ; its answer
    {"call":"add","arguments":{…},"error":{"kind":…,"message":…,"side_effects":…},"ms":0.2}
    {"call":"pic","arguments":{…},"result":…,"content":[…],"meta":{…},"progress":[{"progress":1,"total":2,"message":…}]}

A call without `arguments` was refused before any tool ran. Keys that a reader does not know are ignored. A process that
is killed while it writes leaves a last line without its end, which a reader skips and reports.

Knows nothing of how calls are made or played.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from toolrun.errors import ConfigError, ErrorKind, SideEffects
from toolrun.json import JSON, JSONDecodeError, loads
from toolrun.regular_file import read_regular_file
from toolrun.schema.origin import Origin
from toolrun.tools.context import Progress

VERSION: Final = 1
HEADER: Final = "toolrun_recording"
MAX_BYTES: Final = 500_000_000

_DEFINITION: Final[Mapping[str, type[Any]]] = {
    "description": str,
    "title": str,
    "inputSchema": dict,
    "outputSchema": dict,
    "annotations": dict,
    "icons": list,
    "_meta": dict,
    "server": str,
    "parameters": dict,
    "more": dict,
    "undescribed": str,
}
_KINDS: Final[Mapping[type[Any], str]] = {str: "text", dict: "an object", list: "a list"}

Line = dict[str, JSON]


@dataclass(frozen=True, slots=True)
class RecordedError:
    """Why a recorded call failed."""

    kind: ErrorKind
    message: str
    side_effects: SideEffects | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of a recording, with its answer."""

    tool: str
    arguments: dict[str, JSON] | None
    """As the tool got them. None: the call was refused before."""
    result: JSON = None
    content: tuple[dict[str, JSON], ...] = ()
    meta: dict[str, JSON] | None = None
    error: RecordedError | None = None
    place: str = ""
    """`house.jsonl:7`."""
    progress: tuple[Progress, ...] = ()
    """What the tool reported before it answered, in that order."""


@dataclass(frozen=True, slots=True)
class RecordedDefinition:
    """A tool as it was offered."""

    name: str
    line: Line
    """As it is in the file."""
    origin: Origin = Origin.DECLARED
    place: str = ""

    def differs_in_schema(self, other: RecordedDefinition) -> str:
        """Which of the schemas is another one: `input`, `output`, or none of them."""
        for key, name in (("inputSchema", "input"), ("outputSchema", "output")):
            if self.line.get(key) != other.line.get(key):
                return name
        return ""


@dataclass(slots=True)
class RecordingFile:
    """What a file holds."""

    definitions: dict[str, RecordedDefinition] = field(default_factory=dict)
    """By name; of a tool that is defined several times, the last one."""
    calls: list[RecordedCall] = field(default_factory=list)
    cut_off: int = 0
    """Bytes at the end that are not a whole line."""
    conflict: str = ""
    """Which tool is defined with two different schemas, if one is."""


def read_recording(path: Path) -> RecordingFile:
    """The recording in a file. Raises ConfigError."""
    try:
        data = read_regular_file(path, MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"The recording {path} cannot be read: {error.strerror or error}") from error
    recording = parse_recording(data, path)
    if recording.conflict:
        raise ConfigError(recording.conflict)
    return recording


def is_recording(data: bytes) -> bool:
    """Whether the data begins like a recording, of whatever version."""
    try:
        header = loads(data.partition(b"\n")[0])
    except JSONDecodeError:
        return False
    return isinstance(header, dict) and HEADER in header


def parse_recording(data: bytes, path: Path) -> RecordingFile:
    """The recording that a file with this content is. Raises ConfigError."""
    if not data.strip():
        raise ConfigError(f"{path} is not a recording: it is empty")
    if not is_recording(data):
        raise ConfigError(f'{path} is not a recording: its first line is not {{"{HEADER}":{VERSION}}}')
    recording = RecordingFile()
    *lines, last = data.split(b"\n")  # only these: text may hold other line separators
    for number, text in enumerate((*lines, last), 1):
        if not text.strip():
            continue
        place = f"{path}:{number}"
        try:
            line = loads(text)
        except JSONDecodeError as error:
            if number > len(lines):
                recording.cut_off = len(text)
                break
            raise ConfigError(f"{place}: the line is not JSON: {error}") from None
        try:
            _add_line(recording, line, place)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{place}: the line is not one of a recording: {_explain(error)}") from None
    return recording


def _explain(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


def _add_line(recording: RecordingFile, line: Any, place: str) -> None:
    match line:
        case {"call": str()}:
            recording.calls.append(_read_call(line, place))
        case {"tool": str(name)}:
            definition = _read_definition(line, place)
            before = recording.definitions.get(name)
            if before is not None and not recording.conflict:
                recording.conflict = conflict(before, definition)
            recording.definitions[name] = definition
        case {"toolrun_recording": version}:  # also in the middle: two recordings may be put together
            if version != VERSION:
                raise ConfigError(
                    f"{place}: the recording has version {version}, and this toolrun plays version {VERSION}. "
                    "Use a newer toolrun, or record it again."
                )
        case _:
            raise ValueError("it has neither 'tool' nor 'call'")


def conflict(before: RecordedDefinition, now: RecordedDefinition) -> str:
    """Why two definitions of one tool do not go together; empty if they do. Words may change, schemas may not."""
    schema = before.differs_in_schema(now)
    if not schema:
        return ""
    return (
        f"{now.place}: the {schema} schema of the tool '{now.name}' is not the one at {before.place}. The tool has "
        "changed since: record its calls again."
    )


def _read_definition(line: Line, place: str) -> RecordedDefinition:
    for key, kind in _DEFINITION.items():
        if key in line or key in ("description", "inputSchema"):
            _typed(line, key, kind)
    origin = Origin(line.get("origin", Origin.DECLARED.value))
    return RecordedDefinition(_typed(line, "tool", str), line, origin, place)


def _read_call(line: Line, place: str) -> RecordedCall:
    arguments = _typed(line, "arguments", dict) if "arguments" in line else None
    content = _typed(line, "content", list) if "content" in line else []
    if not all(isinstance(block, dict) for block in content):
        raise TypeError("its 'content' is not a list of objects")
    meta = _typed(line, "meta", dict) if "meta" in line else None
    if "error" not in line and "result" not in line:
        raise TypeError("it has neither 'result' nor 'error'")
    error = _read_error(_typed(line, "error", dict)) if "error" in line else None
    reports = tuple(map(_read_report, _typed(line, "progress", list))) if "progress" in line else ()
    name, result = _typed(line, "call", str), line.get("result")
    return RecordedCall(name, arguments, result, tuple(content), meta, error, place, reports)


def _read_report(report: JSON) -> Progress:
    parts: Any = report if isinstance(report, dict) else {}
    progress, total, message = parts.get("progress"), parts.get("total"), parts.get("message", "")
    is_total = total is None or isinstance(total, int | float)
    if not isinstance(progress, int | float) or not is_total or not isinstance(message, str):
        raise TypeError("its 'progress' is not a list of reports, each with a number as its 'progress'")
    return Progress(progress, total, message)


def _read_error(error: Mapping[str, JSON]) -> RecordedError:
    return RecordedError(
        ErrorKind(_typed(error, "kind", str)),
        _typed(error, "message", str),
        SideEffects(_typed(error, "side_effects", str)) if "side_effects" in error else None,
        _typed(error, "detail", str) if "detail" in error else "",
    )


def _typed(line: Mapping[str, JSON], key: str, kind: type[Any]) -> Any:
    if not isinstance(line[key], kind):
        raise TypeError(f"its '{key}' is not {_KINDS[kind]}")
    return line[key]
