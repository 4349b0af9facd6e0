"""LangGraph: a `ToolNode` whose tools are those of an executor.

    graph.add_node("tools", ToolrunNode(executor))

It runs tools that come later, answers unknown names as the executor does, and runs no call of an answer that was cut
off: its arguments may be incomplete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest

from toolrun.adapters.langchain import LangChainTools
from toolrun.adapters.offered_tools import PORTABLE, refusal, refused
from toolrun.clients.stop_reason import stopped_by

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

UNREAD = "toolrun_unread_arguments"
"""In the `additional_kwargs` of an answer: arguments that are not JSON, by the id of their call."""


class ToolrunNode(ToolNode):
    """Runs the calls of the last answer. To offer the tools to the model: `bind_tools(langchain_tools(executor))`."""

    def __init__(
        self,
        executor: ToolExecutor,
        *,
        provider: str = PORTABLE,
        images: bool = False,
        keys: bool = False,
        **options: Any,
    ) -> None:
        """`provider`, `images` and `keys` as of `langchain_tools`; `options` as of `ToolNode`: `name`, `tags`, …"""
        self.tools = LangChainTools(executor, provider=provider, images=images, keys=keys)

        def wrap(request: ToolCallRequest, run: Callable[[ToolCallRequest], Any]) -> Any:
            return run_call(self.tools, request, run)

        async def awrap(request: ToolCallRequest, run: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
            return await arun_call(self.tools, request, run)

        super().__init__([], wrap_tool_call=wrap, awrap_tool_call=awrap, **options)


def run_call(tools: LangChainTools, request: ToolCallRequest, run: Callable[[ToolCallRequest], Any]) -> Any:
    """Run one call with the executor's tool of that name."""
    chosen = _choose(tools, request)
    return chosen if isinstance(chosen, ToolMessage) else run(chosen)


async def arun_call(
    tools: LangChainTools, request: ToolCallRequest, run: Callable[[ToolCallRequest], Awaitable[Any]]
) -> Any:
    """`run_call` on an event loop."""
    chosen = _choose(tools, request)
    return chosen if isinstance(chosen, ToolMessage) else await run(chosen)


def _choose(tools: LangChainTools, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
    """The request with the tool that is to run; an answer, if none must."""
    call, answer = request.tool_call, _answer_with(request)
    unread = None
    if answer is not None:
        unread = answer.additional_kwargs.get(UNREAD, {}).get(call["id"])
        if (reason := refusal(stopped_by(answer))) is not None:
            message = tools.message(call["name"], call["id"], refused(call["name"], call["id"], reason))
            assert isinstance(message, ToolMessage)
            return message
    return request.override(tool=tools.named(call["name"], unread))


def _answer_with(request: ToolCallRequest) -> AIMessage | None:
    """The answer of the model that has the call."""
    state = request.state
    if isinstance(state, list):
        messages = state
    else:
        messages = state.get("messages", []) if isinstance(state, Mapping) else getattr(state, "messages", [])
    id = request.tool_call["id"]
    for message in reversed(messages):
        if isinstance(message, AIMessage) and any(it["id"] == id for it in message.tool_calls):
            return message
    return None
