"""Pydantic AI: the tools of an executor as a toolset.

    agent = Agent("openai:gpt-5", toolsets=[ToolrunToolset(executor)])

Pydantic AI's own check of the arguments lets everything pass: the executor repairs and checks them, and a model that
sends something else is told so without using up its retries, at the end of which Pydantic AI would end the run.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai import RunContext
from pydantic_ai.messages import BinaryContent, ModelResponse, ToolReturn
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from toolrun.adapters.offered_tools import PORTABLE, OfferedTools, call_key, refusal, refused
from toolrun.clients.result_content import ImageSupport, render_result
from toolrun.clients.turn_event import Ended
from toolrun.clients.wording import Wording

if TYPE_CHECKING:
    from toolrun.clients.dialect import Offer
    from toolrun.execution.executor import ToolExecutor
    from toolrun.result import ToolResult

_UNREAD: Final = "toolrun: arguments that are not a JSON object"


_ENDED: Final = {"length": Ended.LENGTH, "content_filter": Ended.FILTERED}


class _AnyArguments:
    """Takes whatever a model sends; arguments have to be a dict on their way to `call_tool`."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        try:
            found = json.loads(input)
        except (ValueError, RecursionError):
            found = None
        return (
            found
            if isinstance(found, dict)
            else {_UNREAD: bytes(input).decode("utf-8", "replace") if not isinstance(input, str) else input}
        )

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        return input if isinstance(input, dict) else {_UNREAD: json.dumps(input, default=str)}


_ANY_ARGUMENTS: Final = _AnyArguments()


@dataclass(kw_only=True)
class _OfferedTool(ToolsetTool[Any]):
    offer: Offer
    """Under whose names the model calls it."""


class ToolrunToolset(AbstractToolset[Any]):
    """The tools of an executor. They are asked for before each request, so tools that come later appear."""

    def __init__(
        self, executor: ToolExecutor, *, id: str | None = None, provider: str = PORTABLE, keys: bool = False
    ) -> None:
        """`keys`: the same call of the same conversation runs once (`conversation_id` of the run).

        The `metadata` of each tool return is the `ToolResult`.
        """
        self._id = id
        self._keys = keys
        self._offered = OfferedTools(executor, provider)
        self._wording = Wording.load()
        self._offer: Offer | None = None
        self._tools: dict[str, ToolsetTool[Any]] = {}

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        offer = self._offered.current()
        if offer is not self._offer:
            self._offer = offer
            self._tools = {
                it.name: _OfferedTool(
                    toolset=self,
                    tool_def=ToolDefinition(
                        name=it.name, description=it.description, parameters_json_schema=dict(it.parameters)
                    ),
                    max_retries=0,
                    args_validator=_ANY_ARGUMENTS,
                    offer=offer,
                )
                for it in offer.definitions
            }
        return dict(self._tools)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> ToolReturn:
        arguments = tool_args.get(_UNREAD, tool_args)
        offer = tool.offer if isinstance(tool, _OfferedTool) else self._offered.current()
        call_id, key = ctx.tool_call_id, None
        if self._keys:
            key = call_key(ctx.conversation_id, call_id, "run the agent with conversation_id=…")
        reason = refusal(_ENDED.get(_end_of_answer(ctx)))
        if reason is not None:
            return self._rendered(refused(name, call_id, reason))
        return self._rendered(await self._offered.execute(offer, name, arguments, call_id, key))

    def _rendered(self, result: ToolResult) -> ToolReturn:
        shown, _ = render_result(result, None, ImageSupport.IN_RESULT, self._wording)
        value: Any = shown
        if isinstance(shown, list):
            value = [_content(block) for block in shown if isinstance(block, dict)]
        return ToolReturn(return_value=value, metadata=result)


def _end_of_answer(ctx: RunContext[Any]) -> str:
    """Why the answer ended that makes the call."""
    answers = (it for it in reversed(ctx.messages) if isinstance(it, ModelResponse))
    return getattr(next(answers, None), "finish_reason", None) or ""


def _content(block: dict[str, Any]) -> str | BinaryContent:
    if block["type"] == "text":
        return str(block["text"])
    return BinaryContent(base64.b64decode(block["base64"]), media_type=block["mime_type"])
