"""What somebody types at the prompt of `chat`: lines that go on, and files that go with a question. Knows no model."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from toolrun.errors import UsageError
from toolrun.regular_file import read_regular_file

MAX_FILE: Final = 200_000
"""Bytes of one file."""
MAX_FILES: Final = 500_000
"""Bytes of all files of a question."""
_FILE: Final = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]+))')
_ESCAPED: Final = re.compile(r"(?<!\S)@@")
_GOES_ON: Final = "\\"

ReadLine = Callable[[str], str | None]
"""Shows a prompt, and returns a line; None at the end of the input."""


def read_question(read_line: ReadLine, prompt: str, further: str) -> str | None:
    """One question: a line, and the lines after it as long as each ends with a backslash."""
    line = read_line(prompt)
    lines = []
    while line is not None and line.endswith(_GOES_ON):
        lines.append(line.removesuffix(_GOES_ON))
        line = read_line(further)
    if line is None and not lines:
        return None
    return "\n".join([*lines, line or ""])


def with_files(question: str, directory: Path) -> str:
    """The question with the content of the files that it names as `@file`. Raises UsageError for one that does not fit.

    `@@` is an @ that names no file.
    """
    found: dict[str, str] = {}
    size = 0
    for match in _FILE.finditer(question):
        name = match[1] or match[2]
        if name.startswith("@") or name in found:
            continue
        found[name] = text = _read(name, directory)
        size += len(text.encode())
        if size > MAX_FILES:
            raise UsageError(f"the files of the question have more than {MAX_FILES:,} bytes together; name fewer")
    asked = _ESCAPED.sub("@", question)
    return "\n\n".join([asked, *(f'<file name="{name}">\n{text}\n</file>' for name, text in found.items())])


def _read(name: str, directory: Path) -> str:
    path = directory / Path(name).expanduser()
    try:
        content = read_regular_file(path, MAX_FILE)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"@{name} cannot be read: {why}; write @@{name} if it is not a file") from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(f"@{name} is not a text file in UTF-8; chat can attach text only")
    return text.rstrip("\n")
