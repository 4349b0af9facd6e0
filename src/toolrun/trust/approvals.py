"""Asks for approval of calls: which ones the rules say, whom the consumer can ask, and what was answered before.

    rule says allow              the call is made
    rule says deny               refused, with the rule; so is a call whose arguments were changed to such
    rule says ask
      answered before            as answered, if the answer holds for this call
      somebody can be asked      the consumer's own way (an MCP client), or the program's hook (a prompt); meanwhile
                                 anybody may answer with `toolrun approvals`
      nobody can be asked        refused; the request stays open, and whoever repeats the call gets the answer to it

A call that waits holds no slot, no worker and no deadline of its body.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from toolrun.config.model import ApprovalSettings, ToolSettings
from toolrun.errors import NotApprovedError, UsageError
from toolrun.execution.approval import (
    Allow,
    Answer,
    ApprovalRequest,
    Caller,
    Deny,
    OnApproval,
    Scope,
    ask,
    change_arguments,
    current_caller,
    make_request,
    nobody_to_ask,
    obey,
    refused,
    unanswered,
    unanswered_yet,
    waiting_time,
)
from toolrun.execution.prepared import Gate, PreparedTool
from toolrun.execution.ruling import Action
from toolrun.journal.approval_row import (
    FoundAnswer,
    NewRequest,
    StoredApproval,
    answer_request,
    find_approval,
    in_memory,
    open_approvals,
    revoke_answer,
    take_answer,
    withdraw_request,
)
from toolrun.journal.conversation_row import current_conversation
from toolrun.journal.journal import Journal
from toolrun.json import dumps, loads
from toolrun.redaction import Redactor
from toolrun.tools.context import Call
from toolrun.tools.protocol import Tool
from toolrun.trust.rule import ToolRules, rules_of

T = TypeVar("T")

_POLL: Final = 0.25
"""Seconds between two looks at whether somebody else has answered."""
_MAX_CHARS: Final = 16_384
_NO_CALLER: Final = Caller(is_model=False)
_ELSEWHERE: Final = Deny("answered elsewhere")
"""Stands for an answer that was given in another place, and is to be read there."""


class Approvals:
    """The approvals of one executor. Belongs to one event loop; answers may come from other processes."""

    def __init__(
        self,
        settings: ApprovalSettings | None = None,
        on_approval: OnApproval | None = None,
        *,
        journal: Journal | None = None,
        redactor: Redactor | None = None,
        program: str = "toolrun",
    ) -> None:
        """Without a journal, requests and answers last as long as this object.

        `program` is the command that finds the project.
        """
        self._settings = settings or ApprovalSettings()
        self._on_approval = on_approval
        self._journal = journal
        self._redactor = redactor or Redactor()
        self._program = program
        self.is_ending = False
        """Whether this process ends: then a caller that is cancelled has not gone, and finds its request again."""
        self._memory: sqlite3.Connection | None = None
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """By the number of the request: held by the call that asks about it."""

    def gate_of(self, tool: Tool, settings: ToolSettings) -> Gate | None:
        rules = rules_of(tool, settings, self._settings)
        return None if rules.allows_all else partial(self._pass, rules)

    async def answer(self, id: int, answer: Answer) -> str | None:
        """Answer a request. Tells why that is too late, or None if it is not.

        Raises UsageError for an answer that cannot be kept, NotRecordedError if nothing can be.
        """
        edited = answer.arguments if isinstance(answer, Allow) else None
        text = None if edited is None else dumps(dict(edited)).decode()
        if text is not None and self._redactor.may_hide(text) and self._redactor.hide(text) != text:
            raise UsageError("the changed arguments have a secret in them, which is not written to a file")
        work = partial(
            answer_request,
            id=id,
            is_allowed=isinstance(answer, Allow),
            scope=Scope(answer.scope).value,
            edited=text,
            comment=_stored_text(answer.reason) if isinstance(answer, Deny) else None,
            by=_stored_text(answer.by),
            expires=self._settings.expires,
        )
        return await self._run(lambda connection: work(connection))

    async def revoke(self, id: int) -> bool:
        """Take back an answer that can still be used."""
        return await self._run(lambda connection: revoke_answer(connection, id))

    async def open(self) -> list[StoredApproval]:
        """Requests that can be answered, and answers that can be used."""
        return await self._run(open_approvals)

    async def _pass(self, rules: ToolRules, call: Call, prepared: PreparedTool) -> None:
        caller = current_caller.get() or _NO_CALLER
        ruling = rules.ruling(call.arguments, by_model=caller.is_model)
        if ruling.action is Action.ALLOW:
            return
        if ruling.action is Action.DENY:
            raise refused(call.name, ruling.reason)
        request = make_request(call, prepared, ruling.reason)
        stored = self._stored_form(request, caller)
        try:
            async with asyncio.timeout(waiting_time(call, self._settings.expires)):
                await self._settle(request, stored, caller, call, prepared)
        except TimeoutError:
            raise unanswered(call) from None
        if call.edited is not None:
            ruling = rules.ruling(call.arguments, by_model=caller.is_model)
            if ruling.action is Action.DENY:
                raise refused(call.name, f"{ruling.reason}, with the arguments that the person who was asked gave it")

    async def _settle(
        self, request: ApprovalRequest, stored: NewRequest, caller: Caller, call: Call, prepared: PreparedTool
    ) -> None:
        """Return when the call may be made. Raises NotApprovedError."""
        on_approval = self._on_approval if caller.on_approval is None else caller.on_approval
        found = await self._take(stored)
        while not isinstance(found, FoundAnswer):
            if on_approval is None:
                raise nobody_to_ask(call.name, request.reason, self._advice(found))
            found = await self._ask_in_turn(on_approval, replace(request, id=found), stored, call, prepared)
        call.approval = found.id
        obey(_read(found), call, prepared)

    async def _ask_in_turn(
        self,
        on_approval: OnApproval,
        request: ApprovalRequest,
        stored: NewRequest,
        call: Call,
        prepared: PreparedTool,
    ) -> FoundAnswer | int:
        """The answer to a request, or the number of the request that is to be asked about instead.

        Calls with the same arguments wait for the same answer: one after the other, because each has to look at the
        journal once more, and whoever got an answer for one call is the one who uses it.
        """
        turn = self._turns.get(request.id)
        is_first = turn is None
        if turn is None:
            self._turns[request.id] = turn = asyncio.Lock()
        async with turn:
            found = request.id if is_first else await self._take(stored)
            if found != request.id:
                return found
            try:
                answer = await self._ask(on_approval, request)
            except asyncio.CancelledError:
                self._withdraw(request.id)
                raise
            if answer is None:
                raise unanswered_yet(call.name, request.reason, self._advice(request.id))
            if answer is not _ELSEWHERE:
                await self._keep(request.id, answer, stored, call, prepared)
            return await self._take(stored)

    async def _keep(self, id: int, answer: Answer, stored: NewRequest, call: Call, prepared: PreparedTool) -> None:
        """Write down an answer, so that it can be taken. Raises CallError for one that cannot be kept."""
        if answer.scope == Scope.CONVERSATION and not stored.conversation:
            answer = replace(answer, scope=Scope.ONCE)
        if isinstance(answer, Allow) and answer.arguments is not None:
            trial = Call(call.host, call.name, call.arguments, call.given_id)
            change_arguments(trial, prepared, answer.arguments)  # what the tool cannot take is not an answer
        try:
            await self.answer(id, answer)
        except UsageError as error:
            raise NotApprovedError(f"Tool '{call.name}' was not run: {error}") from None

    async def _ask(self, on_approval: OnApproval, request: ApprovalRequest) -> Answer | None:
        """Ask whoever can be asked here, until somebody answers, here or elsewhere."""
        asking = asyncio.create_task(ask(on_approval, request))
        try:
            while not (await asyncio.wait([asking], timeout=_POLL))[0]:
                row = await self._run(lambda connection: find_approval(connection, request.id))
                if row is None or row.state != "pending":
                    return _ELSEWHERE
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    def _withdraw(self, id: int) -> None:
        """The caller has gone. Nobody is left who could wait for this to be written."""
        if self.is_ending:
            return
        if self._journal is not None:
            self._journal.run(lambda connection: withdraw_request(connection, id))
        elif self._memory is not None:
            withdraw_request(self._memory, id)

    async def _take(self, stored: NewRequest) -> FoundAnswer | int:
        return await self._run(lambda connection: take_answer(connection, stored))

    def _advice(self, id: int) -> str:
        if self._journal is None:
            return ""
        return (
            f"A person can allow it with '{self._program} approvals allow {id}'; then the same call can be made again. "
            "Tell the user so, or continue without it."
        )

    def _stored_form(self, request: ApprovalRequest, caller: Caller) -> NewRequest:
        row = current_conversation.get()
        exact = dumps([request.tool, request.source, request.definition, dict(request.arguments)], sort_keys=True)
        shown = dumps(self._redactor.value(dict(request.arguments))).decode()
        text = dumps(dict(request.arguments)).decode()
        withheld = "hidden" if shown != text else None
        if len(shown) > _MAX_CHARS:
            shown, withheld = f"{shown[:_MAX_CHARS]}…", "cut"
        return NewRequest(
            fingerprint=hashlib.sha256(exact).digest(),
            conversation=caller.conversation or ("" if row is None else f"#{row}"),
            tool=request.tool,
            source=request.source,
            definition=request.definition,
            arguments=shown,
            withheld=withheld,
            reason=request.reason,
            consumer="" if self._journal is None else self._journal.consumer,
            expires=self._settings.expires,
        )

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In a transaction of the journal; without one, in memory."""
        if self._journal is not None:
            return await asyncio.wrap_future(self._journal.run(work))
        if self._memory is None:
            self._memory = in_memory()
        with self._memory:
            return work(self._memory)


def _stored_text(said: object) -> str:
    """What a program says in words, which may be no text, or none that can be stored."""
    return str(said or "").encode("utf-8", "replace").decode()


def _read(found: FoundAnswer) -> Answer:
    if not found.is_allowed:
        return Deny(found.comment or "")
    return Allow(arguments=None if found.edited is None else loads(found.edited))
