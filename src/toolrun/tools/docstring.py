"""Reads a docstring: what the tool does, and what each parameter means. Google, NumPy and Sphinx styles. Pure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Final

_SECTIONS: Final = (
    "args|arguments|parameters|params|other parameters|keyword args|keyword arguments|returns?|yields?|raises|"
    "examples?|notes?|warnings?|attributes|see also|references|todo"
)
_PARAMETERS: Final = frozenset({"args", "arguments", "parameters", "params", "keyword args", "keyword arguments"})
_GOOGLE: Final = re.compile(rf"^({_SECTIONS}):[ \t]*$", re.IGNORECASE | re.MULTILINE)
_NUMPY: Final = re.compile(rf"^({_SECTIONS})[ \t]*\n-{{3,}}[ \t]*$", re.IGNORECASE | re.MULTILINE)
_SPHINX: Final = re.compile(r"^:(\w+)(?:\s+[^:\n]*?)??(?:\s+\*{0,2}(\w+))?:[ \t]*(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_GOOGLE_ITEM: Final = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ITEM: Final = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")


def read_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The description without its sections, and the description of each parameter."""
    if not docstring:
        return "", {}
    if "\n" not in docstring:
        return docstring.strip(), {}
    text = inspect.cleandoc(docstring)
    for header, item in ((_NUMPY, _NUMPY_ITEM), (_GOOGLE, _GOOGLE_ITEM)):
        found = list(header.finditer(text))
        if found:
            ends = [match.start() for match in found[1:]] + [len(text)]
            parameters: dict[str, str] = {}
            for match, end in zip(found, ends, strict=True):
                if match[1].lower() in _PARAMETERS:
                    parameters.update(_items(text[match.end() : end].split("\n"), item))
            return text[: found[0].start()].strip(), parameters
    fields = list(_SPHINX.finditer(text))
    if fields:
        named = {match[2]: _joined(match[3].split("\n")) for match in fields if match[1] == "param" and match[2]}
        return text[: fields[0].start()].strip(), named
    return text.strip(), {}


def _items(lines: list[str], item: re.Pattern[str]) -> dict[str, str]:
    """The items of a section: a name at the section's own indentation, its text on that line and deeper ones."""
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    if not indents:
        return {}
    own = indents[0]
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < own:
            break
        match = item.match(line.strip()) if indent == own else None
        if match:
            current = found.setdefault(match[1], [match[2]] if match.re.groups > 1 else [])
        elif current is not None:
            current.append(line)
    return {name: _joined(text) for name, text in found.items()}


def _joined(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
