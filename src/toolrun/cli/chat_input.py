"""What somebody types at the prompt of `chat`: lines that go on, and files that go with a question."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toolrun.errors import UsageError
from toolrun.regular_file import read_regular_file

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from toolrun.clients.model_client import ModelClient

MAX_FILE: Final = 200_000
"""Bytes of one text file."""
MAX_FILES: Final = 500_000
"""Bytes of all text files of a question."""
MAX_IMAGE: Final = 3_750_000
"""Bytes of one picture: in base64, as many as every provider takes."""
MAX_IMAGES: Final = 10_000_000
"""Bytes of all pictures of a question."""
_IMAGES: Final = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
"""How the content of a picture begins. Its name may say something else, and a provider would refuse it for that."""
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


class Image(NamedTuple):
    """A picture that goes with a question."""

    name: str
    mime_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """What is asked: the question with the text files behind it, and the pictures."""

    text: str
    images: tuple[Image, ...] = ()


def with_files(question: str, directory: Path) -> TypedQuestion:
    """The question with the files that it names as `@file`. Raises UsageError for one that does not fit.

    `@@` is an @ that names no file.
    """
    found: dict[str, str | Image] = {}
    text_size = image_size = 0
    for match in _FILE.finditer(question):
        name = match[1] or match[2]
        if name.startswith("@") or name in found:
            continue
        found[name] = file = _read(name, directory)
        if isinstance(file, Image):
            image_size += len(file.content)
        else:
            text_size += len(file.encode())
        if text_size > MAX_FILES:
            raise UsageError(f"the attached files have more than {MAX_FILES:,} bytes in total; attach fewer")
        if image_size > MAX_IMAGES:
            raise UsageError(f"the attached pictures have more than {MAX_IMAGES:,} bytes in total; attach fewer")
    asked = _ESCAPED.sub("@", question)
    texts = [f'<file name="{name}">\n{file}\n</file>' for name, file in found.items() if isinstance(file, str)]
    images = tuple(file for file in found.values() if isinstance(file, Image))
    return TypedQuestion("\n\n".join([asked, *texts]), images)


async def question_message(question: TypedQuestion, client: ModelClient) -> str | BaseMessage:
    """The question for a model. Raises UsageError if it is known to take no pictures."""
    if not question.images:
        return question.text
    if (await client.capabilities()).refuses_images:
        names = ", ".join(f"@{image.name}" for image in question.images)
        raise UsageError(
            f"{client.name} does not accept pictures: leave out {names}, or switch to another model with /model"
        )
    from langchain_core.messages import HumanMessage

    blocks: list[str | dict[str, Any]] = [{"type": "text", "text": question.text}]
    for image in question.images:
        if len(question.images) > 1:
            blocks.append({"type": "text", "text": f"{image.name}:"})
        data = base64.b64encode(image.content).decode()
        blocks.append({"type": "image", "base64": data, "mime_type": image.mime_type})
    return HumanMessage(content=blocks)


def _read(name: str, directory: Path) -> str | Image:
    path = directory / Path(name).expanduser()
    try:
        content = read_regular_file(path, MAX_IMAGE)
        for kind, beginning in _IMAGES.items():
            if beginning.match(content):
                return Image(name, kind, content)
        content = read_regular_file(path, MAX_FILE)  # which says that a text is too large
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"@{name} cannot be read: {why}; write @@{name} if it is not a file") from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(
            f"@{name} is neither a text file in UTF-8 nor a picture (PNG, JPEG, GIF, WebP); chat attaches nothing else"
        )
    return text.rstrip("\n")
