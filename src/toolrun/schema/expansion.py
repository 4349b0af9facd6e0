"""Follows the references of a schema as validation does. Pure.

A schema may come from a stranger: 26 levels of `allOf` with two references each are 67 million checks, in a few lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from toolrun.errors import DefinitionError
from toolrun.json import JSON, Schema
from toolrun.schema.value import lookup

MAX_SCHEMA_NODES = 100_000
"""Values in a schema, counted again for every reference to them."""
_MAX_REFERENCE_DEPTH = 300
_MAX_UNEVALUATED = 4
"""Levels of `unevaluatedProperties` or `unevaluatedItems` for one value: each makes the validator look at all below it
two or three times, so 18 levels take three seconds, for `{}`."""
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas"})
"""Keywords whose schemas look at the same value."""
CUT = "x-toolrun-reference"
UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Expansion:
    """Follows the references of a schema as validation does: how large it is, and where it leads back to itself."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._named = dict(_named(root))
        self.size = 0
        """Parts of the schema, those behind references included. Known after `is_recursive`."""
        self._sizes: dict[int, int] = {}
        self._levels: dict[int, int] = {}
        self._open: set[int] = {id(root)}
        self._recurring: set[int] = set()
        self._is_lost = False
        """Whether there is a reference that could not be followed."""

    def is_recursive(self) -> bool:
        """Whether the schema refers to itself, as far as can be told. Raises `DefinitionError` if it is too large."""
        self.size = self._size(self._root, self._root, 0)
        return bool(self._recurring) or self._is_lost

    def unevaluated_levels(self) -> int:
        """How many `unevaluated…` look at the same value at most. Raises `DefinitionError` if they are too many."""
        self._unevaluated(self._root, self._root)
        most = max(self._levels.values())
        if most > _MAX_UNEVALUATED:
            raise DefinitionError(
                f"the schema has more than {_MAX_UNEVALUATED} levels of 'unevaluatedProperties' or 'unevaluatedItems' "
                "for one value: leave out the inner ones"
            )
        return most

    def _unevaluated(self, value: JSON, base: Schema) -> int:
        if isinstance(value, list):
            return max((self._unevaluated(item, base) for item in value), default=0)
        if not isinstance(value, dict):
            return 0
        if id(value) in self._levels:
            return self._levels[id(value)]
        self._levels[id(value)] = 0  # of a circle
        base = value if isinstance(value.get("$id"), str) else base
        below = 0
        for key, item in value.items():
            home, target = base, item
            if key == "dependentSchemas" and isinstance(item, dict):
                target = list(item.values())
            elif key in REFERENCES and isinstance(item, str):
                home, target = self._find(item, base)
            levels = self._unevaluated(target, home)
            if key in _IN_PLACE or key in REFERENCES:
                below = max(below, levels)
        self._levels[id(value)] = below + (not value.keys().isdisjoint(UNEVALUATED))
        return self._levels[id(value)]

    def cut(self) -> Schema | None:
        """The schema with the keyword `CUT` for every reference that recurs; `None` if that cannot be done."""
        try:
            cut = self._cut(self._root, self._root)
        except LookupError:
            return None
        return cut if isinstance(cut, dict) else None

    def _size(self, value: JSON, base: Schema, depth: int) -> int:
        if depth > _MAX_REFERENCE_DEPTH:
            raise DefinitionError("the references of the schema lead too deep: make it flatter")
        total = 1
        if isinstance(value, list):
            total += sum(self._size(item, base, depth + 1) for item in value)
        elif isinstance(value, dict):
            base = value if isinstance(value.get("$id"), str) else base
            for key, item in value.items():
                if key in REFERENCES and isinstance(item, str):
                    total += self._size_of_target(item, base, depth + 1)
                else:
                    total += self._size(item, base, depth + 1)
        if total > MAX_SCHEMA_NODES:
            raise DefinitionError(
                f"the schema has more than {MAX_SCHEMA_NODES:,} parts when its references are followed: describe less"
            )
        return total

    def _size_of_target(self, reference: str, base: Schema, depth: int) -> int:
        home, target = self._find(reference, base)
        if target is None:
            self._is_lost = True
            return 0
        if id(target) in self._open:
            self._recurring.add(id(target))
            return 0
        if id(target) not in self._sizes:
            self._open.add(id(target))
            self._sizes[id(target)] = self._size(target, home, depth)
            self._open.discard(id(target))
        return self._sizes[id(target)]

    def _find(self, reference: str, base: Schema) -> tuple[Schema, Schema | None]:
        """Where a reference leads, and the document that this is in."""
        head, _, fragment = reference.partition("#")
        home = self._named.get(head.rpartition("/")[2], self._root) if head else base
        target: JSON = home
        if fragment.startswith("/"):
            target = lookup(home, unquote(fragment))
        elif fragment:
            target = self._named.get("#" + fragment)
        return home, target if isinstance(target, dict) else None

    def _cut(self, value: JSON, base: Schema) -> JSON:
        if isinstance(value, list):
            return [self._cut(item, base) for item in value]
        if not isinstance(value, dict):
            return value
        base = value if isinstance(value.get("$id"), str) else base
        copy: Schema = {}
        for key, item in value.items():
            if key in REFERENCES and isinstance(item, str) and id(self._find(item, base)[1]) in self._recurring:
                if key != "$ref" or not item.startswith("#") or base is not self._root:
                    raise LookupError(item)
                copy[CUT] = unquote(item[1:])
            else:
                copy[key] = self._cut(item, base)
        return copy


def _named(value: JSON) -> Iterator[tuple[str, Schema]]:
    """The schemas that have an `$id` (by its last part) or an anchor (with `#`)."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for key in ("$id", "$anchor", "$dynamicAnchor"):
                name = item.get(key)
                if isinstance(name, str):
                    yield ("#" + name if key != "$id" else name.rpartition("/")[2]), item
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
