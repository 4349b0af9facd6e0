"""One call on its way through a pool: what a worker is sent, and who is told how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from toolrun.errors import CallError, InvalidArgumentsError, ProtocolError, SideEffects
from toolrun.execution.failure import remote_failure
from toolrun.json import JSON
from toolrun.result import Large
from toolrun.tools.context import Call, OnLateEnd

if TYPE_CHECKING:
    from toolrun.scripts.pooled_worker import PooledWorker

_NOTHING: Final[Mapping[str, str]] = {}


class Request:
    """Is sent to a worker at most once, and ends once. The executor waits for it as for any body that runs."""

    __slots__ = (
        "__weakref__",
        "call",
        "config",
        "function",
        "is_repeated",
        "kwargs",
        "number",
        "on_end",
        "on_late_end",
        "outcome",
        "raised",
        "secrets",
        "sends_key",
        "worker",
    )

    def __init__(
        self,
        function: str,
        kwargs: Mapping[str, JSON],
        config: Mapping[str, JSON] = _NOTHING,
        secrets: Mapping[str, str] = _NOTHING,
        call: Call | None = None,
        *,
        is_repeated: bool = False,
        sends_key: bool = False,
    ) -> None:
        """`is_repeated`: the call was sent before, to a worker that was lost with it, so it may have acted.

        `sends_key`: it may be sent again, and its destination is to know it by the same key.
        """
        self.function = function
        self.kwargs = kwargs
        self.config = config
        self.secrets = secrets
        self.call = call
        self.is_repeated = is_repeated
        self.sends_key = sends_key
        self.outcome: asyncio.Future[tuple[JSON | Large, CallError | None]] = asyncio.get_running_loop().create_future()
        self.on_end: Callable[[], object] | None = None
        self.on_late_end: OnLateEnd | None = None
        self.worker: PooledWorker | None = None
        """Where it runs, until it has ended."""
        self.number = 0
        self.raised: tuple[str, ...] = ()
        """The classes of the exception that the worker's answer will be about."""
        if call is not None:
            call.phase = "" if is_repeated else "its worker was not ready"

    def resolve(self, result: JSON | Large, error: CallError | None) -> None:
        self.worker = None
        if not self.outcome.done():
            self.outcome.set_result((result, error))
        elif self.on_late_end is not None:
            self.on_late_end(result, error)
        if self.on_end is not None:
            self._end()

    def give_up(self) -> None:
        """Nobody waits for it any more, so it must not go on."""
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.give_up(self)
        self._end()

    def _end(self) -> None:
        on_end, self.on_end = self.on_end, None  # once: it may be given up in the moment in which it ends
        if on_end is not None:
            on_end()

    def failure(self, message: str) -> CallError:
        """What the worker's error means for the caller."""
        if self.raised[:1] == ("toolrun.InvalidArguments",):
            return InvalidArgumentsError(message)
        if self.raised[:1] == ("toolrun.UnknownFunction",):
            return ProtocolError(message, side_effects=SideEffects.NOT_STARTED)
        return remote_failure(self.raised, message, self.call.name if self.call is not None else self.function)
