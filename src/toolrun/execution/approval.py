"""The seam between the pipeline and whoever says whether a call may be made.

A call of a tool that has a gate is stopped there after its arguments are checked, before it gets a slot. An observer is
told of calls; a gate can refuse them, and a person behind it may change their arguments. While a call waits at its
gate it holds no slot and no worker, and the deadline of its body stands still.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from toolrun.errors import CallTimeoutError, InvalidArgumentsError, NotApprovedError, SideEffects
from toolrun.execution.paused_deadline import paused_deadlines
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.redaction import Redactor
from toolrun.result import normalise
from toolrun.tools.definition import hash_definition
from toolrun.tools.protocol import source_of

if TYPE_CHECKING:
    from toolrun.config.model import ToolSettings
    from toolrun.execution.prepared import Gate, PreparedTool
    from toolrun.execution.ruling import Rulings
    from toolrun.tools.context import Call
    from toolrun.tools.manager import ToolManager
    from toolrun.tools.protocol import Tool

logger = get_logger("toolrun")

EXPIRES: Final = 600.0
"""Seconds in which somebody may answer, unless the caller's own deadline comes first."""


CHANGED: Final = "As changed by the person who was asked: "
"""How an error begins that is not the caller's own."""


class Scope(StrEnum):
    """For which calls an answer holds, all of them with the same arguments and the same definition of the tool."""

    ONCE = "once"
    CONVERSATION = "conversation"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that waits for an answer. The answer holds for exactly this tool of this source, and these arguments."""

    tool: str
    arguments: Mapping[str, JSON]
    """Those that the tool would get, checked and repaired."""
    reason: str = ""
    """Why somebody is asked."""
    description: str = ""
    source: str = ""
    """The file or server that the tool comes from."""
    definition: str = ""
    """Hash of what the tool says of itself."""
    effects: str | None = None
    """What a second call would do, if that is known."""
    call_id: str = ""
    id: int = 0
    """The number under which `toolrun approvals` knows it; 0 if it is not stored."""
    shown: Mapping[str, JSON] | None = None
    """The arguments without secrets, for people who must not see them; None if there are none in them."""


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may be made."""

    scope: Scope | str = Scope.ONCE
    arguments: Mapping[str, JSON] | None = None
    """With these arguments instead of its own."""
    by: str = field(default="", kw_only=True)
    """Who says so, for the journal."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not be made."""

    reason: str = ""
    """What the model is told."""
    scope: Scope | str = Scope.ONCE
    by: str = field(default="", kw_only=True)


Answer: TypeAlias = Allow | Deny
Said: TypeAlias = "Answer | bool | None"
"""True is `Allow()`, False is `Deny()`. None: there is nobody who could answer."""
OnApproval: TypeAlias = Callable[[ApprovalRequest], "Said | Awaitable[Said]"]
"""Asked about a call. A function that is not async is called in a thread, so it may wait for a person."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes the calls of this task, as far as it matters for what they may do."""

    is_model: bool
    """Also of the calls that tools make on the way: whoever chose the first one set them in motion."""
    conversation: str = ""
    """What "for this conversation" means here; empty if there is none."""
    on_approval: OnApproval | None = None
    """How to ask the person behind this caller, if that is another one than the program's."""


current_caller: ContextVar[Caller | None] = ContextVar("toolrun_caller", default=None)


@contextmanager
def calling_as(caller: Caller) -> Iterator[None]:
    """The calls of this task are made by that caller."""
    token = current_caller.set(caller)
    try:
        yield
    finally:
        current_caller.reset(token)


def as_model() -> Caller:
    """A model as the caller, with the person of whoever has it do the work."""
    known = current_caller.get()
    return Caller(is_model=True) if known is None else replace(known, is_model=True)


class CallerLeftError(asyncio.CancelledError):
    """Raised by a hook that asks the caller itself, which has gone: as if it had cancelled its call."""


class Approver(Protocol):
    """Says whether calls may be made: what an executor takes as its `approver`."""

    def gate_of(self, tool: Tool, settings: ToolSettings) -> Gate | None:
        """What every call of the tool has to pass; None if all of them may be made."""


class HookApprover:
    """What holds without rules of a project: what the tool declares itself, and what a function of the program says.

    The function is asked about every call. Without one, whoever makes the call is asked, if the tool wants approval.
    """

    def __init__(self, on_approval: OnApproval | None = None, expires: float = EXPIRES) -> None:
        self._on_approval = on_approval
        self._expires = expires

    def gate_of(self, tool: Tool, settings: ToolSettings) -> Gate | None:
        from toolrun.execution.ruling import declared  # not before a tool is called

        rulings = declared(tool, settings)
        return None if rulings.allow_all and self._on_approval is None else partial(self._pass, rulings)

    async def _pass(self, rulings: Rulings, call: Call, prepared: PreparedTool) -> None:
        caller = current_caller.get()
        ruling = rulings.models if caller is not None and caller.is_model else rulings.others
        if ruling.action == "deny":
            raise refused(call.name, ruling.reason)
        if ruling.action == "allow" and self._on_approval is None:
            return
        on_approval = self._on_approval
        if on_approval is None and caller is not None:
            on_approval = caller.on_approval
        if on_approval is None:
            raise nobody_to_ask(call.name, ruling.reason)
        request = make_request(call, prepared, ruling.reason)
        try:
            async with asyncio.timeout(waiting_time(call, self._expires)):
                said = await ask(on_approval, request)
        except TimeoutError:
            raise unanswered(call) from None
        if said is None:
            raise nobody_to_ask(call.name, request.reason)
        obey(said, call, prepared)


