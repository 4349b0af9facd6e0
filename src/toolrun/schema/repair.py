"""Arguments as models send them, made into arguments as the schema wants them. Pure.

Models send `"5"` for 5, `'["x"]'` for a list, `"ON "` for `"on"`, `null` for what they leave out. What can be read in
exactly one way is changed and recorded; everything else is left as it is for the schema to refuse. A value that is
valid where it stands is never touched, and the caller's objects are never changed: what differs is copied.

Whether a value is valid for a part of the schema is asked of `is_valid_at(pointer, value)`; how schemas are compiled is
not known here, nor what becomes of a value that is still not valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from toolrun.json import JSON, Schema
from toolrun.schema.names import lookalikes, match_names
from toolrun.schema.reading import folded, readings, scalars
from toolrun.schema.repair_record import Repair
from toolrun.schema.value import (
    CLOSED,
    join,
    local_reference,
    pointer,
    same,
    size,
    type_of,
)
from toolrun.text import comparing

_Outcome: TypeAlias = tuple[JSON, list["Repair"]]
_NUMBERS: Final = (int, float)
IsValidAt: TypeAlias = Callable[[str, JSON], bool]
"""Whether the value is valid against the part of the schema at a JSON pointer (RFC 6901, not percent-encoded)."""

MAX_WORK = 1_000_000
"""Values looked at in one repair, a question to the schema counted as 20 more; about half a second. `anyOf` below
`anyOf` multiplies; beyond this nothing is repaired."""
_MAX_DEPTH = 64
"""Schemas entered below each other: `$ref` may lead back to itself."""

_MAX_EXTRAS = 100
_NOTHING = frozenset({"null", "none", "nil", "undefined", "nan", "n/a"})
"""Words for no value, which are no item of a list either."""
_SEVERAL = re.compile(r"[,;|\n，、；｜،؛]")
"""What a text that names several things separates them with, in any script."""
_AROUND = " \t\"'`<>()[]{}.!"
"""What may stand around a word."""
_WRAPPED = "single value sent for a list"
_IGNORED = "unknown names"


class Rules(NamedTuple):
    """What is known of a schema, and of who uses it."""

    has_defaults: bool = False
    """Whether everything that is not required has a default, also where the schema does not show it."""
    is_strict: bool = False
    """Whether unknown names inside of the arguments are refused, and never ignored."""


def repair(
    value: dict[str, JSON], root: Schema, is_valid_at: IsValidAt, rules: Rules
) -> tuple[dict[str, JSON], tuple[Repair, ...], tuple[str, ...]]:
    """The arguments with every unambiguous mistake corrected, what was changed, and the paths of what was left out."""
    log: list[Repair] = []
    try:
        repaired = _Repairer(root, is_valid_at, rules).node(_Node("", root), value, "", log, 0)
    except _TooMuchWorkError:
        return value, (), ()
    if not isinstance(repaired, dict):
        return value, (), ()
    ignored = [it for it in log if it.reason == _IGNORED]
    names = [join(it.path, name) for it in ignored if isinstance(it.before, dict) for name in it.before]
    return repaired, tuple(it for it in log if it.reason != _IGNORED), tuple(names)


class _TooMuchWorkError(Exception):
    """The repair would take too long."""


class _Node(NamedTuple):
    """A part of the schema and where it stands."""

    pointer: str
    schema: Schema

    def child(self, *keys: str) -> _Node | None:
        """The schema below these keys, unless there is none or it is a mere `true` or `false`."""
        schema: JSON = self.schema
        for key in keys:
            schema = schema.get(key) if isinstance(schema, dict) else None
        return _Node(self.pointer + pointer(*keys), schema) if isinstance(schema, dict) else None

    def members(self, keyword: str) -> list[_Node]:
        """The schemas of `allOf`, `anyOf`, `oneOf`, `prefixItems`, or an `items` list of the older drafts."""
        schemas = self.schema.get(keyword)
        return [
            _Node(f"{self.pointer}/{keyword}/{index}", schema if isinstance(schema, dict) else {})
            for index, schema in enumerate(schemas if isinstance(schemas, list) else ())
        ]


class _Options:
    """The options of `enum` or `const` by what they look like, so that thousands of values find theirs at once."""

    def __init__(self, schema: Schema) -> None:
        listed = schema.get("enum", [schema.get("const")])
        options = [it for it in (listed if isinstance(listed, list) else ()) if not isinstance(it, dict | list)]
        self.size = len(options)
        self._values: dict[object, list[JSON]] = {}
        self._folded: dict[str, list[JSON]] = {}
        self._read: dict[object, list[JSON]] = {}
        for option in options:
            self._values.setdefault(_key(option), []).append(option)
            if isinstance(option, str):
                self._folded.setdefault(folded(option), []).append(option)
                for read, _ in scalars(option):
                    self._read.setdefault(_key(read), []).append(option)

    def meant(self, value: bool | int | float | str) -> tuple[list[JSON], str]:
        """The options that a value may mean, and the reason to record; none if it is one."""
        if _key(value) in self._values:
            return [], ""
        if not isinstance(value, str):
            return self._read.get(_key(value), []), "text of an option sent as a value"
        if found := self._folded.get(folded(value)):
            return found, "option spelled differently"
        read = [it for it, _ in scalars(value)]
        return [it for each in read for it in self._values.get(_key(each), ())], "option sent as text"


def _key(value: JSON) -> tuple[bool, JSON]:
    """Scalars have the same key if they are the same in JSON."""
    return isinstance(value, bool), value


class _Repairer:
    """One repair: follows value and schema down together. `log` takes what was changed."""

    def __init__(self, root: Schema, is_valid_at: IsValidAt, rules: Rules) -> None:
        self._root = root
        self._rules = rules
        self._is_valid_at = is_valid_at
        self._work = MAX_WORK
        self._is_wrapping = False
        self._options: dict[str, _Options] = {}
        self._done: dict[tuple[str, str, bool], tuple[JSON, JSON, list[Repair]]] = {}

    def node(self, node: _Node, value: JSON, path: str, log: list[Repair], depth: int) -> JSON:
        """The value as this part of the schema takes it, or as near to that as can be told."""
        # References below a nested $id are relative to it, not to the root: those parts are left alone.
        if depth > _MAX_DEPTH or ("$id" in node.schema and node.pointer) or self._is_valid(node, value):
            return value
        # Alternatives that share a part would otherwise repair it again and again, at every level.
        key = (node.pointer, path, self._is_wrapping)
        done = self._done.get(key)
        if done is None or done[0] is not value:
            changes: list[Repair] = []
            done = self._done[key] = (value, self._apply(node, value, path, changes, depth), changes)
        log.extend(done[2])
        return done[1]

    def _apply(self, node: _Node, value: JSON, path: str, log: list[Repair], depth: int) -> JSON:
        if target := local_reference(self._root, node.schema.get("$ref")):
            value = self.node(_Node(*target), value, path, log, depth + 1)
        for part in node.members("allOf") if "allOf" in node.schema else ():
            value = self.node(part, value, path, log, depth + 1)
        types = _types(node.schema)
        value = self._single(node, types, value, path, log, depth)
        value = self._option(node, value, path, log)
        if types and not any(_has_type(value, name) for name in types):
            value = self._convert(node, types, value, path, log, depth)
        else:
            value = self._inside(node, value, path, log, depth)
        for keyword in ("anyOf", "oneOf"):
            if keyword in node.schema:
                value = self._choose(node.members(keyword), value, path, log, depth)
        return value

    def _is_valid(self, node: _Node, value: JSON) -> bool:
        self._work -= 20 + (len(value) >> 8 if isinstance(value, str) else size(value, self._work))
        if self._work < 0:
            raise _TooMuchWorkError
        return self._is_valid_at(node.pointer, value)

    def _option(self, node: _Node, value: JSON, path: str, log: list[Repair]) -> JSON:
        """The one option of `enum` or `const` that the value means."""
        if not ("enum" in node.schema or "const" in node.schema) or value is None or isinstance(value, dict | list):
            return value
        options = self._options.get(node.pointer)
        if options is None:
            options = self._options[node.pointer] = _Options(node.schema)
            self._work -= options.size
        meant, reason = options.meant(value)
        if len(meant) != 1:
            return value
        log.append(Repair(path, value, meant[0], reason))
        return meant[0]

    def _single(self, node: _Node, types: list[str], value: JSON, path: str, log: list[Repair], depth: int) -> JSON:
        """The one item of a list, if a single value is wanted and this is one."""
        if not isinstance(value, list) or len(value) != 1 or value[0] is None or isinstance(value[0], dict | list):
            return value
        if "array" in types or not (types or "enum" in node.schema or "const" in node.schema):
            return value
        changes = [Repair(path, value, value[0], "one-item list sent for a single value")]
        item = self.node(node, value[0], path, changes, depth + 1)
        if not self._is_valid(node, item):
            return value
        log.extend(changes)
        return item

    def _convert(self, node: _Node, types: list[str], value: JSON, path: str, log: list[Repair], depth: int) -> JSON:
        """The value in the one wanted type that it can be read as."""
        outcomes: list[_Outcome] = []
        for read, reason in readings(value, is_boolean="boolean" in types and {"boolean", "null"}.issuperset(types)):
            if any(_has_type(read, name) for name in types):
                changes = [Repair(path, value, read, reason)]
                outcomes.append((self._inside(node, read, path, changes, depth), changes))
        # One reading that breaks another rule is still taken: the refusal then speaks of that rule.
        outcome = _only([o for o in outcomes if self._is_valid(node, o[0])] or outcomes)
        if not outcomes and "array" in types:
            outcome = self._wrap(node, value, path, depth)
        if outcome is None:
            return value
        log.extend(outcome[1])
        return outcome[0]

    def _wrap(self, node: _Node, value: JSON, path: str, depth: int) -> _Outcome | None:
        """A list of the value, if the schema wants a list of scalars and this is one of them."""
        items = node.child("items")
        if value is None or isinstance(value, dict | list) or items is None or node.members("prefixItems"):
            return None
        if isinstance(value, str) and (value.strip()[:1] in ("", "[", "{") or _SEVERAL.search(value.strip())):
            return None
        if isinstance(value, str) and value.strip(_AROUND).casefold() in _NOTHING:
            return None
        if _is_item(path):  # of a list of lists: `[1, 2]` may be `[[1, 2]]` as well as `[[1], [2]]`
            return None
        if self._is_wrapping or self._is_valid(items, []) or self._is_valid(items, {}):
            return None
        changes = [Repair(path, value, [value], _WRAPPED)]
        self._is_wrapping = True
        wrapped: JSON = [self.node(items, value, join(path, 0), changes, depth + 1)]
        self._is_wrapping = False
        return (wrapped, changes) if self._is_valid(node, wrapped) else None

    def _choose(self, branches: list[_Node], value: JSON, path: str, log: list[Repair], depth: int) -> JSON:
        """The value as the one branch takes it that can; as it is if several can, in different ways."""
        if any(self._is_valid(branch, value) for branch in branches):
            return value
        outcomes: list[_Outcome] = []
        for branch in branches:
            changes: list[Repair] = []
            repaired = self.node(branch, value, path, changes, depth + 1)
            if self._is_valid(branch, repaired):
                outcomes.append((repaired, changes))
        direct = [o for o in outcomes if not any(c.reason == _WRAPPED and c.path == path for c in o[1])]
        outcome = _only(direct or outcomes)
        if outcome is None:
            return value
        log.extend(outcome[1])
        return outcome[0]

    def _inside(self, node: _Node, value: JSON, path: str, log: list[Repair], depth: int) -> JSON:
        """The object or list with its members repaired."""
        if isinstance(value, dict):
            return self._object(node, value, path, log, depth)
        if isinstance(value, list):
            return self._list(node, value, path, log, depth)
        return value

    def _object(self, node: _Node, value: dict[str, JSON], path: str, log: list[Repair], depth: int) -> JSON:
        properties, required = node.schema.get("properties"), node.schema.get("required")
        known = properties if isinstance(properties, dict) else {}
        if path and node.schema.get("additionalProperties") is False and not value.keys() <= known.keys():
            value = self._known_names(node, known, value, path, log)
        others = None if node.schema.get("patternProperties") else node.child("additionalProperties")
        changed: dict[str, JSON] = {}
        left_out: set[str] = set()
        for name, item in value.items():
            child = node.child("properties", name) if name in known else others
            if child is None:
                continue
            has_default = "default" in child.schema or (self._rules.has_defaults and name in known)
            is_needed = isinstance(required, list) and name in required
            if item is None and has_default and not is_needed and not self._is_valid(child, None):
                left_out.add(name)
                log.append(Repair(path, {name: None}, {}, "null sent for a parameter with a default"))
                continue
            repaired = self.node(child, item, join(path, name), log, depth + 1)
            if repaired is not item:
                changed[name] = repaired
        if not changed and not left_out:
            return value
        return {name: changed.get(name, item) for name, item in value.items() if name not in left_out}

    def _known_names(
        self, node: _Node, known: dict[str, JSON], value: dict[str, JSON], path: str, log: list[Repair]
    ) -> dict[str, JSON]:
        """An object inside of the arguments under the names of its schema, as far as can be told."""
        names = match_names(value, known)
        log.extend(Repair(path, {old: value[old]}, {new: value[old]}, "parameter name") for old, new in names.items())
        value = {names.get(name, name): item for name, item in value.items()} if names else value
        extras = [name for name in value if name not in known]
        is_unsaid = CLOSED in node.schema and not self._rules.is_strict
        if not is_unsaid or not 0 < len(extras) < min(len(value), _MAX_EXTRAS):
            return value
        self._work -= comparing(extras, known) >> 4
        if lookalikes(extras, known):
            return value
        log.append(Repair(path, {name: value[name] for name in extras}, {}, _IGNORED))
        return {name: item for name, item in value.items() if name in known}

    def _list(self, node: _Node, value: list[JSON], path: str, log: list[Repair], depth: int) -> JSON:
        first = node.members("prefixItems") or node.members("items")
        others = node.child("items")
        changed: dict[int, JSON] = {}
        for index, item in enumerate(value):
            child = first[index] if index < len(first) else others
            if child is not None:
                repaired = self.node(child, item, join(path, index), log, depth + 1)
                if repaired is not item:
                    changed[index] = repaired
        items = [changed.get(index, item) for index, item in enumerate(value)] if changed else value
        return self._once(items, path, log) if node.schema.get("uniqueItems") is True else items

    def _once(self, items: list[JSON], path: str, log: list[Repair]) -> list[JSON]:
        """The list without what it holds twice: its author meant a set."""
        met: dict[object, list[JSON]] = {}
        kept: list[JSON] = []
        for item in items:
            key = (type_of(item), len(item)) if isinstance(item, dict | list) else (isinstance(item, bool), item)
            rivals = met.setdefault(key, [])
            self._work -= len(rivals)
            if self._work < 0:
                raise _TooMuchWorkError
            if not any(same(item, rival) for rival in rivals):
                rivals.append(item)
                kept.append(item)
        if len(kept) == len(items):
            return items
        log.append(Repair(path, items, kept, "the same item more than once in a set"))
        return kept


def _is_item(path: str) -> bool:
    """Whether a path leads to an item of a list, as `tags[0]` does."""
    return path.endswith("]") and path[path.rindex("[") + 1 : -1].isdecimal()


def _types(schema: Schema) -> list[str]:
    types = schema.get("type")
    return [name for name in (types if isinstance(types, list) else [types]) if isinstance(name, str)]


def _has_type(value: JSON, name: str) -> bool:
    if isinstance(value, _NUMBERS) and not isinstance(value, bool):
        return name == "number" or (name == "integer" and value == int(value))
    return type_of(value) == name


def _only(outcomes: list[_Outcome]) -> _Outcome | None:
    """The outcome on which all agree."""
    if outcomes and all(same(outcomes[0][0], value) for value, _ in outcomes):
        return outcomes[0]
    return None
