"""The modules that this program has imported out of a project: what a script writes there, the program would run next.

A function file imports what it shares with others, and a program that uses toolrun is often in the project itself. What
such a file is, only the import tells, so it is looked at when a worker starts. A directory stands for all that is in
it, bytecode included; of a file in the root of the project, the bytecode is beside those of all others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from toolrun.processes.sandbox.policy import is_below

_PACKAGES: Final = ("site-packages", "dist-packages")
_BYTECODE: Final = "__pycache__"


def imported_files(root: Path, apart: Iterable[Path]) -> tuple[Path, ...]:
    """The files and directories in `root` that hold modules of this program and are not in `apart`."""
    return _imported_files(str(root), tuple(map(str, apart)), len(sys.modules))


@lru_cache(maxsize=16)
def _imported_files(root: str, apart: tuple[str, ...], _: int) -> tuple[Path, ...]:
    """Looked for again when there is another number of modules."""
    found: dict[str, None] = {}
    installed = (sys.base_prefix, *({sys.prefix} - {root}))
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or file.startswith(installed):  # most of them
            continue
        file = os.path.realpath(file)
        if is_below(file, root):
            found.update(dict.fromkeys(_places(file, root)))
    wanted = [path for path in found if not any(is_below(path, it) for it in apart)]
    return tuple(Path(it) for it in wanted if not any(it != other and is_below(it, other) for other in wanted))


def _places(file: str, root: str) -> Iterator[str]:
    directory = os.path.dirname(file)  # noqa: PTH120  quick: there are a thousand modules
    if directory == root:
        yield from (file, f"{root}/{_BYTECODE}")
        return
    for name in _PACKAGES:
        before, found, _ = directory.partition(f"/{name}")
        if found:
            directory = before + found
    yield directory
