"""Conversations that outlive the process: LangChain's messages as rows of a journal, and back.

The rows are made with `message_to_dict` and read with `messages_from_dict`, which can make nothing but messages;
`load` would make objects of whatever classes a file names.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from toolrun.clients.conversation import ModelAnswer
from toolrun.clients.sendable import sendable_json
from toolrun.clients.turn_event import Ended
from toolrun.errors import ErrorKind, SideEffects, UsageError
from toolrun.journal.call_record import CallState
from toolrun.journal.conversation_row import (
    END,
    QUESTION,
    Conversation,
    StoredMessage,
    current_conversation,
    open_conversation,
)
from toolrun.journal.recorder import CallRecorder
from toolrun.json import dumps, loads
from toolrun.result import ToolCall
from toolrun.text import shown_name

if TYPE_CHECKING:
    from concurrent.futures import Future

    from toolrun.clients.round import Round
    from toolrun.execution.executor import ToolExecutor
    from toolrun.journal.journal import Journal
    from toolrun.redaction import Redactor

_BROKEN: Final = "broken"
"""The role of an answer that broke off. It counts only if the user went on with another question."""


def journal_of(executor: ToolExecutor) -> Journal:
    """Where an executor keeps conversations. Raises UsageError if it keeps none."""
    recorder = executor.recorder
    if not isinstance(recorder, CallRecorder):
        raise UsageError("Conversations are stored in a journal, and there is none: open a project with Runtime.open.")
    if not recorder.journal.keeps_conversations:
        raise UsageError("The project stores no conversations: it has [journal] conversations = false.")
    return recorder.journal


async def open_stored_conversation(
    executor: ToolExecutor, id: str | bool, model: str, *, must_exist: bool = False, any_model: bool = False
) -> StoredConversation:
    """The conversation of that id, or a new one for `True`. Raises UsageError."""
    journal = journal_of(executor)
    if id is False:
        raise UsageError("conversation=False means nothing; leave it out to keep no conversation.")
    name = None if id is True else id
    taken = await open_conversation(
        journal,
        name,
        model=model,
        format=f"langchain-core {version('langchain-core')}",
        must_exist=must_exist,
        any_model=any_model,
    )
    try:
        return StoredConversation(taken, journal.redactor)
    except BaseException:
        taken.close()
        raise


class StoredConversation:
    """A conversation that this process has, until `close` or the end of the `with` block."""

    def __init__(self, conversation: Conversation, redactor: Redactor) -> None:
        """Raises UsageError for rows that cannot be read."""
        self.id = conversation.name
        self.was_cut_off = conversation.was_cut_off
        """Whether the process that had it before ended without letting go of it."""
        self._conversation = conversation
        self._redactor = redactor
        self._reset()
        _read(self, conversation.messages)

    def _reset(self) -> None:
        self.messages: list[BaseMessage] = []
        """What was said so far. The calls of the last answer may lack results: see `pending`."""
        self.half: BaseMessage | None = None
        """The part of the last answer that was said before it broke off."""
        self.questions = 0
        """How many were asked before."""
        self.pending: ModelAnswer | None = None
        """The last answer, if the process ended before its calls had results. It is not in `messages`."""
        self.turn: list[BaseMessage] = []
        """The messages after the last question."""
        self.ended: Ended | None = None
        """How the last turn ended; None if it has no reply, or if there was none."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever is told the reply finds the conversation on disk, and free.
        await self.wait_for(self._conversation.close())

    @property
    def is_unfinished(self) -> bool:
        """Whether there is a question without a reply."""
        return self.ended is None and bool(self.messages or self.pending)

    def close(self) -> None:
        """Let go of it: anybody may go on with it."""
        self._conversation.close()

    async def forget(self) -> None:
        """Begin anew: nothing was said so far. Raises NotRecordedError."""
        await self._conversation.forget()
        self._reset()

    def start_turn(self) -> None:
        """The user goes on: what was said of an answer before it broke off belongs to the conversation."""
        if self.half is not None:
            self.messages.append(self.half)
        self.half = None

    def pop_pending(self) -> ModelAnswer | None:
        """The last answer, whose calls get their results now."""
        answer, self.pending = self.pending, None
        if answer is not None:
            self.messages.append(answer.message)
        return answer

    def change_model(self, model: str) -> None:
        """From the next message on it is held with another model."""
        self._conversation.model = model

    def key_of(self, call: ToolCall) -> str | None:
        """What makes a call the same after a crash; None while the journal cannot be written."""
        return self._conversation.key_of(call.id)

    @contextmanager
    def making_calls(self) -> Iterator[None]:
        """Calls that are made inside belong to this conversation."""
        token = current_conversation.set(self._conversation.row)
        try:
            yield
        finally:
            current_conversation.reset(token)

    async def recall(self, round: Round, not_begun: str | None) -> None:
        """Answer the calls of a past round that failed; with a reason `not_begun`, also those that never began.

        The executor answers the others: from the journal if they are done, with an error if they are in doubt.
        """
        for index, call in enumerate(round.calls):
            past = await self._conversation.outcome_of(call.id)
            if past is None or past.state == CallState.REFUSED:
                if not_begun is not None:
                    round.refuse(index, not_begun, ErrorKind.CANCELLED)
            elif past.state == CallState.FAILED and past.error_kind in set(ErrorKind):  # not if its process was lost
                known = SideEffects(past.side_effects or SideEffects.FAILED)
                round.fail(index, past.error or "", ErrorKind(past.error_kind), known)

    def add(
        self,
        messages: Sequence[BaseMessage],
        *,
        question: BaseMessage | None = None,
        broken: BaseMessage | None = None,
        calls: Iterable[ToolCall] = (),
        ended: Ended | None = None,
    ) -> Future[None]:
        """Write messages. `calls` are those of the last of them, `ended` says that the turn has its reply."""
        rows = []
        for message in messages:
            role = QUESTION if message is question else _BROKEN if message is broken else message.type
            rows.append((role, self._encode(message, calls if message is messages[-1] else ())))
        if ended is not None:
            rows.append((END, json.dumps({"ended": str(ended)})))
        self.messages += messages
        self.ended = ended
        return self._conversation.add(rows)

    async def wait_for(self, writing: Future[None]) -> None:
        """Wait until something was written or could not be, which the conversation has logged."""
        waiting = asyncio.wrap_future(writing)
        await asyncio.wait([waiting])
        if not waiting.cancelled():
            waiting.exception()  # marks it as retrieved

    def _encode(self, message: BaseMessage, calls: Iterable[ToolCall]) -> str:
        if isinstance(message, ToolMessage) and message.artifact is not None:
            message = message.model_copy(update={"artifact": None})
        content: dict[str, Any] = message_to_dict(message)
        if isinstance(message, HumanMessage | ToolMessage):  # the model's own may be signed
            content = _without_secrets(content, self._redactor)
        elif isinstance(message, AIMessage) and (raw := _raw_arguments(message, calls)):
            content["arguments"] = raw
        try:
            return dumps(content).decode()
        except (TypeError, ValueError):  # what a package put into its message may be anything
            return dumps(sendable_json(content)).decode()


