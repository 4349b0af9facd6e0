"""The tools of an executor as a framework gets them, and the way of a call back to the executor.

Knows no framework. A framework is given what is there when it asks, so tools that come later appear, and it runs a call
under the names of the offer that the model saw.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from toolrun.clients.dialect import Offer, for_provider
from toolrun.clients.turn_event import Ended
from toolrun.clients.wording import Wording
from toolrun.errors import ErrorKind, SideEffects, UsageError
from toolrun.execution.approval import as_model, calling_as
from toolrun.json import JSON
from toolrun.result import ToolCall, ToolResult
from toolrun.schema.reading import read_json
from toolrun.tools.context import CallKey

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor
    from toolrun.tools.protocol import Tool

PORTABLE: Final = "portable"
_SCOPE: Final = "toolrun.adapters"
_SHORT: Final = 10_000
"""Characters of arguments as text that are read here: an object is quicker for the executor."""
Given = Mapping[str, JSON] | str | None
"""Arguments as a model sends them: an object, or JSON text of one."""


class OfferedTools:
    """What all adapters share."""

    def __init__(self, executor: ToolExecutor, provider: str = PORTABLE) -> None:
        self.executor = executor
        self._provider = provider
        self._tools: list[Tool] = []
        self._offer = Offer()

    def current(self) -> Offer:
        """The offer of the tools that are there now. The same object, as long as they are the same."""
        tools = self.executor.manager.tools
        if len(tools) != len(self._tools) or not all(map(operator.is_, tools, self._tools)):
            self._tools, self._offer = tools, for_provider(tools, self._provider)
        return self._offer

    async def execute(
        self, offer: Offer, name: str, arguments: Given, call_id: str | None, key: CallKey | None = None
    ) -> ToolResult:
        """Execute a call that a model made under the names of the offer."""
        call = original(offer, name, arguments)
        with calling_as(as_model()):
            return await self.executor.execute(*call, call_id=call_id, key=key)

    def execute_sync(
        self, offer: Offer, name: str, arguments: Given, call_id: str | None, key: CallKey | None = None
    ) -> ToolResult:
        """`execute` for programs without an event loop."""
        call = original(offer, name, arguments)
        with calling_as(as_model()):
            return self.executor.execute_sync(*call, call_id=call_id, key=key)

    async def execute_all(
        self, offer: Offer, calls: Sequence[ToolCall], refusal: str | None = None
    ) -> list[ToolResult]:
        """Execute the calls of one answer side by side; none of them, if there is a reason against it."""
        if refusal is not None:
            return [refused(call.name, call.id, refusal) for call in calls]
        todo = []
        for call in calls:
            name, arguments = original(offer, call.name, call.arguments)
            todo.append(ToolCall(call.id, name, arguments))
        with calling_as(as_model()):
            if len(todo) == 1:
                return [await self.executor.execute(todo[0].name, todo[0].arguments, call_id=todo[0].id)]
            return await self.executor.execute_many(todo)


def original(offer: Offer, name: str, arguments: Given) -> tuple[str, Given]:
    """The names of the tool and its parameters, which the executor knows."""
    if isinstance(arguments, str) and (len(arguments) <= _SHORT or offer.renames(name)):
        with contextlib.suppress(ValueError):  # the executor says what is wrong with it
            read = read_json(arguments)
            arguments = read if isinstance(read, dict) else arguments
    if isinstance(arguments, dict) and offer.renames(name):
        arguments = offer.arguments_of(name, arguments)
    return offer.name_of(name), arguments


def call_key(conversation: object, call_id: str | None, where: str) -> CallKey:
    """What makes a call the same as one that a run of the same conversation made before. Raises UsageError."""
    if not conversation or not call_id:
        raise UsageError(f"keys=True needs a conversation and the id of the call: {where}.")
    return CallKey(f"{conversation}/{call_id}", _SCOPE)


def refused(name: str, call_id: str | None, reason: str) -> ToolResult:
    """The answer to a call that is not run."""
    return ToolResult(
        name,
        error=reason,
        error_kind=ErrorKind.OVERLOADED,
        call_id=call_id or "",
        side_effects=SideEffects.NOT_STARTED,
    )


def refusal(ended: Ended | None) -> str | None:
    """Why the calls of an answer must not run that ended like this. They may be incomplete, or not meant."""
    match ended:
        case Ended.LENGTH:
            return Wording.load().cut_off
        case Ended.REFUSED | Ended.FILTERED:
            return Wording.load().stopped
        case Ended.MALFORMED:
            return Wording.load().malformed
    return None
