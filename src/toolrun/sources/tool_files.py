"""The files of a project that may hold tools, and what their text tells without running them."""

from __future__ import annotations

import re
from pathlib import Path

from toolrun.regular_file import MAX_PYTHON_BYTES, read_regular_file
from toolrun.scripts.pep723 import has_header

FUNCTION = re.compile(r"""(?:^(?:async[ \t]+)?def[ \t]+|\bname[ \t]*=[ \t]*["'])([\w.-]{1,128})""", re.MULTILINE)
"""The name of a function, or one that is given to it."""
WORD = re.compile(r"[\w.-]{1,128}")


def is_script(path: Path) -> bool:
    """Whether a file has a PEP 723 header, valid or not."""
    try:
        return has_header(read_regular_file(path, MAX_PYTHON_BYTES).decode("utf-8", "replace"))
    except OSError:
        return False  # importing it reports the reason


def find_files(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    """What matches the patterns, each once, in a stable order, but no directory and nothing that starts with _ or ."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if not path.is_dir() and not path.name.startswith(("_", ".")):
                found[path] = None
    return list(found)


def may_be_of(name: str, path: Path) -> bool:
    """Whether a tool has the name of a Python file, or one that begins with it, as the tools of scripts have."""
    return path.suffix == ".py" and isinstance(name, str) and (name == path.stem or name.startswith(f"{path.stem}."))


def names_in(path: Path, pattern: re.Pattern[str] = FUNCTION) -> frozenset[str]:
    """The names that the tools of a file may have that cannot be read: its own, and what the pattern finds."""
    try:
        text = read_regular_file(path, MAX_PYTHON_BYTES).decode("utf-8", "replace")
    except OSError:
        text = ""
    return frozenset({path.stem, *pattern.findall(text)})