def _raw_arguments(message: AIMessage, calls: Iterable[ToolCall]) -> dict[str, Any]:
    """The arguments that are not in the message as the model sent them: text that is no object, or NaN in it."""
    sent = {call["id"]: call["args"] for call in message.tool_calls}
    return {
        call.id: {"text": call.arguments} if isinstance(call.arguments, str) else {"json": json.dumps(call.arguments)}
        for call in calls
        if sent.get(call.id) != call.arguments
    }


def _without_secrets(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.hide_values(value)
    if isinstance(value, Mapping):
        return {key: _without_secrets(item, redactor) for key, item in value.items()}
    if isinstance(value, list):
        return [*map(partial(_without_secrets, redactor=redactor), value)]
    return value


def _read(stored: StoredConversation, rows: Sequence[StoredMessage]) -> None:
    arguments: Mapping[str, Any] = {}
    for number, row in enumerate(rows, 1):
        stored.ended = None
        try:
            body = loads(row.body)
            if row.role == END:
                stored.ended = Ended(body["ended"])
                continue
            message = messages_from_dict([body])[0]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"Conversation '{shown_name(stored.id)}' cannot be read: its message {number} is damaged ({error}). "
                "Nothing was changed. Start another conversation."
            ) from error
        if row.role == _BROKEN:
            stored.half = message
            continue
        if row.role == QUESTION:
            stored.start_turn()
        stored.half = None  # the question was asked again
        stored.messages.append(message)
        stored.turn = [] if row.role == QUESTION else [*stored.turn, message]
        stored.questions += row.role == QUESTION
        if isinstance(message, AIMessage):
            arguments = body.get("arguments", {})
    _set_pending_aside(stored, arguments)


def _set_pending_aside(stored: StoredConversation, arguments: Mapping[str, Any]) -> None:
    """The results of a round are written together, so an answer has all of them or none."""
    last = stored.messages[-1] if stored.messages else None
    if not isinstance(last, AIMessage) or not last.tool_calls or stored.ended is not None:
        return
    stored.messages.pop()
    stored.turn = stored.turn[:-1]
    calls = [ToolCall(call["id"] or "", call["name"], call["args"]) for call in last.tool_calls]
    for index, call in enumerate(calls):
        raw = arguments.get(call.id)
        if raw is not None:
            calls[index] = replace(call, arguments=raw["text"] if "text" in raw else json.loads(raw["json"]))
    stored.pending = ModelAnswer(last, calls)
