"""`ModelClient`: answers questions with a LangChain chat model and the tools of an executor."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from toolrun.clients.binding import Binding
from toolrun.clients.loop import Turn
from toolrun.clients.model_error import About
from toolrun.clients.provider import model_name, provider_of
from toolrun.clients.question import Question, QuestionOptions, read_question
from toolrun.clients.result_content import Capabilities, capabilities_from_profile
from toolrun.clients.sendable import sendable_text
from toolrun.clients.turn_event import Event, Reply
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.errors import UsageError
from toolrun.execution.blocking import LoopEndedError, is_in_loop, run_blocking

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from toolrun.clients.round import Emit
    from toolrun.clients.stored_conversation import StoredConversation
    from toolrun.execution.executor import ToolExecutor

_PLAIN: Final = Question()


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
        self._system = system or ""
        self._binding: Binding | None = None
        self._capabilities: Capabilities | None = None

    def turn(
        self,
        question: str | BaseMessage | None,
        history: Iterable[Any] = (),
        *,
        conversation: StoredConversation | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Turn:
        """A turn that has not started: `await turn.run()`, or iterate over `turn.stream()`.

        It keeps the conversation, also when it is cancelled. `query` and `stream` are enough for everything else.
        Without a question, the last turn of the conversation goes on where it was cut off. `options` are for this turn
        only: `system`, `limits`, `toolset`, `tool_choice`, `reply_type`. Raises UsageError.
        """
        asked = read_question(options, self.executor, self.provider) if options else _PLAIN
        return Turn(self, question, history, conversation, asked)

    async def query(
        self,
        question: str | BaseMessage,
        history: Iterable[Any] = (),
        *,
        on_event: Emit | None = None,
        conversation: str | bool | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Reply:
        """Ask the model, run the tools that it calls, and return its reply. Raises ModelError.

        `on_event` gets the events that `stream` yields and, if the turn is cancelled, the results of the running calls.
        `conversation` is the id of a conversation that the journal keeps, which goes on or is started with it; `True`
        starts one with a new id, which is in the reply. Raises UsageError if another process has it.

        `options` are for this question only: `system`, `limits`, `toolset` (names of the tools that may be used),
        `tool_choice` (`auto`, `none`, `required` or a name), `reply_type` (a pydantic model or a JSON Schema, for
        `reply.value`).
        """
        if conversation is None:
            return await self.turn(question, history, **options).run(on_event)
        async with await self.open_conversation(conversation) as stored:
            return await self.turn(question, history, conversation=stored, **options).run(on_event)

    def query_sync(
        self,
        question: str | BaseMessage,
        history: Iterable[Any] = (),
        *,
        on_event: Emit | None = None,
        conversation: str | bool | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Reply:
        """`query` for programs without an event loop, and for threads beside one. `on_event` is called on the loop."""
        if is_in_loop():
            raise UsageError("query_sync would block the event loop that runs here; use 'await client.query(…)'")
        more: Any = {"on_event": on_event, "conversation": conversation, **options}
        try:
            return run_blocking(lambda: self.query(question, history, **more), self.executor.home)
        except LoopEndedError as error:
            raise UsageError("The event loop to which the executor belongs has ended.") from error

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
        self,
        question: str | BaseMessage,
        history: Iterable[Any] = (),
        *,
        conversation: str | bool | None = None,
        **options: Unpack[QuestionOptions],
    ) -> AsyncGenerator[Event, None]:
        """Like `query`, but yields the events of the turn. The last one is `Done` with the reply.

        Leaving the iteration early interrupts the turn; `contextlib.aclosing` makes that happen at once.
        """
        async with contextlib.AsyncExitStack() as stack:
            stored = None
            if conversation is not None:
                stored = await stack.enter_async_context(await self.open_conversation(conversation))
            turn = self.turn(question, history, conversation=stored, **options)
            events = await stack.enter_async_context(contextlib.aclosing(turn.stream()))
            async for event in events:
                yield event

    def binding(self, toolset: Collection[str] | None) -> Binding:
        """What offers the tools for a question."""
        if toolset is not None:
            return Binding(self.chat_model, self.provider, self.executor, toolset)
        if self._binding is None:  # not made earlier: a subclass may say more of its provider
            self._binding = Binding(self.chat_model, self.provider, self.executor)
        return self._binding

    def sent(self, messages: Sequence[BaseMessage], question: Question = _PLAIN) -> list[BaseMessage]:
        """The messages of a request."""
        system = self._system if question.system is None else question.system
        if question.reply_type is not None:
            system = f"{system}\n\n{self.wording.reply_as_json.format(schema=question.reply_type.text)}".lstrip()
        return [SystemMessage(content=sendable_text(system)), *messages] if system.strip() else [*messages]

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