async def pass_gate(call: Call, prepared: PreparedTool, manager: ToolManager) -> None:
    """Wait at the gate of a tool."""
    if prepared.gate is None or call.is_approved:
        return
    # Who made the call may still hold its arguments: what runs is what the person sees, and not what they are later.
    call.arguments = cast("dict[str, JSON]", normalise(call.arguments))
    call.phase = "its approval"
    with paused_deadlines(call):
        await prepared.gate(call, prepared)
    call.is_approved, call.phase = True, ""
    tool = manager.get(prepared.name)
    if tool is not prepared.tool and (tool is None or hash_definition(tool) != hash_definition(prepared.tool)):
        raise NotApprovedError(
            f"Tool '{call.name}' was not run: it has changed since its approval was asked for. Call it again."
        )


def waiting_time(call: Call, expires: float) -> float:
    """Seconds that a call can wait for an answer."""
    return min(expires, call.remaining())


def make_request(call: Call, prepared: PreparedTool, reason: str = "") -> ApprovalRequest:
    tool, arguments = prepared.tool, cast("Mapping[str, JSON]", normalise(call.arguments))
    shown = cast("Mapping[str, JSON]", (prepared.redactor or Redactor()).value(arguments))
    return ApprovalRequest(
        tool=prepared.name,
        arguments=arguments,
        shown=None if shown == arguments else shown,
        reason=reason,
        description=tool.description,
        source=source_of(tool),
        definition=hash_definition(tool),
        effects=prepared.effects,
        call_id=call.given_id or "",
    )


async def ask(on_approval: OnApproval, request: ApprovalRequest) -> Answer | None:
    """What somebody says about a call. A hook that fails has not agreed."""
    try:
        call: object = getattr(on_approval, "__call__", None)  # noqa: B004  an object may have an async __call__
        if inspect.iscoroutinefunction(on_approval) or inspect.iscoroutinefunction(call):
            said = on_approval(request)
        else:
            said = await _in_thread(on_approval, request)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, Allow | Deny) and _can_be_obeyed(said):
            return said
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # the hook is the program's
        if isinstance(error, CallerLeftError) or (isinstance(error, asyncio.CancelledError) and _is_cancelled()):
            raise
        logger.exception("the approval hook failed about '%s'", request.tool)
        return Deny("the program that was asked for approval failed")
    if said is None:
        return None
    if isinstance(said, bool):
        return Allow() if said else Deny()
    logger.error("the approval hook returned %r; it should return Allow, Deny, a bool or None", said)
    return Deny("the program that was asked for approval gave no answer")


def _is_cancelled() -> bool:
    """Whether somebody has cancelled this task, and not only what it waits for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _can_be_obeyed(answer: Answer) -> bool:
    """Whether a program that does not look at types has said something that has a meaning."""
    arguments: object = answer.arguments if isinstance(answer, Allow) else None
    return answer.scope in tuple(Scope) and isinstance(arguments, Mapping | None)


def obey(answer: Answer, call: Call, prepared: PreparedTool) -> None:
    """Let the call go on with the arguments of the answer. Raises NotApprovedError, InvalidArgumentsError."""
    if isinstance(answer, Deny):
        raise refused(call.name, answer.reason)
    if answer.arguments is not None:
        change_arguments(call, prepared, answer.arguments)


def change_arguments(call: Call, prepared: PreparedTool, arguments: Mapping[str, JSON]) -> None:
    """Give a call other arguments than it came with. Raises InvalidArgumentsError."""
    checked = prepared.schema.check(dict(arguments), strict=True, rename=prepared.rename)
    if checked.problems:
        from toolrun.schema.explain import explain as explain_problems

        raise InvalidArgumentsError(f"{CHANGED}{explain_problems(checked.problems)}")
    if call.sent is None:
        call.sent = call.arguments
    if checked.arguments != call.arguments:
        call.edited = normalise(checked.arguments)
    call.arguments = checked.arguments


def refused(name: str, reason: str) -> NotApprovedError:
    why = f": {reason}" if reason else ""
    return NotApprovedError(
        f"Tool '{name}' was not run: the call was not approved{why}", detail="Do not repeat it; continue without it."
    )


def nobody_to_ask(name: str, reason: str, advice: str = "") -> NotApprovedError:
    why = f" ({reason})" if reason else ""
    return NotApprovedError(
        f"Tool '{name}' was not run: it needs a person's approval{why}, and nobody can be asked here",
        detail=advice or "Continue without it, or tell the user that it needs approval.",
    )


def unanswered_yet(name: str, reason: str, advice: str = "") -> NotApprovedError:
    """For a hook that has no answer, which may come later: then the same call can be made again."""
    why = f" ({reason})" if reason else ""
    return NotApprovedError(
        f"Tool '{name}' was not run: it needs a person's approval{why}, and has none yet",
        detail=advice or "Continue without it, or tell the user that it needs approval.",
    )


def unanswered(call: Call) -> CallTimeoutError:
    return CallTimeoutError(
        f"Tool '{call.name}' was not run: nobody answered the request for approval in time",
        side_effects=SideEffects.NOT_STARTED,
    )


async def _in_thread(on_approval: OnApproval, request: ApprovalRequest) -> Said | Awaitable[Said]:
    """In a thread that the program can end without: a person may never answer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Said | Awaitable[Said]] = loop.create_future()
    context = copy_context()

    def work() -> None:
        try:
            said, error = context.run(on_approval, request), None
        except BaseException as raised:  # noqa: BLE001  raised again where it is waited for
            said, error = None, raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_tell, answer, said, error)

    threading.Thread(target=work, name="toolrun-approval", daemon=True).start()
    return await answer


def _tell(
    answer: asyncio.Future[Said | Awaitable[Said]], said: Said | Awaitable[Said], error: Exception | None
) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(said)
