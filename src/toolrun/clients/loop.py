"""The loop between a model and the tools: one turn of a conversation, from a question to the reply.

Whatever happens (invalid JSON, an answer that is cut off, a limit, a cancellation, a lost connection), the list of
messages stays complete: each call of the model has exactly one result. Knows nothing about providers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from toolrun.clients import conversation, result_content
from toolrun.clients.model_error import (
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
    is_malformed_answer,
    translate,
)
from toolrun.clients.round import Emit, Round
from toolrun.clients.sendable import sendable_text
from toolrun.clients.text_call import SpokenText, read_calls
from toolrun.clients.turn_event import Done, Ended, Event, Reply, Text, ToolFinished, Usage
from toolrun.errors import ToolrunError
from toolrun.json import dumps
from toolrun.result import ToolCall

if TYPE_CHECKING:
    from toolrun.clients.dialect import Offer
    from toolrun.clients.model_client import ModelClient

_LONG_RESULTS: Final = 4_000
"""Characters. From here on, results are shortened to the context of the model."""

_MAX_RETRY_AFTER: Final = 30.0
"""Seconds. A provider that asks for a longer wait is not asked again."""


class Turn:
    """One question, the rounds of tool calls that the model makes, one reply. It runs once."""

    def __init__(self, client: ModelClient, question: str | BaseMessage, history: Iterable[Any] = ()) -> None:
        """`ModelClient.turn` makes it. Raises UsageError for a history that is not one of messages."""
        self._client = client
        self._limits = client.limits
        self._wording = client.wording
        self._emit: Emit | None = None
        self._used_ids: set[str] = set()
        repaired = conversation.repair_history(history, client.wording, self._used_ids, client.provider)
        asked = conversation.question_message(question, client.provider, client.wording)
        self.messages = conversation.begin_with_user([*repaired, asked], client.wording)
        """The conversation so far. It is complete at every moment between two steps."""
        self.interrupted: list[BaseMessage] | None = None
        """The complete conversation, once the turn was cancelled; usable as `history`."""
        self._calls: list[ToolFinished] = []
        self._usage = Usage()
        self._executed = 0
        self._call_counts: dict[bytes, int] = {}
        self._deadline = 0.0

    async def run(self, on_event: Emit | None = None) -> Reply:
        """Run the turn. Raises ModelError, which carries the conversation; failures of tools do not raise.

        `on_event` gets the events that `stream` yields and, if the turn is cancelled, the results of the running calls.
        """
        self._emit = on_event
        self._deadline = asyncio.get_running_loop().time() + self._limits.time
        try:
            reply = await self._converse()
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

    async def _converse(self) -> Reply:
        may_ask_again = True
        for _ in range(self._limits.rounds):
            answer, offer = await self._ask()
            text, stopped = str(answer.message.text), conversation.stopped_by(answer.message)
            if stopped in (Ended.REFUSED, Ended.FILTERED):
                return self._reply_without_running(answer, self._wording.stopped, stopped)
            if answer.calls:
                ended = await self._use_tools(answer, offer)
                if ended is not None:
                    return await self._ask_without_tools(ended)
                continue
            if conversation.is_paused(answer.message):
                continue
            ended = stopped or (Ended.ANSWER if text.strip() else Ended.EMPTY)
            if ended in (Ended.EMPTY, Ended.MALFORMED) and may_ask_again:
                may_ask_again = False
                self._ask_again(answer, ended)
                continue
            return self._reply(text, ended)
        return await self._ask_without_tools(Ended.ROUNDS)

    def _ask_again(self, answer: conversation.ModelAnswer, ended: Ended) -> None:
        """Put a request to try again in place of an answer that is none."""
        if not str(answer.message.text).strip():
            self.messages.pop()
        wording = self._wording
        text = wording.ask_after_empty if ended is Ended.EMPTY else wording.ask_after_malformed
        self.messages.append(HumanMessage(content=text))

    async def _ask_without_tools(self, ended: Ended) -> Reply:
        """Ask for a final answer, in which the model may not call tools."""
        self.messages.append(HumanMessage(content=self._request_text(ended)))
        answer, _ = await self._ask(closed=True)
        stopped = conversation.stopped_by(answer.message)
        if stopped in (Ended.REFUSED, Ended.FILTERED):
            return self._reply_without_running(answer, self._wording.stopped, stopped)
        reply = self._reply_without_running(answer, self._wording.closed, ended)
        if reply.text.strip():
            return reply
        self.messages.append(AIMessage(content=self._wording.no_answer))
        return self._reply(self._wording.no_answer, ended)

    def _reply_without_running(self, answer: conversation.ModelAnswer, reason: str, ended: Ended) -> Reply:
        """The reply for an answer whose calls are not run, for a reason that the model is told."""
        if answer.calls:
            round = Round(answer.calls, self._emit)
            for index in range(len(answer.calls)):
                round.refuse(index, reason)
            self._record(round, answer, result_content.UNKNOWN_CAPABILITIES)
        return self._reply(str(answer.message.text), ended)

    def _request_text(self, ended: Ended) -> str:
        wording, limits = self._wording, self._limits
        match ended:
            case Ended.REPEATS:
                return wording.answer_after_repeats
            case Ended.CALLS:
                return wording.answer_after_calls.format(limit=limits.calls)
            case Ended.TIME:
                return wording.answer_after_time
        return wording.answer_after_rounds.format(limit=limits.rounds)

    def _reply(self, text: str, ended: Ended) -> Reply:
        return Reply(text, list(self.messages), tuple(self._calls), self._usage, ended)

    async def _ask(self, *, closed: bool = False) -> tuple[conversation.ModelAnswer, Offer]:
        """Append the model's next answer to the messages. Retries a request that failed before any of it arrived."""
        model, offer = self._client.offer(self.messages, closed=closed)
        sent = self._client.sent(self.messages)
        known_names = offer.sent_names if self._client.provider.reads_calls_in_text and not closed else ()
        chunks: list[AIMessage] = []
        for delay in (*self._client.retry_delays, None):
            try:
                stream = cast("AsyncGenerator[AIMessage, None]", model.astream(sent))
                message = await self._receive(stream, chunks, known_names)
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
        self, stream: AsyncGenerator[AIMessage, None], chunks: list[AIMessage], known_names: Collection[str]
    ) -> AIMessage:
        """Collect an answer in `chunks` and emit its text. The text of an answer that breaks off is kept."""
        about = self._client.about
        spoken = SpokenText(may_be_call=bool(known_names))
        try:
            async with asyncio.timeout(self._limits.answer_time) as limit, contextlib.aclosing(stream):
                async for chunk in stream:
                    chunks.append(chunk)
                    self._say(spoken.feed(str(chunk.text)))
            if not self._client.is_complete(chunks):
                raise ModelUnavailableError(f"{about.label} broke off in the middle of its answer. Ask again.")
            message = conversation.merge_chunks(chunks)
            calls = [] if message.tool_calls or message.invalid_tool_calls else read_calls(message.text, known_names)
            if calls:
                return conversation.with_calls(message, calls)
            self._say(spoken.rest())
            return message
        except BaseException as error:
            self._say(spoken.rest())
            said = sendable_text("".join(chunk.text for chunk in chunks))
            if is_malformed_answer(error):
                return AIMessage(content=said, response_metadata={"finish_reason": "malformed_function_call"})
            if said.strip():
                self.messages.append(AIMessage(content=said + self._wording.broken_off))
            if isinstance(error, TimeoutError) and limit.expired():
                late = f"The model '{about.model}' took more than {self._limits.answer_time:g} s for one answer."
                raise ModelTimeoutError(f"{late} {ModelTimeoutError.advice}") from error
            if isinstance(error, Exception) and not isinstance(error, ToolrunError):
                raise translate(error, about, was_answering=bool(chunks)) from error
            raise

    def _say(self, text: str) -> None:
        if text and self._emit is not None:
            self._emit(Text(text))

    async def _use_tools(self, answer: conversation.ModelAnswer, offer: Offer) -> Ended | None:
        """Run the calls of an answer. Returns the limit that was reached, if any: then there is no further round."""
        round = Round([_resolved(call, offer) for call in answer.calls], self._emit)
        ended = self._refuse_disallowed(round, conversation.stopped_by(answer.message))
        capabilities = result_content.UNKNOWN_CAPABILITIES
        try:
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
        return ended

    def _refuse_disallowed(self, round: Round, stopped: Ended | None) -> Ended | None:
        """Refuse the calls that must not run. Returns the limit that was reached, if any."""
        ended = None
        is_late = asyncio.get_running_loop().time() >= self._deadline
        for index, call in enumerate(round.calls):
            if stopped is not None:
                wording = self._wording
                round.refuse(index, wording.malformed if stopped is Ended.MALFORMED else wording.cut_off)
            elif is_late:
                ended = Ended.TIME
                round.refuse(index, self._wording.time_over.format(seconds=self._limits.time))
            elif (times := self._count_before(call)) >= self._limits.repeats:
                ended = ended or Ended.REPEATS
                round.refuse(index, self._wording.repeated.format(count=times))
            elif self._executed >= self._limits.calls:
                ended = ended or Ended.CALLS
                round.refuse(index, self._wording.too_many.format(limit=self._limits.calls))
            else:
                self._executed += 1
        return ended

    def _count_before(self, call: ToolCall) -> int:
        """Count the call. Returns how often the model made the same call before in this turn."""
        key = _fingerprint(call)
        times = self._call_counts.get(key, 0)
        self._call_counts[key] = times + 1
        return times

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


def _resolved(call: ToolCall, offer: Offer) -> ToolCall:
    """The call with the tool's original names, which the executor knows."""
    arguments = call.arguments
    if isinstance(arguments, dict):
        arguments = offer.arguments_of(call.name, arguments)
    return ToolCall(call.id, offer.name_of(call.name), arguments)


def _fingerprint(call: ToolCall) -> bytes:
    """A key that is equal for calls with the same name and arguments."""
    try:
        return dumps([call.name, call.arguments], sort_keys=True)
    except (TypeError, RecursionError):  # not JSON, or nested too deeply
        return repr((call.name, call.arguments)).encode(errors="replace")


def _needs_capabilities(round: Round) -> bool:
    """Whether the results depend on what the model supports: they have images or other content, or are long."""
    results = [result for result in round.results if result is not None]
    return any(result.content for result in results) or sum(len(result.text) for result in results) > _LONG_RESULTS
