"""Checks the structured content of an answer against the output schema of its tool. Pure, and always quick.

Schema and answer both come from a stranger. Our own validator compiles the schema, and refuses one that is too large or
refers to something outside; for the others it knows a bound of the work. An answer whose check could take longer than
about a fifth of a second is passed on unchecked, with a line in the log. The SDK's own check has no such limit: one
pattern freezes it for ever.

An answer that does not match ends the call with a `ProtocolError`, as in the SDK: a program that relies on the schema
must not get something else. The tool has run all the same, so the error's detail has what it said. An answer without
structured content is not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from toolrun.errors import ProtocolError
from toolrun.json import JSON, Schema
from toolrun.logger import get_logger
from toolrun.result import Content, render, shorten
from toolrun.schema.explain import problems_of
from toolrun.schema.validator import CompiledSchema
from toolrun.schema.value import is_too_deep

logger = get_logger("toolrun.mcp")

MAX_WORK: Final = 500_000
"""Checks for one answer, each less than 100 ns: in this one call into C nothing else of the process runs."""
_MAX_VALUES: Final = 50_000
_MAX_EXPLAINED: Final = 20_000
"""Work up to which mistakes are explained one by one: an explanation costs a hundred times a check."""
_MAX_DETAIL: Final = 4_000
_CHARS: Final = 50
"""Characters of a text that count as one value more."""
_WRAPPED: Final = "structuredContent"
_UNFIT: Final = "it does not match the schema"


class OutputSchema:
    """A compiled output schema. Raises DefinitionError for one that cannot be used; its message names no tool."""

    __slots__ = ("_compiled", "_is_wrapped")

    def __init__(self, schema: Mapping[str, JSON]) -> None:
        # The newer protocol allows any type at the root, our validator an object only: as a part of one it may be any.
        # With an $id of its own, so that its references stay within it.
        self._is_wrapped = isinstance(schema, Mapping) and schema.get("type", "object") != "object"
        if self._is_wrapped:
            inner: Schema = {"$id": "urn:toolrun:output", **schema}
            draft: Schema = {"$schema": inner.pop("$schema")} if "$schema" in inner else {}
            schema = {**draft, "type": "object", "properties": {_WRAPPED: inner}}
        self._compiled = CompiledSchema(schema)

    def problem(self, data: JSON) -> str | None:
        """Why the data is not what the schema promises; None if it is, or if it would take too long to tell."""
        value = {_WRAPPED: data} if self._is_wrapped else data
        work = self._compiled.work_each * _weight(value)
        if work > MAX_WORK or is_too_deep(value):
            logger.info("structured content is too large to be checked against its schema; it is passed on as it is")
            return None
        try:
            if self._compiled.validator.is_valid(value):
                return None
            if work > _MAX_EXPLAINED or not isinstance(value, dict):
                return _UNFIT
            errors = self._compiled.errors("", value)
            found = problems_of(errors, value, self._compiled.root, [], self._compiled.errors)
        except ValueError as error:
            return f"it cannot be checked: {error}"
        return "; ".join(problem.message for problem in found) or _UNFIT


def broken_promise(problem: str, content: Content) -> ProtocolError:
    """The end of a call whose answer is not what its tool promised."""
    said = shorten(render(cast(JSON, content.blocks) or content.data), _MAX_DETAIL)
    error = ProtocolError(
        f"The server's answer is not what the tool's own output schema promises: {problem}",
        detail=f"The tool has run. It answered:\n{said}",
    )
    error.answer = content
    return error


def _weight(value: JSON) -> int:
    """How many values there are, long texts counted as several. Stops counting above the limit."""
    total = 0
    stack: list[JSON] = [value]
    while stack:
        item = stack.pop()
        total += 1
        if isinstance(item, str):
            total += len(item) // _CHARS
        elif isinstance(item, dict):
            total += sum(map(len, item)) // _CHARS
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        if total + len(stack) > _MAX_VALUES:
            return MAX_WORK + 1
    return total
