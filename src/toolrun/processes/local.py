"""Workers as processes of this machine.

Each is the leader of a process group of its own, with pipes for protocol and log. Death is taken from the process (a
pidfd), not from the end of its output, which a grandchild may hold open. What a worker started and moved out of its
group (`setsid`) is found by an environment variable that all of it inherits. A watchdog process does the same for all
workers if this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from toolrun.processes.engine import Exit, Listener, WorkerInfo, WorkerSpec
from toolrun.processes.fork_guard import Census
from toolrun.processes.status_file import Board
from toolrun.processes.watchdog import kill_marked

logger = logging.getLogger("toolrun.worker")

MARKER: Final = "TOOLRUN_WORKER"
_SWEEP: Final = 0.5
"""Seconds of computing after which what a worker left behind is not looked for any longer."""
_WATCHDOG: Final = Path(__file__).with_name("watchdog.py")
_CHUNK: Final = 1 << 18
_LOG_CHUNK: Final = 1 << 16
"""Less, because it can be many lines, and others wait meanwhile."""
_PIPE: Final = 1 << 20
_MAX_LOG_LINE: Final = 8192
_TAIL_LINES: Final = 20
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", None)


class LocalEngine:
    """Starts processes, and sees to it that none survives."""

    def __init__(self) -> None:
        self._id = secrets.token_hex(8)
        self._count = 0
        self._workers: set[LocalWorker] = set()
        self._board = Board()
        self._census = Census(MARKER)
        self._watchdog: subprocess.Popen[bytes] | None = None

    def start(self, spec: WorkerSpec, listener: Listener) -> LocalWorker:
        self._count += 1
        mark = f"{self._id}:{self._count}"

        def forget(worker: LocalWorker) -> None:
            self._workers.discard(worker)
            self._board.remove(mark)
            self._census.remove(mark)

        worker = LocalWorker(spec, listener, mark, forget)
        self._workers.add(worker)
        self._board.add(mark, listener)
        self._census.add(mark, worker.kill)
        asyncio.get_running_loop().call_soon(self._watch)  # while the worker starts, so that it costs no time
        return worker

    def _watch(self) -> None:
        """Have a watchdog before a script can have started anything, which it can do while it is being imported."""
        if self._watchdog is None and self._workers:
            try:
                self._watchdog = _start_watchdog(self._id)
            except OSError as error:  # no descriptors, no memory: the next start is another chance
                logger.warning("the watchdog of the workers cannot be started: %s", error)

    async def close(self) -> None:
        for worker in list(self._workers):
            worker.kill()
        for worker in list(self._workers):
            await worker.wait()
        if self._watchdog is not None:
            watchdog, self._watchdog = self._watchdog, None
            watchdog.kill()
            watchdog.wait()
            assert watchdog.stdin is not None
            watchdog.stdin.close()


class LocalWorker:
    """One process. Everything happens on the event loop that started it."""

    def __init__(
        self,
        spec: WorkerSpec,
        listener: Listener,
        mark: str,
        on_gone: Callable[[LocalWorker], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._mark = mark
        self._why = ""
        self._on_gone = on_gone
        self._outgoing: deque[memoryview] = deque()
        self._together: list[bytes] = []
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._log_rest = b""
        self._gone = asyncio.Event()
        self._process = subprocess.Popen(
            [spec.interpreter, *spec.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=spec.directory,
            env={**spec.variables, MARKER: mark},
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
        except OSError:  # there is no descriptor left to watch it with
            self.kill()
            self._process.wait()
            self._release()
            raise

    def _connect(self) -> None:
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
            if _SET_PIPE_SIZE is not None:
                with contextlib.suppress(OSError):  # the user's share of pipe memory is used up
                    fcntl.fcntl(descriptor, _SET_PIPE_SIZE, _PIPE)
        self._loop.add_reader(self._out, self._read)
        self._loop.add_reader(self._err, self._read_log)
        self._watch()

    def send(self, data: bytes, *, at_once: bool = True) -> None:
        if self._gone.is_set():
            return
        if not at_once or self._together:
            if not self._together:
                self._loop.call_soon(self._send_together)
            self._together.append(data)
            return
        written = 0 if self._outgoing else self._write(data)
        if written < len(data):
            self._queue(memoryview(data)[written:])

    def _send_together(self) -> None:
        data, self._together = b"".join(self._together), []
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
        except OSError:  # it has closed its input, or died: its end is reported elsewhere
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
        """Pass on what there is. False at the end of the output."""
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
        *lines, rest = (self._log_rest + data).split(b"\n")
        self._log_rest = rest[:_MAX_LOG_LINE]
        for line in lines:
            self._log(line)
        return True

    def _log(self, line: bytes) -> None:
        text = line[:_MAX_LOG_LINE].decode("utf-8", "replace").rstrip("\r")
        self._tail.append(text)
        self._listener.logged(text)

    def _watch(self) -> None:
        """Have `_died` called when the process has ended."""
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
        for _ in range(64):  # what it had written before it died; a survivor must not keep us here
            if not self._read():
                break
        for _ in range(64):
            if not self._read_log():
                break
        for last in (self._log_rest, self._why.encode()):
            if last:
                self._log(last)
        self._release()
        try:
            if not kill_marked(f"{MARKER}={self._mark}\0".encode(), _SWEEP):
                logger.warning("the worker %d may have left processes running: not all could be looked at", self.pid)
        except OSError as error:  # no descriptor to read /proc with; what it left is the watchdog's then
            logger.warning("what the worker %d left running could not be looked for: %s", self.pid, error)
        self._gone.set()
        self._on_gone(self)
        self._listener.ended(Exit(code, "\n".join(self._tail)))

    def _close_input(self) -> None:
        self._together.clear()
        self._outgoing.clear()
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._loop.remove_writer(self._in)
            self._process.stdin.close()
            self._in = -1  # the number may soon be that of another file

    def _release(self) -> None:
        self._close_input()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                self._loop.remove_reader(stream.fileno())
                stream.close()


def _start_watchdog(engine: str) -> subprocess.Popen[bytes]:
    """A process that outlives this one by a moment, and ends all workers then."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", _WATCHDOG, f"{MARKER}={engine}:"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
