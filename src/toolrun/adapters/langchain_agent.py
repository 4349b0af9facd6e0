"""LangChain's agents: a middleware that offers an executor's tools with each request, and runs their calls.

    agent = create_agent("openai:gpt-5", middleware=[ToolrunMiddleware(executor)])

Beside `langchain_tools` it offers tools that come later, and answers calls whose arguments are not JSON; without it,
LangChain ends the run there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from toolrun.adapters.langchain import LangChainTools
from toolrun.adapters.langgraph import UNREAD, arun_call, run_call
from toolrun.adapters.offered_tools import PORTABLE

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor


class ToolrunMiddleware(AgentMiddleware[Any, Any, Any]):
    """The tools of an executor, in an agent of LangChain. Tools of the agent itself stay LangChain's."""

    def __init__(
        self, executor: ToolExecutor, *, provider: str = PORTABLE, images: bool = False, keys: bool = False
    ) -> None:
        """`provider`, `images` and `keys` as of `langchain_tools`."""
        super().__init__()
        self._ours = LangChainTools(executor, provider=provider, images=images, keys=keys)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        return with_unread_calls(handler(self._with_tools(request)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        return with_unread_calls(await handler(self._with_tools(request)))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        return handler(request) if request.tool is not None else run_call(self._ours, request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        return await (handler(request) if request.tool is not None else arun_call(self._ours, request, handler))

    def _with_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        return request.override(tools=[*request.tools, *self._ours.current()])


def with_unread_calls(response: Any) -> Any:
    """The response, with calls whose arguments are not JSON as calls that can be answered."""
    if not isinstance(response, ModelResponse):
        return response
    return ModelResponse(list(map(_with_unread, response.result)), response.structured_response)


def _with_unread(message: Any) -> Any:
    if not isinstance(message, AIMessage) or not message.invalid_tool_calls:
        return message
    calls, unread = list(message.tool_calls), {}
    for invalid in message.invalid_tool_calls:
        if invalid["id"] and invalid["name"]:
            unread[invalid["id"]] = invalid["args"] or ""
            calls.append({"name": invalid["name"], "args": {}, "id": invalid["id"], "type": "tool_call"})
    more = {**message.additional_kwargs, UNREAD: unread}
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": [], "additional_kwargs": more})
