"""The loop between a model and the tools: one turn of a conversation, from a question to the reply.

Whatever happens (a call that is no JSON, an answer that is cut off, a limit, a cancellation, a lost connection), the
list of messages is complete: each call of the model has exactly one result. Knows nothing of providers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Final

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

_LONG: Final = 4_000
"""Characters of results from which on the size of the model's context matters."""

_LONGEST_WAIT: Final = 30.0
"""Seconds that a provider may ask to wait before it is asked again."""


class Turn:
    """One question, as many rounds of tools as the model wants and may have, one reply."""

    def __init__(
        self, client: ModelClient, question: str | BaseMessage, history: Iterable[BaseMessage], emit: Emit | None
    ) -> None:
        self._client = client
        self._limits = client.limits
        self._wording = client.wording
        self._emit = emit
        self._taken: set[str] = set()
        self.messages = conversation.heal(history, client.wording, self._taken, client.provider.origin)
        self.messages.append(conversation.question(question))
        self._calls: list[ToolFinished] = []
        self._input_tokens = self._output_tokens = 0
        self._executed = 0
        self._times: dict[bytes, int] = {}
        self._deadline = asyncio.get_running_loop().time() + client.limits.time

    async def run(self) -> Reply:
        """Raises ModelError, which carries the conversation. Nothing that a tool does is raised."""
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
        why = Ended.ROUNDS
        for _ in range(self._limits.rounds):
            answer, offer = await self._ask()
            if answer.calls:
                over = await self._use_tools(answer, offer)
                if over is not None:
                    why = over
                    break
            elif not conversation.is_paused(answer.message):
                ended = Ended.LENGTH if conversation.is_cut_off(answer.message) else Ended.ANSWER
                return self._reply(str(answer.message.text), ended)
        return await self._conclude(why)

    async def _conclude(self, why: Ended) -> Reply:
        """Ask for an answer without tools. It is the last one, whatever it is."""
        self.messages.append(HumanMessage(content=self._request_for_answer(why)))
        answer, _ = await self._ask(closed=True)
        if answer.calls:
            round = Round(answer.calls, self._emit)
            for index in range(len(answer.calls)):
                round.refuse(index, self._wording.closed)
            self._record(round, answer, result_content.UNKNOWN)
        text = str(answer.message.text)
        if not text.strip():
            text = self._wording.no_answer
            self.messages.append(AIMessage(content=text))
        return self._reply(text, why)

    def _request_for_answer(self, why: Ended) -> str:
        wording, limits = self._wording, self._limits
        match why:
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

    async def _ask(self, *, closed: bool = False) -> tuple[conversation.Answer, Offer]:
        """The model's next answer, added to the messages. It is asked again only if nothing of an answer had come."""
        model, offer = self._client.offer(self.messages, closed=closed)
        sent = self._client.sent(self.messages)
        chunks: list[AIMessage] = []
        for delay in (*self._client.retry_delays, None):
            try:
                message = await self._receive(model.astream(sent), chunks)
                break
            except ModelError as error:
                wait = error.retry_after or 0
                if chunks or delay is None or not error.is_retryable or wait > _LONGEST_WAIT:
                    raise
                await asyncio.sleep(max(delay, wait))
        answer = conversation.settle(message, self._taken)
        self.messages.append(answer.message)
        used = answer.message.usage_metadata
        if used is not None:
            self._input_tokens += used["input_tokens"]
            self._output_tokens += used["output_tokens"]
        return answer, offer

    async def _receive(self, stream: AsyncGenerator[AIMessage, None], chunks: list[AIMessage]) -> AIMessage:
        """Collect an answer in `chunks` and pass its text on. Of one that breaks off, what was said is kept."""
        emit, about = self._emit, self._client.about
        try:
            async with asyncio.timeout(self._limits.answer_time) as limit, contextlib.aclosing(stream):
                async for chunk in stream:
                    chunks.append(chunk)
                    if emit is not None and (text := chunk.text):
                        emit(Text(str(text)))
            if not self._client.is_complete(chunks):
                raise ModelUnavailableError(f"{about.label} broke off in the middle of its answer. Ask again.")
            return conversation.join(chunks)
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

    async def _use_tools(self, answer: conversation.Answer, offer: Offer) -> Ended | None:
        """Answer all calls of a round. Returns why there can be no further round, if that is so."""
        round = Round([_resolved(call, offer) for call in answer.calls], self._emit)
        over = self._judge(round, cut_off=conversation.is_cut_off(answer.message))
        abilities = result_content.UNKNOWN
        try:
            try:
                async with asyncio.timeout_at(self._deadline):
                    await round.execute(self._client.executor, self._limits.parallel)
            except TimeoutError:
                over = Ended.TIME
                seconds, wording = self._limits.time, self._wording
                round.break_off(
                    wording.time_interrupted.format(seconds=seconds), wording.time_over.format(seconds=seconds)
                )
            if _needs_abilities(round):
                abilities = await self._client.abilities()
        finally:
            round.break_off(self._wording.interrupted, self._wording.not_run)
            self._record(round, answer, abilities)
        return over

    def _judge(self, round: Round, *, cut_off: bool) -> Ended | None:
        """Refuse the calls that must not be executed."""
        over = None
        is_late = asyncio.get_running_loop().time() >= self._deadline
        for index, call in enumerate(round.calls):
            if cut_off:
                round.refuse(index, self._wording.cut_off)
            elif is_late:
                over = Ended.TIME
                round.refuse(index, self._wording.time_over.format(seconds=self._limits.time))
            elif (times := self._times_before(call)) >= self._limits.repeats:
                over = over or Ended.REPEATS
                round.refuse(index, self._wording.repeated.format(count=times))
            elif self._executed >= self._limits.calls:
                over = over or Ended.CALLS
                round.refuse(index, self._wording.too_many.format(limit=self._limits.calls))
            else:
                self._executed += 1
        return over

    def _times_before(self, call: ToolCall) -> int:
        """How often this turn has seen the same call before."""
        key = _fingerprint(call)
        times = self._times.get(key, 0)
        self._times[key] = times + 1
        return times

    def _record(self, round: Round, answer: conversation.Answer, abilities: result_content.Abilities) -> None:
        """Add the results of a round to the messages, under the names that the model used."""
        room = result_content.room(abilities, len(round.calls))
        images = []
        for call, finished in zip(answer.calls, round.finished(), strict=True):
            shown, later = result_content.shown(finished.result, room, abilities.sight, self._wording)
            self.messages.append(conversation.tool_message(call, shown, failed=not finished.result.success))
            self._calls.append(finished)
            if later:
                images.append((call.name, later))
        if images:
            self.messages.append(HumanMessage(content=result_content.following(images, self._wording)))


def _resolved(call: ToolCall, offer: Offer) -> ToolCall:
    """The call with the tool's own names, as the executor knows them."""
    arguments = call.arguments
    if isinstance(arguments, dict):
        arguments = offer.arguments_of(call.name, arguments)
    return ToolCall(call.id, offer.name_of(call.name), arguments)


def _fingerprint(call: ToolCall) -> bytes:
    """Equal for calls that are the same."""
    try:
        return dumps([call.name, call.arguments], sort_keys=True)
    except TypeError:  # not JSON
        return repr((call.name, call.arguments)).encode(errors="replace")


def _needs_abilities(round: Round) -> bool:
    """Whether it matters what the model can see and how much it can read."""
    results = [result for result in round.results if result is not None]
    return any(result.content for result in results) or sum(len(result.text) for result in results) > _LONG
