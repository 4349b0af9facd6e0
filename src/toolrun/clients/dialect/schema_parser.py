"""Parses a JSON Schema of any draft into a `SimpleSchema`. Pure; knows no provider.

The schema may come from a stranger. Parts that are recursive, nested too deeply or too large once their references are
resolved are cut, and each cut is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from toolrun.clients.dialect.simple_schema import SimpleSchema, enum_types, intersection, union
from toolrun.json import JSON, Schema
from toolrun.schema.value import join, local_reference

Note: TypeAlias = Callable[[str, str, str], None]
"""Called with each simplification: the path, what was there, where it went."""

_MAX_SCHEMAS: Final = 2000
_MAX_DEPTH: Final = 32

_OTHER_KEYWORDS: Final = frozenset({"default", "examples", "example", "deprecated", "if", "then", "else", "not"}).union(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    ("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    ("minProperties", "maxProperties", "patternProperties", "propertyNames", "additionalProperties"),
    ("dependentRequired", "dependentSchemas", "dependencies"),
)
"""Keywords that are passed on as they are. Unknown ones are dropped: they mean nothing to a model."""
_VALUE_KEYWORDS: Final = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords whose values are data, not schemas."""
_OBJECT_KEYWORDS: Final = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "minProperties"}
)
_ARRAY_KEYWORDS: Final = frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})


def parse_schema(root: Mapping[str, JSON], note: Note) -> SimpleSchema:
    return _SchemaParser(dict(root), note).parse(dict(root), "", ())


class _SchemaParser:
    def __init__(self, root: Schema, note: Note) -> None:
        self._root = root
        self._note = note
        self._left = _MAX_SCHEMAS
        self._is_cut = False

    def parse(self, schema: JSON, path: str, visited: tuple[str, ...], depth: int = 0) -> SimpleSchema:
        """`visited` are the references that were followed to get here."""
        if not isinstance(schema, dict):
            return SimpleSchema(keywords={"not": {}}) if schema is False else SimpleSchema()
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            if not self._is_cut:
                self._note(path, "its contents", "left out: too large")
            self._is_cut = True
            return SimpleSchema(types=_types(schema)[0])
        simple = self._parse_own_keywords(schema, path, visited, depth)
        if "$ref" in schema:
            simple = intersection(self._parse_reference(schema["$ref"], path, visited, depth), simple)
        for part in _list(schema, "allOf"):
            simple = intersection(self.parse(part, path, visited, depth + 1), simple)
        for keyword in ("anyOf", "oneOf"):
            parts = _list(schema, keyword)
            if parts:
                alternatives = union(self.parse(part, path, visited, depth + 1) for part in parts)
                outer = replace(simple, types=()) if simple.types == alternatives.types else simple
                simple = intersection(alternatives, outer)
        return simple

    def _parse_reference(self, reference: JSON, path: str, visited: tuple[str, ...], depth: int) -> SimpleSchema:
        target = local_reference(self._root, reference)
        if target is None:
            self._note(path, f"$ref {reference}", "left out: outside the schema")
            return SimpleSchema()
        where, schema = target
        if where in visited:
            name = where.rpartition("/")[2] or "the arguments"
            self._note(path, f"another level of {name}", "left out: recursive")
            return SimpleSchema(types=_types(schema)[0], description="the same form again")
        return self.parse(schema, path, (*visited, where), depth + 1)

    def _parse_own_keywords(self, schema: Schema, path: str, visited: tuple[str, ...], depth: int) -> SimpleSchema:
        """Everything but `$ref`, `allOf`, `anyOf` and `oneOf`."""
        types, nullable = _types(schema)
        properties = schema.get("properties")
        additional = schema.get("additionalProperties")
        items, prefix = schema.get("items"), _list(schema, "prefixItems")
        if isinstance(items, list):  # drafts before 2020-12
            prefix, items = items, schema.get("additionalItems")
        inside = f"{path}[]"
        keywords = {key: value for key, value in schema.items() if key in _OTHER_KEYWORDS}
        if not isinstance(additional, bool) or additional:
            keywords.pop("additionalProperties", None)
        _upgrade_exclusive_bounds(keywords)
        values, nullable = _enum(schema, nullable)
        if values == ():
            types, values = ("null",), None
        description = schema.get("description")
        return SimpleSchema(
            types=types if types or values is None else enum_types(values),
            nullable=nullable,
            enum=values,
            properties={
                name: self.parse(part, join(path, name), visited, depth + 1) for name, part in properties.items()
            }
            if isinstance(properties, dict)
            else {},
            required=tuple(name for name in _list(schema, "required") if isinstance(name, str)),
            additional_properties=self.parse(additional, join(path, "*"), visited, depth + 1)
            if isinstance(additional, dict)
            else None,
            items=self.parse(items, inside, visited, depth + 1) if isinstance(items, dict) else None,
            prefix_items=tuple(self.parse(part, inside, visited, depth + 1) for part in prefix),
            description=" ".join(description.split()) if isinstance(description, str) else "",
            keywords=keywords,
        )


def _list(schema: Schema, keyword: str) -> list[JSON]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _types(schema: Schema) -> tuple[tuple[str, ...], bool]:
    """The types without null, and whether the schema accepts null too."""
    given = schema.get("type")
    names = tuple(name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str))
    if not names:
        names = (
            ("object",) if schema.keys() & _OBJECT_KEYWORDS else ("array",) if schema.keys() & _ARRAY_KEYWORDS else ()
        )
    rest = tuple(name for name in names if name != "null")
    return rest or names, bool(rest) and (schema.get("nullable") is True or len(rest) < len(names))


def _enum(schema: Schema, nullable: bool) -> tuple[tuple[JSON, ...] | None, bool]:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return None, nullable
    rest = tuple(value for value in values if value is not None)
    return rest, bool(rest) and len(rest) < len(values) and (nullable or "type" not in schema)


def _upgrade_exclusive_bounds(keywords: Schema) -> None:
    """In draft 4, `exclusiveMinimum` is a flag of `minimum`."""
    for bound in ("Minimum", "Maximum"):
        if isinstance(keywords.get(f"exclusive{bound}"), bool):
            is_exclusive = keywords.pop(f"exclusive{bound}")
            if is_exclusive and bound.lower() in keywords:
                keywords[f"exclusive{bound}"] = keywords.pop(bound.lower())


def upgrade_draft(schema: Schema, *, needs_items: bool) -> Schema:
    """The same schema in draft 2020-12; with `needs_items`, every array has `items`."""
    new = {key: value if key in _VALUE_KEYWORDS else _upgraded(value, needs_items) for key, value in schema.items()}
    if isinstance(new.get("$schema"), str):  # a parameter may have that name too
        del new["$schema"]
    _upgrade_exclusive_bounds(new)
    items = new.get("items")
    if isinstance(items, list):
        new["prefixItems"] = items
        new["items"] = new.pop("additionalItems", {})
    elif needs_items and new.get("type") == "array" and "items" not in new:
        new["items"] = {}
    return new


def _upgraded(value: JSON, needs_items: bool) -> JSON:
    if isinstance(value, list):
        return [_upgraded(each, needs_items) for each in value]
    return upgrade_draft(value, needs_items=needs_items) if isinstance(value, dict) else value
