"""The seam between a pool or channel and whatever runs its processes: this machine, or an actor on another one.

Callers know nothing of pipes, pids or signals; engines know nothing of calls, scripts or MCP.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from toolrun.json import JSON


@dataclass(frozen=True, slots=True)
class Confinement:
    """How to start a process so that nothing of it escapes, and what else it needs of the engine."""

    command: Callable[[Path | None], list[str]]
    """The whole command, given the private temporary directory. Its first process waits for the real one, its child."""
    plan: Callable[[Path | None], bytes]
    """What the process reads first, given the same. Made after its start, because its interpreter takes a while."""
    rung: str
    """What enforces the walls; `off` if there are none. What the process starts ends with it in any case."""
    has_namespace: bool = False
    """Whether the kernel ends everything that it started together with it."""
    has_temporary: bool = False
    """Whether it needs a temporary directory, which the engine removes afterwards."""
    on_failure: Callable[[], None] = lambda: None
    """To be called when the walls cannot be put up after all."""
    covered: Callable[[], Iterable[Path]] = tuple
    """What mounts hide or protect, and only for as long as nobody replaces it."""
    hosts: tuple[str, ...] = ()
    """The only hosts that it may reach, through a proxy of the engine; empty if it needs no proxy."""


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
    label: str = ""
    """What `toolrun workers` shows for the process; the name by default."""
    confinement: Confinement | None = None
    """None: the program is started as it is."""
    place: object = None
    """What a `PlacingEngine` knows it by."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a process is made where its engine places it. What is in it has no paths that must be there."""

    name: str
    """For messages, as in `ProcessSpec`."""
    label: str
    program: str
    """The module that is run there, and makes the process."""
    content: Mapping[str, JSON] = field(repr=False)
    """What that module needs to know."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What the place has to have: CPU, GPU, or what the cluster's owner has named."""


@runtime_checkable
class PlacingEngine(Protocol):
    """An engine that has to find a place for a process, and make it ready, before it can start it."""

    async def place(self, recipe: Recipe, on_progress: Callable[[str], None]) -> ProcessSpec:
        """What `start` is called with, at once. Raises OSError if there is no place, CallError if no place would do."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended."""

    code: int | None
    """The exit code; negative for a signal, None if unknown."""
    tail: str
    """The last lines on stderr."""
    lost: str = ""
    """Why nothing more is known, as a phrase to follow its name: it ran on another machine, which is lost."""

    def describe(self) -> str:
        """A phrase to follow its name."""
        return self.lost or describe_exit(self.code)


def describe_exit(code: int | None) -> str:
    """`ended with exit code 3`, `was killed by SIGKILL`; the code is negative for a signal, None if unknown."""
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-code}"


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Where a running process is and how much it uses."""

    place: str
    """`pid 123`, or a node and an actor."""
    memory: int | None
    """Resident bytes, if known."""
    sandbox: str = ""
    """What enforces its sandbox: a rung, `off`, or empty for a process that was started as it is."""
    node: str = ""
    """The machine, if it is another one or might be."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What a worker is doing, as its host sees it."""

    state: str
    """starting, ready, busy, draining (gets no new calls and ends after its last one) or ending."""
    calls: int
    """Calls answered so far."""
    running: int
    """Calls not answered yet."""
    sandbox: str = ""
    """What enforces its sandbox."""
    node: str = ""
    """The machine that it runs on, if the process table of this one may not show it. What follows is for such a one."""
    replica: str = ""
    label: str = ""
    pid: int = 0
    memory: int = 0
    age: float = 0.0


class Listener(Protocol):
    """Receives the events of a process, on the event loop. `ended` is the last call and comes exactly once."""

    def received(self, data: bytes) -> None: ...

    def logged(self, line: str) -> None: ...

    def ended(self, exit: Exit) -> None: ...


@runtime_checkable
class Replaceable(Protocol):
    """A listener whose worker can be replaced by another one."""

    def outdated(self) -> None:
        """The walls of the worker have an opening, or nothing is heard of its machine. It is to get no new calls.

        Is called again for as long as the worker is there.
        """


@runtime_checkable
class StatusReporter(Protocol):
    """A listener that also knows the status of its worker."""

    ready: asyncio.Future[None]
    """Done once the worker has started, or has failed to."""

    def status(self) -> WorkerStatus: ...


class Worker(Protocol):
    """A started process."""

    def send(self, data: bytes, *, coalesce: bool = False) -> bool:
        """Write to its stdin as soon as the pipe takes it. False if the process certainly gets nothing of it.

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
