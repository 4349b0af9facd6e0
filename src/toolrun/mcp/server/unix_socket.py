"""A UNIX socket for `toolrun serve --unix`. Its mode takes the place of a token: only its user can connect."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolrun.errors import ConfigError


@contextmanager
def listen_unix(path: Path) -> Iterator[socket.socket]:
    """Removes the socket at the end. Raises ConfigError if something else is there, or another server listens."""
    _remove_stale(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            listening.bind(str(path))
            made = path.lstat()
            path.chmod(0o600)  # before it listens: nobody can have connected
            listening.listen()
        except OSError as error:
            raise ConfigError(f"--unix {path}: cannot listen there: {error.strerror or error}") from None
        try:
            yield listening
        finally:
            with suppress(OSError):
                if os.path.samestat(path.lstat(), made):
                    path.unlink()


def _remove_stale(path: Path) -> None:
    """Remove the socket of a server that has ended without doing so."""
    try:
        status = path.lstat()
    except OSError:
        return  # there is none, or the reason is said when the socket is made
    if not stat.S_ISSOCK(status.st_mode):
        raise ConfigError(f"--unix {path}: there is something other than a socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"--unix {path}: another server may listen there: {error.strerror or error}") from None
        else:
            raise ConfigError(f"--unix {path}: another server listens there; choose another path")
