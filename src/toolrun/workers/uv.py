"""Runs uv: as a process group of its own, in a clean environment, without blocking the event loop.

Knows how uv is started, ended and understood; knows nothing of scripts and their environments.

uv may start others (git, build scripts), so the whole group is killed at its end. A guard in the group does the same
when this process is killed: it waits at the other end of a pipe that only this process holds open. (PR_SET_PDEATHSIG
would not do: it fires when the *thread* that started uv ends.) The guard also holds uv's stdout, so that the end of the
output tells of the guard's own end.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_GUARDED: Final = 'exec 3<&0 </dev/null; (read -r _ <&3; kill -KILL 0) 2>/dev/null & exec "$@" 3<&-'
_MAX_OUTPUT: Final = 1 << 20
"""Bytes that are kept; the rest is read and dropped."""
_MAX_MESSAGE: Final = 1200
_LINGER: Final = 1.0
"""Seconds for the output to end after uv has; a process that left the group may hold it open for ever."""

_PASSED: Final = re.compile(
    r"PATH|HOME|LANG|LC_\w+|SSL_CERT_FILE|SSL_CERT_DIR|UV_\w+|(?:HTTP|HTTPS|NO)_PROXY|(?:http|https|no)_proxy"
)
_WITHHELD: Final = re.compile(
    r"UV_PUBLISH_\w+"  # credentials that nothing here needs
    r"|UV_LOCKED|UV_FROZEN"  # fail for a script without a lock file
    r"|UV_PYTHON|UV_PROJECT|UV_WORKING_DIR|UV_PROJECT_ENVIRONMENT"  # would decide what we decide
)
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_MESSAGE: Final = re.compile(r"(?m)^(?:error: | *× )")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of uv ended."""

    code: int
    """Its exit code; negative for a signal."""
    output: str
    """What it wrote to stdout."""
    messages: str
    """What it wrote to stderr."""


def find_uv() -> str:
    """The path of the uv that was installed together with toolrun. FileNotFoundError: there is none."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        raise FileNotFoundError("uv is not installed") from None


def clean_variables(host: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """What uv needs of the host's variables, and the extra ones. A build script sees all of it, so there is no more."""
    set_ones = {name: value for name, value in host.items() if value}  # uv refuses some that are empty
    passed = {it: set_ones[it] for it in set_ones if _PASSED.fullmatch(it) and not _WITHHELD.fullmatch(it)}
    defaults = {"UV_PYTHON_DOWNLOADS": "never"}  # a missing Python is an error at once, not minutes of download
    return defaults | passed | dict(extra) | {"NO_COLOR": "1", "UV_NO_PROGRESS": "1"}


def readable(messages: str) -> str:
    """What uv says went wrong: its error and the causes, without colours and progress, of a length for people."""
    text = _ANSI.sub("", messages)
    start = _MESSAGE.search(text)
    text = text[start.end() :] if start else text
    lines = [re.sub(r"[│╰├─▶]+", " ", line).rstrip() for line in text.splitlines()]
    text = "\n".join(line for line in lines if line)
    if len(text) > _MAX_MESSAGE:
        text = f"{text[: _MAX_MESSAGE // 2].rstrip()}\n…\n{text[-_MAX_MESSAGE // 2 :].lstrip()}"
    return text


async def run_uv(
    arguments: Sequence[str], *, directory: Path, variables: Mapping[str, str], on_line: Callable[[str], None]
) -> Outcome:
    """Run uv to its end. When cancelled, uv and all that it started is killed. OSError: it cannot be started."""
    # asyncio loses the pipes of a process whose start is cancelled, and then waits for them.
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: _Run(on_line),
            *("/bin/sh", "-c", _GUARDED, "sh", find_uv(), *arguments),
            cwd=directory,
            env=variables,
            start_new_session=True,
        )
    )
    try:
        await settled(starting)
        transport, run = starting.result()
        await run.exited.wait()
    finally:
        if starting.exception() is None:
            await _end(*starting.result())
    code = transport.get_returncode()
    assert code is not None
    return Outcome(code, run.text(1), run.text(2))


async def settled(task: asyncio.Future[Any]) -> None:
    """Wait until a task is done. A cancellation is raised only then."""
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation


async def _end(transport: asyncio.SubprocessTransport, run: _Run) -> None:
    """Kill what is left of the group, and let go of it."""
    try:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)  # the guard is in the group: its id is still ours
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER):
                await run.exited.wait()
                await run.drained.wait()
    finally:
        transport.close()


class _Run(asyncio.SubprocessProtocol):
    """Collects what a process writes. Its end is taken from the process, not from the end of its output."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self._on_line = on_line
        self._written = {1: bytearray(), 2: bytearray()}
        self._open = {1, 2}
        self._told = 0
        self._failed = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        written = self._written[fd]
        written += data[: _MAX_OUTPUT - len(written)]
        if fd == 2:
            complete = written.rfind(b"\n") + 1
            for line in written[self._told : complete].decode("utf-8", "replace").splitlines():
                self._tell(_ANSI.sub("", line))
            self._told = max(self._told, complete)

    def _tell(self, line: str) -> None:
        self._failed = self._failed or _MESSAGE.match(line) is not None  # what follows is the error's own text
        if line.strip() and not self._failed:
            self._on_line(line.strip())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()

    def text(self, fd: int) -> str:
        return self._written[fd].decode("utf-8", "replace")
