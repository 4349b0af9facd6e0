"""PEP 723: the inline metadata of a script. Pure.

The block is what the pattern of the specification finds (https://peps.python.org/pep-0723/#reference-implementation).
Lines end at a line feed only: the reference's `splitlines()` also splits at U+2028, which may stand in a TOML string.
A contract test feeds the same headers to uv; both read the same of them, apart from:

- a byte order mark before the block, and `# /// script` quoted in an earlier line: read here, overlooked by uv;
- a block with no line in it, and a block that follows another kind of block without a blank line: read by uv, but not
  by the specification's pattern, which has the last word;
- TOML 1.1 (an inline table over several lines, `\\e`): read by uv, by tomllib not before Python 3.15;
- the grammar of a requirement, of `requires-python` and of `[tool.uv]`: left to uv, which explains what is wrong.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

_TYPE: Final = re.compile(r"# /// [a-zA-Z0-9-]+")
_OPENING: Final = re.compile(r"(?m)^\ufeff?# /// script[ \t]*\r?$")  # with the byte order mark of some editors


def has_header(source: str) -> bool:
    """Whether a file means to be a script, even if its metadata turns out to be malformed."""
    return _OPENING.search(source) is not None


def read_metadata(source: str) -> dict[str, Any] | None:
    """The metadata of a script; None if it has none, or none that can be read."""
    try:
        return _parse(read_block(source))
    except ValueError:
        return None


def find_fault(source: str) -> str | None:
    """Why the metadata of a script cannot be read; None if it can be."""
    try:
        _parse(read_block(source))
    except ValueError as error:
        return str(error)
    return None


def read_block(source: str) -> str:
    """The TOML of a script's block, not yet parsed. ValueError, with the reason, if there is not exactly one block."""
    text = source.removeprefix("\ufeff").replace("\r\n", "\n")
    blocks = [block for block in _blocks(text.split("\n")) if block[0] == "# /// script"]
    if len(blocks) > 1:
        raise ValueError("it has several '# /// script' blocks; keep one")
    if not blocks:
        raise ValueError(
            "it has no complete '# /// script' block: it ends with a line '# ///', every line in between starts with "
            "'# ' or is just '#', there is at least one, and no line has spaces behind '# /// script' or '# ///'"
        )
    block = "".join(f"{line[2:]}\n" for line in blocks[0][1:-1])
    block.encode()  # a ValueError for half of a surrogate pair, which no TOML file can contain
    return block


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Blocks of every type, with their first and last line.

    What the specification's pattern finds, in linear time: the pattern needs 9 s for 8,000 lines of `# /// a`. A run of
    comment lines has one block at most, since it extends to the last line that can close it.
    """
    for is_comment, run in groupby(lines, lambda line: line == "#" or line.startswith("# ")):
        if is_comment:
            comment = list(run)
            first = next((index for index, line in enumerate(comment) if _TYPE.fullmatch(line)), len(comment))
            last = max((index for index, line in enumerate(comment) if line == "# ///"), default=0)
            if last >= first + 2:
                yield comment[first : last + 1]


def _parse(block: str) -> dict[str, Any]:
    """ValueError, with the reason, if it is no TOML or the specification's own keys are of another type."""
    try:
        metadata = tomllib.loads(block)
    except RecursionError:
        raise ValueError("its block is nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, and what int() says of a number with thousands of digits
        raise ValueError(f"its block is not valid TOML: {error}") from None
    dependencies = metadata.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(item, str) for item in dependencies):
        raise ValueError('dependencies must be a list of strings, such as ["requests<3"]')
    if not isinstance(metadata.get("requires-python", ""), str):
        raise ValueError('requires-python must be a string, such as ">=3.11"')
    if not isinstance(metadata.get("tool", {}), dict):
        raise ValueError("tool must be a table, such as [tool.toolrun]")
    return metadata
