"""What a process has in its variables, its command line and its memory. Who is not root sees that of its own alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

_PIECE = 1 << 22
_REGION = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+)")


def words_in(pid: int, words: Sequence[bytes], *, in_memory: bool) -> set[bytes]:
    """Those of the words that a process has there. Nothing for one that has ended."""
    found: set[bytes] = set()
    with contextlib.suppress(OSError):
        for part in ("cmdline", "environ"):
            content = Path(f"/proc/{pid}/{part}").read_bytes()
            found |= {word for word in words if word in content}
        for piece in _pieces(pid, max(map(len, words))) if in_memory else ():
            found |= {word for word in words if word in piece}
    return found


def _pieces(pid: int, overlap: int) -> Iterator[bytes]:
    """The memory that can be written and is in use, in pieces that overlap."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, end in _regions(pid):
            at = start
            while at < end:
                size = min(_PIECE, end - at)
                with contextlib.suppress(OSError, OverflowError):  # some regions are no memory
                    memory.seek(at)
                    yield memory.read(size)
                at += size if at + size == end else size - overlap


def _regions(pid: int) -> Iterator[tuple[int, int]]:
    region = None
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if match := _REGION.match(line):
            region = (int(match[1], 16), int(match[2], 16)) if match[3].startswith("rw") else None
        elif line.startswith("Rss:") and region is not None and int(line.split()[1]) > 0:
            yield region
