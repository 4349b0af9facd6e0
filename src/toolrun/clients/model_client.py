"""`ModelClient`: a LangChain chat model and an executor, made into something that can be asked."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from toolrun.clients.dialect import Offer, for_provider
from toolrun.clients.loop import Turn
from toolrun.clients.model_error import About
from toolrun.clients.provider import model_name, provider_of
from toolrun.clients.result_content import Abilities, from_profile
from toolrun.clients.turn_event import Event, Reply
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.errors import UsageError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from toolrun.clients.round import Emit
    from toolrun.execution.executor import ToolExecutor

_NO_TOOL: Final = SimpleNamespace(
    name="no_tool", description="There are no tools at present.", schema={"type": "object", "properties": {}}
)


class ModelClient:
    """Asks a model, which may use all tools of the executor. Several conversations can go on at the same time."""

    retry_delays: Sequence[float] = ()
    """Seconds before each further attempt to ask, for packages that do not try again themselves."""

    def __init__(
        self,
        chat_model: BaseChatModel,
        executor: ToolExecutor,
        *,
        system: str | None = None,
        limits: TurnLimits = TurnLimits(),  # noqa: B008  frozen, so one for all is fine
        wording: Wording | str | Path | None = None,
    ) -> None:
        """`wording` is what the model is told at limits: texts, or the path of a file of them."""
        self.chat_model = chat_model
        self.executor = executor
        self.limits = limits
        self.wording = wording if isinstance(wording, Wording) else Wording.load(wording)
        self.provider = provider_of(chat_model)
        self.about = About(self.provider.label, model_name(chat_model))
        self.interrupted: list[BaseMessage] | None = None
        """The conversation of the turn that was cancelled last, complete: it can be passed on as `history`."""
        self._system = [SystemMessage(content=system)] if system else []
        self._tools: list[Any] = []
        self._offer = Offer()
        self._models: dict[bool, Any] = {}
        self._abilities: Abilities | None = None

    async def query(
        self, question: str | BaseMessage, history: Iterable[BaseMessage] = (), *, on_event: Emit | None = None
    ) -> Reply:
        """Ask, let the model use tools, and return its reply. Raises ModelError.

        `on_event` gets what `stream` gives, and also how the running calls ended if the turn is cancelled.
        """
        return await Turn(self, question, history, on_event).run()

    async def stream(
        self, question: str | BaseMessage, history: Iterable[BaseMessage] = ()
    ) -> AsyncGenerator[Event, None]:
        """The same, event by event; the last one is `Done` with the reply.

        Whoever leaves the iteration early interrupts the turn: `contextlib.aclosing` does so at once.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        turn = asyncio.create_task(Turn(self, question, history, events.put_nowait).run())
        turn.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await turn
        finally:
            turn.cancel()
            await asyncio.wait([turn])
            if not turn.cancelled():
                turn.exception()  # it was raised above, or nobody is there any more to whom it could be

    def offer(self, messages: Sequence[BaseMessage], *, closed: bool) -> tuple[Any, Offer]:
        """The chat model with the tools that there are now, and what they are called. `closed`: it may not use them."""
        tools = self.executor.manager.tools
        if len(tools) != len(self._tools) or not all(map(operator.is_, tools, self._tools)):
            self._tools, self._models = tools, {}
            self._offer = for_provider(tools, self.provider.dialect)
        if not tools:
            return self._without_tools(messages), self._offer
        if closed not in self._models:
            self._models[closed] = self._bind(closed)
        return self._models[closed], self._offer

    def _without_tools(self, messages: Sequence[BaseMessage]) -> Any:
        """The tools of earlier calls may be gone, but providers that can forbid calls want some to be named."""
        if self.provider.no_tools is None or not any(isinstance(message, ToolMessage) for message in messages):
            return self.chat_model
        named = for_provider([_NO_TOOL], self.provider.dialect).tools
        return self.chat_model.bind_tools(named, tool_choice=self.provider.no_tools)

    def _bind(self, closed: bool) -> Any:
        choice = self.provider.no_tools if closed else None
        if closed and choice is None:
            return self.chat_model
        options = {"tool_choice": choice} if closed else {}
        try:
            return self.chat_model.bind_tools(self._offer.tools, **options)
        except NotImplementedError as error:
            name = type(self.chat_model).__name__
            raise UsageError(f"{name} cannot use tools: it has no bind_tools. Use another chat model.") from error

    def sent(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """What is sent of a conversation."""
        return [*self._system, *messages]

    def is_complete(self, chunks: Sequence[AIMessage]) -> bool:
        """Whether an answer that arrived without an error came to its end."""
        end = self.provider.end
        if not end or not getattr(self.chat_model, "stream_usage", True):
            return bool(chunks)
        return any(chunk.response_metadata.get(end) for chunk in reversed(chunks))

    async def abilities(self) -> Abilities:
        """What is known of the model. Asked once."""
        if self._abilities is None:
            self._abilities = await self._find_abilities()
        return self._abilities

    async def _find_abilities(self) -> Abilities:
        return from_profile(getattr(self.chat_model, "profile", None))
