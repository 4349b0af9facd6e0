"""The environment of a script: a virtual environment, made once per set of requirements by uv.

Knows requirements, directories and uv; knows nothing of workers and calls.

    <cache>/environments/<key>/
        lock, used        held (flock) by the process that makes it, and by those that use it, until they end
        script.py         the metadata block alone: a path of the user's is never seen by uv
        script.py.lock    the lock file that stands beside the script, if there is one
        venv-<random>/    the environment
        complete          the name of the environment that is complete; written last, and replaced atomically

**How it is made.** `uv sync --script script.py --active` with VIRTUAL_ENV set: one command that honours the header's
requires-python and `[tool.uv]`, and the lock file (`--locked`: a stale one is an error). Not uv's own environments of
scripts: they are keyed on the script's path, so that an edit changes the packages under a running worker, and
`uv cache prune` deletes them. Not `uv venv` and `uv pip install`, which read no header and save little (115 ms instead
of 136 ms). An environment cannot be renamed: the commands of its packages name its interpreter, and uv makes no
relocatable one here. So it is made in its final place, a directory with a random name, which counts for nothing until
`complete` names it. The remains of a killed attempt disturb nobody, even while its uv still writes, and the next
attempt removes them. A complete environment is never written to again.

**Which Python.** That of this process if the script allows it, else what `uv python find --script` chooses. (An
interpreter that uv is told to use is not held against requires-python, and where uv finds none by itself, `sync` only
complains that VIRTUAL_ENV has none.)

**What is not noticed.** The key covers the text of the header, not its meaning: a newer release, another index in the
user's UV_… variables or an edited package on disk counts only after the environment is deleted. (The address of an
index may have a token that changes every hour: as part of the key it would mean a new environment each time.) Paths
relative to the script are refused, since uv does not see where it was. An extra index that uv does not find is passed
over in silence, and a package of the same name is taken from the public one.

**Measured** (medians of three runs; uv 0.13, Python 3.11, 2 busy cores, PyPI over the internet):

    no dependencies, first time ever      122 ms   (uv looks at the interpreter once)
    no dependencies                        42 ms
    one small package, not in uv's cache  383 ms
    one small package, in uv's cache      370 ms   (uv asks the index for updates; offline 123 ms)
    `known`                              0.07 ms
    start of an empty script, `uv run`     32 ms
    … on the environment's interpreter     15 ms   so that is how workers are started
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, ParamSpec

from toolrun.errors import SideEffects, UnavailableError
from toolrun.processes.engine import describe_exit
from toolrun.regular_file import UnsuitableFileError, read_regular_file
from toolrun.scripts.interpreter import base_interpreter, is_met, platform_tag
from toolrun.scripts.kept_environment import HeldEnvironments
from toolrun.scripts.pep723 import read_block, read_metadata
from toolrun.scripts.uv import UvResult, advise, clean_variables, readable, run_uv

_LAYOUT: Final = 1
"""Increase it when environments are made in another way: older ones are not used again."""
_SCRIPT: Final = "script.py"
_COMPLETE: Final = "complete"
_VENV: Final = re.compile(r"venv-[0-9a-f]{8}")
_LOCK_POLL: Final = 0.05
P = ParamSpec("P")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ScriptEnvironmentError(UnavailableError):
    """The environment of a script cannot be made: the message has uv's own words, and what to do."""

    side_effects = SideEffects.NOT_STARTED


@dataclass(frozen=True, slots=True)
class Requirements:
    """What determines the environment of a script. Scripts with equal requirements share one."""

    metadata: Mapping[str, Any] = field(compare=False)
    """The script's metadata. Dependencies, requires-python and `[tool.uv]` determine the environment."""
    lock: bytes | None = field(compare=False, repr=False)
    """The lock file beside the script."""
    key: str
    """A hash of what determines the environment, and of the interpreter and the platform."""
    block: str = field(compare=False, repr=False)
    """The metadata as it is written, in TOML."""


def read_requirements(source: str, lock: bytes | None) -> Requirements | None:
    """The requirements of a script, with the content of its lock file. None: its metadata cannot be read."""
    metadata = read_metadata(source)
    if metadata is None:
        return None
    decisive = [
        _LAYOUT,
        platform_tag(),
        str(base_interpreter()),
        metadata.get("dependencies", []),
        metadata.get("requires-python", ""),
        metadata.get("tool", {}).get("uv", {}),
        None if lock is None else hashlib.sha256(lock).hexdigest(),
    ]
    text = json.dumps(decisive, sort_keys=True, default=str)  # TOML has dates, JSON has none
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Requirements(MappingProxyType(metadata), lock, key, read_block(source))


