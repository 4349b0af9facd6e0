"""A schema in the few terms that all providers share, and how two of them become one. Pure.

References are followed, `allOf` is one node, `const` is an `enum` of one, null is a flag. What a provider does not take
is written into words later; here nothing is known of providers.
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
class Node:
    """What a value may be."""

    types: tuple[str, ...] = ()
    """Without null, unless null is all; empty: any type."""
    nullable: bool = False
    enum: tuple[JSON, ...] | None = None
    """Without null."""
    properties: Mapping[str, Node] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    others: Node | None = None
    """Of an object: what the values of names are that `properties` does not list."""
    items: Node | None = None
    first: tuple[Node, ...] = ()
    """Of a list: what its first items are, one by one."""
    branches: tuple[Node, ...] = ()
    """One of these, if they cannot be said as one."""
    forms: tuple[tuple[Node, ...], ...] = ()
    """One of each of these: objects whose properties are all in `properties` already."""
    description: str = ""
    rules: Mapping[str, JSON] = field(default_factory=dict)
    """The remaining keywords: bounds, format, default and the like."""

    @property
    def is_bare(self) -> bool:
        """Whether the types are all that is known."""
        return self == Node(types=self.types, nullable=self.nullable)

    @property
    def is_free(self) -> bool:
        """Whether values of any type may fit."""
        if self.types or self.enum is not None:
            return False
        return not self.branches or any(branch.is_free for branch in self.branches)

    @property
    def all_types(self) -> tuple[str, ...]:
        """Those of the branches included; empty if one of them may be any."""
        parts = [branch.all_types for branch in self.branches]
        return self.types or (_joined(parts) if all(parts) else ())


def both(inner: Node, outer: Node) -> Node:
    """What fits the one and the other. Where they cannot be joined, the outer one is heard."""
    if inner == Node():
        return outer
    if outer == Node():
        return inner
    properties = dict(inner.properties)
    for name, node in outer.properties.items():
        properties[name] = both(properties[name], node) if name in properties else node
    forms = inner.forms + outer.forms
    if inner.branches and outer.branches:
        forms += (inner.branches,)
    return Node(
        types=_common(inner.types, outer.types),
        nullable=(inner.nullable and (outer.nullable or outer.is_free)) or (outer.nullable and inner.is_free),
        enum=_common_options(inner.enum, outer.enum),
        properties=properties,
        required=tuple(dict.fromkeys(inner.required + outer.required)),
        others=outer.others or inner.others,
        items=both(inner.items, outer.items) if inner.items and outer.items else outer.items or inner.items,
        first=outer.first or inner.first,
        branches=outer.branches or inner.branches,
        forms=forms,
        description=outer.description or inner.description,
        rules=_tightest(inner, outer),
    )


def either(nodes: Iterable[Node]) -> Node:
    """What fits one of these."""
    given = list(nodes)
    nullable = any(node.nullable or node.types == _NULL for node in given)
    rest = [node for node in given if node.types != _NULL]
    if not rest:
        return Node(types=_NULL)
    return replace(_either([replace(node, nullable=False) for node in rest]), nullable=nullable)


def _either(nodes: list[Node]) -> Node:
    if all(_is_options(node) for node in nodes):
        return _options(nodes)
    distinct = [node for place, node in enumerate(nodes) if node not in nodes[:place]]
    if len(distinct) == 1:
        return distinct[0]
    if all(node.types == ("object",) and node.enum is None and not node.branches for node in distinct):
        return _objects(distinct)
    if all(node.is_bare and node.types for node in distinct):
        return Node(types=_joined(node.types for node in distinct))
    flat = [part for node in distinct for part in (node.branches if _only_branches(node) else (node,))]
    return Node(branches=tuple(flat))


def _is_options(node: Node) -> bool:
    return node.enum is not None and replace(node, types=(), enum=None, description="") == Node()


def _only_branches(node: Node) -> bool:
    return bool(node.branches) and replace(node, branches=(), types=()) == Node()


def _options(nodes: Sequence[Node]) -> Node:
    options: list[JSON] = []
    for option in (option for node in nodes for option in node.enum or ()):
        if not any(same(option, known) for known in options):
            options.append(option)
    meanings = [f"{' or '.join(map(show, node.enum or ()))}: {node.description}" for node in nodes if node.description]
    is_shared = len(set(meanings)) < 2 and all(node.description for node in nodes)
    text = nodes[0].description if is_shared else "; ".join(meanings)
    return Node(types=_joined(node.types for node in nodes), enum=tuple(options), description=text)


def _objects(nodes: Sequence[Node]) -> Node:
    names = dict.fromkeys(name for node in nodes for name in node.properties)
    first, *more = nodes
    return Node(
        types=("object",),
        properties={name: either(n.properties[name] for n in nodes if name in n.properties) for name in names},
        required=tuple(name for name in first.required if all(name in node.required for node in more)),
        others=next((node.others for node in nodes if node.others), None),
        forms=(tuple(nodes),),
        rules={key: value for key, value in first.rules.items() if all(_has(node, key, value) for node in more)},
    )


def _has(node: Node, key: str, value: JSON) -> bool:
    return key in node.rules and same(node.rules[key], value)


def _joined(types: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    joined = tuple(dict.fromkeys(name for names in types for name in names))
    return tuple(name for name in joined if name != "integer") if "number" in joined else joined


def _common(inner: tuple[str, ...], outer: tuple[str, ...]) -> tuple[str, ...]:
    if not inner or not outer:
        return inner or outer
    common = tuple(name for name in outer if name in inner or (name == "integer" and "number" in inner))
    return common or (("integer",) if "number" in outer and "integer" in inner else outer)


def _common_options(inner: tuple[JSON, ...] | None, outer: tuple[JSON, ...] | None) -> tuple[JSON, ...] | None:
    if inner is None or outer is None:
        return outer if inner is None else inner
    return tuple(option for option in outer if any(same(option, other) for other in inner)) or outer


def _tightest(inner: Node, outer: Node) -> dict[str, JSON]:
    rules = {**inner.rules, **outer.rules}
    for name in inner.rules.keys() & outer.rules.keys():
        one, other = inner.rules[name], outer.rules[name]
        if isinstance(one, int | float) and isinstance(other, int | float):
            if name in _LOWER:
                rules[name] = max(one, other)
            elif name in _UPPER:
                rules[name] = min(one, other)
    if inner.properties and outer.properties:
        rules.pop("additionalProperties", None)  # each side closed would allow nothing of the other
    return rules


def types_of_options(options: Iterable[JSON]) -> tuple[str, ...]:
    return _joined((type_of(option),) for option in options)
