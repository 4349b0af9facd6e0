"""What a tool takes, in lines that a model can read. Pure.

Shown to a model that got the arguments wrong; models that are offered the tool get the schema itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolrun.json import JSON, Schema
from toolrun.schema.explain import MAX_OPTIONS, MAX_SHOWN, properties_of
from toolrun.schema.value import local_reference
from toolrun.text import cut, printable, show

_MAX_LEVELS = 8
_MAX_LABELS = 200


def describe(root: Schema) -> str:
    """What the tool takes, one line per parameter, for a model that got it wrong."""
    parameters: dict[str, JSON] = {}
    required: set[str] = set()
    _collect(root, root, parameters, required, 0)
    lines = [_line(name, schema, name in required, root) for name, schema in parameters.items()]
    return "\n".join(lines) or "(no parameters)"


def _collect(schema: Schema, root: Schema, parameters: dict[str, JSON], required: set[str] | None, depth: int) -> None:
    """Gathers the properties of the schema and of all that it is made of; those of alternatives are optional."""
    if depth > _MAX_LEVELS:
        return
    for name, parameter in properties_of(schema).items():
        parameters.setdefault(name, parameter)
    needed = schema.get("required")
    if required is not None and isinstance(needed, list):
        required.update(name for name in needed if isinstance(name, str))
    target = local_reference(root, schema.get("$ref"))
    if target:
        _collect(target[1], root, parameters, required, depth + 1)
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                _collect(part, root, parameters, required if keyword == "allOf" else None, depth + 1)


def _line(name: str, schema: JSON, is_required: bool, root: Schema) -> str:
    rules = schema if isinstance(schema, dict) else {}
    notes = [cut(_Labels(root).of(schema, 0), MAX_SHOWN)]
    if is_required:
        notes.append("required")
    if "default" in rules:
        notes.append(f"default {show(rules['default'])}")
    text = rules.get("description")
    about = cut(" ".join(text.split()), MAX_SHOWN) if isinstance(text, str) else ""
    return printable(f"  {name} ({', '.join(notes)}){': ' if about else ''}{about}")


@dataclass(slots=True)
class _Labels:
    """Types in a few words: `integer`, `"fast" | "slow"`, `array of string`, `object {x: integer, y?: string}`."""

    root: Schema
    left: int = _MAX_LABELS
    """Recursive schemas grow without end: what comes after is left out."""

    def of(self, schema: JSON, depth: int) -> str:
        self.left -= 1
        if not isinstance(schema, dict):
            return "any"
        if self.left < 0 or depth > _MAX_LEVELS:
            return "…"
        target = local_reference(self.root, schema.get("$ref"))
        if target:
            return self.of(target[1], depth + 1)
        if "const" in schema:
            return show(schema["const"])
        options = schema.get("enum")
        if isinstance(options, list):
            return " | ".join(show(option) for option in options[:MAX_OPTIONS])
        for keyword in ("anyOf", "oneOf", "allOf"):
            parts = schema.get(keyword)
            if isinstance(parts, list) and "type" not in schema:
                kept = parts[:1] if keyword == "allOf" else parts
                return " | ".join(dict.fromkeys(self.of(part, depth + 1) for part in kept))
        types = schema.get("type", "object" if "properties" in schema else "any")
        names = types if isinstance(types, list) else [types]
        return " | ".join(self._of_type(str(name), schema, depth) for name in names)

    def _of_type(self, name: str, schema: Schema, depth: int) -> str:
        if name == "array" and isinstance(schema.get("items"), dict):
            inner = self.of(schema["items"], depth + 1)
            return f"array of ({inner})" if " | " in inner else f"array of {inner}"
        properties = properties_of(schema)
        if name != "object" or not properties:
            return name
        needed = schema.get("required")
        required = needed if isinstance(needed, list) else []
        inner = ", ".join(
            f"{key}{'' if key in required else '?'}: {self.of(part, depth + 1)}" for key, part in properties.items()
        )
        return f"object {{{inner}}}"
