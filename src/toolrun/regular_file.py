"""Reads files that others write: regular ones only, up to a limit, and without ever waiting for a writer.

A path can lead to anything. Opening a named pipe waits until somebody writes to it, opening a device may act on it, and
a sparse file of 8 GiB takes no space until it is read. So the kind is checked before the file is opened, and again on
what was opened, which may be another file by then. Symbolic links are followed.

Reading from a slow disk still takes time: on an event loop, call it in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

MAX_PYTHON_BYTES: Final = 10_000_000
"""No Python file with tools is larger, nor its lock file."""
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class UnsuitableFileError(OSError):
    """The path leads to something that is not a regular file, or to one that is too large. The message says which."""


def read_regular_file(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises OSError."""
    _check(path, os.stat(path), limit)  # noqa: PTH116  this module is imported where pathlib is not
    # Without O_NONBLOCK, the open would wait if the file was replaced by a named pipe since.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123  it is open already
        _check(path, os.fstat(descriptor), limit)
        data = bytearray()
        while len(data) <= limit and (chunk := file.read(min(1 << 20, limit + 1 - len(data)))):
            data += chunk
    if len(data) > limit:  # it grew
        raise _too_large(path, limit)
    return bytes(data)


def _check(path: str | os.PathLike[str], status: os.stat_result, limit: int) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "something else")
        raise UnsuitableFileError(errno.EINVAL, f"it is {what}, not a regular file", os.fspath(path))
    if status.st_size > limit:
        raise _too_large(path, limit)


def _too_large(path: str | os.PathLike[str], limit: int) -> UnsuitableFileError:
    return UnsuitableFileError(errno.EFBIG, f"it is larger than {limit:,} bytes", os.fspath(path))
