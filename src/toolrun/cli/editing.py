"""Edits files of the user or of another program: shown and confirmed first, atomic, with a backup."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from toolrun.cli.output import terminal_safe
from toolrun.config.parse import MAX_BYTES, read_text
from toolrun.errors import ConfigError
from toolrun.regular_file import read_regular_file

yes_option: Final = click.option("-y", "--yes", is_flag=True, help="Write without asking.")


def text_of(path: Path) -> str | None:
    """The text of a file to edit; None if it does not exist."""
    if not path.exists():
        return None
    try:
        return read_text(path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def confirm(question: str) -> bool:
    """Ask on stderr, read the answer from stdin. No answer means no."""
    if sys.stdin is None or sys.stderr is None:
        return False
    sys.stderr.write(f"{terminal_safe(question)} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    return answer.strip().lower() in ("y", "yes")


def replace_file(path: Path, before: str | None, after: str) -> Path | None:
    """Write the text atomically, and return the path of the backup, if there was a file.

    `before` is the text that the edit is based on. Raises ConfigError if the file has changed since.
    """
    target = path.resolve()  # the target of a link
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if text_of(target) != before:
            raise ConfigError(f"{path} was changed by another program in the meantime; try again")
        backup = None
        if before is not None:
            backup = _free(target)
            shutil.copy2(target, backup)
        _write(target, after)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return backup


def _write(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    made = Path(name)
    try:
        has_mark = target.exists() and read_regular_file(target, MAX_BYTES).startswith(b"\xef\xbb\xbf")
        with os.fdopen(handle, "w", encoding="utf-8-sig" if has_mark else "utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, made)
        else:
            made.chmod(0o666 & ~_umask())
        made.replace(target)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def _free(target: Path) -> Path:
    """`mcp.json.bak`, or with the next free number: an older backup may be the better one."""
    candidate, number = target.with_name(f"{target.name}.bak"), 1
    while candidate.exists():
        number += 1
        candidate = target.with_name(f"{target.name}.bak{number}")
    return candidate


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
