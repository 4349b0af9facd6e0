"""An argument of a tool that is the idempotency key of the call: toolrun fills it, and models do not see it.

Some servers have such a parameter, and tell the model to make up a new value for each call. A model that repeats a call
makes up another one, and the call is made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from toolrun.errors import DefinitionError
from toolrun.json import JSON
from toolrun.text import section
from toolrun.tools.protocol import Tool, schema_of


class KeyArgument(NamedTuple):
    name: str
    is_uuid: bool
    """Whether the schema wants the form with dashes."""

    def fill(self, arguments: Mapping[str, JSON], key: str) -> dict[str, JSON]:
        """The arguments with the key, whatever they had in its place."""
        dashed = "-".join((key[:8], key[8:12], key[12:16], key[16:20], key[20:]))
        return {**arguments, self.name: dashed if self.is_uuid else key}

    def leave_out(
        self, rename: Callable[[dict[str, JSON]], tuple[dict[str, JSON], dict[str, str]]] | None, given: dict[str, JSON]
    ) -> tuple[dict[str, JSON], dict[str, str]]:
        """The arguments under the names that `rename` gives them, without what a model has sent in place of the key."""
        given, renamed = rename(given) if rename is not None else (given, {})
        kept = {name: value for name, value in given.items() if name != self.name}
        return kept, {old: new for old, new in renamed.items() if new != self.name}


def hide_key_argument(tool: Tool, name: str) -> None:
    """Have the tool's parameter of that name filled and left out of its schema. Raises DefinitionError."""
    changed: Any = tool
    before = getattr(tool, "key_argument", None)
    if isinstance(before, KeyArgument) and before.name == name:
        return
    schema = schema_of(tool)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or name not in properties:
        known = ", ".join(properties) if isinstance(properties, Mapping) and properties else "none"
        raise DefinitionError(
            f"{section('tool', tool.name)} key_argument: the tool has no parameter '{name}'. Its parameters: {known}"
        )
    parameter = properties[name]
    is_uuid = isinstance(parameter, Mapping) and parameter.get("format") == "uuid"
    try:
        changed.schema, changed.key_argument = without_parameter(schema, name), KeyArgument(name, is_uuid)
    except (AttributeError, ValueError) as error:
        raise DefinitionError(
            f"{section('tool', tool.name)} key_argument: the parameters of a {type(tool).__name__} cannot be hidden"
        ) from error


def without_parameter(schema: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    """The schema of an object without one of its properties."""
    shown = dict(schema)
    properties, required, dependent = (schema.get(it) for it in ("properties", "required", "dependentRequired"))
    if isinstance(properties, Mapping):
        shown["properties"] = {key: value for key, value in properties.items() if key != name}
    if isinstance(required, list):
        shown["required"] = [it for it in required if it != name]
    if isinstance(dependent, Mapping):
        shown["dependentRequired"] = {
            key: [it for it in needed if it != name] if isinstance(needed, list) else needed
            for key, needed in dependent.items()
            if key != name
        }
    return shown
