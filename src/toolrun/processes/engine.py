"""The seam between the pool and whatever runs workers: a process here, or an actor on another machine.

Above this line nobody knows of pipes, pids or signals; below it nobody knows of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

SERVER_VARIABLE: Final = "TOOLRUN_SERVER"
"""In the environment of a process that is an MCP server and no worker: its name."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What is needed to start a worker."""

    name: str
    """For people: the script's name."""
    interpreter: Path
    """The Python of the script's own environment."""
    arguments: tuple[str, ...]
    """What follows the interpreter: the worker file, the script, options."""
    directory: Path
    """The working directory."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """All the environment variables that it gets."""
    memory: int | None = None
    """Bytes of address space that it may use."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a worker ended."""

    code: int | None
    """The exit code; negative for a signal, None if it is not known."""
    tail: str
    """The last lines that it wrote on stderr."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What can be told about a running worker."""

    place: str
    """Where it runs: `pid 123`, or a node and an actor."""
    memory: int | None
    """Bytes that it uses, if that can be told."""


class Listener(Protocol):
    """Who hears from a worker. Called on the event loop; `ended` is the last call, and comes exactly once."""

    def received(self, data: bytes) -> None: ...

    def logged(self, line: str) -> None: ...

    def ended(self, exit: Exit) -> None: ...


class Worker(Protocol):
    """A worker that was started."""

    def send(self, data: bytes, *, at_once: bool = True) -> None:
        """Pass bytes on as soon as the worker takes them. Ignored once it has ended.

        What need not go at once may wait for the loop's next turn, to go together with what else is sent till then.
        """

    def kill(self) -> None:
        """End it at once, with everything that it started. `ended` follows."""

    async def close(self, grace: float) -> None:
        """Ask it to end, wait up to `grace` seconds, then kill it. Returns when it has ended."""

    def describe(self) -> WorkerInfo: ...


class Engine(Protocol):
    """Starts workers."""

    def start(self, spec: WorkerSpec, listener: Listener) -> Worker:
        """Raises OSError if it cannot be started."""

    async def close(self) -> None:
        """Kill what still runs and let go of everything."""
