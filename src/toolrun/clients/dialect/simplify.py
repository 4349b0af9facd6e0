"""A schema within what a provider keeps: the rest is moved into descriptions, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from toolrun.clients.dialect.dialect import Keeps, Level
from toolrun.clients.dialect.phrasing import describe, form, forms, phrases
from toolrun.clients.dialect.schema_parser import Note, modernise, read
from toolrun.clients.dialect.simple_schema import Node, both, either
from toolrun.json import JSON, Schema
from toolrun.schema.value import join

_COMBINED: Final = ("$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not")
_SCALARS: Final = ("string", "number", "boolean")
_NULLS: Final[Mapping[str, JSON]] = {"type": "null", "enum": None, "anyOf": {"type": "null"}}
"""What is added to a keyword that takes null, too."""
_INTO: Final = "description"


def simplify(schema: Mapping[str, JSON], keeps: Keeps, note: Note) -> tuple[Schema, list[str]]:
    """The schema for the provider, and what it could not say about the arguments as a whole."""
    return _Writer(keeps, note).root(read(schema, note))


def flatten(schema: Mapping[str, JSON], level: Level, note: Note) -> tuple[Schema, list[str]]:
    """For a provider that takes JSON Schema with a plain object at the root: only a root that is none is simplified."""
    if schema.get("type") == "object" and not any(keyword in schema for keyword in _COMBINED):
        return modernise(dict(schema), needs_items=level.needs_items), []
    return simplify(schema, Keeps(level, level), note)


@dataclass(slots=True)
class _Draft:
    """A part of the schema while it is being written."""

    node: Node
    path: str
    level: Level
    out: Schema = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """What goes into the description."""


class _Writer:
    def __init__(self, keeps: Keeps, note: Note) -> None:
        self._keeps = keeps
        self._note = note

    def root(self, node: Node) -> tuple[Schema, list[str]]:
        """The arguments as a whole are an object, whatever the schema says."""
        unlisted = {name: node.others or Node() for name in node.required if name not in node.properties}
        node = replace(node, properties={**node.properties, **unlisted})
        out: Schema = {"type": "object", "properties": self._properties(node, "", self._keeps.parameter)}
        if node.required:
            out["required"] = list(node.required)
        branches = [form(each) for each in node.branches]
        words = [forms(each) for each in node.forms]
        words += [f"one of: {' or '.join(branches)}"] if branches else []
        words += _others(node) + phrases(node.rules)
        for word in words:
            self._note("", word, f"{_INTO} of the tool")
        return out, words

    def _properties(self, node: Node, path: str, level: Level) -> dict[str, JSON]:
        return {
            name: self.schema(part, join(path, name), level, name in node.required)
            for name, part in node.properties.items()
        }

    def schema(self, node: Node, path: str, level: Level, is_required: bool = True) -> Schema:
        """A part of the schema as it is sent."""
        draft = _Draft(node, path, level)
        if level.is_typed:
            self._give_type(draft)
            if draft.node.branches:
                return self._one_of(draft)
        self._write_types(draft)
        if draft.node.branches:
            self._write_branches(draft)
        elif "array" in draft.node.types:
            self._write_items(draft, draft.node)
        if "object" in draft.node.types:
            self._write_object(draft)
        self._write_null(draft, is_required)
        self._write_rules(draft)
        text = self._description(draft)
        if text:
            draft.out["description"] = text
        return draft.out

    def _description(self, draft: _Draft) -> str:
        for word in draft.words:
            self._note(draft.path, word, _INTO)
        return describe(draft.node.description, draft.words)

    def _give_type(self, draft: _Draft) -> None:
        """Gives the node one type, or branches that have one each."""
        node = draft.node
        if node.types == ("null",):
            draft.node = replace(node, types=("string",), nullable=True)
        elif node.branches:
            own = Node(types=node.types)
            draft.node = replace(node, types=(), branches=tuple(both(branch, own) for branch in node.branches))
        elif node.enum is not None and _are_texts(node.enum):
            draft.node = replace(node, types=("string",))
        elif node.types == ("object",) and not node.properties:
            # Objects without properties are refused. As text it arrives all the same: arguments are repaired.
            draft.words.append(f"JSON text of {form(replace(node, description=''))}")
            draft.node = Node(types=("string",), nullable=node.nullable, description=node.description)
        elif len(node.types) != 1:
            draft.words += [] if node.types else ["any JSON value"]
            parts = tuple(_only_type(node, name) for name in node.types or _SCALARS)
            draft.node = replace(node, types=(), branches=parts)

    def _one_of(self, draft: _Draft) -> Schema:
        """`anyOf` with nothing beside it; the description is the first one's."""
        node = draft.node
        draft.words += phrases(node.rules, node.description)
        draft.words += [f"one of {form(Node(enum=node.enum))}"] if node.enum is not None else []
        parts: list[Schema] = []
        for branch in node.branches:
            nullable = replace(branch, nullable=node.nullable or branch.nullable)
            part = self.schema(nullable, draft.path, draft.level)
            within = part.get("anyOf")
            parts += [each for each in within if isinstance(each, dict)] if isinstance(within, list) else [part]
        text = self._description(draft)
        if text:
            own = parts[0].get("description")
            parts[0]["description"] = describe(text, [own] if isinstance(own, str) else [])
        return {"anyOf": list(parts)}

    def _write_types(self, draft: _Draft) -> None:
        node, level = draft.node, draft.level
        types: list[JSON] = list(node.types if level.keeps("anyOf") else node.all_types)
        if types:
            draft.out["type"] = types[0] if len(types) == 1 else types
        if node.enum is not None and level.is_typed and not _are_texts(node.enum):
            draft.words.append(f"one of {form(Node(enum=node.enum))}")
        elif node.enum is not None:
            draft.out["enum"] = list(node.enum)

    def _write_branches(self, draft: _Draft) -> None:
        branches = draft.node.branches
        if draft.level.keeps("anyOf"):
            draft.out["anyOf"] = [self.schema(part, draft.path, draft.level) for part in branches]
            return
        draft.words.append(form(Node(branches=branches)))
        lists = [part for part in branches if "array" in part.all_types]
        if len(lists) == 1 and lists[0].items and not lists[0].first:
            self._write_items(draft, lists[0])

    def _write_items(self, draft: _Draft, node: Node) -> None:
        inside, level = f"{draft.path}[]", self._keeps.inside
        items = node.items
        if node.first and draft.level.keeps("prefixItems"):
            draft.out["prefixItems"] = [self.schema(part, inside, level) for part in node.first]
        elif node.first:
            draft.words.append(form(Node(types=("array",), first=node.first, items=node.items)))
            items = either([*node.first, *([node.items] if node.items else [])])
        if items is None and draft.level.needs_items:
            items = Node()
        if items is not None:
            draft.out["items"] = self.schema(items, inside, level)

    def _write_object(self, draft: _Draft) -> None:
        node, level = draft.node, draft.level
        if not level.keeps("properties"):
            if node.properties or node.required or node.others:
                draft.words.append(form(replace(node, description="", rules={}, nullable=False)))
            return
        if node.properties:
            draft.out["properties"] = self._properties(node, draft.path, self._keeps.inside)
        required: list[JSON] = [name for name in node.required if not level.is_typed or name in node.properties]
        if required:
            draft.out["required"] = required
        if node.others and level.keeps("additionalProperties"):
            draft.out["additionalProperties"] = self.schema(node.others, join(draft.path, "*"), self._keeps.inside)
        else:
            draft.words += _others(node)
        draft.words += [forms(each) for each in node.forms]

    def _write_null(self, draft: _Draft, is_required: bool) -> None:
        out = draft.out
        if not draft.node.nullable:
            return
        if draft.level.is_typed:
            out["nullable"] = True
        elif draft.level.keywords is not None and is_required:
            draft.words.append("may be null")
        elif draft.level.keywords is not None:
            self._note(draft.path, "null", "left out: the parameter is optional")
        else:
            out.update({key: [*_listed(out[key]), null] for key, null in _NULLS.items() if key in out})

    def _write_rules(self, draft: _Draft) -> None:
        level, lost = draft.level, dict[str, JSON]()
        for keyword, value in draft.node.rules.items():
            formats = None if level.formats is None else level.formats.get(str(draft.out.get("type")), frozenset())
            is_known = keyword != "format" or formats is None or value in formats
            if level.keeps(keyword) and is_known and not _has_reference(value):
                draft.out[keyword] = value
            else:
                lost[keyword] = value
        draft.words += phrases(lost, draft.node.description)


def _others(node: Node) -> list[str]:
    return [f"other names may be given, each {form(node.others)}"] if node.others else []


def _are_texts(options: Iterable[JSON]) -> bool:
    return all(isinstance(option, str) and option for option in options)


def _only_type(node: Node, name: str) -> Node:
    """The part of the node that is about values of one type."""
    match name:
        case "object":
            return Node(types=(name,), properties=node.properties, required=node.required, others=node.others)
        case "array":
            return Node(types=(name,), items=node.items, first=node.first)
        case _:
            return Node(types=(name,))


def _has_reference(value: JSON) -> bool:
    """Whether it leads to a part of the schema that is not sent."""
    if isinstance(value, list):
        return any(map(_has_reference, value))
    return isinstance(value, dict) and ("$ref" in value or any(map(_has_reference, value.values())))


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value]
