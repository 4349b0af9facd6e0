"""The seam between the pipeline and the record of calls.

A journal is a stage and not an observer: the body of a call that may act waits until the start of the call is on
record. Whoever implements it knows the executor's calls; the executor knows nothing of files.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from toolrun.execution.finalise import Finalised
from toolrun.result import ToolResult
from toolrun.tools.context import Call, CallKey

if TYPE_CHECKING:
    from toolrun.execution.prepared import PreparedTool

PARENTS_KEY: Final = CallKey("", "parent")
"""Stands for the key of a call that the tool of a call with a key makes: whoever keeps keys makes it of that one."""


class KeyTakenError(Exception):
    """The same call was started by somebody else, between the look and the start."""


class CallJournal(Protocol):
    """Remembers calls: what an executor takes as its `recorder`."""

    @property
    def problem(self) -> str | None:
        """Why nothing can be recorded at the moment."""

    def is_full(self) -> bool:
        """Whether `drain` should be awaited before the next call, so that what is in memory stays bounded."""

    async def drain(self) -> None:
        """Wait until there is room, or there will be none because nothing can be written."""

    def set_key(self, call: Call, prepared: PreparedTool, key: str | CallKey) -> None:
        """The caller says that this call is the same as any other with this key. Raises InvalidArgumentsError."""

    async def look_up(self, call: Call, prepared: PreparedTool) -> Finalised | None:
        """What a call with the same key returned that was made before; None if it is to be made. Raises CallError."""

    def start(self, call: Call, prepared: PreparedTool) -> asyncio.Future[None] | None:
        """The body of the call is about to run. A future must be awaited first.

        The future raises CallError to refuse the call, and KeyTakenError if `look_up` has more to say by now.
        """

    def withdraw(self, call: Call) -> None:
        """The body does not run after `start`, because the future failed or was not waited for."""

    def finish(self, call: Call, prepared: PreparedTool | None, result: ToolResult) -> None:
        """The call has its answer. `prepared` is None if there was no such tool."""
