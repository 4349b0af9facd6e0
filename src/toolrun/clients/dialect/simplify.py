"""Rewrites a schema with the keywords that a provider supports, and puts the rest into descriptions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from toolrun.clients.dialect.dialect import KeywordSupport, SchemaSupport
from toolrun.clients.dialect.phrasing import append_phrases, keyword_phrases, type_expression, variants_phrase
from toolrun.clients.dialect.schema_parser import Note, parse_schema, upgrade_draft
from toolrun.clients.dialect.simple_schema import SimpleSchema, intersection, union
from toolrun.json import JSON, Schema
from toolrun.schema.value import join

_COMBINED: Final = ("$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not")
_SCALARS: Final = ("string", "number", "boolean")
_NULLS: Final[Mapping[str, JSON]] = {"type": "null", "enum": None, "anyOf": {"type": "null"}}
"""What makes each keyword accept null as well."""
_INTO: Final = "description"


def simplify(schema: Mapping[str, JSON], support: SchemaSupport, note: Note) -> tuple[Schema, list[str]]:
    """The schema for the provider, and phrases that belong into the description of the tool."""
    return _SchemaWriter(support, note).write_root(parse_schema(schema, note))


def flatten(schema: Mapping[str, JSON], support: KeywordSupport, note: Note) -> tuple[Schema, list[str]]:
    """For a provider that supports JSON Schema but needs a plain object at the root: any other root is simplified."""
    if schema.get("type") == "object" and not any(keyword in schema for keyword in _COMBINED):
        return upgrade_draft(dict(schema), needs_items=support.needs_items), []
    return simplify(schema, SchemaSupport(support, support), note)


@dataclass(slots=True)
class _Draft:
    """A schema while it is being written."""

    source: SimpleSchema
    path: str
    support: KeywordSupport
    out: Schema = field(default_factory=dict)
    phrases: list[str] = field(default_factory=list)
    """They go into the description."""


class _SchemaWriter:
    def __init__(self, support: SchemaSupport, note: Note) -> None:
        self._schema_support = support
        self._note = note

    def write_root(self, source: SimpleSchema) -> tuple[Schema, list[str]]:
        """The schema of all arguments, which is always an object."""
        unlisted = {
            name: source.additional_properties or SimpleSchema()
            for name in source.required
            if name not in source.properties
        }
        source = replace(source, properties={**source.properties, **unlisted})
        out: Schema = {"type": "object", "properties": self._properties(source, "", self._schema_support.parameter)}
        if source.required:
            out["required"] = list(source.required)
        any_of = [type_expression(each) for each in source.any_of]
        phrases = [variants_phrase(each) for each in source.variants]
        phrases += [f"one of: {' or '.join(any_of)}"] if any_of else []
        phrases += _additional_properties_phrase(source) + keyword_phrases(source.keywords)
        for phrase in phrases:
            self._note("", phrase, f"{_INTO} of the tool")
        return out, phrases

    def _properties(self, source: SimpleSchema, path: str, support: KeywordSupport) -> dict[str, JSON]:
        return {
            name: self._write(part, join(path, name), support, name in source.required)
            for name, part in source.properties.items()
        }

    def _write(self, source: SimpleSchema, path: str, support: KeywordSupport, is_required: bool = True) -> Schema:
        draft = _Draft(source, path, support)
        if support.needs_single_type:
            self._ensure_single_type(draft)
            if draft.source.any_of:
                return self._write_only_any_of(draft)
        self._write_types(draft)
        if draft.source.any_of:
            self._write_any_of(draft)
        elif "array" in draft.source.types:
            self._write_items(draft, draft.source)
        if "object" in draft.source.types:
            self._write_object(draft)
        self._write_null(draft, is_required)
        self._write_keywords(draft)
        text = self._description(draft)
        if text:
            draft.out["description"] = text
        return draft.out

    def _description(self, draft: _Draft) -> str:
        for phrase in draft.phrases:
            self._note(draft.path, phrase, _INTO)
        return append_phrases(draft.source.description, draft.phrases)

    def _ensure_single_type(self, draft: _Draft) -> None:
        """Give the schema one type, or alternatives that have one type each."""
        source = draft.source
        if source.types == ("null",):
            draft.source = replace(source, types=("string",), nullable=True)
        elif source.any_of:
            own = SimpleSchema(types=source.types)
            alternatives = tuple(intersection(alternative, own) for alternative in source.any_of)
            draft.source = replace(source, types=(), any_of=alternatives)
        elif source.enum is not None and _are_strings(source.enum):
            draft.source = replace(source, types=("string",))
        elif source.types == ("object",) and not source.properties:
            # Gemini refuses objects without properties. The executor parses JSON text where the tool takes an object.
            draft.phrases.append(f"JSON text of {type_expression(replace(source, description=''))}")
            draft.source = SimpleSchema(types=("string",), nullable=source.nullable, description=source.description)
        elif len(source.types) != 1:
            draft.phrases += [] if source.types else ["any JSON value"]
            parts = tuple(_restrict_to_type(source, name) for name in source.types or _SCALARS)
            draft.source = replace(source, types=(), any_of=parts)

    def _write_only_any_of(self, draft: _Draft) -> Schema:
        """`anyOf` with no other keyword beside it; the first alternative has the description."""
        source = draft.source
        draft.phrases += keyword_phrases(source.keywords, source.description)
        if source.enum is not None:
            draft.phrases.append(_enum_phrase(source.enum))
        parts: list[Schema] = []
        for alternative in source.any_of:
            nullable = replace(alternative, nullable=source.nullable or alternative.nullable)
            part = self._write(nullable, draft.path, draft.support)
            within = part.get("anyOf")
            parts += [each for each in within if isinstance(each, dict)] if isinstance(within, list) else [part]
        text = self._description(draft)
        if text:
            own = parts[0].get("description")
            parts[0]["description"] = append_phrases(text, [own] if isinstance(own, str) else [])
        return {"anyOf": list(parts)}

    def _write_types(self, draft: _Draft) -> None:
        source, support = draft.source, draft.support
        types: list[JSON] = list(source.types if support.includes("anyOf") else source.all_types)
        if types:
            draft.out["type"] = types[0] if len(types) == 1 else types
        if source.enum is not None and support.needs_single_type and not _are_strings(source.enum):
            draft.phrases.append(_enum_phrase(source.enum))
        elif source.enum is not None:
            draft.out["enum"] = list(source.enum)

    def _write_any_of(self, draft: _Draft) -> None:
        any_of = draft.source.any_of
        if draft.support.includes("anyOf"):
            draft.out["anyOf"] = [self._write(part, draft.path, draft.support) for part in any_of]
            return
        draft.phrases.append(type_expression(SimpleSchema(any_of=any_of)))
        arrays = [part for part in any_of if "array" in part.all_types]
        if len(arrays) == 1 and arrays[0].items and not arrays[0].prefix_items:
            self._write_items(draft, arrays[0])

    def _write_items(self, draft: _Draft, source: SimpleSchema) -> None:
        path, support = f"{draft.path}[]", self._schema_support.nested
        items = source.items
        if source.prefix_items and draft.support.includes("prefixItems"):
            draft.out["prefixItems"] = [self._write(part, path, support) for part in source.prefix_items]
        elif source.prefix_items:
            draft.phrases.append(type_expression(_restrict_to_type(source, "array")))
            items = union([*source.prefix_items, *([source.items] if source.items else [])])
        if items is None and draft.support.needs_items:
            items = SimpleSchema()
        if items is not None:
            draft.out["items"] = self._write(items, path, support)

    def _write_object(self, draft: _Draft) -> None:
        source, support = draft.source, draft.support
        if not support.includes("properties"):
            if source.properties or source.required or source.additional_properties:
                draft.phrases.append(type_expression(replace(source, description="", keywords={}, nullable=False)))
            return
        if source.properties:
            draft.out["properties"] = self._properties(source, draft.path, self._schema_support.nested)
        required: list[JSON] = [
            name for name in source.required if not support.needs_single_type or name in source.properties
        ]
        if required:
            draft.out["required"] = required
        if source.additional_properties and support.includes("additionalProperties"):
            draft.out["additionalProperties"] = self._write(
                source.additional_properties, join(draft.path, "*"), self._schema_support.nested
            )
        else:
            draft.phrases += _additional_properties_phrase(source)
        draft.phrases += [variants_phrase(each) for each in source.variants]

    def _write_null(self, draft: _Draft, is_required: bool) -> None:
        out = draft.out
        if not draft.source.nullable:
            return
        if draft.support.needs_single_type:
            out["nullable"] = True
        elif draft.support.keywords is not None and is_required:
            draft.phrases.append("may be null")
        elif draft.support.keywords is not None:
            self._note(draft.path, "null", "left out: the parameter is optional")
        else:
            out.update({key: [*_listed(out[key]), null] for key, null in _NULLS.items() if key in out})

    def _write_keywords(self, draft: _Draft) -> None:
        support, lost = draft.support, dict[str, JSON]()
        for keyword, value in draft.source.keywords.items():
            formats = None if support.formats is None else support.formats.get(str(draft.out.get("type")), frozenset())
            is_known = keyword != "format" or formats is None or value in formats
            if support.includes(keyword) and is_known and not _has_reference(value):
                draft.out[keyword] = value
            else:
                lost[keyword] = value
        draft.phrases += keyword_phrases(lost, draft.source.description)


def _additional_properties_phrase(source: SimpleSchema) -> list[str]:
    if not source.additional_properties:
        return []
    return [f"other names may be given, each {type_expression(source.additional_properties)}"]


def _enum_phrase(values: tuple[JSON, ...]) -> str:
    return f"one of {type_expression(SimpleSchema(enum=values))}"


def _are_strings(values: Iterable[JSON]) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _restrict_to_type(source: SimpleSchema, name: str) -> SimpleSchema:
    """The schema of those values that have the given type."""
    match name:
        case "object":
            return SimpleSchema(
                types=(name,),
                properties=source.properties,
                required=source.required,
                additional_properties=source.additional_properties,
            )
        case "array":
            return SimpleSchema(types=(name,), items=source.items, prefix_items=source.prefix_items)
        case _:
            return SimpleSchema(types=(name,))


def _has_reference(value: JSON) -> bool:
    """Whether it contains a `$ref`, whose target is not sent."""
    if isinstance(value, list):
        return any(map(_has_reference, value))
    return isinstance(value, dict) and ("$ref" in value or any(map(_has_reference, value.values())))


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value]
