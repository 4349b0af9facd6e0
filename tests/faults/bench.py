"""A project whose scripts do what a test tells them to, opened by the real `Runtime`, with real processes.

What every fault has in common is checked here: a call of another tool is under way while it happens and comes to its
own end, every call has exactly one answer, and afterwards the same tool works again.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

from toolrun import ErrorKind, Runtime, SideEffects, ToolResult
from toolrun.execution.observer import Observer
from toolrun.scripts.pool import Pool
from toolrun.tools.context import Call, Progress

LIMIT = 30.0
"""Seconds for what must happen. Only a failing test waits so long."""
TAG = "UV_FAULT_TEST"
"""A variable that marks the processes of one test. So named, because it is then passed on to uv too."""

SUBJECT = '''
    """Does what it is told to, also while it is being imported."""

    import fcntl
    import os
    import sys
    import time
    from pathlib import Path

    from toolrun_sdk import progress

    _root = Path(__file__).parents[1]
    with (_root / "starts").open("a") as _file:
        _file.write(f"{os.getpid()}\\n")


    def _protocol() -> int:
        """The descriptor that answers are written to, found as a hostile script could."""
        for entry in Path("/proc/self/fd").iterdir():
            if int(entry.name) > 2 and os.readlink(entry).startswith("pipe:"):
                if fcntl.fcntl(int(entry.name), fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                    return int(entry.name)
        raise LookupError


    def _say(data: bytes) -> None:
        written = 0
        while written < len(data):
            written += os.write(_protocol(), data[written : written + (1 << 20)])


    def _number() -> int:
        """The id of the running call."""
        return sys.modules["toolrun_worker.serve"].running_call().id


    def subject(code: str, data: str = ""):
        """Run some code. What it calls `answer` is the answer, else the number of the process."""
        scope = {"os": os, "time": time, "Path": Path, "progress": progress, "data": data}
        scope |= {"say": _say, "number": _number, "answer": os.getpid()}
        exec(code, scope)
        return scope["answer"]


    if (_root / "at_import").exists():
        exec((_root / "at_import").read_text())
'''
BYSTANDER = '''
    """Has nothing to do with it."""

    import time
    from pathlib import Path

    from toolrun_sdk import progress


    def bystander(path: str, value: str) -> str:
        """Wait until a file is there."""
        progress(1)
        while not Path(path).exists():
            time.sleep(0.005)
        return value
'''


class Project:
    """Scripts on disk. `cache` has the environments, so that few have to be made."""

    def __init__(self, root: Path, cache: Path, tag: str) -> None:
        self.root = root
        self.cache = cache
        self.tag = tag
        (root / "tools").mkdir()
        self.write("bystander", BYSTANDER)

    def write(self, name: str, body: str = SUBJECT, **declared: object) -> Path:
        """A script without dependencies. What it declares of itself goes into `[tool.toolrun]` of its header."""
        lines = ["[tool.toolrun]", *(f"{key} = {json.dumps(value)}" for key, value in declared.items())]
        header = ["/// script", 'requires-python = ">=3.11"', "dependencies = []", *(lines if declared else ()), "///"]
        path = self.root / "tools" / f"{name}.py"
        path.write_text("".join(f"# {line}\n" for line in header) + dedent(body), encoding="utf-8")
        return path

    def at_import(self, code: str) -> None:
        """What the script `subject` does from now on when it is imported."""
        (self.root / "at_import").write_text(dedent(code), encoding="utf-8")

    def starts(self) -> list[int]:
        """The processes that have begun to import it, in their order."""
        path = self.root / "starts"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def configure(self, **workers: object) -> Path:
        """Write the configuration and return its path."""
        # Without walls a process has the same number for itself as for a test; tests/sandbox has faults behind them.
        settings = {"cache": str(self.cache), "variables": [TAG], "grace": 1.0, "sandbox": "off"} | workers
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        path = self.root / "toolrun.toml"
        path.write_text("\n".join(["[workers]", *lines, ""]), encoding="utf-8")
        return path

    @asynccontextmanager
    async def open(self, **workers: object) -> AsyncIterator[Tools]:
        recorder = Recorder()
        async with Runtime.open(self.configure(**workers), observers=(recorder,)) as runtime:
            yield Tools(runtime, self)
        recorder.check()

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[Tools]:
        """The project open in another runtime than that of the fault, where a call is under way all the time.

        At its end there is no more of the project's processes than at its beginning.
        """
        async with self.open() as tools, tools.bystander():
            before = tagged(self.tag)
            yield tools
            await until(lambda: tagged(self.tag) <= before, "the end of all other processes")


class Recorder(Observer):
    """Counts what is made of each call."""

    def __init__(self) -> None:
        self.started: Counter[int] = Counter()
        self.finished: Counter[int] = Counter()
        self._kept: list[Call] = []
        """So that none gets the identity of another."""

    def call_started(self, call: Call) -> None:
        self._kept.append(call)
        self.started[id(call)] += 1

    def call_finished(self, call: Call, result: ToolResult) -> None:
        self.finished[id(call)] += 1

    def check(self) -> None:
        assert self.finished == self.started, "a call was not answered, or answered twice"
        assert set(self.finished.values()) <= {1}


class Tools:
    """An open project."""

    def __init__(self, runtime: Runtime, project: Project) -> None:
        self.runtime = runtime
        self._project = project

    async def run(self, code: str = "", tool: str = "subject", *, timeout: float = LIMIT, **more: Any) -> ToolResult:
        """Have a script run some code; without any it answers with the number of its process."""
        on_progress: Callable[[Progress], None] | None = more.pop("on_progress", None)
        arguments = {"code": dedent(code), **more}
        return await self.runtime.executor.execute(tool, arguments, timeout=timeout, on_progress=on_progress)

    async def works(self, tool: str = "subject") -> int:
        """That a call succeeds; the number of the process that answered it."""
        result = await self.run(tool=tool)
        assert result.success, (result.error, result.detail)
        assert isinstance(result.result, int)
        return result.result

    @asynccontextmanager
    async def bystander(self) -> AsyncIterator[None]:
        """A call of another tool that is under way all the time, and must not notice anything."""
        gate, value, under_way = self._project.root / secrets.token_hex(4), secrets.token_hex(4), asyncio.Event()
        arguments = {"path": str(gate), "value": value}
        execute = self.runtime.executor.execute
        async with asyncio.TaskGroup() as group:
            call = group.create_task(
                execute("bystander", arguments, timeout=4 * LIMIT, on_progress=lambda _: under_way.set())
            )
            try:
                async with asyncio.timeout(LIMIT):
                    await under_way.wait()
                yield
            finally:
                gate.touch()
        assert (call.result().result, call.result().error) == (value, None), "a call of another tool was harmed"

    async def fault(self, code: str, tool: str = "subject", *, timeout: float = LIMIT, **more: Any) -> ToolResult:
        """The answer to a call that fails while another tool is at work."""
        async with self.bystander():
            result = await self.run(code, tool, timeout=timeout, **more)
        assert not result.success
        return result

    async def late(self, code: str, begun: Path) -> ToolResult:
        """The answer at a deadline that passes after the file is there: the code makes it, on a slow machine later."""
        for timeout in (1.0, 4.0, LIMIT):
            result = await self.fault(code, timeout=timeout)
            assert is_timeout(result)
            if begun.exists():  # noqa: ASYNC240  nothing that takes time
                return result
            await self.works()
        raise AssertionError(f"{begun.name} did not appear within {LIMIT:g} s")

    def pool(self, tool: str = "subject") -> Pool:
        """The workers of a script."""
        [script] = [it for it in self.runtime.scripts if it.name == tool]
        return script.pool


def orphan(path: Path) -> str:
    """Code that starts a process without a parent and in a session of its own. It writes its number to the path.

    Nothing but its environment connects it with its worker. It ends by itself after two minutes.
    """
    return dedent(f"""
        import signal
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.alarm(120)
                Path("{path}.part").write_text(str(os.getpid()))
                os.rename("{path}.part", "{path}")
                while True:
                    time.sleep(60)
            os._exit(0)
        while not Path("{path}").exists():
            time.sleep(0.005)
    """)


def chain(path: Path) -> str:
    """Code that starts a process without a parent, which forks and dies at once; and so does each of its children.

    Each is in a session of its own. As long as one of them lives, the file is locked. It ends by itself after a minute.
    """
    return dedent(f"""
        import fcntl
        lock = os.open("{path}", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        end = time.monotonic() + 60
        if os.fork() == 0:
            while time.monotonic() < end:
                os.setsid()
                time.sleep(0.0005)
                if os.fork():
                    os._exit(0)
            os._exit(0)
        os.close(lock)
    """)


def is_locked(path: Path) -> bool:
    """Whether one of a chain is alive."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_lost(result: ToolResult) -> bool:
    """The worker died, and nobody knows what the tool had done by then."""
    return (result.error_kind, result.side_effects) == (ErrorKind.WORKER_LOST, SideEffects.UNKNOWN)


def is_timeout(result: ToolResult) -> bool:
    """The tool was running at its deadline."""
    return (result.error_kind, result.side_effects) == (ErrorKind.TIMEOUT, SideEffects.UNKNOWN)


def is_unavailable(result: ToolResult) -> bool:
    """The tool cannot run, and has not."""
    return (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)


def is_protocol_error(result: ToolResult) -> bool:
    """The worker said something that is no answer."""
    return (result.error_kind, result.side_effects) == (ErrorKind.PROTOCOL, SideEffects.UNKNOWN)


async def until(condition: Callable[[], object], what: str = "it") -> None:
    """Wait for something that nobody tells of."""
    try:
        async with asyncio.timeout(LIMIT):
            while not condition():  # noqa: ASYNC110  see above
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"{what} did not happen within {LIMIT:g} s") from None


async def reported(started: Callable[[Callable[[Progress], None]], Awaitable[ToolResult]]) -> asyncio.Task[ToolResult]:
    """A call that has reported progress, so that its tool is running."""
    running = asyncio.Event()
    task = asyncio.ensure_future(started(lambda _: running.set()))
    async with asyncio.timeout(LIMIT):
        await running.wait()
    return task


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended: nobody may be there to reap it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def is_gone(pid: int) -> bool:
    """Whether a process of ours has ended and was reaped."""
    return not Path(f"/proc/{pid}").exists()


def tagged(tag: str) -> set[int]:
    """The processes of a test, by the variable that they inherit."""
    wanted, found = f"{TAG}={tag}".encode(), set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
    return found


def children() -> set[int]:
    """The processes that this one started, and has not reaped."""
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found |= {int(pid) for pid in (thread / "children").read_text().split()}
    return found
