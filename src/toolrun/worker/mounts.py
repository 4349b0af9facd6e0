"""What a plan does with the file system: PID 1 of a new namespace mounts, while the worker imports modules.

Apart from `sandbox.py` because only that process needs it. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import os
import sys

from .sandbox import MOUNTED, call, open_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CLONE_NEWNS = 0x20000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same everywhere
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, 0o2000000
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 1 << 18
_READ_ONLY = 1


def mount(steps: list[list[Any]]) -> bytes:
    """What went wrong, or that all is mounted."""
    try:
        call("unshare", _CLONE_NEWNS)
        for name, *details in steps:
            _STEPS[name](*details)
    except Exception as error:  # noqa: BLE001  the worker raises it
        return str(error).encode("utf-8", "replace") or b"it cannot be mounted"
    return MOUNTED


def _own_mounts() -> None:
    """What is mounted from now on is seen by nobody else."""
    call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)


_kept: dict[str, int] = {}
"""Directories and files that are about to be covered, by their path."""


def _keep(path: str, is_exposed: bool) -> None:
    """Remember a directory or file, with its rights of now."""
    try:
        place = open_place(path, is_exposed)
    except FileNotFoundError:
        return  # it was there when the plan was made
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE | _AT_EMPTY_PATH
    _kept[path] = call("syscall", _OPEN_TREE, place, b"", flags)
    os.close(place)


def _make_read_only(path: str) -> None:
    """All that is mounted at and below a path."""
    _set_read_only(_AT_FDCWD, os.fsencode(path), _AT_RECURSIVE)


def _set_read_only(place: int, path: bytes, flags: int) -> None:
    attributes = _READ_ONLY.to_bytes(8, sys.byteorder) + bytes(24)
    call("syscall", _MOUNT_SETATTR, place, path, flags, attributes, len(attributes))


def _mount_proc(path: str) -> None:
    """The processes of the own namespace, and no others."""
    call("mount", b"proc", os.fsencode(path), b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)


def _mount_terminals(path: str, making: str) -> None:
    """Pseudo-terminals of the own namespace, and none that a person sits at. `making` is what makes new ones."""
    if os.path.isdir(path) and os.path.exists(making):
        options = b"newinstance,ptmxmode=0666,mode=0620"
        call("mount", b"devpts", os.fsencode(path), b"devpts", _MS_NOSUID | _MS_NOEXEC, options)
        if not os.path.islink(making):  # a link leads to the new one
            call("mount", os.fsencode(f"{path}/ptmx"), os.fsencode(making), None, _MS_BIND, None)


def _cover(path: str) -> None:
    """An empty directory in memory instead of what is there."""
    if os.path.isdir(path):
        call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=0755")


def _stand_in(path: str) -> None:
    """An empty directory that nobody writes to, in a covered place."""
    os.makedirs(path, exist_ok=True)
    call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", _READ_ONLY | _MS_NOSUID | _MS_NODEV, b"mode=0555")


def _mask(path: str) -> None:
    """An empty file instead of what is there."""
    if os.path.exists(path):
        call("mount", b"/dev/null", os.fsencode(path), None, _MS_BIND, None)


def _put_back(path: str, at: str, is_writable: bool) -> None:
    """Something that was kept, where it was or elsewhere."""
    tree = _kept.pop(path, -1)
    if tree < 0:
        return
    if not is_writable:
        _set_read_only(tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE)
    if not os.path.exists(at):
        os.makedirs(os.path.dirname(at), exist_ok=True)
        if os.path.isdir(f"/proc/self/fd/{tree}"):
            os.mkdir(at)
        else:
            os.close(os.open(at, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
    call("syscall", _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(at), _MOVE_MOUNT_F_EMPTY_PATH)
    os.close(tree)


def _link(target: str, path: str) -> None:
    """A symbolic link that was covered."""
    if not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)


_STEPS: dict[str, Any] = {
    "own mounts": _own_mounts,
    "keep": _keep,
    "read-only": _make_read_only,
    "proc": _mount_proc,
    "terminals": _mount_terminals,
    "cover": _cover,
    "stand in": _stand_in,
    "mask": _mask,
    "put back": _put_back,
    "link": _link,
}
