"""What the routes of the API share: the runtime, and what is observed of its calls while the server runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from toolrun.execution.executor import ToolExecutor
from toolrun.execution.secrecy import hide_secrets
from toolrun.journal.history import History, open_history
from toolrun.journal.writer_job import NotRecordedError
from toolrun.json import dumps
from toolrun.redaction import Redactor
from toolrun.result import normalise
from toolrun.runtime import Runtime
from toolrun.server.prometheus import CallCounters
from toolrun.server.request_error import RequestError
from toolrun.server.running_calls import RunningCalls

T = TypeVar("T")


class ApiState:
    """One server's."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.executor: ToolExecutor = runtime.executor
        self.running_calls = RunningCalls()
        self.counters = CallCounters()
        self._redactor = Redactor(runtime.config.secrets.values())

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Know of the calls."""
        observers = self.executor.observers
        for it in (self.running_calls, self.counters):
            observers.add(it)
        try:
            yield
        finally:
            for it in (self.running_calls, self.counters):
                observers.remove(it)

    def is_ready(self) -> bool:
        """Whether every server has been tried, and calls are not refused because they cannot be recorded."""
        runtime = self.runtime
        if not all(server.first_attempts_over.is_set() for server in runtime.servers):
            return False
        needs_journal = runtime.config.journal.enabled and runtime.config.journal.required
        return not (needs_journal and self.executor.health().journal)

    def hide(self, value: Any) -> bytes:
        """The value as JSON text without the secrets of the project."""
        try:
            text = dumps(value)
        except TypeError:  # text that cannot be encoded
            value = normalise(value)
            text = dumps(value)
        if self._redactor and self._redactor.has_secret(text.decode()):
            return dumps(hide_secrets(value, self._redactor))
        return text

    async def read(self, work: Callable[[History], T]) -> T:
        """What a look at the journal finds, with everything that was recorded so far. Raises RequestError."""
        journal = self.runtime.journal
        if journal is None:
            raise RequestError(503, "calls are not recorded here: no toolrun.toml, or a journal that is off or broken")

        def look() -> T:
            with suppress(NotRecordedError):  # then it is read as far as it was written
                journal.flush()
            with open_history(journal.path) as history:
                return work(history)

        return await asyncio.to_thread(look)
