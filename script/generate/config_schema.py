"""Writes src/toolrun/config/toolrun.schema.json: the sections of toolrun.toml as JSON Schema, for editors.

The types and defaults are those of config/section.py, the descriptions the comments of config/model.py.
"""

from __future__ import annotations

import ast
import inspect
import json
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from toolrun.config import model
from toolrun.config.section import SECTIONS, Section

FILE = Path(__file__).parents[2] / "src" / "toolrun" / "config" / "toolrun.schema.json"
ADDRESS = "https://toolrun.github.io/toolrun/toolrun.schema.json"
_SECRET = {
    "description": "The value, or the environment variable or the file that has it.",
    "anyOf": [
        {"type": "string"},
        *(
            {"type": "object", "properties": {it: {"type": "string"}}, "required": [it], "additionalProperties": False}
            for it in ("env", "file")
        ),
    ],
}
_REFERENCE = {"type": "string", "pattern": r"\$\{"}
"""An environment variable: `${NAME}` may stand where a word of a fixed set stands."""


def schema() -> dict[str, Any]:
    """The whole schema."""
    sections = {title: _section(section) for title, section in SECTIONS.items()}
    secrets = {"description": "Values that tools may be granted.", "type": "object", "additionalProperties": _SECRET}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ADDRESS,
        "title": "toolrun.toml",
        "type": "object",
        "properties": sections | {"secrets": secrets},
        "additionalProperties": False,
    }


def _section(section: Section) -> dict[str, Any]:
    about = _descriptions(section.shape) | _descriptions(model.Config)
    known = {item.name: item for item in (*fields(model.Config), *fields(section.shape))}
    keys = {}
    for name, value_type in section.keys.items():
        own: dict[str, Any] = dict(value_type.schema)
        own = {"anyOf": [own, _REFERENCE]} if "enum" in own else own
        keys[name] = ({"description": about[name]} if name in about else {}) | own | _default(known[name])
    table = {"type": "object", "properties": keys, "additionalProperties": False}
    if section.named:
        return {"description": inspect.getdoc(section.shape), "type": "object", "additionalProperties": table}
    return {"description": inspect.getdoc(section.shape), **table}


def _default(item: Field[Any]) -> dict[str, Any]:
    if item.default is MISSING or item.default is None or item.default == "":
        return {}
    return {"default": list(item.default) if isinstance(item.default, tuple) else item.default}


def _descriptions(shape: type) -> dict[str, str]:
    """The text below each field of a dataclass."""
    [found] = [
        it
        for it in ast.walk(ast.parse(Path(inspect.getfile(model)).read_text(encoding="utf-8")))
        if isinstance(it, ast.ClassDef) and it.name == shape.__name__
    ]
    texts = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(field.target, ast.Name):
            texts[field.target.id] = " ".join(str(ast.literal_eval(text.value)).split())
    return texts


def written() -> str:
    """The text of the file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
