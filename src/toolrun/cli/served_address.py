"""Where a server of this project runs: a file beside its token, written by `serve`, read by `console`.

It says nothing secret. A server that was killed leaves it behind, so whoever reads it asks there whether it is true.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from toolrun.regular_file import read_regular_file

_FOLDER: Final = ".toolrun"
_NAME: Final = "server.json"
_MAX_BYTES: Final = 4096


@contextmanager
def announced_at(root: Path | None, page: str) -> Iterator[None]:
    """As long as the server runs, others of this project find its page. Without a project nobody looks for it."""
    if root is None:
        yield
        return
    file = _file(root)
    ours = json.dumps({"page": page, "pid": os.getpid()})
    with suppress(OSError):  # it is a convenience: the server runs without it, and has said where
        file.parent.mkdir(exist_ok=True)
        draft = file.with_name(f"{_NAME}.{os.getpid()}")
        draft.write_text(ours, encoding="utf-8")
        draft.replace(file)
    try:
        yield
    finally:
        with suppress(OSError):
            if _read(file) == ours:  # another one may have started since
                file.unlink()


def find_page(root: Path) -> str | None:
    """The address of the page, if a server has left one here."""
    text = _read(_file(root))
    try:
        page = json.loads(text or "")["page"]
    except (ValueError, TypeError, KeyError):
        return None
    return page if isinstance(page, str) and page.startswith("http://") else None


def _file(root: Path) -> Path:
    return root / _FOLDER / _NAME


def _read(file: Path) -> str | None:
    try:
        return read_regular_file(file, _MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
