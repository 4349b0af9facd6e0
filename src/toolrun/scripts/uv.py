"""Runs uv: in its own process group and a clean environment, without blocking the event loop.

Knows how to start and end uv and how to read its messages; knows nothing of scripts and their environments.

uv may start other programs (git, build scripts), so the whole group is killed at its end. A guard in the group does the
same when this process is killed: it waits at the other end of a pipe that only this process holds open.
(PR_SET_PDEATHSIG would not do: it fires when the *thread* that started uv ends.) The guard also holds uv's stdout, so
that the end of the output shows the end of the guard.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolrun.processes.child_environment import child_environment
from toolrun.processes.framing import LineFramer
from toolrun.processes.zombie_reaper import reap_session

_GUARDED: Final = 'exec 3<&0 </dev/null; (read -r _ <&3; kill -KILL 0) 2>/dev/null & exec "$@" 3<&-'
_MAX_OUTPUT: Final = 1 << 20
"""Bytes to keep; the rest is read and dropped."""
_MAX_MESSAGE: Final = 1200
_REAP: Final = 0.01
_LINGER: Final = 1.0
"""Seconds that the output may outlast uv: a process that left the group may hold it open for ever."""

_PASSED: Final = re.compile(r"SSL_CERT_FILE|SSL_CERT_DIR|UV_\w+|(?:HTTP|HTTPS|NO)_PROXY|(?:http|https|no)_proxy")
_WITHHELD: Final = re.compile(
    r"UV_PUBLISH_\w+"  # credentials that nothing here needs
    r"|UV_LOCKED|UV_FROZEN"  # fail for a script without a lock file
    r"|UV_PYTHON|UV_PROJECT|UV_WORKING_DIR|UV_PROJECT_ENVIRONMENT"  # would decide what we decide
)
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_MESSAGE: Final = re.compile(r"(?m)^(?:error: | *× )")

# Words in the messages of uv, and the advice for the user. uv has no error codes: the first match counts.
_ADVICE: Final = (
    (r"uv is not installed", "uv is missing. Install it: python -m pip install uv"),
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full. Free some space, or set another cache directory",
    ),
    (
        r"Errno 13|os error 13|Read-only file system",
        "a directory cannot be written to. Set another cache directory (and UV_CACHE_DIR for that of uv)",
    ),
    (
        r"No interpreter found|Failed to inspect Python",
        "no Python that it can run on is installed. Install one (`uv python install VERSION`), let uv download it "
        "(UV_PYTHON_DOWNLOADS=automatic), or change its requires-python",
    ),
    (
        r"--no-build|Building source distributions .* is disabled|no usable wheels",
        "a package has to be built from source, which runs code of its author and is not allowed. Require a version "
        "that has a wheel, or set allow_build = true",
    ),
    (
        r"network was disabled|Network connectivity is disabled",
        "uv's cache does not have everything, and uv is set to stay offline. Try again with a network",
    ),
    (
        r"lockfile .* needs to be updated",
        "the lock file does not match the header of the script. Run `uv lock --script` for it",
    ),
    (
        r"Failed to parse `.*lock`|unsupported schema version|failed to read .*\.lock",
        "the lock file cannot be read. Delete it and run `uv lock --script`",
    ),
    (r"certificate|UnknownIssuer", "a server is not trusted. Set SSL_CERT_FILE, or UV_SYSTEM_CERTS=1"),
    (r"HTTP status", "a server refuses the request. Check the address and the credentials"),
    (
        r"error sending request|Request failed|dns error|Could not resolve host|Failed to fetch",
        "the package index cannot be reached. Check the network, the proxy and the index (UV_DEFAULT_INDEX)",
    ),
    (r"TOML parse error", "uv refuses its header. Correct the place that it names"),
    (
        r"was not found in the package registry",
        "a package is not in the index. Check its name, and the index (UV_DEFAULT_INDEX)",
    ),
    (r"No solution found", "its dependencies conflict with each other. Change their versions"),
    (r"Failed to build|build backend", "a package cannot be built from source. Require a version that has a wheel"),
)


@dataclass(frozen=True, slots=True)
class UvResult:
    """How a run of uv ended."""

    code: int
    """Its exit code; negative for a signal."""
    output: str
    """What it wrote to stdout."""
    messages: str
    """What it wrote to stderr."""


def find_uv() -> str:
    """The path of the uv that was installed with toolrun. Raises FileNotFoundError."""
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        raise FileNotFoundError("uv is not installed") from None


def clean_variables(host: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """The host's variables that uv needs, and the extra ones. No more: a build script sees them all."""
    passed = child_environment(host, _is_passed)
    passed = {name: value for name, value in passed.items() if value}  # uv refuses some that are empty
    defaults = {"UV_PYTHON_DOWNLOADS": "never"}  # a missing Python is an immediate error, not minutes of download
    return defaults | passed | dict(extra) | {"NO_COLOR": "1", "UV_NO_PROGRESS": "1"}


