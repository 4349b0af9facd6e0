"""One process on this machine: its pipes on the event loop, its log, its end, and the end of all that it started.

A confined process has a first process, which is the one that is known here: it waits for the real one, its child, and
ends when nothing is left. So its children are killed, and not itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from toolrun.logger import get_logger
from toolrun.processes.engine import Exit, Listener, ProcessSpec, WorkerInfo
from toolrun.processes.framing import LineFramer
from toolrun.processes.process_table import supervised_pid
from toolrun.processes.sandbox.sandbox_resources import SandboxResources
from toolrun.processes.tag import LABEL, TAG
from toolrun.processes.watchdog import kill_tagged

logger = get_logger("toolrun.worker")

_SWEEP: Final = 0.5
"""Seconds of computing that the search for descendants of a dead worker may take."""
_OVERDUE: Final = 1.0
"""Seconds after which a confined process is killed with its group, if the end of its children did not end it."""
_PATIENCE: Final = 9
"""How often it gets so many seconds more, if only it can find what is left of its children."""
_CHUNK: Final = 1 << 18
_LOG_CHUNK: Final = 1 << 16
"""Smaller, because it can be many lines, and the event loop waits meanwhile."""
_PIPE: Final = 1 << 20
_MAX_LOG_LINE: Final = 8192
_TAIL_LINES: Final = 20
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", None)


class LocalWorker:
    """One process. Belongs to the event loop that started it."""

    def __init__(
        self,
        spec: ProcessSpec,
        listener: Listener,
        tag: str,
        on_gone: Callable[[LocalWorker], None],
        resources: SandboxResources | None = None,
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
        self._ended: set[int] = set()
        """Its pipes that have ended."""
        self._pidfd: int | None = None
        self._inner = 0
        self._sandbox = "" if spec.confinement is None else spec.confinement.rung
        self._has_namespace = spec.confinement is not None and spec.confinement.has_namespace
        self._resources = resources
        self._process = _start_process(spec, tag, resources)
        self.pid = self._process.pid
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (stream.fileno() for stream in streams if stream is not None)
        try:
            self._connect()
            data = spec.input if resources is None else resources.plan() + spec.input
        except OSError:  # no descriptor left to watch it with, or to look at the paths of its plan with
            self.kill()
            self._process.wait()
            self._release()
            raise
        if data:
            self.send(data)

    def _connect(self) -> None:
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
            if _SET_PIPE_SIZE is not None:
                with contextlib.suppress(OSError):  # the user's share of pipe memory is used up
                    fcntl.fcntl(descriptor, _SET_PIPE_SIZE, _PIPE)
        self._loop.add_reader(self._out, self._read)
        self._loop.add_reader(self._err, self._read_log)
        self._watch()

    def leave_to_parent(self) -> None:
        """In a child that was forked."""
        self._gone.set()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        if self._resources is not None:
            self._resources.leave_to_parent()

    def send(self, data: bytes, *, coalesce: bool = False) -> bool:
        if self._gone.is_set():
            return False
        if coalesce or self._coalesced:
            if not self._coalesced:
                self._loop.call_soon(self._send_coalesced)
            self._coalesced.append(data)
            return True
        written = 0
        if not self._outgoing:
            try:
                written = os.write(self._in, data)
            except BlockingIOError:
                pass
            except OSError:
                return False  # it has closed its stdin, or died, which is reported elsewhere
        if written < len(data):
            self._queue(memoryview(data)[written:])
        return True

    def _send_coalesced(self) -> None:
        data, self._coalesced = b"".join(self._coalesced), []
        self.send(data)

    def _queue(self, view: memoryview) -> None:
        if not self._outgoing:
            self._loop.add_writer(self._in, self._flush)
        self._outgoing.append(view)

    def pause_reading(self, is_paused: bool) -> None:
        """Leave its output in its pipes for a while: it waits when they are full."""
        if self._gone.is_set():
            return
        for descriptor, read in ((self._out, self._read), (self._err, self._read_log)):
            if is_paused:
                self._loop.remove_reader(descriptor)
            elif descriptor not in self._ended:
                self._loop.add_reader(descriptor, read)

    def kill(self, why: str = "") -> None:
        if not self._gone.is_set():
            self._why = self._why or why
            if self._resources is not None and self._kill_children():
                # Its first process ends when nothing is left. Killed itself, it would end before the rest.
                self._loop.call_later(_OVERDUE, self._hurry, _PATIENCE)
            else:
                self._kill_group()

    def _hurry(self, patience: int) -> None:
        """Kill the first process, but give it time if orphans are left to it: many to kill, or it was stopped."""
        if self._has_namespace or not patience:
            self._kill_group()
        elif not self._gone.is_set():
            os.kill(self.pid, signal.SIGCONT)  # it is not reaped, so the number is its own
            self._kill_children()
            self._loop.call_later(_OVERDUE, self._hurry, patience - 1)

    def _kill_children(self) -> bool:
        """Kill what the first process has started, and so, in a namespace, everything. Whether there was anything.

        Of its children only the first two, PID 1 of the namespace and the worker: others are orphans that it adopted.
        """
        children = _children(self.pid)[:2]
        for child in children:
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(child)
                try:
                    if child in _children(self.pid):  # and not another process that has its number by now
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                finally:
                    os.close(handle)
        return bool(children)

    def _kill_group(self) -> None:
        if not self._gone.is_set():
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
        pid = self.inner_pid
        with contextlib.suppress(OSError, IndexError, ValueError):
            memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return WorkerInfo(f"pid {pid}", memory, self._sandbox)

    @property
    def inner_pid(self) -> int:
        """The real process, or the first one as long as that has not started it."""
        if self._resources is not None and not self._inner:
            self._inner = supervised_pid(self.pid) or 0
        return self._inner or self.pid

    def _flush(self) -> None:
        try:
            while self._outgoing:
                view = self._outgoing[0]
                written = os.write(self._in, view)
                if written < len(view):
                    self._outgoing[0] = view[written:]
                    return
                self._outgoing.popleft()
        except BlockingIOError:
            return
        except OSError:  # as above
            self._outgoing.clear()
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
            self._ended.add(self._out)
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
            self._ended.add(self._err)
            return False
        for line in self._log_lines.feed(data):
            self._log(line if isinstance(line, bytes) else line.head)
        return True

    def _log(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self._tail.append(text)
        self._listener.logged(text)

    def _watch(self) -> None:
        """Call `_died` when the process has ended."""
        if hasattr(os, "pidfd_open"):
            descriptor = self._pidfd = os.pidfd_open(self.pid)

            def on_end() -> None:
                self._loop.remove_reader(descriptor)
                self._pidfd = None
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
        if not self._has_namespace:
            self._kill_tagged()
        self._gone.set()
        self._on_gone(self)
        self._listener.ended(Exit(code, "\n".join(self._tail)))

    def _kill_tagged(self) -> None:
        """What left the group, and was not left to the first process."""
        try:
            if not kill_tagged(f"{TAG}={self._tag}\0".encode(), _SWEEP):
                logger.warning("worker %d may have left processes running: not all could be inspected", self.pid)
        except OSError as error:  # no descriptor left to read /proc with: they are left to the watchdog
            logger.warning("cannot look for processes that worker %d left running: %s", self.pid, error)

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
        if self._resources is not None:
            self._resources.close()


def _start_process(spec: ProcessSpec, tag: str, resources: SandboxResources | None) -> subprocess.Popen[bytes]:
    variables = {**spec.variables, TAG: tag, LABEL: spec.label or spec.name}
    process = subprocess.Popen(
        [spec.program, *spec.arguments] if resources is None else resources.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=spec.directory,
        env=variables if resources is None else variables | resources.variables,
        pass_fds=() if resources is None else resources.descriptors,
        start_new_session=True,
    )
    if resources is not None:
        resources.started()
    return process


def _children(pid: int) -> list[int]:
    """The children of a process, the oldest first; none if the system does not tell."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:
        return []
