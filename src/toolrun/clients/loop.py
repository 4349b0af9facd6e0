"""The loop between a model and the tools: one turn of a conversation, from a question to the reply.

Whatever happens (invalid JSON, an answer that is cut off, a limit, a cancellation, a lost connection), the list of
messages stays complete: each call of the model has exactly one result. Knows nothing about providers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from toolrun.clients import conversation, result_content
from toolrun.clients.call_budget import CallBudget
from toolrun.clients.model_error import (
    ModelError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    is_malformed_answer,
    translate,
)
from toolrun.clients.question import AUTO, NONE, Question
from toolrun.clients.round import Emit, Round
from toolrun.clients.sendable import sendable_text
from toolrun.clients.stop_reason import is_paused, stopped_by, with_refusal_as_text
from toolrun.clients.streamed_answer import StreamedAnswer
from toolrun.clients.text_call import read_calls
from toolrun.clients.thought import without_thoughts
from toolrun.clients.turn_event import Done, Ended, Event, Reply, ToolFinished, Usage
from toolrun.clients.typed_reply import InvalidReplyError
from toolrun.errors import ToolrunError, UsageError
from toolrun.result import ToolCall

if TYPE_CHECKING:
    from concurrent.futures import Future

    from toolrun.clients.dialect import Offer
    from toolrun.clients.model_client import ModelClient
    from toolrun.clients.stored_conversation import StoredConversation

_LONG_RESULTS: Final = 4_000
"""Characters. From here on, results are shortened to the context of the model."""
_MAX_RETRY_AFTER: Final = 30.0
"""Seconds. A provider that asks for a longer wait is not asked again."""


class Turn:
    """One question, the rounds of tool calls that the model makes, one reply. It runs once."""

    def __init__(
        self,
        client: ModelClient,
        question: str | BaseMessage | None,
        history: Iterable[Any] = (),
        stored: StoredConversation | None = None,
        asked: Question = Question(),  # noqa: B008  frozen, so one for all is fine
    ) -> None:
        """`ModelClient.turn` makes it. Raises UsageError for a history that is not one of messages.

        Without a question, the last turn of a stored conversation goes on where it was cut off.
        """
        self._client = client
        self._asked = asked
        self._binding = client.binding(asked.toolset)
        self._limits = asked.limits or client.limits
        self._wording = client.wording
        self._emit: Emit | None = None
        self._used_ids: set[str] = set()
        self._stored = stored
        self._broken: BaseMessage | None = None
        """The part of an answer that was said before it broke off."""
        if stored is not None and (stored.messages or stored.pending):
            if list(history):
                raise UsageError(f"Conversation '{stored.id}' has its own history: leave `history` out.")
            if question is not None:
                stored.start_turn()
            history = stored.messages
        repaired = conversation.repair_history(history, client.wording, self._used_ids, client.provider)
        before = conversation.ensure_user_first(repaired, client.wording)
        self._saved = len(before) if stored is not None and (stored.messages or stored.pending) else 0
        """How many of the messages are on disk, or do not have to be."""
        self._question = None
        if question is not None:
            self._question = conversation.question_message(question, client.provider, client.wording)
        elif stored is None or not stored.messages:
            raise UsageError("There is no question to answer in this conversation.")
        has_pending = stored is not None and stored.pending is not None
        self.messages = before if has_pending or self._question is None else [*before, self._question]
        """The conversation so far. It is complete at every moment between two steps."""
        self.interrupted: list[BaseMessage] | None = None
        """The complete conversation, once the turn was cancelled; usable as `history`."""
        self._calls: list[ToolFinished] = []
        self._usage = Usage()
        self._rounds = 0
        self._has_asked_again = False
        self._budget = CallBudget(self._limits, client.wording, asked.toolset)
        self._deadline = 0.0

    async def run(self, on_event: Emit | None = None) -> Reply:
        """Run the turn. Raises ModelError, which carries the conversation; failures of tools do not raise.

        `on_event` gets the events that `stream` yields and, if the turn is cancelled, the results of the running calls.
        """
        self._emit = on_event
        self._deadline = asyncio.get_running_loop().time() + self._limits.time
        try:
            reply = await (self._converse_typed() if self._stored is None else self._converse_on_record(self._stored))
        except ModelError as error:
            error.messages = self.messages
            raise
        except asyncio.CancelledError:
            self.interrupted = self.messages
            raise
        if self._emit is not None:
            self._emit(Done(reply))
        return reply

    async def stream(self) -> AsyncGenerator[Event, None]:
        """Like `run`, but yields the events of the turn. The last one is `Done` with the reply."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        running = asyncio.create_task(self.run(events.put_nowait))
        running.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await running
        finally:
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # marks it as retrieved: it was raised above, or the consumer has left

    async def _converse_on_record(self, stored: StoredConversation) -> Reply:
        """What is said is on disk before anything is done about it."""
        if self._question is None and stored.ended is not None:
            return self._reply(str(self.messages[-1].text), stored.ended)
        if self._question is None:
            self._count_past(stored)
        try:
            with stored.making_calls():
                self._save()
                ended = await self._run_pending(stored)
                reply = await self._converse_typed(ended)
        except BaseException:
            self._save()
            raise
        saving = self._save(ended=reply.ended)
        if saving is not None:
            await stored.wait_for(saving)
        return reply

    async def _run_pending(self, stored: StoredConversation) -> Ended | None:
        """Give the calls results that had none when the process ended. Returns the limit that was reached, if any."""
        pending = stored.pop_pending()
        if pending is None:
            return None
        self._rounds += 1
        answer = conversation.repair_answer(pending, self._used_ids, self._client.provider)
        self.messages.append(answer.message)
        self._saved = len(self.messages)
        ended = await self._use_tools(answer, self._binding.offer(self.messages)[1], recalled=True)
        if self._question is None:
            return ended
        self.messages.append(self._question)
        self._save()
        self._rounds, self._budget = 0, CallBudget(self._limits, self._wording, self._asked.toolset)
        return None

    def _count_past(self, stored: StoredConversation) -> None:
        """The limits hold for the whole turn, also for its part before the process ended."""
        offer = self._binding.offer(self.messages)[1]
        for message in stored.turn:
            calls = message.tool_calls if isinstance(message, AIMessage) else []
            self._rounds += isinstance(message, AIMessage)
            for call in calls:
                self._budget.count_past(offer.call_of(ToolCall(call["id"] or "", call["name"], call["args"])))

    def _save(self, calls: Sequence[ToolCall] = (), ended: Ended | None = None) -> Future[None] | None:
        """Write the messages that are not on disk. `calls` are those of the last one."""
        new = self.messages[self._saved :]
        if self._stored is None or not (new or ended):
            return None
        self._saved = len(self.messages)
        return self._stored.add(new, question=self._question, broken=self._broken, calls=calls, ended=ended)

    async def _converse_typed(self, ended: Ended | None = None) -> Reply:
        """The reply, with its value if a type is wanted. An answer of another type is asked for once more."""
        reply = await (self._converse() if ended is None else self._ask_without_tools(ended))
        wanted = self._asked.reply_type
        if wanted is None or reply.ended.is_failure:
            return reply
        try:
            return replace(reply, value=wanted.read(reply.text))
        except InvalidReplyError as problem:
            text = self._wording.ask_for_type.format(problems=str(problem).rstrip("."))
        self.messages.append(HumanMessage(content=text))
        answer, _ = await self._ask(closed=True)
        again = self._reply_without_running(answer, self._wording.closed, stopped_by(answer.message) or reply.ended)
        try:
            return again if again.ended.is_failure else replace(again, value=wanted.read(again.text))
        except InvalidReplyError as problem:
            raise ModelReplyError(f"The answer does not fit {wanted.name}, twice: {problem}") from problem

    def _choice(self) -> str:
        """Which calls the next answer may have. A call can be forced once, or the turn would have no end."""
        asked = self._asked.tool_choice
        return asked if asked == NONE or not self._calls else AUTO

    async def _converse(self) -> Reply:
        for _ in range(self._rounds, self._limits.rounds):
            answer, offer = await self._ask()
            text, stopped = str(answer.message.text), stopped_by(answer.message)
            if stopped in (Ended.REFUSED, Ended.FILTERED):
                return self._reply_without_running(answer, self._wording.stopped, stopped)
            if answer.calls:
                ended = await self._use_tools(answer, offer)
                if ended is not None:
                    return await self._ask_without_tools(ended)
                continue
            if is_paused(answer.message):
                continue
            ended = stopped or (Ended.ANSWER if _says_something(answer) else Ended.EMPTY)
            if not (ended in (Ended.EMPTY, Ended.MALFORMED) and self._ask_again(answer, ended)):
                return self._reply(text, ended)
        return await self._ask_without_tools(Ended.ROUNDS)

    def _ask_again(self, answer: conversation.ModelAnswer, ended: Ended) -> bool:
        """Put a request to try again in place of an answer that is none. Once in a turn: False if it was done before.

        Of an answer with calls, whose results are there, nothing is taken away.
        """
        if self._has_asked_again:
            return False
        self._has_asked_again = True
        if not answer.calls and not _says_something(answer):
            self.messages.pop()
        wording = self._wording
        text = wording.ask_after_empty if ended is Ended.EMPTY else wording.ask_after_malformed
        self.messages.append(HumanMessage(content=text))
        return True

    async def _ask_without_tools(self, ended: Ended) -> Reply:
        """Ask for a final answer, in which the model may not call tools."""
        self.messages.append(HumanMessage(content=self._wording.request_after(ended, self._limits)))
        while True:
            answer, _ = await self._ask(closed=True)
            stopped = stopped_by(answer.message)
            if stopped in (Ended.REFUSED, Ended.FILTERED):
                return self._reply_without_running(answer, self._wording.stopped, stopped)
            reply = self._reply_without_running(answer, self._wording.closed, ended)
            if stopped is not Ended.MALFORMED and _says_something(answer):
                return reply
            # A model that wants to go on with its calls has said something, and is told why it cannot.
            failed = stopped if stopped is Ended.MALFORMED else ended if answer.calls else Ended.EMPTY
            if failed is ended or not self._ask_again(answer, failed):
                self.messages.append(AIMessage(content=self._wording.no_answer))
                return self._reply(self._wording.no_answer, failed)

    def _reply_without_running(self, answer: conversation.ModelAnswer, reason: str, ended: Ended) -> Reply:
        """The reply for an answer whose calls are not run, for a reason that the model is told."""
        if answer.calls:
            round = Round(answer.calls, self._emit)
            for index in range(len(answer.calls)):
                round.refuse(index, reason)
            self._record(round, answer, result_content.UNKNOWN_CAPABILITIES)
        return self._reply(str(answer.message.text), ended)

    def _reply(self, text: str, ended: Ended) -> Reply:
        id = "" if self._stored is None else self._stored.id
        return Reply(text, list(self.messages), tuple(self._calls), self._usage, ended, id)

    async def _ask(self, *, closed: bool = False) -> tuple[conversation.ModelAnswer, Offer]:
        """Append the model's next answer to the messages. Retries a request that failed before any of it arrived."""
        model, offer = self._binding.offer(self.messages, NONE if closed else self._choice())
        sent = self._client.sent(self.messages, self._asked)
        known_names = offer.sent_names if self._client.provider.reads_calls_in_text and not closed else ()
        chunks: list[AIMessage] = []
        for delay in (*self._client.retry_delays, None):
            try:
                stream = cast("AsyncGenerator[AIMessage, None]", model.astream(sent))
                message = await self._receive(stream, chunks, known_names, offer)
                break
            except ModelError as error:
                wait = error.retry_after or 0
                if chunks or delay is None or not error.is_retryable or wait > _MAX_RETRY_AFTER:
                    raise
                await asyncio.sleep(max(delay, wait))
        answer = conversation.normalise_answer(message, self._used_ids)
        self.messages.append(answer.message)
        self._usage = self._usage.plus(answer.message.usage_metadata)
        return answer, offer

    async def _receive(
        self,
        stream: AsyncGenerator[AIMessage, None],
        chunks: list[AIMessage],
        known_names: Collection[str],
        offer: Offer,
    ) -> AIMessage:
        """Collect an answer in `chunks` and emit its text. The text of an answer that breaks off is kept."""
        about = self._client.about
        spoken = StreamedAnswer(self._emit, known_names, offer.name_of)
        try:
            async with asyncio.timeout(self._limits.answer_time) as limit, contextlib.aclosing(stream):
                async for chunk in stream:
                    chunks.append(chunk)
                    spoken.feed(chunk)
            if not self._client.is_complete(chunks):
                raise ModelUnavailableError(f"{about.label} broke off in the middle of its answer. Ask again.")
            message = conversation.merge_chunks(chunks)
            if (refusal := with_refusal_as_text(message)) is not message:
                spoken.end(str(refusal.text))
                return refusal
            calls = [] if message.tool_calls or message.invalid_tool_calls else read_calls(message.text, known_names)
            if calls:
                return conversation.with_calls(message, calls)
            spoken.end()
            return message
        except BaseException as error:
            spoken.end()
            said = sendable_text("".join(chunk.text for chunk in chunks))
            if is_malformed_answer(error):
                return AIMessage(content=said, response_metadata={"finish_reason": "malformed_function_call"})
            if said.strip():
                self._broken = AIMessage(content=said + self._wording.broken_off)
                self.messages.append(self._broken)
            if isinstance(error, TimeoutError) and limit.expired():
                late = f"The model '{about.model}' took more than {self._limits.answer_time:g} s for one answer."
                raise ModelTimeoutError(f"{late} {ModelTimeoutError.advice}") from error
            if isinstance(error, Exception) and not isinstance(error, ToolrunError):
                raise translate(error, about, was_answering=bool(chunks)) from error
            raise

    async def _use_tools(
        self, answer: conversation.ModelAnswer, offer: Offer, *, recalled: bool = False
    ) -> Ended | None:
        """Run the calls of an answer. Returns the limit that was reached, if any: then there is no further round.

        `recalled`: the answer was given to a process that ended before the calls had results.
        """
        key_of = None if self._stored is None else self._stored.key_of
        round = Round([offer.call_of(call) for call in answer.calls], self._emit, key_of)
        if recalled and self._stored is not None:
            # A user who asks something else may not want any more what was not begun.
            await self._stored.recall(round, None if self._question is None else self._wording.not_run)
        is_late = asyncio.get_running_loop().time() >= self._deadline
        ended = self._budget.refuse_disallowed(round, stopped_by(answer.message), is_late=is_late)
        capabilities = result_content.UNKNOWN_CAPABILITIES
        try:
            if self._stored is not None and (saving := self._save(answer.calls)) is not None:
                await self._stored.wait_for(saving)
            try:
                async with asyncio.timeout_at(self._deadline):
                    await round.execute(self._client.executor, self._limits.parallel)
            except TimeoutError:
                ended = Ended.TIME
                seconds, wording = self._limits.time, self._wording
                round.abort(wording.time_interrupted.format(seconds=seconds), wording.time_over.format(seconds=seconds))
            if _needs_capabilities(round):
                capabilities = await self._client.capabilities()
        finally:
            round.abort(self._wording.interrupted, self._wording.not_run)
            self._record(round, answer, capabilities)
            self._save()
        return ended

    def _record(
        self, round: Round, answer: conversation.ModelAnswer, capabilities: result_content.Capabilities
    ) -> None:
        """Append the results of a round to the messages, under the names that the model used."""
        max_chars = result_content.max_chars_per_result(capabilities, len(round.calls))
        images = []
        for call, finished in zip(answer.calls, round.finished(), strict=True):
            shown, following = result_content.render_result(
                finished.result, max_chars, capabilities.image_support, self._wording
            )
            if isinstance(shown, str):
                shown = sendable_text(shown)
            self.messages.append(conversation.tool_message(call, shown, failed=not finished.result.success))
            self._calls.append(finished)
            if following:
                images.append((call.name, following))
        if images:
            self.messages.append(HumanMessage(content=result_content.image_blocks(images, self._wording)))


def _says_something(answer: conversation.ModelAnswer) -> bool:
    """Whether there is a text beside what the model only thought."""
    return bool(without_thoughts(str(answer.message.text)).strip())


def _needs_capabilities(round: Round) -> bool:
    """Whether the results depend on what the model supports: they have images or other content, or are long."""
    results = [result for result in round.results if result is not None]
    return any(result.content for result in results) or sum(len(result.text) for result in results) > _LONG_RESULTS