class Environments:
    """Makes environments and finds those that there are. Belongs to one event loop."""

    def __init__(
        self,
        cache: Path,
        *,
        variables: Mapping[str, str],
        extra: Mapping[str, str] = _NOTHING,
        allow_build: bool = False,
        offline: bool = False,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """`variables` are the host's: uv gets of them what it needs, and no others. It gets all the `extra` ones."""
        self._cache = cache.absolute()
        self._variables = clean_variables(variables, extra)
        self._options = [*(() if allow_build else ("--no-build",)), *(("--offline",) if offline else ())]
        self._on_progress = on_progress or (lambda line: None)
        self._makings: dict[str, _Making] = {}
        """Those that can be waited for, by key."""
        self._tasks: set[asyncio.Task[Path]] = set()
        """Those, and those that are being given up."""
        self._held = HeldEnvironments()
        self._closed = False

    def known(self, requirements: Requirements) -> Path | None:
        """The interpreter of an environment that is complete and still there."""
        try:
            return _find(self._home(requirements))
        except OSError:  # unknown; the attempt to make it will say why
            return None

    async def interpreter(self, requirements: Requirements) -> Path:
        """The interpreter of the environment, which is made if needed. Raises ScriptEnvironmentError.

        However many wait for it, it is made once. It is given up when the last of them is cancelled.
        """
        if self._held.hold(self._home(requirements)) and (found := self.known(requirements)):
            return found
        if self._closed:
            raise ScriptEnvironmentError(f"{_subject(requirements)}: toolrun is closing.")
        making = self._makings.get(requirements.key) or self._start(requirements)
        making.waiters += 1
        try:
            await asyncio.wait([making.task])
        finally:
            making.waiters -= 1
            if not making.waiters and not making.task.done():
                del self._makings[requirements.key]  # the next caller starts again
                making.task.cancel()
                await asyncio.wait([making.task])
        if making.task.cancelled():
            raise ScriptEnvironmentError(f"{_subject(requirements)}: toolrun is closing.")
        return making.task.result()

    async def close(self) -> None:
        """Cancel all work in progress. Its waiters get a ScriptEnvironmentError."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._held.close()

    def _start(self, requirements: Requirements) -> _Making:
        loop = asyncio.get_running_loop()
        assert all(task.get_loop() is loop for task in self._tasks), "environments belong to one event loop"
        making = self._makings[requirements.key] = _Making(loop.create_task(self._make(requirements)))
        self._tasks.add(making.task)

        def on_end(task: asyncio.Task[Path]) -> None:
            self._tasks.discard(task)
            if self._makings.get(requirements.key) is making:
                del self._makings[requirements.key]
            if not task.cancelled():
                task.exception()  # counts as retrieved, even if all waiters were cancelled at the same moment

        making.task.add_done_callback(on_end)
        return making

    def _home(self, requirements: Requirements) -> Path:
        return self._cache / "environments" / requirements.key

    async def _make(self, requirements: Requirements) -> Path:
        home = self._home(requirements)
        if paths := _relative_paths(requirements.metadata):
            raise ScriptEnvironmentError(
                f"{_subject(requirements)}: [tool.uv] of its header has the relative path {paths[0]!r}, "
                "but its environment is made elsewhere. Write it as an absolute path."
            )
        try:
            await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
            async with _locked(home / "lock", self._on_progress):
                self._held.hold(home)
                found = _find(home)  # another process may have made it meanwhile
                return found or await self._make_locked(home, requirements)
        except OSError as error:
            raise ScriptEnvironmentError(f"{_subject(requirements)}: {advise(str(error))}.\n{error}") from error

    async def _make_locked(self, home: Path, requirements: Requirements) -> Path:
        venv = home / f"venv-{secrets.token_hex(4)}"
        await _in_thread(_prepare, home, requirements)
        try:
            arguments = ["sync", "--script", str(home / _SCRIPT), "--active", *self._options]
            arguments += await self._python(home, requirements)
            if requirements.lock is not None:
                arguments.append("--locked")
            await self._run(arguments, home, requirements, VIRTUAL_ENV=str(venv))
            return _publish(home, venv)  # in no thread: a cancellation comes before it, or too late
        except BaseException:
            await _in_thread(_remove, venv)
            raise

    async def _python(self, home: Path, requirements: Requirements) -> list[str]:
        """The option that names the interpreter. Left out if uv may download one, which `find` does not."""
        base = base_interpreter()
        if is_met(requirements.metadata.get("requires-python", ""), sys.version_info[:3]) and os.access(base, os.X_OK):
            return ["--python", str(base)]
        if self._variables["UV_PYTHON_DOWNLOADS"] == "automatic":
            return []
        outcome = await self._run(["python", "find", "--script", str(home / _SCRIPT)], home, requirements)
        return ["--python", outcome.output.strip()]

    async def _run(self, arguments: list[str], home: Path, requirements: Requirements, **variables: str) -> UvResult:
        # To compile the files of no package takes uv 40 ms: it starts interpreters first.
        compiling = {"UV_COMPILE_BYTECODE": "1"} if requirements.metadata.get("dependencies") else {}
        outcome = await run_uv(
            arguments,
            directory=home,  # uv looks for settings there and above, never in the user's working directory
            variables=compiling | self._variables | variables,
            on_line=self._on_progress,
        )
        if outcome.code != 0:
            raise ScriptEnvironmentError(_explain(requirements, outcome))
        return outcome


@dataclass(slots=True)
class _Making:
    task: asyncio.Task[Path]
    waiters: int = 0


def _find(home: Path) -> Path | None:
    """Raises OSError if unknown: an environment that cannot be read (no descriptor left) must not be replaced."""
    try:
        name = read_regular_file(home / _COMPLETE, 100).decode("ascii")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, UnsuitableFileError, ValueError):
        return None
    interpreter = home / name / "bin" / "python"
    # Follows the link: an environment whose base interpreter was removed is no longer there.
    return interpreter if _VENV.fullmatch(name) and interpreter.exists() else None


def _prepare(home: Path, requirements: Requirements) -> None:
    """Under the lock: remove what is left of makings that were killed, and write what uv reads."""
    for entry in [*home.glob(f"{_COMPLETE}*"), *home.glob("venv-*")]:
        _remove(entry)
    lines = [f"# {line}" if line else "#" for line in requirements.block.split("\n")[:-1]]
    (home / _SCRIPT).write_text("\n".join(["# /// script", *lines, "# ///", ""]), encoding="utf-8", newline="\n")
    lock = home / f"{_SCRIPT}.lock"
    if requirements.lock is None:
        lock.unlink(missing_ok=True)
    else:
        lock.write_bytes(requirements.lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _publish(home: Path, venv: Path) -> Path:
    """Declare an environment complete."""
    interpreter = venv / "bin" / "python"
    if not interpreter.exists():
        raise FileNotFoundError(f"uv made no interpreter {interpreter}")
    draft = home / f"{_COMPLETE}.{venv.name}"
    draft.write_text(venv.name, encoding="ascii")
    draft.replace(home / _COMPLETE)
    return interpreter


async def _in_thread(function: Callable[P, None], *arguments: P.args, **options: P.kwargs) -> None:
    """Ends when the function has, even if cancelled before: it must not go on when the lock is let go of."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **options))
    failure: BaseException | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancellation:
            failure = cancellation
    raised = task.exception()
    failure = failure or raised
    if failure is not None:
        raise failure


@asynccontextmanager
async def _locked(path: Path, on_progress: Callable[[str], None]) -> AsyncIterator[None]:
    """Holds a lock between processes. Polled, since a thread that blocks in flock cannot be cancelled."""
    with ExitStack() as stack:
        file = stack.enter_context(_open_lock(path))  # here, since a thread would leave it open if this is cancelled
        if not _try_lock(file):
            on_progress("Waiting for another process that creates the same environment")
            while not _try_lock(file):  # noqa: ASYNC110  nothing tells of the end of another process's lock
                await asyncio.sleep(_LOCK_POLL)
        yield


def _open_lock(path: Path) -> IO[bytes]:
    """The lock file. Anything else of its name is removed, such as a named pipe, on which an open would wait."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            path.unlink()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    file = open(descriptor, "ab", buffering=0)  # noqa: SIM115, PTH123  it is open already
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # by now it is something else again
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def _try_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _relative_paths(metadata: Mapping[str, Any]) -> list[str]:
    """Paths in `[tool.uv]` that uv would look up beside the script."""
    settings = metadata.get("tool", {}).get("uv")
    if not isinstance(settings, dict):
        return []
    sources = settings.get("sources")
    tables = _flat(list(sources.values())) if isinstance(sources, dict) else []
    found = [it.get("path") for it in tables if isinstance(it, dict)]
    found += [it.get("url") for it in _flat(settings.get("index")) if isinstance(it, dict)]
    for key in ("index-url", "extra-index-url", "find-links"):
        found += _flat(settings.get(key))
    return [it for it in found if isinstance(it, str) and "://" not in it and not Path(it).is_absolute()]


def _flat(value: object) -> list[Any]:
    """The items of a list and of the lists within it."""
    return [it for item in value for it in _flat(item)] if isinstance(value, list) else [value]


def _subject(requirements: Requirements) -> str:
    dependencies = [item.partition("@")[0].strip()[:60] for item in requirements.metadata.get("dependencies", [])]
    more = len(dependencies) - 3
    names = ", ".join(dependencies[:3]) + (f" and {more} more" if more > 0 else "")  # no URLs: they may have passwords
    python = requirements.metadata.get("requires-python", "")[:60]
    needs = " and ".join(filter(None, (f"Python {python}" if python else "", names)))
    return f"Cannot create the environment of a script that needs {needs or 'nothing'}"


def _explain(requirements: Requirements, outcome: UvResult) -> str:
    said = readable(outcome.messages)
    if outcome.code < 0:
        advice = f"uv {describe_exit(outcome.code)}. If the machine is short of memory, free some; then try again"
    elif outcome.code in (126, 127):  # the shell's own
        advice = "uv cannot be started. Reinstall it: python -m pip install --force-reinstall uv"
    else:
        advice = advise(said)
    return f"{_subject(requirements)}: {advice}.\nuv says: {said or 'nothing'}"
