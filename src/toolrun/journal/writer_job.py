"""What is done for others in the writer's transactions, and how they hear of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from toolrun.errors import SideEffects, UnavailableError
from toolrun.journal.database import is_damage

T = TypeVar("T")


class WriterJob(Generic[T]):
    """A transaction of its own kind, in its turn."""

    def __init__(self, function: Callable[[sqlite3.Connection], T]) -> None:
        self.function = function
        self.outcome: Future[T] = Future()
        self.value: T | None = None


class NotRecordedError(UnavailableError):
    """The journal could not be written, so what was asked of it did not happen. What waited for it did not start."""

    side_effects = SideEffects.NOT_STARTED


def perform(job: WriterJob[Any], connection: sqlite3.Connection, on_undone: Callable[[], None]) -> bool:
    """Run a job in the transaction; what it raises undoes only its own changes."""
    execute = connection.execute
    execute("SAVEPOINT job")
    try:
        job.value = job.function(connection)
    except Exception as error:
        if isinstance(error, sqlite3.Error) and (not connection.in_transaction or is_damage(error)):
            raise  # SQLite has rolled back everything, as on a full disk, or cannot be believed any more
        execute("ROLLBACK TO job")
        execute("RELEASE job")
        on_undone()
        job.outcome.set_exception(error)
        return False
    execute("RELEASE job")
    return True


def wake_all(waiters: list[tuple[asyncio.Future[None], bool]], error: NotRecordedError | None) -> None:
    """On the event loop: the records of those who wait are on disk, or never will be."""
    for waiter, is_required in waiters:
        if waiter.done():
            continue
        if error is None or not is_required:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
