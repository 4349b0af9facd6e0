"""The chat model with the tools that it may call, bound anew when they change."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from toolrun.clients.bindable import bindable
from toolrun.clients.dialect import Offer, for_provider
from toolrun.clients.question import AUTO, NONE, REQUIRED
from toolrun.errors import UsageError

if TYPE_CHECKING:
    from typing import TypeAlias

    from langchain_core.language_models import BaseChatModel, LanguageModelInput
    from langchain_core.runnables import Runnable

    from toolrun.clients.provider import Provider
    from toolrun.execution.executor import ToolExecutor
    from toolrun.tools.protocol import Tool

    ChatModel: TypeAlias = Runnable[LanguageModelInput, AIMessage]

_NO_TOOL: Final = SimpleNamespace(
    name="no_tool", description="There are no tools at present.", schema={"type": "object", "properties": {}}
)
_ANY: Final = "any"
"""LangChain's word for any tool, which all its packages know."""


class Binding:
    """A chat model and the tools of an executor, or some of them."""

    def __init__(
        self,
        chat_model: BaseChatModel,
        provider: Provider,
        executor: ToolExecutor,
        toolset: Collection[str] | None = None,
    ) -> None:
        self._chat_model = chat_model
        self._provider = provider
        self._executor = executor
        self._toolset = toolset
        self._tools: list[Tool] = []
        self._offer = Offer()
        self._models: dict[str, ChatModel] = {}

    def offer(self, messages: Sequence[BaseMessage], choice: str = AUTO) -> tuple[ChatModel, Offer]:
        """The chat model with the present tools bound, and the offer. `choice` may force or forbid calls."""
        tools = self._executor.manager.tools
        if self._toolset is not None:
            tools = [it for it in tools if it.name in self._toolset]
        if len(tools) != len(self._tools) or not all(map(operator.is_, tools, self._tools)):
            self._tools, self._models = tools, {}
            self._offer = for_provider(tools, self._provider.dialect)
        if not tools:
            return self._without_tools(messages), self._offer
        if choice not in self._models:
            self._models[choice] = self._bind(choice)
        return self._models[choice], self._offer

    def _without_tools(self, messages: Sequence[BaseMessage]) -> ChatModel:
        """The chat model for an executor without tools. After earlier calls, some providers insist on at least one."""
        if self._provider.no_tools is None or not any(isinstance(message, ToolMessage) for message in messages):
            return self._chat_model
        named = bindable(for_provider([_NO_TOOL], self._provider.dialect))
        return self._chat_model.bind_tools(named, tool_choice=self._provider.no_tools)

    def _bind(self, choice: str) -> ChatModel:
        options: dict[str, Any] = {}
        if choice == NONE:
            if self._provider.no_tools is None:
                return self._chat_model
            options = {"tool_choice": self._provider.no_tools}
        elif choice == REQUIRED:
            options = {"tool_choice": _ANY}
        elif choice != AUTO:
            options = {"tool_choice": self._offer.sent_name_of(choice)}
        try:
            return self._chat_model.bind_tools(bindable(self._offer), **options)
        except NotImplementedError as error:
            name = type(self._chat_model).__name__
            raise UsageError(f"{name} cannot use tools: it has no bind_tools. Use another chat model.") from error
