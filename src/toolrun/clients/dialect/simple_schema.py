"""A JSON Schema reduced to the terms that all providers share, with intersection and union. Pure; knows no provider.

References are resolved, `allOf` is merged, `const` is an `enum` of one value, and null is a flag. What a provider does
not support is put into words later, by `simplify`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from toolrun.json import JSON
from toolrun.schema.value import same, type_of
from toolrun.text import show

_LOWER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_NULL: Final = ("null",)


@dataclass(frozen=True, slots=True)
class SimpleSchema:
    """The values that a parameter accepts."""

    types: tuple[str, ...] = ()
    """Empty: any type. Null is left out, unless it is the only type."""
    nullable: bool = False
    enum: tuple[JSON, ...] | None = None
    """Null is left out."""
    properties: Mapping[str, SimpleSchema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional_properties: SimpleSchema | None = None
    """The schema of properties that `properties` does not list. None: the schema does not describe them."""
    items: SimpleSchema | None = None
    prefix_items: tuple[SimpleSchema, ...] = ()
    any_of: tuple[SimpleSchema, ...] = ()
    """Alternatives that could not be merged into one schema."""
    variants: tuple[tuple[SimpleSchema, ...], ...] = ()
    """Groups of object schemas. A value must match one of each group; `properties` has the properties of all."""
    description: str = ""
    keywords: Mapping[str, JSON] = field(default_factory=dict)
    """All other keywords: bounds, format, default and so on."""

    @property
    def has_only_types(self) -> bool:
        """Whether the schema says nothing but its types."""
        return self == SimpleSchema(types=self.types, nullable=self.nullable)

    @property
    def accepts_any_type(self) -> bool:
        """Whether the schema accepts values of every type."""
        if self.types or self.enum is not None:
            return False
        return not self.any_of or any(alternative.accepts_any_type for alternative in self.any_of)

    @property
    def all_types(self) -> tuple[str, ...]:
        """The types of the schema, or of all its alternatives; empty if one of them accepts any type."""
        parts = [alternative.all_types for alternative in self.any_of]
        return self.types or (_merge_types(parts) if all(parts) else ())


def intersection(inner: SimpleSchema, outer: SimpleSchema) -> SimpleSchema:
    """The schema of values that match both. Where the two contradict each other, the outer one wins."""
    if inner == SimpleSchema():
        return outer
    if outer == SimpleSchema():
        return inner
    properties = dict(inner.properties)
    for name, schema in outer.properties.items():
        properties[name] = intersection(properties[name], schema) if name in properties else schema
    variants = inner.variants + outer.variants
    if inner.any_of and outer.any_of:
        variants += (inner.any_of,)
    return SimpleSchema(
        types=_common_types(inner.types, outer.types),
        nullable=(inner.nullable and (outer.nullable or outer.accepts_any_type))
        or (outer.nullable and inner.accepts_any_type),
        enum=_common_enum(inner.enum, outer.enum),
        properties=properties,
        required=tuple(dict.fromkeys(inner.required + outer.required)),
        additional_properties=outer.additional_properties or inner.additional_properties,
        items=intersection(inner.items, outer.items) if inner.items and outer.items else outer.items or inner.items,
        prefix_items=outer.prefix_items or inner.prefix_items,
        any_of=outer.any_of or inner.any_of,
        variants=variants,
        description=outer.description or inner.description,
        keywords=_merge_keywords(inner, outer),
    )


def union(schemas: Iterable[SimpleSchema]) -> SimpleSchema:
    """The schema of values that match at least one."""
    given = list(schemas)
    nullable = any(schema.nullable or schema.types == _NULL for schema in given)
    rest = [schema for schema in given if schema.types != _NULL]
    if not rest:
        return SimpleSchema(types=_NULL)
    return replace(_union([replace(schema, nullable=False) for schema in rest]), nullable=nullable)


def _union(schemas: list[SimpleSchema]) -> SimpleSchema:
    if all(_is_enum(schema) for schema in schemas):
        return _union_of_enums(schemas)
    distinct = [schema for index, schema in enumerate(schemas) if schema not in schemas[:index]]
    if len(distinct) == 1:
        return distinct[0]
    if all(schema.types == ("object",) and schema.enum is None and not schema.any_of for schema in distinct):
        return _union_of_objects(distinct)
    if all(schema.has_only_types and schema.types for schema in distinct):
        return SimpleSchema(types=_merge_types(schema.types for schema in distinct))
    flat = [part for schema in distinct for part in (schema.any_of if _has_only_any_of(schema) else (schema,))]
    return SimpleSchema(any_of=tuple(flat))


def _is_enum(schema: SimpleSchema) -> bool:
    return schema.enum is not None and replace(schema, types=(), enum=None, description="") == SimpleSchema()


def _has_only_any_of(schema: SimpleSchema) -> bool:
    return bool(schema.any_of) and replace(schema, any_of=(), types=()) == SimpleSchema()


def _union_of_enums(schemas: Sequence[SimpleSchema]) -> SimpleSchema:
    values: list[JSON] = []
    for value in (value for schema in schemas for value in schema.enum or ()):
        if not any(same(value, known) for known in values):
            values.append(value)
    meanings = [
        f"{' or '.join(map(show, schema.enum or ()))}: {schema.description}" for schema in schemas if schema.description
    ]
    is_shared = len(set(meanings)) < 2 and all(schema.description for schema in schemas)
    text = schemas[0].description if is_shared else "; ".join(meanings)
    return SimpleSchema(types=_merge_types(schema.types for schema in schemas), enum=tuple(values), description=text)


def _union_of_objects(schemas: Sequence[SimpleSchema]) -> SimpleSchema:
    names = dict.fromkeys(name for schema in schemas for name in schema.properties)
    first, *more = schemas
    return SimpleSchema(
        types=("object",),
        properties={name: union(n.properties[name] for n in schemas if name in n.properties) for name in names},
        required=tuple(name for name in first.required if all(name in schema.required for schema in more)),
        additional_properties=next(
            (schema.additional_properties for schema in schemas if schema.additional_properties), None
        ),
        variants=(tuple(schemas),),
        keywords={
            key: value for key, value in first.keywords.items() if all(_has(schema, key, value) for schema in more)
        },
    )


def _has(schema: SimpleSchema, key: str, value: JSON) -> bool:
    return key in schema.keywords and same(schema.keywords[key], value)


def _merge_types(types: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    joined = tuple(dict.fromkeys(name for names in types for name in names))
    return tuple(name for name in joined if name != "integer") if "number" in joined else joined


def _common_types(inner: tuple[str, ...], outer: tuple[str, ...]) -> tuple[str, ...]:
    if not inner or not outer:
        return inner or outer
    common = tuple(name for name in outer if name in inner or (name == "integer" and "number" in inner))
    return common or (("integer",) if "number" in outer and "integer" in inner else outer)


def _common_enum(inner: tuple[JSON, ...] | None, outer: tuple[JSON, ...] | None) -> tuple[JSON, ...] | None:
    if inner is None or outer is None:
        return outer if inner is None else inner
    return tuple(value for value in outer if any(same(value, other) for other in inner)) or outer


def _merge_keywords(inner: SimpleSchema, outer: SimpleSchema) -> dict[str, JSON]:
    keywords = {**inner.keywords, **outer.keywords}
    for name in inner.keywords.keys() & outer.keywords.keys():
        one, other = inner.keywords[name], outer.keywords[name]
        if isinstance(one, int | float) and isinstance(other, int | float):
            if name in _LOWER:
                keywords[name] = max(one, other)
            elif name in _UPPER:
                keywords[name] = min(one, other)
    if inner.properties and outer.properties:
        keywords.pop("additionalProperties", None)  # two closed objects together would accept no property of either
    return keywords


def enum_types(values: Iterable[JSON]) -> tuple[str, ...]:
    """The types of the values of an `enum`."""
    return _merge_types((type_of(value),) for value in values)
