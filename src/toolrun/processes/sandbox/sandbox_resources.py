"""What a confined process needs on this side of its walls: a temporary directory, a proxy if it may reach some hosts.

One for each process. Belongs to the event loop of its engine.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolrun.processes.engine import Confinement
from toolrun.processes.mount_guard import Covered, MountGuard

if TYPE_CHECKING:
    from toolrun.processes.sandbox.network_proxy import NetworkProxy

VARIABLE: Final = "TOOLRUN_PROXY"
"""The descriptor over which the process sends the socket that its proxy listens on."""


class SandboxResources:
    """What one confined process holds here while it runs."""

    def __init__(
        self, confinement: Confinement, place: Callable[[], Path], on_refused: Callable[[str], None], guard: MountGuard
    ) -> None:
        """`place` makes an empty directory. `on_refused` gets a host that the process tried to reach."""
        self._temporary = place() if confinement.has_temporary else None
        self.command = confinement.command(self._temporary)
        self._plan = confinement.plan
        self._find_covered = confinement.covered
        self._guard = guard
        self.covered: Covered = frozenset()
        self.variables: dict[str, str] = {}
        self.descriptors: tuple[int, ...] = ()
        self._proxy: NetworkProxy | None = None
        self._ours: socket.socket | None = None
        self._theirs: socket.socket | None = None
        if confinement.hosts:
            from toolrun.processes.sandbox.network_proxy import NetworkProxy

            self._proxy = NetworkProxy(confinement.hosts, on_refused)
            self._ours, self._theirs = socket.socketpair()
            self._ours.setblocking(False)
            self.descriptors = (self._theirs.fileno(),)
            self.variables = {VARIABLE: str(self._theirs.fileno())}

    def plan(self) -> bytes:
        """What the process waits for before anything else."""
        self.covered = self._guard.hold(self._find_covered())  # before the process can mount anything
        return self._plan(self._temporary)

    def started(self) -> None:
        """The process has its copies of the descriptors."""
        if self._theirs is not None and self._ours is not None:
            self._theirs.close()
            asyncio.get_running_loop().add_reader(self._ours.fileno(), self._receive)

    def leave_to_parent(self) -> None:
        """In a child that was forked."""
        for end in (self._ours, self._theirs):
            if end is not None:
                end.close()

    def close(self) -> None:
        """The process has ended, or was not started. What is in the temporary directory may take a while to remove."""
        self._close_pair()
        self._guard.release(self.covered)
        self.covered = frozenset()
        if self._proxy is not None:
            self._proxy.abort()
        if self._temporary is not None:
            try:
                self._temporary.rmdir()
            except OSError:
                asyncio.get_running_loop().run_in_executor(None, remove_tree, self._temporary)

    def _receive(self) -> None:
        """The socket that the process has opened in its own network; the process sends nothing else, ever."""
        assert self._ours is not None
        try:
            _, descriptors, _, _ = socket.recv_fds(self._ours, 1, 1)
        except OSError:
            descriptors = []
        self._close_pair()
        if descriptors and self._proxy is not None:
            self._proxy.serve(socket.socket(fileno=descriptors[0]))

    def _close_pair(self) -> None:
        if self._ours is not None:
            asyncio.get_running_loop().remove_reader(self._ours.fileno())
            self._ours.close()
        if self._theirs is not None:
            self._theirs.close()
        self._ours = self._theirs = None


def remove_tree(path: Path) -> None:
    """Remove a directory that a tool has filled, whatever rights it gave to its parts."""

    def retry(function: Callable[[str], object], name: str, _: object) -> None:
        try:
            Path(name).parent.chmod(0o700)
            if not os.path.islink(name):  # noqa: PTH114  a name, not a path
                Path(name).chmod(0o700)
            function(name)
        except OSError:
            return

    shutil.rmtree(path, onerror=retry)
    shutil.rmtree(path, ignore_errors=True)
