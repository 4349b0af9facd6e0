"""A reply in a type that the program wants: what the model is told of it, and how its answer is read. Pure.

The answer is read as arguments of a tool are: JSON, repaired where only one thing can be meant, then checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from toolrun.clients.thought import without_thoughts
from toolrun.errors import DefinitionError, UsageError
from toolrun.json import JSON, Schema, dumps
from toolrun.schema.arguments import ArgumentSchema
from toolrun.schema.explain import explain

_FENCE: Final = re.compile(r"\A\s*```[\w-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)


class InvalidReplyError(ValueError):
    """The answer does not have the type. The text says why, for the model."""


class ReplyType:
    """A model of pydantic, or a JSON Schema of an object."""

    def __init__(self, wanted: Any) -> None:
        """Raises UsageError."""
        make = getattr(wanted, "model_json_schema", None)
        self._model: Any = wanted if isinstance(wanted, type) and make is not None else None
        if self._model is None and not isinstance(wanted, Mapping):
            raise UsageError(f"reply_type must be a pydantic model or a JSON Schema, not {_named(wanted)}.")
        self.name = _named(wanted) if self._model is not None else "the schema"
        schema = cast(Schema, dict(wanted) if make is None or self._model is None else make())
        try:
            self._schema = ArgumentSchema(schema)
        except DefinitionError as error:
            raise UsageError(f"reply_type cannot be used: {error}") from error
        self.text = dumps(schema).decode()
        """The schema, for the model."""

    def read(self, text: str) -> Any:
        """The value that an answer stands for: a model of pydantic, or the JSON data. Raises InvalidReplyError."""
        said = without_thoughts(text).strip()
        fence = _FENCE.match(said)
        checked = self._schema.check(fence[1] if fence else said or "(nothing)")
        if checked.problems:
            raise InvalidReplyError(explain(checked.problems).removeprefix("Invalid parameters: "))
        value: dict[str, JSON] = checked.arguments
        if self._model is None:
            return value
        try:
            return self._model.model_validate(value)
        except ValueError as error:
            raise InvalidReplyError(_words(error)) from error


def _words(error: ValueError) -> str:
    """What pydantic says, without links and inputs."""
    found = getattr(error, "errors", None)
    if not callable(found):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, it['loc'])) or 'it'}: {it['msg']}" for it in found(include_url=False)[:5])


def _named(wanted: Any) -> str:
    return str(getattr(wanted, "__name__", None) or type(wanted).__name__)
