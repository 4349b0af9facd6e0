"""`BackgroundTranscriber`: utterances in, answers out, one conversation.

Each utterance is a turn of the client's model; all its tool calls go through the client's executor. Knows
neither microphones nor brokers: utterances come from `hear` or from an iterator, and listeners get events. No failure
of a model or a tool ends it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import AsyncExitStack
from time import monotonic
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from toolrun.clients.model_error import ModelContextError, ModelError
from toolrun.clients.turn_event import Event, Reply, ToolFinished, ToolProgress, ToolStarted
from toolrun.config.model import VoiceSettings
from toolrun.errors import ToolrunError, UnavailableError, UsageError
from toolrun.logger import get_logger
from toolrun.voice.change_signal import ChangeSignal
from toolrun.voice.memory import Memory
from toolrun.voice.phrases import Phrases
from toolrun.voice.race import race
from toolrun.voice.speakable import speakable
from toolrun.voice.voice_event import Answered, Heard, Listener, Outcome, ToolActivity, Utterance, VoiceEvent

if TYPE_CHECKING:
    from toolrun.clients.loop import Turn
    from toolrun.clients.model_client import ModelClient
    from toolrun.clients.stored_conversation import StoredConversation

logger = get_logger("toolrun.voice")


class BackgroundTranscriber:
    """Answers utterances. For the event loop of `run`."""

    def __init__(
        self,
        client: ModelClient,
        *,
        settings: VoiceSettings = VoiceSettings(),  # noqa: B008  frozen, so one for all is fine
        listeners: Iterable[Listener] = (),
        phrases: Phrases | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Uses `mode`, `queue` and `memory` of the settings."""
        self.listeners = list(listeners)
        self._client = client
        self._settings = settings
        self._phrases = phrases or Phrases.load()
        self._clock = clock
        self._memory = Memory(settings.memory)
        self._waiting: deque[Utterance] = deque()
        self._turn: asyncio.Task[Reply] | None = None
        self._failure: ToolFinished | None = None
        """The last call of the running turn, if it failed."""
        self._asked: Turn | None = None
        self._is_running = False
        self._changed = ChangeSignal()
        """Notified when an utterance arrives, and when one is answered."""

    def hear(self, text: str, *, id: str = "", source: str = "", conversation: str = "") -> str:
        """Queue an utterance and return its id at once. An empty text was heard but not understood.

        `conversation` is the id of a stored conversation of this utterance alone. If a process was killed that answered
        the utterance in it, that turn goes on: calls that are done are not made again.
        """
        utterance = Utterance(id or uuid.uuid4().hex[:12], " ".join(text.split()), source, conversation)
        self._emit(Heard(utterance))
        if not utterance.text:
            self._answer(utterance, self._phrases.not_understood, Outcome.NOT_UNDERSTOOD)
            return utterance.id
        if self._settings.mode == "barge_in":
            self._interrupt()
        elif not self._has_room:
            logger.warning("an utterance is refused: %d others are waiting", len(self._waiting))
            self._answer(utterance, self._phrases.busy, Outcome.REFUSED)
            return utterance.id
        self._waiting.append(utterance)
        self._changed.notify()
        return utterance.id

    async def run(self, utterances: AsyncIterable[str | Utterance] | None = None) -> None:
        """Answer utterances until this is cancelled.

        With `utterances` it also takes those, as fast as it can answer them, and returns after the last answer. On
        every exit the running turn and its tool calls are cancelled.
        """
        if self._is_running:
            raise UsageError("BackgroundTranscriber.run is already running. Use one transcriber for each conversation.")
        self._is_running = True
        sources = [] if utterances is None else [self._hear_all(utterances)]
        try:
            await race(self._answer_all(), *sources)
        finally:
            self._drop_waiting()
            self._is_running = False

    @property
    def is_idle(self) -> bool:
        """Whether every utterance is answered."""
        return not self._waiting and self._turn is None

    @property
    def _has_room(self) -> bool:
        return len(self._waiting) < self._settings.queue

    async def _hear_all(self, utterances: AsyncIterable[str | Utterance]) -> None:
        async for utterance in utterances:
            while not self._has_room:
                await self._changed.wait()
            if isinstance(utterance, str):
                self.hear(utterance)
            else:
                conversation = utterance.conversation
                self.hear(utterance.text, id=utterance.id, source=utterance.source, conversation=conversation)
        while not self.is_idle:
            await self._changed.wait()

    async def _answer_all(self) -> None:
        while True:
            while not self._waiting:
                await self._changed.wait()
            utterance = self._waiting.popleft()
            history = self._memory.recall(self._clock())
            self._failure = self._asked = None
            turn = self._turn = asyncio.create_task(self._ask(utterance, history))
            self._changed.notify()
            try:
                await asyncio.wait({turn})
            finally:
                turn.cancel()
                await asyncio.wait({turn})
                self._turn = None
                self._finish_turn(utterance, history, turn)
                self._changed.notify()

    async def _ask(self, utterance: Utterance, history: list[BaseMessage]) -> Reply:
        def on_event(event: Event) -> None:
            if isinstance(event, ToolStarted | ToolProgress):
                self._emit(ToolActivity(utterance, event))
            elif isinstance(event, ToolFinished):
                self._failure = None if event.result.success else event
                self._emit(ToolActivity(utterance, event, self._failure_phrase()))

        async with AsyncExitStack() as stack:
            stored = await self._open_conversation(utterance)
            if stored is not None:
                await stack.enter_async_context(stored)
            try:
                return await self._turn_of(utterance, history, stored).run(on_event)
            except ModelContextError as error:
                if not history or _has_used_tools(error.messages, history):
                    raise
            logger.warning("the conversation is too long for the model and is forgotten")
            if stored is not None:
                await stored.forget()
            return await self._turn_of(utterance, [], stored).run(on_event)

    async def _open_conversation(self, utterance: Utterance) -> StoredConversation | None:
        if not utterance.conversation:
            return None
        try:
            return await self._client.open_conversation(utterance.conversation, any_model=True)
        except UnavailableError as error:
            logger.warning("the utterance %s will not be continued after a crash: %s", utterance.id, error)
            return None

    def _turn_of(self, utterance: Utterance, history: list[BaseMessage], stored: StoredConversation | None) -> Turn:
        if stored is not None and stored.messages:  # another process was killed
            turn = self._client.turn(None, conversation=stored)
        else:
            turn = self._client.turn(utterance.text, history, conversation=stored)
        self._asked = turn
        return turn

    def _finish_turn(self, utterance: Utterance, history: list[BaseMessage], turn: asyncio.Task[Reply]) -> None:
        """Remember the conversation of a finished turn, and emit its outcome."""
        error = None if turn.cancelled() else turn.exception()
        if turn.cancelled():
            messages = (self._asked and self._asked.interrupted) or [*history, HumanMessage(content=utterance.text)]
            self._memory.keep(messages, self._clock())
            self._answer(utterance, "", Outcome.INTERRUPTED)
        elif error is None:
            reply = turn.result()
            self._memory.keep(reply.messages, self._clock())
            self._answer(utterance, reply.text, Outcome.ANSWERED)
        elif isinstance(error, ToolrunError):
            self._fail(utterance, history, error)
        # Anything else is a bug and is raised to the caller of `run`.
        else:
            self._answer(utterance, self._phrases.unexpected, Outcome.FAILED)
            raise error

    def _fail(self, utterance: Utterance, history: list[BaseMessage], error: ToolrunError) -> None:
        logger.error("no answer to '%s': %s", utterance.text, error)
        words = self._phrases.for_model(error)
        messages = list(error.messages) if isinstance(error, ModelError) else []
        if _has_used_tools(messages, history):
            # Calls that ran are remembered. A question without any effect is not: nobody wants it carried out later.
            self._memory.keep([*messages, AIMessage(content=words)], self._clock())
        self._answer(utterance, words, Outcome.FAILED)

    def _interrupt(self) -> None:
        self._drop_waiting()
        if self._turn is not None:
            self._turn.cancel()

    def _drop_waiting(self) -> None:
        while self._waiting:
            self._answer(self._waiting.popleft(), "", Outcome.INTERRUPTED)

    def _answer(self, utterance: Utterance, text: str, outcome: Outcome) -> None:
        speech = speakable(text)
        if outcome is Outcome.ANSWERED and not speech:
            speech = self._failure_phrase() or self._phrases.no_answer
        self._emit(Answered(utterance, text, speech, outcome))

    def _failure_phrase(self) -> str:
        return "" if self._failure is None else self._phrases.for_tool(self._failure.result)

    def _emit(self, event: VoiceEvent) -> None:
        for listener in self.listeners:
            listener(event)


def _has_used_tools(messages: Iterable[BaseMessage], history: list[BaseMessage]) -> bool:
    """Whether a turn had tool results before it failed."""
    return any(isinstance(message, ToolMessage) for message in list(messages)[len(history) :])