def _is_passed(name: str) -> bool:
    return _PASSED.fullmatch(name) is not None and _WITHHELD.fullmatch(name) is None


def readable(messages: str) -> str:
    """The error of uv and its causes, without colours and progress, cut to a readable length."""
    text = _ANSI.sub("", messages)
    start = _MESSAGE.search(text)
    text = text[start.end() :] if start else text
    lines = [re.sub(r"[│╰├─▶]+", " ", line).rstrip() for line in text.splitlines()]
    text = "\n".join(line for line in lines if line)
    if len(text) > _MAX_MESSAGE:
        text = f"{text[: _MAX_MESSAGE // 2].rstrip()}\n…\n{text[-_MAX_MESSAGE // 2 :].lstrip()}"
    return text


def advise(said: str) -> str:
    """The problem and what to do, by the words of uv or of the operating system."""
    text = " ".join(said.split())  # some versions of uv wrap their lines
    return next((advice for words, advice in _ADVICE if re.search(words, text)), "it failed")


async def run_uv(
    arguments: Sequence[str], *, directory: Path, variables: Mapping[str, str], on_line: Callable[[str], None]
) -> UvResult:
    """Run uv to its end. Cancellation kills uv and its descendants. Raises OSError if uv cannot be started."""
    # The pipes are ours: asyncio loses its own when the start is cancelled, and then waits for them for ever.
    with ExitStack() as ours, ExitStack() as theirs:
        stdin, _ = _pipe(theirs, ours)
        output, stdout = _pipe(ours, theirs)
        messages, stderr = _pipe(ours, theirs)
        readers = _OutputReader(output, lambda line: None), _OutputReader(messages, on_line)
        for reader in readers:
            ours.callback(reader.close)
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", _GUARDED, "sh", find_uv(), *arguments),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=directory,
            env=variables,
            start_new_session=True,
        )
        theirs.close()
        try:
            code = await process.wait()
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # the guard is in the group: its id is still ours
            await process.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LINGER):
                    for reader in readers:
                        await reader.ended.wait()
                    while reap_session(process.pid):  # noqa: ASYNC110  the guard, if we are PID 1: it was killed above
                        await asyncio.sleep(_REAP)
    return UvResult(code, *(reader.text() for reader in readers))


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A pipe whose ends the two stacks close."""
    read, write = os.pipe()
    reading.callback(os.close, read)
    writing.callback(os.close, write)
    return read, write


class _OutputReader:
    """Keeps the output of a pipe, and passes lines on up to the first error."""

    def __init__(self, descriptor: int, on_line: Callable[[str], None]) -> None:
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._on_line = on_line
        self._content = bytearray()
        self._lines = LineFramer(_MAX_OUTPUT)
        self._failed = False
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)

    def text(self) -> str:
        return self._content.decode("utf-8", "replace")

    def _read(self) -> None:
        data = os.read(self._descriptor, 1 << 16)
        if not data:
            self.close()
            self.ended.set()
        kept = data[: _MAX_OUTPUT - len(self._content)]
        self._content += kept
        for line in self._lines.feed(kept):
            if isinstance(line, bytes):  # always: the cap is the same
                for part in line.decode("utf-8", "replace").splitlines():  # what shows progress ends lines with \r
                    self._tell(_ANSI.sub("", part))

    def _tell(self, line: str) -> None:
        self._failed = self._failed or _MESSAGE.match(line) is not None  # the rest is the text of the error
        if line.strip() and not self._failed:
            self._on_line(line.strip())
