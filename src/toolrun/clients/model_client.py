"""`ModelClient`: answers questions with a LangChain chat model and the tools of an executor."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from toolrun.clients.bindable import bindable
from toolrun.clients.dialect import Offer, for_provider
from toolrun.clients.loop import Turn
from toolrun.clients.model_error import About
from toolrun.clients.provider import model_name, provider_of
from toolrun.clients.result_content import Capabilities, capabilities_from_profile
from toolrun.clients.sendable import sendable_text
from toolrun.clients.turn_event import Event, Reply
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.errors import UsageError
from toolrun.tools.protocol import Tool

if TYPE_CHECKING:
    from typing import TypeAlias

    from langchain_core.language_models import BaseChatModel, LanguageModelInput
    from langchain_core.runnables import Runnable

    from toolrun.clients.round import Emit
    from toolrun.clients.stored_conversation import StoredConversation
    from toolrun.execution.executor import ToolExecutor

    ChatModel: TypeAlias = Runnable[LanguageModelInput, AIMessage]

_NO_TOOL: Final = SimpleNamespace(
    name="no_tool", description="There are no tools at present.", schema={"type": "object", "properties": {}}
)


class ModelClient:
    """Asks a model, which may call all tools of the executor. Several conversations can run at the same time."""

    retry_delays: Sequence[float] = ()
    """Seconds before each retry, for provider packages that do not retry themselves."""

    def __init__(
        self,
        chat_model: BaseChatModel,
        executor: ToolExecutor,
        *,
        system: str | None = None,
        limits: TurnLimits = TurnLimits(),  # noqa: B008  frozen, so one for all is fine
        wording: Wording | str | Path | None = None,
    ) -> None:
        """`wording` has the texts that the model gets at limits, or is the path of a file with them."""
        self.chat_model = chat_model
        self.executor = executor
        self.limits = limits
        self.wording = wording if isinstance(wording, Wording) else Wording.load(wording)
        self.provider = provider_of(chat_model)
        self.about = About(self.provider.label, model_name(chat_model))
        self.name = f"{self.provider.label.lower()}:{self.about.model}"
        """Provider and model, as a stored conversation says with whom it is held."""
        self._system = [SystemMessage(content=sendable_text(system))] if system and system.strip() else []
        self._tools: list[Tool] = []
        self._offer = Offer()
        self._models: dict[bool, ChatModel] = {}
        self._capabilities: Capabilities | None = None

    def turn(
        self,
        question: str | BaseMessage | None,
        history: Iterable[Any] = (),
        *,
        conversation: StoredConversation | None = None,
    ) -> Turn:
        """A turn that has not started: `await turn.run()`, or iterate over `turn.stream()`.

        It keeps the conversation, also when it is cancelled. `query` and `stream` are enough for everything else.
        Without a question, the last turn of the conversation goes on where it was cut off.
        """
        return Turn(self, question, history, conversation)

    async def query(
        self,
        question: str | BaseMessage,
        history: Iterable[Any] = (),
        *,
        on_event: Emit | None = None,
        conversation: str | bool | None = None,
    ) -> Reply:
        """Ask the model, run the tools that it calls, and return its reply. Raises ModelError.

        `on_event` gets the events that `stream` yields and, if the turn is cancelled, the results of the running calls.
        `conversation` is the id of a conversation that the journal keeps, which goes on or is started with it; `True`
        starts one with a new id, which is in the reply. Raises UsageError if another process has it.
        """
        if conversation is None:
            return await self.turn(question, history).run(on_event)
        async with await self.open_conversation(conversation) as stored:
            return await self.turn(question, history, conversation=stored).run(on_event)

    async def resume(self, id: str, *, on_event: Emit | None = None, any_model: bool = False) -> Reply:
        """Finish the last turn of a conversation whose process ended in the middle, and return the reply.

        Calls that were done get their answers from the journal, those that never began are run, and the model is told
        which call is in doubt. If the turn has its reply, that is returned. `any_model`: also if the conversation was
        held with another model. Raises ModelError, and UsageError for a conversation that cannot be resumed.
        """
        async with await self.open_conversation(id, must_exist=True, any_model=any_model) as stored:
            return await self.turn(None, conversation=stored).run(on_event)

    async def open_conversation(
        self, id: str | bool = True, *, must_exist: bool = False, any_model: bool = False
    ) -> StoredConversation:
        """Take a conversation for several turns, until its `close`: see `turn`. Raises UsageError."""
        from toolrun.clients.stored_conversation import open_stored_conversation

        return await open_stored_conversation(self.executor, id, self.name, must_exist=must_exist, any_model=any_model)

    async def stream(
        self, question: str | BaseMessage, history: Iterable[Any] = (), *, conversation: str | bool | None = None
    ) -> AsyncGenerator[Event, None]:
        """Like `query`, but yields the events of the turn. The last one is `Done` with the reply.

        Leaving the iteration early interrupts the turn; `contextlib.aclosing` makes that happen at once.
        """
        async with contextlib.AsyncExitStack() as stack:
            stored = None
            if conversation is not None:
                stored = await stack.enter_async_context(await self.open_conversation(conversation))
            turn = self.turn(question, history, conversation=stored)
            events = await stack.enter_async_context(contextlib.aclosing(turn.stream()))
            async for event in events:
                yield event

    def offer(self, messages: Sequence[BaseMessage], *, closed: bool) -> tuple[ChatModel, Offer]:
        """The chat model with the present tools bound, and the offer. `closed`: it may not call them."""
        tools = self.executor.manager.tools
        if len(tools) != len(self._tools) or not all(map(operator.is_, tools, self._tools)):
            self._tools, self._models = tools, {}
            self._offer = for_provider(tools, self.provider.dialect)
        if not tools:
            return self._without_tools(messages), self._offer
        if closed not in self._models:
            self._models[closed] = self._bind(closed)
        return self._models[closed], self._offer

    def _without_tools(self, messages: Sequence[BaseMessage]) -> ChatModel:
        """The chat model for an executor without tools. After earlier calls, some providers insist on at least one."""
        if self.provider.no_tools is None or not any(isinstance(message, ToolMessage) for message in messages):
            return self.chat_model
        named = bindable(for_provider([_NO_TOOL], self.provider.dialect))
        return self.chat_model.bind_tools(named, tool_choice=self.provider.no_tools)

    def _bind(self, closed: bool) -> ChatModel:
        choice = self.provider.no_tools if closed else None
        if closed and choice is None:
            return self.chat_model
        options: dict[str, Any] = {"tool_choice": choice} if closed else {}
        try:
            return self.chat_model.bind_tools(bindable(self._offer), **options)
        except NotImplementedError as error:
            name = type(self.chat_model).__name__
            raise UsageError(f"{name} cannot use tools: it has no bind_tools. Use another chat model.") from error

    def sent(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The messages of a request."""
        return [*self._system, *messages]

    def is_complete(self, chunks: Sequence[AIMessage]) -> bool:
        """Whether an answer that arrived without an error is complete."""
        end = self.provider.end
        if not end or not getattr(self.chat_model, "stream_usage", True):
            return bool(chunks)
        return any(chunk.response_metadata.get(end) for chunk in reversed(chunks))

    async def capabilities(self) -> Capabilities:
        """What is known about the model. The provider is asked once."""
        if self._capabilities is None:
            self._capabilities = await self._find_capabilities()
        return self._capabilities

    async def _find_capabilities(self) -> Capabilities:
        return capabilities_from_profile(
            getattr(self.chat_model, "profile", None),
            shows_images_in_results=self.provider.shows_images_in_results,
        )
