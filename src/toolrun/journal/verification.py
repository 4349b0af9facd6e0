"""`verify`: asks the destination whether a call in doubt has acted.

It is a call of its own: with a deadline, off the event loop if it blocks, and on record. `Done` is believed at once,
`NotDone` only of an attempt that was over before the question (see `attempt.py`). Whatever else happens, the doubt
stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from time import perf_counter, time_ns
from typing import Any, Final

from toolrun.execution.call_journal import CallJournal
from toolrun.execution.executor import ToolExecutor
from toolrun.execution.prepared import PreparedTool
from toolrun.journal.attempt import Attempt, is_over
from toolrun.journal.journal import Journal
from toolrun.journal.liveness import is_reaped
from toolrun.journal.statements import sql
from toolrun.journal.stored_answer import write_answer
from toolrun.json import JSON, JSONDecodeError, Schema, dumps, loads
from toolrun.logger import get_logger
from toolrun.result import ToolResult
from toolrun.text import show
from toolrun.tools.context import Host, current_call
from toolrun.tools.effects import Done, Effects, NotDone, Verify
from toolrun.tools.function import FunctionTool
from toolrun.tools.manager import ToolManager
from toolrun.tools.protocol import Tool

logger = get_logger("toolrun.journal")

_REAPING: Final = 5.0
"""Seconds that the workers and servers of a dead host have to die, at most."""
_MAX_NAME: Final = 128
_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "arguments": {"type": "object"}},
    "required": ["key", "arguments"],
}


class Verdict(Enum):
    """What is known after the question."""

    DONE = "done"
    NOT_DONE = "not_done"
    TOO_EARLY = "too early"
    """It has not acted, but the attempt may still be running."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a doubt."""

    verdict: Verdict
    result: JSON = None
    problem: str | None = None
    """Why it could not be settled: somebody else was faster."""


class VerifyTool:
    """The `verify` of a function, as a tool that no model sees."""

    effects = Effects.NONE
    schema = _SCHEMA

    def __init__(self, tool: str, verify: Verify) -> None:
        self.name = f"{tool[: _MAX_NAME - 7]}.verify"
        self.description = f"Find out whether a call of '{tool}' has acted."
        self.is_async = inspect.iscoroutinefunction(verify)
        self._verify = verify

    def invoke(self, arguments: dict[str, Any]) -> object:
        value = self._verify(arguments["key"], arguments["arguments"])
        return _checked_later(value) if inspect.isawaitable(value) else _checked(value)


async def _checked_later(value: Awaitable[object]) -> object:
    return _checked(await value)


def _checked(value: object) -> object:
    if value is Done or value is NotDone:  # the class without the parentheses
        return value()
    if value is None or isinstance(value, Done | NotDone):
        return value
    raise TypeError(f"verify must return Done(result), NotDone() or None; it returned {show(value)}")


@contextlib.contextmanager
def _on_its_own() -> Iterator[None]:
    """The question is no step of the call that is repeated: under its key it would get the answer of the last time."""
    call = current_call.get()
    current_call.set(None)
    try:
        yield
    finally:
        current_call.set(call)


def can_verify(prepared: PreparedTool) -> bool:
    """Whether anybody can be asked about the calls of a tool."""
    return prepared.settings.verify is not None or _verifier(prepared) is not None


def _verifier(prepared: PreparedTool) -> Tool | None:
    tool = prepared.tool
    if isinstance(tool, FunctionTool):
        return None if tool.verify is None else VerifyTool(tool.name, tool.verify)
    return getattr(tool, "verifier", None) if getattr(tool, "isolated", False) is True else None


class Verification:
    """Asks, and settles doubts by the answers."""

    def __init__(self, journal: Journal, recorder: CallJournal) -> None:
        self._journal = journal
        self._recorder = recorder

    async def settle(
        self,
        host: Host,
        prepared: PreparedTool,
        attempt: Attempt,
        key: str,
        arguments: Mapping[str, JSON],
        timeout: float,
    ) -> Finding:
        """Ask whether the attempt has acted, and settle the doubt if the answer is proof. Raises NotRecordedError."""
        is_alive = await self._is_alive(attempt, min(_REAPING, timeout / 2))
        was_over = is_over(attempt, is_alive=is_alive, now=time_ns() // 1000)
        try:
            with _on_its_own():
                verdict = await self._ask(host, prepared, {"key": key, "arguments": dict(arguments)}, timeout)
        except Exception:  # whatever is wrong with a `verify`, its tool can still be called
            logger.exception("'%s' cannot be verified", prepared.name)
            verdict = None
        if verdict is None:
            return Finding(Verdict.UNKNOWN)
        if isinstance(verdict, NotDone):
            if not was_over:
                return Finding(Verdict.TOO_EARLY)
            return Finding(Verdict.NOT_DONE, problem=await self._settle(attempt, "not_done", None, None))
        result: Any = verdict.result
        answer = write_answer(ToolResult(prepared.name, result))
        return Finding(Verdict.DONE, result, await self._settle(attempt, "done", dumps(result).decode(), answer))

    async def _is_alive(self, attempt: Attempt, timeout: float) -> bool:
        """Whether anything is left of the process that made the attempt."""
        if self._journal.is_alive(attempt.process):
            return True
        if attempt.ended_at is not None or not attempt.place.dies_with_host:
            return False
        asking = self._journal.run(lambda connection: connection.execute(sql("host_of"), (attempt.process,)).fetchone())
        pid, boot = await asyncio.wrap_future(asking) or (0, "")  # a file that was replaced knows no host
        return not await asyncio.to_thread(is_reaped, pid, boot, timeout)

    async def _settle(self, attempt: Attempt, settled_as: str, result: str | None, answer: str | None) -> str | None:
        return await asyncio.wrap_future(self._journal.settle(attempt.id, settled_as, "verify", result, answer))

    async def _ask(
        self, host: Host, prepared: PreparedTool, arguments: dict[str, JSON], timeout: float
    ) -> Done | NotDone | None:
        name = prepared.settings.verify
        if name is not None:
            return self._read(prepared.name, await host.execute(name, arguments, timeout=timeout))
        tool = _verifier(prepared)
        if tool is None:
            return None
        # An executor of its own, because no model may call it. The journal, which hides secrets, is its only observer.
        executor = ToolExecutor(ToolManager([tool]), timeout, observers=(), recorder=self._recorder)
        executor.approver = None  # it looks, and does nothing
        until = perf_counter() + timeout
        try:
            return self._read(prepared.name, await executor.execute(tool.name, arguments, timeout=timeout))
        finally:
            with contextlib.suppress(TimeoutError):  # it cancels first, and what ignores that is not waited for
                async with asyncio.timeout(max(0.0, until - perf_counter())):
                    await executor.close()

    def _read(self, tool: str, result: ToolResult) -> Done | NotDone | None:
        """The verdict in an answer, which may be one of another program."""
        said = result.result
        if isinstance(said, str):
            with contextlib.suppress(JSONDecodeError):
                said = loads(said)
        verdict = said.get("verdict") if isinstance(said, dict) else None
        if result.error is None and verdict == "done":
            return Done(said.get("result") if isinstance(said, dict) else None)
        if result.error is None and verdict == "not_done":
            return NotDone()
        if result.error is not None or said is not None:
            reason = result.error or f"{show(said)} is not a verdict; it must return Done(result), NotDone() or None"
            logger.warning(
                "nobody knows whether a call of '%s' has acted: %s", tool, self._journal.redactor.text(reason)
            )
        return None
