"""Processes on this machine.

Each leads its own process group and has pipes for protocol and log. Its death is read from the process (a pidfd), not
from the end of its output, which a grandchild may hold open. Descendants that left the group (`setsid`) are found by
the tag, an environment variable that they inherit. If this process is killed, a watchdog process kills all workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import IO, Final
from weakref import WeakSet

from toolrun.logger import get_logger
from toolrun.processes.adopted import Adopted
from toolrun.processes.engine import Exit, Listener, ProcessSpec, WorkerInfo
from toolrun.processes.fork_guard import ForkGuard
from toolrun.processes.framing import InvalidLine, LineFramer
from toolrun.processes.status_file import StatusFile
from toolrun.processes.tag import LABEL, TAG, new_engine_id
from toolrun.processes.watchdog import kill_tagged

logger = get_logger("toolrun.worker")

_SWEEP: Final = 0.5
"""Seconds of computing that the search for descendants of a dead worker may take."""
_REAP: Final = 0.5
"""Seconds between two looks for adopted processes that have ended."""
_LAST_REAP: Final = 0.2
"""Seconds that processes which were killed at the end may take to die."""
_WATCHDOG: Final = Path(__file__).with_name("watchdog.py")
_CHUNK: Final = 1 << 18
_LOG_CHUNK: Final = 1 << 16
"""Smaller, because it can be many lines, and the event loop waits meanwhile."""
_PIPE: Final = 1 << 20
_MAX_LOG_LINE: Final = 8192
_TAIL_LINES: Final = 20
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", None)


_engines: WeakSet[LocalEngine] = WeakSet()
_registered: list[bool] = []
_kept: list[object] = []
"""Processes of a parent: to collect them would wait for them."""


def _leave_to_parent() -> None:
    for engine in list(_engines):
        engine.leave_to_parent()


class LocalEngine:
    """Starts processes, and ensures that none survives."""

    def __init__(self) -> None:
        self._id = new_engine_id()
        self._count = 0
        self._workers: set[LocalWorker] = set()
        self._status = StatusFile()
        self._fork_guard = ForkGuard(TAG)
        self._adopted = Adopted()
        self._reap_timer: asyncio.TimerHandle | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        _engines.add(self)
        if not _registered:
            os.register_at_fork(after_in_child=_leave_to_parent)
            _registered.append(True)

    def leave_to_parent(self) -> None:
        """In a child that was forked: let go of the pipes, so that their other ends notice when the parent ends.

        Nothing is unregistered: the child shares the parent's selector.
        """
        pipes = [self._watchdog.stdin] if self._watchdog is not None else []
        for worker in self._workers:
            pipes += worker.leave_to_parent()
        for pipe in pipes:
            if pipe is not None:
                with contextlib.suppress(OSError, ValueError):
                    pipe.close()
        _kept.append((self._workers, self._watchdog))
        self._workers, self._watchdog = set(), None

    def start(self, spec: ProcessSpec, listener: Listener) -> LocalWorker:
        self._count += 1
        tag = f"{self._id}:{self._count}"

        def forget(worker: LocalWorker) -> None:
            self._workers.discard(worker)
            self._status.remove(tag)
            self._fork_guard.remove(tag)
            self._reap()  # what it left behind was killed just now

        worker = LocalWorker(spec, listener, tag, forget)
        self._adopted.mark(worker.pid)
        self._workers.add(worker)
        self._status.add(tag, listener)
        self._fork_guard.add(tag, worker.kill)
        if self._reap_timer is None:
            self._reap_later()
        asyncio.get_running_loop().call_soon(self._watch)  # while the worker starts, so that it delays nothing
        return worker

    def _watch(self) -> None:
        """Start the watchdog before the worker can start anything, which a script may do while it is imported."""
        if self._watchdog is None and self._workers:
            try:
                self._watchdog = _start_watchdog(self._id)
            except OSError as error:  # no descriptors, no memory: the next start tries again
                logger.warning("cannot start the watchdog of the workers: %s", error)

    def _reap_later(self) -> None:
        self._reap_timer = asyncio.get_running_loop().call_later(_REAP, self._reap)

    def _reap(self) -> None:
        """While there are workers, and for as long as something is left."""
        if self._reap_timer is not None:
            self._reap_timer.cancel()
            self._reap_timer = None
        if self._adopted.reap([worker.pid for worker in self._workers]) or self._workers:
            self._reap_later()

    async def close(self) -> None:
        for worker in list(self._workers):
            worker.kill()
        for worker in list(self._workers):
            await worker.wait()
        end = monotonic() + _LAST_REAP
        while self._adopted.reap(()) and monotonic() < end:  # noqa: ASYNC110  nobody tells of their deaths
            await asyncio.sleep(0.01)
        if self._reap_timer is not None:
            self._reap_timer.cancel()
            self._reap_timer = None
        if self._watchdog is not None:
            watchdog, self._watchdog = self._watchdog, None
            watchdog.kill()
            watchdog.wait()
            assert watchdog.stdin is not None
            watchdog.stdin.close()


class LocalWorker:
    """One process. Belongs to the event loop that started it."""

    def __init__(
        self,
        spec: ProcessSpec,
        listener: Listener,
        tag: str,
        on_gone: Callable[[LocalWorker], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._tag = tag
        self._why = ""
        self._on_gone = on_gone
        self._outgoing: deque[memoryview] = deque()
        self._coalesced: list[bytes] = []
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._log_lines = LineFramer(_MAX_LOG_LINE, head=_MAX_LOG_LINE)
        self._gone = asyncio.Event()
        self._process = subprocess.Popen(
            [spec.program, *spec.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=spec.directory,
            env={**spec.variables, TAG: tag, LABEL: spec.label or spec.name},
            start_new_session=True,
        )
        self.pid = self._process.pid
        if spec.memory is not None and sys.platform == "linux":
            import resource

            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self.pid, resource.RLIMIT_AS, (spec.memory, spec.memory))
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (stream.fileno() for stream in streams if stream is not None)
        try:
            self._connect()
        except OSError:  # no descriptor left to watch it with
            self.kill()
            self._process.wait()
            self._release()
            raise
        if spec.input:
            self.send(spec.input)

    def _connect(self) -> None:
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
            if _SET_PIPE_SIZE is not None:
                with contextlib.suppress(OSError):  # the user's share of pipe memory is used up
                    fcntl.fcntl(descriptor, _SET_PIPE_SIZE, _PIPE)
        self._loop.add_reader(self._out, self._read)
        self._loop.add_reader(self._err, self._read_log)
        self._watch()

    def leave_to_parent(self) -> list[IO[bytes] | None]:
        """In a child that was forked: the pipes, which nothing is written to any more."""
        self._gone.set()
        return [self._process.stdin, self._process.stdout, self._process.stderr]

    def send(self, data: bytes, *, coalesce: bool = False) -> None:
        if self._gone.is_set():
            return
        if coalesce or self._coalesced:
            if not self._coalesced:
                self._loop.call_soon(self._send_coalesced)
            self._coalesced.append(data)
            return
        written = 0 if self._outgoing else self._write(data)
        if written < len(data):
            self._queue(memoryview(data)[written:])

    def _send_coalesced(self) -> None:
        data, self._coalesced = b"".join(self._coalesced), []
        self.send(data)

    def _queue(self, view: memoryview) -> None:
        if not self._outgoing:
            self._loop.add_writer(self._in, self._flush)
        self._outgoing.append(view)

    def kill(self, why: str = "") -> None:
        if not self._gone.is_set():
            self._why = self._why or why
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def close(self, grace: float) -> None:
        if not self._gone.is_set():
            self._close_input()
            try:
                await asyncio.wait_for(self._gone.wait(), grace / 2)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), grace / 2)
        self.kill()
        await self.wait()

    async def wait(self) -> None:
        await self._gone.wait()

    def describe(self) -> WorkerInfo:
        memory: int | None = None
        with contextlib.suppress(OSError, IndexError, ValueError):
            memory = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return WorkerInfo(f"pid {self.pid}", memory)

    def _write(self, view: bytes | memoryview) -> int:
        try:
            return os.write(self._in, view)
        except BlockingIOError:
            return 0
        except OSError:  # it has closed its stdin, or died, which is reported elsewhere
            return len(view)

    def _flush(self) -> None:
        while self._outgoing:
            view = self._outgoing[0]
            written = self._write(view)
            if written < len(view):
                self._outgoing[0] = view[written:]
                return
            self._outgoing.popleft()
        self._loop.remove_writer(self._in)

    def _read(self) -> bool:
        """Pass on the output so far. False if there is none."""
        try:
            data = os.read(self._out, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._out)
            return False
        self._listener.received(data)
        return True

    def _read_log(self) -> bool:
        try:
            data = os.read(self._err, _LOG_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._err)
            return False
        for line in self._log_lines.feed(data):
            self._log(line.head if isinstance(line, InvalidLine) else line)
        return True

    def _log(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._tail.append(text)
        self._listener.logged(text)

    def _watch(self) -> None:
        """Call `_died` when the process has ended."""
        if hasattr(os, "pidfd_open"):
            descriptor = os.pidfd_open(self.pid)

            def on_end() -> None:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
                self._died()

            self._loop.add_reader(descriptor, on_end)
            return

        def wait() -> None:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            with contextlib.suppress(RuntimeError):  # the loop was closed first
                self._loop.call_soon_threadsafe(self._died)

        threading.Thread(target=wait, name="toolrun-wait", daemon=True).start()

    def _died(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # its children; the group's id is ours until it is reaped
        code = self._process.wait()
        for _ in range(64):  # its last output; bounded, because a survivor may go on writing
            if not self._read():
                break
        for _ in range(64):
            if not self._read_log():
                break
        for last in (*self._log_lines.feed(b"\n"), self._why.encode()):
            if isinstance(last, bytes) and last:
                self._log(last)
        self._release()
        try:
            if not kill_tagged(f"{TAG}={self._tag}\0".encode(), _SWEEP):
                logger.warning("worker %d may have left processes running: not all could be inspected", self.pid)
        except OSError as error:  # no descriptor left to read /proc with: they are left to the watchdog
            logger.warning("cannot look for processes that worker %d left running: %s", self.pid, error)
        self._gone.set()
        self._on_gone(self)
        self._listener.ended(Exit(code, "\n".join(self._tail)))

    def _close_input(self) -> None:
        self._coalesced.clear()
        self._outgoing.clear()
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._loop.remove_writer(self._in)
            self._process.stdin.close()
            self._in = -1  # the descriptor may soon be another file

    def _release(self) -> None:
        self._close_input()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                self._loop.remove_reader(stream.fileno())
                stream.close()


def _start_watchdog(engine: str) -> subprocess.Popen[bytes]:
    """A process that outlives this one by a moment and kills all workers then."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", _WATCHDOG, f"{TAG}={engine}:"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
