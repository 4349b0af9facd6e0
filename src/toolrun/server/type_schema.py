"""Python's types as JSON Schema: the answers and requests of the API are TypedDicts, which mypy checks as well."""

from __future__ import annotations

from typing import Any, Final

from toolrun.json import Schema

_INSIDE: Final = "#/$defs/{model}"


def schema_of_answer(type: Any, references: str = _INSIDE) -> Schema:
    """What an answer looks like. The types that it refers to are in `$defs`, under names that `references` leads to."""
    from pydantic import TypeAdapter  # the first request that needs it pays for it

    return TypeAdapter(type).json_schema(mode="serialization", ref_template=references)


def schema_of_body(type: Any, references: str = _INSIDE) -> Schema:
    """What a request may be: a name that it does not know may be a misspelt one, and is refused."""
    return {**schema_of_answer(type, references), "additionalProperties": False}
