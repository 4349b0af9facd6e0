"""`BackgroundTranscriber`: utterances in, answers out, one conversation.

Each utterance is a turn of the client's model; every tool call of it goes through the client's one executor. Knows
neither microphones nor brokers: utterances come by `hear` or from an iterator, and listeners are told what happens.
Nothing that a model or a tool does ends it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from toolrun.clients.model_error import ModelContextError, ModelError
from toolrun.clients.turn_event import Event, Reply, ToolFinished, ToolProgress, ToolStarted
from toolrun.config.model import VoiceSettings
from toolrun.errors import ToolrunError, UsageError
from toolrun.voice.memory import Memory
from toolrun.voice.phrases import Phrases
from toolrun.voice.race import until_one_ends
from toolrun.voice.speakable import speakable
from toolrun.voice.voice_event import Answered, Heard, Listener, Outcome, ToolActivity, Utterance, VoiceEvent

if TYPE_CHECKING:
    from toolrun.clients.model_client import ModelClient

logger = logging.getLogger("toolrun.voice")


class BackgroundTranscriber:
    """Answers what is heard. Belongs to one event loop."""

    def __init__(
        self,
        client: ModelClient,
        *,
        settings: VoiceSettings = VoiceSettings(),  # noqa: B008  frozen, so one for all is fine
        listeners: Iterable[Listener] = (),
        phrases: Phrases | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Of the settings it uses `mode`, `queue` and `memory`."""
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
        self._is_running = False
        self._news = asyncio.Event()
        """Set when an utterance comes, or is dealt with."""

    def hear(self, text: str, *, id: str = "", source: str = "") -> str:
        """Take an utterance, and return its id at once. An empty one was heard and not understood."""
        utterance = Utterance(id or uuid.uuid4().hex[:12], " ".join(text.split()), source)
        self._tell(Heard(utterance))
        if not utterance.text:
            self._answer(utterance, self._phrases.not_understood, Outcome.NOT_UNDERSTOOD)
            return utterance.id
        if self._settings.mode == "barge_in":
            self._interrupt()
        elif not self._has_room:
            logger.warning("an utterance is refused: %d are waiting", len(self._waiting))
            self._answer(utterance, self._phrases.busy, Outcome.REFUSED)
            return utterance.id
        self._waiting.append(utterance)
        self._announce()
        return utterance.id

    async def run(self, utterances: AsyncIterable[str | Utterance] | None = None) -> None:
        """Answer what is heard, until this is cancelled.

        With `utterances` it hears those too, as fast as it can answer them, and returns after the answer to the last.
        At the end, however it comes, nothing is left: the running turn is cancelled, and its calls with it.
        """
        if self._is_running:
            raise UsageError("BackgroundTranscriber.run is running already. Use one transcriber for each conversation.")
        self._is_running = True
        hearing = [] if utterances is None else [self._hear_all(utterances)]
        try:
            await until_one_ends(self._answer_all(), *hearing)
        finally:
            self._drop_waiting()
            self._is_running = False

    @property
    def is_idle(self) -> bool:
        """Whether everything that was heard is dealt with."""
        return not self._waiting and self._turn is None

    @property
    def _has_room(self) -> bool:
        return len(self._waiting) < self._settings.queue

    async def _hear_all(self, utterances: AsyncIterable[str | Utterance]) -> None:
        async for said in utterances:
            while not self._has_room:
                await self._news.wait()
            if isinstance(said, str):
                self.hear(said)
            else:
                self.hear(said.text, id=said.id, source=said.source)
        while not self.is_idle:
            await self._news.wait()

    async def _answer_all(self) -> None:
        while True:
            while not self._waiting:
                await self._news.wait()
            utterance = self._waiting.popleft()
            history = self._memory.recall(self._clock())
            self._client.interrupted = self._failure = None
            turn = self._turn = asyncio.create_task(self._ask(utterance, history))
            self._announce()
            try:
                await asyncio.wait({turn})
            finally:
                turn.cancel()
                await asyncio.wait({turn})
                self._turn = None
                self._conclude(utterance, history, turn)
                self._announce()

    async def _ask(self, utterance: Utterance, history: list[BaseMessage]) -> Reply:
        def on_event(event: Event) -> None:
            if isinstance(event, ToolStarted | ToolProgress):
                self._tell(ToolActivity(utterance, event))
            elif isinstance(event, ToolFinished):
                self._failure = None if event.result.success else event
                self._tell(ToolActivity(utterance, event, self._failure_in_words()))

        try:
            return await self._client.query(utterance.text, history, on_event=on_event)
        except ModelContextError as error:
            if not history or _has_used_tools(error.messages, history):
                raise
            logger.warning("the conversation is too long for the model and is forgotten")
            return await self._client.query(utterance.text, on_event=on_event)

    def _conclude(self, utterance: Utterance, history: list[BaseMessage], turn: asyncio.Task[Reply]) -> None:
        """Remember what is to be remembered of a turn that has ended, and say how it ended."""
        error = None if turn.cancelled() else turn.exception()
        if turn.cancelled():
            messages = self._client.interrupted or [*history, HumanMessage(content=utterance.text)]
            self._memory.keep(messages, self._clock())
            self._answer(utterance, "", Outcome.INTERRUPTED)
        elif error is None:
            reply = turn.result()
            self._memory.keep(reply.messages, self._clock())
            self._answer(utterance, reply.text, Outcome.ANSWERED)
        elif isinstance(error, ToolrunError):
            self._fail(utterance, history, error)
        # Anything else is a bug: the caller of `run` sees it when the task is asked for its result.
        else:
            self._answer(utterance, self._phrases.unexpected, Outcome.FAILED)
            raise error

    def _fail(self, utterance: Utterance, history: list[BaseMessage], error: ToolrunError) -> None:
        logger.error("no answer to '%s': %s", utterance.text, error)
        words = self._phrases.for_model(error)
        messages = list(error.messages) if isinstance(error, ModelError) else []
        if _has_used_tools(messages, history):
            # What was done is remembered. A question of which nothing came is not: nobody wants it carried out later.
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
            speech = self._failure_in_words() or self._phrases.no_answer
        self._tell(Answered(utterance, text, speech, outcome))

    def _failure_in_words(self) -> str:
        return "" if self._failure is None else self._phrases.for_tool(self._failure.result)

    def _tell(self, event: VoiceEvent) -> None:
        for listener in self.listeners:
            listener(event)

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _has_used_tools(messages: Iterable[BaseMessage], history: list[BaseMessage]) -> bool:
    """Whether a turn had results of tools before it failed."""
    return any(isinstance(message, ToolMessage) for message in list(messages)[len(history) :])
