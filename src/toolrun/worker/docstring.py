"""Reads a docstring: what the tool does, and what each parameter means. Google, NumPy and Sphinx styles. Pure.

Host and worker both use it, so that a function is described the same as `@tool` and as a script.
"""

from __future__ import annotations

import inspect
import re

_SECTIONS = (
    "args|arguments|parameters|params|other parameters|keyword args|keyword arguments|returns?|yields?|raises|"
    "examples?|notes?|warnings?|attributes|see also|references|todo"
)
_PARAMETERS = {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"}

# `re` compiles these when they are first used: a program whose tools have docstrings of one line does not pay for them.
_GOOGLE = rf"(?im)^({_SECTIONS}):[ \t]*$"
_NUMPY = rf"(?im)^({_SECTIONS})[ \t]*\n-{{3,}}[ \t]*$"
_SPHINX = r"(?m)^:(\w+)(?:\s+[^:\n]*?)??(?:\s+\*{0,2}(\w+))?:[ \t]*(.*(?:\n[ \t]+.*)*)"
_SPHINX_PARAMETERS = {"param", "parameter", "arg", "argument", "key", "keyword"}
_NAMES = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)"
_GOOGLE_ITEM = rf"^{_NAMES}\s*(?:\(.*?\))?\s*:\s*(.*)$"
_NUMPY_ITEM = rf"^{_NAMES}\s*(?::.*)?$"


def read_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The description without its sections, and the description of each parameter."""
    if not docstring:
        return "", {}
    if "\n" not in docstring:  # most docstrings; the host registers thousands of them
        return docstring.strip(), {}
    text = inspect.cleandoc(docstring)
    for header, item in ((_NUMPY, _NUMPY_ITEM), (_GOOGLE, _GOOGLE_ITEM)):
        found = list(re.finditer(header, text))
        if found:
            parameters: dict[str, str] = {}
            for place, match in enumerate(found):
                end = found[place + 1].start() if place + 1 < len(found) else len(text)
                if match[1].lower() in _PARAMETERS:
                    parameters.update(_items(text[match.end() : end].split("\n"), item))
            return text[: found[0].start()].strip(), parameters
    fields = list(re.finditer(_SPHINX, text))
    if fields:
        told = [match for match in fields if match[1] in _SPHINX_PARAMETERS and match[2]]
        named = {match[2]: _joined(match[3].split("\n")) for match in told}
        return text[: fields[0].start()].strip(), named
    return text.strip(), {}


def _items(lines: list[str], item: str) -> dict[str, str]:
    """The items of a section: names at the section's own indentation, their text on that line and deeper ones."""
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < indents[0]:
            break
        match = re.match(item, line.strip()) if line.strip() and indent == indents[0] else None
        if match:
            current = found.setdefault(match[1], [match[2]] if match.re.groups > 1 else [])
        elif current is not None:
            current.append(line)
    return {name.strip(" *"): _joined(text) for names, text in found.items() for name in names.split(",")}


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
