"""PEP 723: the inline metadata of a script. Pure."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

# The pattern of the specification's reference implementation, https://peps.python.org/pep-0723/#reference-implementation
_BLOCK: Final = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_OPENING: Final = re.compile(r"(?m)^\ufeff?# /// script[ \t]*\r?$")  # with the byte order mark of some editors


def has_header(source: str) -> bool:
    """Whether a file means to be a script, even if its metadata turns out to be malformed."""
    return _OPENING.search(source) is not None


def read_metadata(source: str) -> dict[str, Any] | None:
    """The metadata of a script; None if it has none, or none that can be read."""
    text = source.removeprefix("\ufeff").replace("\r\n", "\n")
    blocks = [match for match in _BLOCK.finditer(text) if match["type"] == "script"]
    if len(blocks) != 1:
        return None
    lines = blocks[0]["content"].splitlines(keepends=True)
    content = "".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError:
        return None
