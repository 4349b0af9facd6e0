"""What a child of the host that is forked without exec lets go of: it has a copy of every descriptor.

While the child has a pipe of a worker or of the watchdog, the process at the other end does not notice that the host
has gone, and would read what the child writes as the host's words. So each owner of pipes closes its copies in the
child.

In the middle of a start nobody owns the pipes yet, and `subprocess` waits until the last copy of one of them is closed:
the host would wait for the end of its child. So a fork waits for the end of a start.
"""

from __future__ import annotations

import os
import threading
from typing import Final, Protocol
from weakref import WeakSet


class PipeOwner(Protocol):
    """Has descriptors that belong to this process alone."""

    def leave_to_parent(self) -> None:
        """Called in a child, which goes on without them: close the copies, and never touch the originals."""
        ...


no_fork: Final = threading.RLock()
"""Held while a descriptor is open that no owner has yet. Nothing may be logged meanwhile: a fork holds the lock of
`logging` when it waits for this one."""
_owners: WeakSet[PipeOwner] = WeakSet()
_registered: list[bool] = []


def leave_at_fork(owner: PipeOwner) -> None:
    """Have `owner.leave_to_parent` called in each child that this process forks."""
    _owners.add(owner)
    if not _registered:
        os.register_at_fork(before=no_fork.acquire, after_in_parent=no_fork.release, after_in_child=_leave)
        _registered.append(True)


def _leave() -> None:
    for owner in list(_owners):
        owner.leave_to_parent()
    no_fork.release()
