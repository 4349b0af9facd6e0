"""The seam between a pool or channel and whatever runs its processes: this machine, or an actor on another one.

Callers know nothing of pipes, pids or signals; engines know nothing of calls, scripts or MCP.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """How to start a process."""

    name: str
    """For messages: the name of the script, tool or server."""
    program: Path
    arguments: tuple[str, ...]
    directory: Path
    """The working directory."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The complete environment; the engine adds its own variables."""
    input: bytes = field(default=b"", repr=False)
    """What the engine sends to it first."""
    memory: int | None = None
    """The limit on address space, in bytes."""
    label: str = ""
    """What `toolrun workers` shows for the process; the name by default."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended."""

    code: int | None
    """The exit code; negative for a signal, None if unknown."""
    tail: str
    """The last lines on stderr."""

    def describe(self) -> str:
        """A phrase to follow its name: `ended with exit code 3`, `was killed by SIGKILL`."""
        if self.code is None:
            return "ended"
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        try:
            return f"was killed by {signal.Signals(-self.code).name}"
        except ValueError:  # a real-time signal has no name
            return f"was killed by signal {-self.code}"


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Where a running process is and how much it uses."""

    place: str
    """`pid 123`, or a node and an actor."""
    memory: int | None
    """Resident bytes, if known."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What a worker is doing, as its host sees it."""

    state: str
    """starting, ready, busy, draining (gets no new calls and ends after its last one) or ending."""
    calls: int
    """Calls answered so far."""
    running: int
    """Calls not answered yet."""


class Listener(Protocol):
    """Receives the events of a process, on the event loop. `ended` is the last call and comes exactly once."""

    def received(self, data: bytes) -> None: ...

    def logged(self, line: str) -> None: ...

    def ended(self, exit: Exit) -> None: ...


@runtime_checkable
class StatusReporter(Protocol):
    """A listener that also knows the status of its worker."""

    ready: asyncio.Future[None]
    """Done once the worker has started, or has failed to."""

    def status(self) -> WorkerStatus: ...


class Worker(Protocol):
    """A started process."""

    def send(self, data: bytes, *, coalesce: bool = False) -> None:
        """Write to its stdin as soon as the pipe takes it. Ignored after the process has ended.

        With `coalesce`, the write may wait for the loop's next iteration, to go out in one piece with others.
        """

    def kill(self) -> None:
        """Kill it and everything it started. `ended` follows."""

    async def close(self, grace: float) -> None:
        """Ask it to end, wait up to `grace` seconds, then kill it. Returns after it has ended."""

    def describe(self) -> WorkerInfo: ...


class Engine(Protocol):
    """Starts processes."""

    def start(self, spec: ProcessSpec, listener: Listener) -> Worker:
        """Raises OSError if the process cannot be started."""

    async def close(self) -> None:
        """Kill the remaining processes and release all resources."""
