"""Plays a recording: tools with the recorded names and schemas that answer with what was recorded, and do nothing.

Each recorded call is played once, to a call of the same tool with the same arguments (as the tool would get them, after
their repair). The same arguments that were recorded several times are played in that order.

    strict   a call that was not recorded, or not so often, is an error, and kept in `mismatches`
    lenient  it gets the next call of the tool that was not played yet, whatever its arguments; after the last one, the
             last answer for these arguments again, or the last of the tool

Errors are played as errors of the same kind, after what the tool reported of its progress. Answers come at once,
however long the tool took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

from toolrun.errors import CallError, ConfigError, DefinitionError, ErrorKind, SideEffects, ToolError
from toolrun.execution.executor import ToolExecutor
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.mcp.client.parameter_names import rename
from toolrun.recording.difference import describe_difference, differences, key_of
from toolrun.recording.recording_file import (
    RecordedCall,
    RecordedDefinition,
    RecordedError,
    conflict,
    read_recording,
)
from toolrun.result import Content, normalise
from toolrun.schema.arguments import Rename
from toolrun.text import plural, show
from toolrun.tools.context import ToolContext, current_call
from toolrun.tools.manager import ToolManager

logger = get_logger("toolrun.recording")

_ERRORS: Final[Mapping[ErrorKind, type[CallError]]] = {
    kind: type("PlayedError", (CallError,), {"kind": kind}) for kind in ErrorKind
}
_MAX_LISTED: Final = 10


class _AsListed(NamedTuple):
    """What else its server said of a tool, or left out."""

    more: Mapping[str, JSON] | None
    is_described: bool


class RecordedTool:
    """A tool that answers from a recording."""

    def __init__(self, definition: RecordedDefinition, *, lenient: bool, mismatches: list[str]) -> None:
        line: dict[str, Any] = definition.line
        self.inline = True  # a lookup needs no thread
        self.name = definition.name
        self.description: str = line["description"]
        self.schema: Mapping[str, Any] = line["inputSchema"]
        self.schema_origin = definition.origin
        self.source = f"recording {definition.place.rpartition(':')[0]}" if definition.place else "recording"
        self.title: str | None = line.get("title")
        self.output_schema = line.get("outputSchema")
        self.annotations = line.get("annotations")
        self.icons = line.get("icons")
        self.meta = line.get("_meta")
        self.mcp_server: str | None = line.get("server")
        self.listed = _AsListed(line.get("more"), "undescribed" not in line)
        self.rename_arguments = None if self.mcp_server is None else _renaming(self.schema, line.get("parameters", {}))
        self.received: list[Mapping[str, JSON]] = []
        """The arguments of all calls so far."""
        self._lenient = lenient
        self._mismatches = mismatches
        self._calls: list[RecordedCall] = []
        self._by_key: dict[bytes, list[int]] = {}
        """Positions in `_calls`, by arguments."""
        self._played: set[int] = set()
        """Positions in `_calls`."""

    def add(self, call: RecordedCall) -> None:
        """A call that ran. One that was refused before is refused again by its schema."""
        if call.arguments is not None:
            self._by_key.setdefault(key_of(call.arguments), []).append(len(self._calls))
            self._calls.append(call)
            if call.progress:
                self.inline = False

    @property
    def unplayed(self) -> list[RecordedCall]:
        return [call for index, call in enumerate(self._calls) if index not in self._played]

    def invoke(self, arguments: dict[str, JSON]) -> object:
        return _answer(self._play(arguments))

    async def ainvoke(self, arguments: dict[str, JSON]) -> object:
        """Like `invoke`, with what the tool reported: one at a time, so that whoever listens can pass it on."""
        call, context = self._play(arguments), ToolContext(call=current_call.get())
        for report in call.progress:
            context.progress(report.progress, report.total, report.message)
            await asyncio.sleep(0)
        return _answer(call)

    def _play(self, arguments: dict[str, JSON]) -> RecordedCall:
        given = cast("dict[str, JSON]", normalise(arguments))
        self.received.append(given)
        return self._choose(given)

    def _choose(self, arguments: dict[str, JSON]) -> RecordedCall:
        same, every = self._by_key.get(key_of(arguments), []), range(len(self._calls))
        chosen = next((it for it in same if it not in self._played), None)
        if chosen is None and self._lenient and every:
            chosen = next((it for it in every if it not in self._played), (same or every)[-1])
        if chosen is None:
            message = self._explain(arguments, [self._calls[it] for it in same])
            self._mismatches.append(message)
            raise ToolError(message, side_effects=SideEffects.NOT_STARTED)
        self._played.add(chosen)
        return self._calls[chosen]

    def _explain(self, arguments: dict[str, JSON], same: list[RecordedCall]) -> str:
        asked = f"'{self.name}' with {show(arguments, 200)}"
        if same:
            places = ", ".join(call.place for call in same[:_MAX_LISTED])
            return f"{asked} was recorded {_times(len(same))} ({places}), and is called once more."
        if not self._calls:
            return f"{asked} was not recorded: the recording has no call of '{self.name}'."
        nearest = min(self._calls, key=lambda it: sum(1 for _ in differences(dict(arguments), it.arguments)))
        difference = describe_difference(arguments, nearest.arguments or {})
        return f"{asked} was not recorded. The nearest call is at {nearest.place}: {difference}."


class Recording:
    """The tools and calls of one or more files. It is played once: load it anew for each test."""

    def __init__(self, *, lenient: bool = False) -> None:
        self.lenient = lenient
        self.mismatches: list[str] = []
        """A line for each call that the recording has no answer for."""
        self._definitions: dict[str, RecordedDefinition] = {}
        self._tools: dict[str, RecordedTool] = {}

    @classmethod
    def load(cls, *paths: str | Path, lenient: bool = False) -> Self:
        """The recording in these files. Raises ConfigError."""
        recording = cls(lenient=lenient)
        files = [(Path(path), read_recording(Path(path))) for path in paths]
        for path, file in files:
            if file.cut_off:
                logger.warning("%s: the last line is cut off, and is not played", path)
            for definition in file.definitions.values():
                recording._define(definition)
        for _, file in files:
            for call in file.calls:
                if call.tool in recording._tools:  # others were calls of unknown tools, and are again
                    recording._tools[call.tool].add(call)
        return recording

    def _define(self, definition: RecordedDefinition) -> RecordedTool:
        before = self._definitions.get(definition.name)
        if before is not None and (problem := conflict(before, definition)):
            raise ConfigError(problem)
        tool = RecordedTool(definition, lenient=self.lenient, mismatches=self.mismatches)
        try:
            ToolManager([tool])
        except DefinitionError as error:
            raise ConfigError(f"{definition.place}: the tool cannot be played: {error}") from error
        self._definitions[definition.name] = definition
        return self._tools.setdefault(definition.name, tool)

    def add(
        self,
        tool: str,
        arguments: Mapping[str, JSON],
        result: JSON = None,
        *,
        error: str | None = None,
        description: str = "A recorded tool.",
        schema: Mapping[str, JSON] | None = None,
    ) -> RecordedTool:
        """Make up a call with its result or error. Without a schema, the tool accepts any arguments."""
        found = self._tools.get(tool)
        if found is None:
            found = self._define(
                RecordedDefinition(
                    tool, {"description": description, "inputSchema": dict(schema or {"type": "object"})}
                )
            )
        failure = RecordedError(ErrorKind.TOOL_ERROR, error) if error is not None else None
        found.add(RecordedCall(tool, dict(arguments), result, error=failure, place="the test"))
        return found

    def __getitem__(self, name: str) -> RecordedTool:
        return self._tools[name]

    def tools(self) -> list[RecordedTool]:
        """The recorded tools, for a manager or a framework."""
        return list(self._tools.values())

    def manager(self) -> ToolManager:
        """A manager with the recorded tools and no others."""
        return ToolManager(tuple(self.tools()))

    def executor(self, **options: Any) -> ToolExecutor:
        """An executor of the recorded tools. `options` are those of ToolExecutor."""
        executor = ToolExecutor(self.manager(), **options)
        executor.ignores_keys = executor.recorder is None
        if "on_approval" not in options:
            executor.approver = None  # what was recorded does nothing
        return executor

    @property
    def unplayed(self) -> list[RecordedCall]:
        """The recorded calls that were not played yet."""
        return [call for tool in self._tools.values() for call in tool.unplayed]

    def assert_all_played(self) -> None:
        """Raises AssertionError, with the recorded calls that were not played."""
        unplayed = self.unplayed
        if unplayed:
            listed = [f"  {it.place}: {it.tool} {show(it.arguments, 200)}" for it in unplayed[:_MAX_LISTED]]
            more = len(unplayed) - _MAX_LISTED
            listed += [f"  and {more} more"] if more > 0 else []
            raise AssertionError("\n".join([f"{plural(len(unplayed), 'recorded call')} not played:", *listed]))


def _renaming(schema: Mapping[str, Any], mapping: Mapping[str, str]) -> Rename:
    """As for the tool of a server: models call parameters by other names than it does."""
    properties = schema.get("properties")
    return partial(rename, known=frozenset(properties if isinstance(properties, Mapping) else ()), mapping=mapping)


def _answer(call: RecordedCall) -> object:
    if call.error is None:
        return _value(call)
    raise _error(call, call.error)


def _value(call: RecordedCall) -> object:
    if not call.content and call.meta is None:
        return call.result
    return Content(list(call.content), call.result, call.meta)


def _error(call: RecordedCall, error: RecordedError) -> CallError:
    played = _ERRORS[error.kind](error.message, side_effects=error.side_effects, detail=error.detail)
    if call.content or call.result is not None or call.meta is not None:
        played.answer = Content(list(call.content), call.result, call.meta)
    return played


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
