"""Processes on this machine.

Each leads its own process group and has pipes for protocol and log. Its death is read from the process (a pidfd), not
from the end of its output, which a grandchild may hold open. Descendants that left the group (`setsid`) are found by
the tag, an environment variable that they inherit. If this process is killed, a watchdog process kills all workers.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Final

from toolrun.logger import get_logger
from toolrun.processes.engine import Confinement, Listener, ProcessSpec, Replaceable
from toolrun.processes.fork_guard import ForkGuard
from toolrun.processes.forked_child import leave_at_fork, no_fork
from toolrun.processes.local_worker import LocalWorker
from toolrun.processes.mount_guard import MountGuard
from toolrun.processes.sandbox.sandbox_resources import SandboxResources, remove_tree
from toolrun.processes.status_file import StatusFile
from toolrun.processes.tag import TAG, new_engine_id
from toolrun.processes.zombie_reaper import ZombieReaper

logger = get_logger("toolrun.worker")

_REAP: Final = 0.5
"""Seconds between two looks for adopted processes that have ended."""
_LAST_REAP: Final = 0.2
"""Seconds that processes which were killed at the end may take to die."""
_DIRECTORY_PREFIX: Final = "toolrun-"
_WATCHDOG: Final = Path(__file__).with_name("watchdog.py")


_kept: list[object] = []
"""Processes of a parent: to collect them would wait for them."""


class LocalEngine:
    """Starts processes, and ensures that none survives. While it has workers, it belongs to their event loop."""

    def __init__(self, *, linger: float = 0.0) -> None:
        """`linger`: seconds for which something of the host may still act elsewhere, if the host is killed."""
        self._linger = linger
        self._id = new_engine_id()
        self._count = 0
        self._workers: set[LocalWorker] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._status = StatusFile()
        self._fork_guard = ForkGuard(TAG)
        self._mount_guard = MountGuard()
        self._reaper = ZombieReaper()
        self._reap_timer: asyncio.TimerHandle | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._directory: Path | None = None
        leave_at_fork(self)

    def leave_to_parent(self) -> None:
        """In a child that was forked. Nothing is unregistered: the child shares the parent's selector."""
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        for worker in self._workers:
            worker.leave_to_parent()
        self._status.leave_to_parent()
        _kept.append((self._workers, self._watchdog))
        self._workers, self._watchdog = set(), None

    def start(self, spec: ProcessSpec, listener: Listener) -> LocalWorker:
        loop = asyncio.get_running_loop()
        assert not self._workers or self._loop is loop, "the workers of an engine belong to one event loop"
        self._loop = loop
        self._count += 1
        tag = f"{self._id}:{self._count}"

        def forget(worker: LocalWorker) -> None:
            self._workers.discard(worker)
            self._status.remove(tag)
            self._fork_guard.remove(tag)
            self._mount_guard.remove(tag)
            self._reap()  # what it left behind was killed just now

        resources = None if spec.confinement is None else self._enclose(spec.confinement, listener)
        try:
            with no_fork:
                worker = LocalWorker(spec, listener, tag, forget, resources)
                self._workers.add(worker)
        except OSError:
            if resources is not None:
                resources.close()
            raise
        self._reaper.mark(worker.pid)
        self._status.add(tag, listener)
        self._fork_guard.add(tag, worker.pid, worker.kill)
        if resources is not None and isinstance(listener, Replaceable):
            self._mount_guard.add(tag, resources.covered, listener.outdated)
        if self._reap_timer is None:
            self._reap_later()
        loop.call_soon(self._watch)  # while the worker starts, so that it delays nothing
        return worker

    def _enclose(self, confinement: Confinement, listener: Listener) -> SandboxResources:
        def on_refused(host: str) -> None:
            listener.logged(f"the sandbox stopped a connection to {host}")

        return SandboxResources(confinement, self._make_directory, on_refused, self._mount_guard)

    def _make_directory(self) -> Path:
        """For the temporary files of one worker, in a directory of this engine, which the watchdog removes, too."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix=f"{_DIRECTORY_PREFIX}{self._id}-"))
        return Path(tempfile.mkdtemp(dir=self._directory))

    def _watch(self) -> None:
        """Start the watchdog before the worker can start anything, which a script may do while it is imported."""
        if self._watchdog is None and self._workers:
            try:
                with no_fork:
                    self._watchdog = _start_watchdog(self._id, self._directory, self._linger)
            except OSError as error:  # no descriptors, no memory: the next start tries again
                logger.warning("cannot start the watchdog of the workers: %s", error)

    def _reap_later(self) -> None:
        self._reap_timer = asyncio.get_running_loop().call_later(_REAP, self._reap)

    def _reap(self) -> None:
        """While there are workers, and for as long as something is left."""
        if self._reap_timer is not None:
            self._reap_timer.cancel()
            self._reap_timer = None
        if self._reaper.reap([worker.pid for worker in self._workers]) or self._workers:
            self._reap_later()

    async def close(self) -> None:
        for worker in list(self._workers):
            worker.kill()
        for worker in list(self._workers):
            await worker.wait()
        end = monotonic() + _LAST_REAP
        while self._reaper.reap(()) and monotonic() < end:  # noqa: ASYNC110  nobody tells of their deaths
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
        if self._directory is not None:
            directory, self._directory = self._directory, None
            await asyncio.to_thread(remove_tree, directory)


def _start_watchdog(engine: str, directory: Path | None, linger: float) -> subprocess.Popen[bytes]:
    """A process that outlives this one by a moment, kills all workers then, and removes their temporary files."""
    return subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", _WATCHDOG, str(os.getpid()), f"{TAG}={engine}:", str(directory or "")),
            *([str(linger)] if linger else []),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
