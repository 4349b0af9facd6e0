"""The loop between a model and the tools: one turn of a conversation, from a question to the reply.

Whatever happens (invalid JSON, an answer that is cut off, a limit, a cancellation, a lost connection), the list of
messages stays complete: each call of the model has exactly one result. Knows nothing about providers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from toolrun.clients import conversation, result_content
from toolrun.clients.model_error import ModelError, ModelTimeoutError, ModelUnavailableError, translate
from toolrun.clients.round import Emit, Round
from toolrun.clients.turn_event import Done, Ended, Reply, Text, ToolFinished, Usage
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
    """One question, the rounds of tool calls that the model makes, one reply."""

    def __init__(
        self, client: ModelClient, question: str | BaseMessage, history: Iterable[BaseMessage], emit: Emit | None
    ) -> None:
        self._client = client
        self._limits = client.limits
        self._wording = client.wording
        self._emit = emit
        self._used_ids: set[str] = set()
        self.messages = conversation.repair_history(history, client.wording, self._used_ids, client.provider.origin)
        self.messages.append(conversation.question_message(question))
        self._calls: list[ToolFinished] = []
        self._input_tokens = self._output_tokens = 0
        self._executed = 0
        self._call_counts: dict[bytes, int] = {}
        self._deadline = asyncio.get_running_loop().time() + client.limits.time

    async def run(self) -> Reply:
        """Run the turn. Raises ModelError, which carries the conversation; failures of tools do not raise."""
        try:
            reply = await self._converse()
        except ModelError as error:
            error.messages = self.messages
            raise
        except asyncio.CancelledError:
            self._client.interrupted = self.messages
            raise
        if self._emit is not None:
            self._emit(Done(reply))
        return reply

    async def _converse(self) -> Reply:
        for _ in range(self._limits.rounds):
            answer, offer = await self._ask()
            if answer.calls:
                ended = await self._use_tools(answer, offer)
                if ended is not None:
                    return await self._ask_without_tools(ended)
            elif not conversation.is_paused(answer.message):
                ended = Ended.LENGTH if conversation.is_cut_off(answer.message) else Ended.ANSWER
                return self._reply(str(answer.message.text), ended)
        return await self._ask_without_tools(Ended.ROUNDS)

    async def _ask_without_tools(self, ended: Ended) -> Reply:
        """Ask for a final answer, in which the model may not call tools."""
        self.messages.append(HumanMessage(content=self._request_text(ended)))
        answer, _ = await self._ask(closed=True)
        if answer.calls:
            round = Round(answer.calls, self._emit)
            for index in range(len(answer.calls)):
                round.refuse(index, self._wording.closed)
            self._record(round, answer, result_content.UNKNOWN_CAPABILITIES)
        text = str(answer.message.text)
        if not text.strip():
            text = self._wording.no_answer
            self.messages.append(AIMessage(content=text))
        return self._reply(text, ended)

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
        usage = Usage(self._input_tokens, self._output_tokens)
        return Reply(text, list(self.messages), tuple(self._calls), usage, ended)

    async def _ask(self, *, closed: bool = False) -> tuple[conversation.ModelAnswer, Offer]:
        """Append the model's next answer to the messages. Retries a request that failed before any of it arrived."""
        model, offer = self._client.offer(self.messages, closed=closed)
        sent = self._client.sent(self.messages)
        chunks: list[AIMessage] = []
        for delay in (*self._client.retry_delays, None):
            try:
                message = await self._receive(cast("AsyncGenerator[AIMessage, None]", model.astream(sent)), chunks)
                break
            except ModelError as error:
                wait = error.retry_after or 0
                if chunks or delay is None or not error.is_retryable or wait > _MAX_RETRY_AFTER:
                    raise
                await asyncio.sleep(max(delay, wait))
        answer = conversation.normalise_answer(message, self._used_ids)
        self.messages.append(answer.message)
        used = answer.message.usage_metadata
        if used is not None:
            self._input_tokens += used["input_tokens"]
            self._output_tokens += used["output_tokens"]
        return answer, offer

    async def _receive(self, stream: AsyncGenerator[AIMessage, None], chunks: list[AIMessage]) -> AIMessage:
        """Collect an answer in `chunks` and emit its text. The text of an answer that breaks off is kept."""
        emit, about = self._emit, self._client.about
        try:
            async with asyncio.timeout(self._limits.answer_time) as limit, contextlib.aclosing(stream):
                async for chunk in stream:
                    chunks.append(chunk)
                    if emit is not None and (text := chunk.text):
                        emit(Text(str(text)))
            if not self._client.is_complete(chunks):
                raise ModelUnavailableError(f"{about.label} broke off in the middle of its answer. Ask again.")
            return conversation.merge_chunks(chunks)
        except BaseException as error:
            said = "".join(chunk.text for chunk in chunks)
            if said.strip():
                self.messages.append(AIMessage(content=said + self._wording.broken_off))
            if isinstance(error, TimeoutError) and limit.expired():
                late = f"The model '{about.model}' took more than {self._limits.answer_time:g} s for one answer."
                raise ModelTimeoutError(f"{late} {ModelTimeoutError.advice}") from error
            if isinstance(error, Exception) and not isinstance(error, ToolrunError):
                raise translate(error, about, was_answering=bool(chunks)) from error
            raise

    async def _use_tools(self, answer: conversation.ModelAnswer, offer: Offer) -> Ended | None:
        """Run the calls of an answer. Returns the limit that was reached, if any: then there is no further round."""
        round = Round([_resolved(call, offer) for call in answer.calls], self._emit)
        ended = self._refuse_disallowed(round, cut_off=conversation.is_cut_off(answer.message))
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

    def _refuse_disallowed(self, round: Round, *, cut_off: bool) -> Ended | None:
        """Refuse the calls that must not run. Returns the limit that was reached, if any."""
        ended = None
        is_late = asyncio.get_running_loop().time() >= self._deadline
        for index, call in enumerate(round.calls):
            if cut_off:
                round.refuse(index, self._wording.cut_off)
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
    except TypeError:  # not JSON
        return repr((call.name, call.arguments)).encode(errors="replace")


def _needs_capabilities(round: Round) -> bool:
    """Whether the results depend on what the model supports: they have images or other content, or are long."""
    results = [result for result in round.results if result is not None]
    return any(result.content for result in results) or sum(len(result.text) for result in results) > _LONG_RESULTS
