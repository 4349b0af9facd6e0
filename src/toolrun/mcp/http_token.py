"""The token of `toolrun serve --http`: made once for a project, and kept in a file that nobody but its user can read.

Without it, every user of a machine could call the tools of all others. The server makes it, the commands that talk to a
running server read it. It is never logged.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from toolrun.errors import ConfigError

VARIABLE: Final = "TOOLRUN_SERVE_TOKEN"
_FOLDER: Final = ".toolrun"
_MAX_BYTES: Final = 4096
_BYTES: Final = 32
"""Of chance, in a token."""


@dataclass(frozen=True, slots=True)
class ServerToken:
    """A token, and where it is kept."""

    value: str = field(repr=False)
    file: Path | None = None
    """None: in memory only."""
    reason: str = ""
    """Why it is not kept."""


def token_file(root: Path) -> Path:
    return root / _FOLDER / "token"


def keep_token(root: Path | None) -> ServerToken:
    """The token of a project, made if there is none. Raises ConfigError for a file that does not keep it secret.

    Without a project there is nowhere to keep it.
    """
    if root is None:
        return ServerToken(secrets.token_urlsafe(_BYTES), reason="there is no toolrun.toml, beside which it is kept")
    file = token_file(root)
    known = read_token(file)
    if known is not None:
        return ServerToken(known, file)
    value = secrets.token_urlsafe(_BYTES)
    try:
        _write(file, value)
    except FileExistsError:  # another server was faster
        known = read_token(file)
        return ServerToken(known, file) if known is not None else ServerToken(value, reason=f"{file} was deleted")
    except OSError as error:
        return ServerToken(value, reason=f"{file} cannot be written: {error.strerror or error}")
    return ServerToken(value, file)


def read_token(file: Path) -> str | None:
    """None if there is no such file. Raises ConfigError for one that others can read, or that has no token in it."""
    try:
        # Not through a link, and without waiting, whatever it is.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(file, f"it cannot be read ({error.strerror or error})") from None
    with open(descriptor, "rb", buffering=0) as opened:  # noqa: PTH123  it is open already
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(file, "it is not a regular file")
        if status.st_uid != os.geteuid():
            raise _unusable(file, f"it belongs to another user (uid {status.st_uid})")
        if status.st_mode & 0o077:
            raise _unusable(file, f"others can read or change it (mode {stat.S_IMODE(status.st_mode):o})")
        text = opened.read(_MAX_BYTES).decode("utf-8", "replace").strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise _unusable(file, "there is no token in it")
    return text


def _write(file: Path, value: str) -> None:
    """Make the file as a whole, with nobody else able to read it at any moment. Raises OSError."""
    folder = file.parent
    with suppress(FileExistsError):  # of several servers that start at once, one makes it
        folder.mkdir(mode=0o700)
        with suppress(OSError):
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    draft = folder / f".token-{secrets.token_hex(8)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb", buffering=0) as opened:  # noqa: PTH123  it is open already
            opened.write(value.encode())
            if os.fstat(descriptor).st_mode & 0o077:
                raise OSError("the file system does not know who may read a file")
        os.link(draft, file)  # fails if another process was faster, and otherwise has the whole token
    finally:
        draft.unlink()


def _unusable(file: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"{file} cannot be used as the token of 'toolrun serve --http': {reason}. Delete it, and a new one is made: "
        f"rm {file}; or give a token: {VARIABLE}=…"
    )
