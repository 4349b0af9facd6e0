"""From a JSON Schema, of any draft, to a `Node`. Pure.

The schema may be a stranger's: what is nested too deep, leads back to itself or grows beyond all measure when its
references are followed is cut, and that is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from toolrun.clients.dialect.simple_schema import Node, both, either, types_of_options
from toolrun.json import JSON, Schema
from toolrun.schema.value import join, local_reference

Note: TypeAlias = Callable[[str, str, str], None]
"""Takes what was simplified: the path, what it was, where it went."""

_MAX_NODES: Final = 2000
_MAX_DEPTH: Final = 32

_RULES: Final = frozenset({"default", "examples", "example", "deprecated", "if", "then", "else", "not"}).union(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    ("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    ("minProperties", "maxProperties", "patternProperties", "propertyNames", "additionalProperties"),
    ("dependentRequired", "dependentSchemas", "dependencies"),
)
"""Keywords that are carried along as they are. What is not a keyword at all means nothing to a model."""
_VALUES: Final = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords that hold values and no schemas."""
_OF_OBJECTS: Final = frozenset({"properties", "required", "additionalProperties", "patternProperties", "minProperties"})
_OF_LISTS: Final = frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})


def read(root: Mapping[str, JSON], note: Note) -> Node:
    """The node that a whole schema is."""
    return _Reader(dict(root), note).node(dict(root), "", ())


class _Reader:
    def __init__(self, root: Schema, note: Note) -> None:
        self._root = root
        self._note = note
        self._left = _MAX_NODES
        self._is_cut = False

    def node(self, schema: JSON, path: str, followed: tuple[str, ...], depth: int = 0) -> Node:
        """`followed` are the references that lead here."""
        if not isinstance(schema, dict):
            return Node(rules={"not": {}}) if schema is False else Node()
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            if not self._is_cut:
                self._note(path, "what is inside", "left out: too large")
            self._is_cut = True
            return Node(types=_types(schema)[0])
        node = self._own(schema, path, followed, depth)
        if "$ref" in schema:
            node = both(self._reference(schema["$ref"], path, followed, depth), node)
        for part in _list(schema, "allOf"):
            node = both(self.node(part, path, followed, depth + 1), node)
        for keyword in ("anyOf", "oneOf"):
            parts = _list(schema, keyword)
            if parts:
                union = either(self.node(part, path, followed, depth + 1) for part in parts)
                node = both(union, replace(node, types=()) if node.types == union.types else node)
        return node

    def _reference(self, reference: JSON, path: str, followed: tuple[str, ...], depth: int) -> Node:
        target = local_reference(self._root, reference)
        if target is None:
            self._note(path, f"$ref {reference}", "left out: it leads out of the schema")
            return Node()
        where, schema = target
        if where in followed:
            self._note(
                path, f"another level of {where.rpartition('/')[2] or 'the arguments'}", "left out: it has no end"
            )
            return Node(types=_types(schema)[0], description="the same form again")
        return self.node(schema, path, (*followed, where), depth + 1)

    def _own(self, schema: Schema, path: str, followed: tuple[str, ...], depth: int) -> Node:
        """Without the references and the keywords that combine schemas."""
        types, nullable = _types(schema)
        properties = schema.get("properties")
        others = schema.get("additionalProperties")
        items, first = schema.get("items"), _list(schema, "prefixItems")
        if isinstance(items, list):  # before 2020-12
            first, items = items, schema.get("additionalItems")
        inside = f"{path}[]"
        rules = {key: value for key, value in schema.items() if key in _RULES}
        if not isinstance(others, bool) or others:
            rules.pop("additionalProperties", None)
        _modernise_bounds(rules)
        options, nullable = _options(schema, nullable)
        if options == ():
            types, options = ("null",), None
        description = schema.get("description")
        return Node(
            types=types if types or options is None else types_of_options(options),
            nullable=nullable,
            enum=options,
            properties={
                name: self.node(part, join(path, name), followed, depth + 1) for name, part in properties.items()
            }
            if isinstance(properties, dict)
            else {},
            required=tuple(name for name in _list(schema, "required") if isinstance(name, str)),
            others=self.node(others, join(path, "*"), followed, depth + 1) if isinstance(others, dict) else None,
            items=self.node(items, inside, followed, depth + 1) if isinstance(items, dict) else None,
            first=tuple(self.node(part, inside, followed, depth + 1) for part in first),
            description=" ".join(description.split()) if isinstance(description, str) else "",
            rules=rules,
        )


def _list(schema: Schema, keyword: str) -> list[JSON]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _types(schema: Schema) -> tuple[tuple[str, ...], bool]:
    """The types without null, and whether null is one of them."""
    given = schema.get("type")
    names = tuple(name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str))
    if not names:
        names = ("object",) if schema.keys() & _OF_OBJECTS else ("array",) if schema.keys() & _OF_LISTS else ()
    rest = tuple(name for name in names if name != "null")
    return rest or names, bool(rest) and (schema.get("nullable") is True or len(rest) < len(names))


def _options(schema: Schema, nullable: bool) -> tuple[tuple[JSON, ...] | None, bool]:
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(options, list):
        return None, nullable
    rest = tuple(option for option in options if option is not None)
    return rest, bool(rest) and len(rest) < len(options) and (nullable or "type" not in schema)


def _modernise_bounds(rules: Schema) -> None:
    """In draft 4, `exclusiveMinimum` is a flag of `minimum`."""
    for bound in ("Minimum", "Maximum"):
        if isinstance(rules.get(f"exclusive{bound}"), bool):
            is_exclusive = rules.pop(f"exclusive{bound}")
            if is_exclusive and bound.lower() in rules:
                rules[f"exclusive{bound}"] = rules.pop(bound.lower())


def modernise(schema: Schema, *, needs_items: bool) -> Schema:
    """The schema as 2020-12 writes it, and if wanted with `items` in every list. Its meaning stays."""
    new = {key: value if key in _VALUES else _modernised(value, needs_items) for key, value in schema.items()}
    if isinstance(new.get("$schema"), str):  # not a parameter of that name
        del new["$schema"]
    _modernise_bounds(new)
    items = new.get("items")
    if isinstance(items, list):
        new["prefixItems"] = items
        new["items"] = new.pop("additionalItems", {})
    elif needs_items and new.get("type") == "array" and "items" not in new:
        new["items"] = {}
    return new


def _modernised(value: JSON, needs_items: bool) -> JSON:
    if isinstance(value, list):
        return [_modernised(each, needs_items) for each in value]
    return modernise(value, needs_items=needs_items) if isinstance(value, dict) else value
