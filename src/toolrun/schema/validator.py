"""A schema made into a validator. All that is known of `jsonschema_rs` and its drafts is here. Pure.

A schema may come from a stranger. It is refused if it is larger than any honest one, also after its references are
followed (26 levels of `allOf` with two references each are 67 million checks), and nothing outside of it is fetched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from toolrun.errors import DefinitionError
from toolrun.json import JSON, Schema
from toolrun.schema.effort import Effort
from toolrun.schema.expansion import CUT, MAX_SCHEMA_NODES, REFERENCES, UNEVALUATED, Expansion
from toolrun.schema.explain import problems_of
from toolrun.schema.value import CLOSED, type_of
from toolrun.text import is_encodable, show

if TYPE_CHECKING:
    from jsonschema_rs import KeywordValidator, ValidationError, Validator

MAX_SCHEMA_CHARS = 1_000_000
MAX_SCHEMA_DEPTH = 100
_BACKTRACK_LIMIT = 100_000
"""Steps for a pattern that cannot be matched in linear time (it looks around or back); about 5 ms."""
_PATTERN_BYTES = 100_000_000
"""For all compiled patterns of a schema together; one alone may have a tenth."""

_BACKTRACKS = re.compile(r"\(\?[=!<]|\\[1-9k]")
_BACKTRACK_WORK = 60_000
"""What such a pattern may cost, in ordinary checks."""

_BASE = "urn:toolrun:schema"
_EXAMPLE = '{"type": "object", "properties": {…}}'
_OBJECT_KEYWORDS = frozenset({"properties", "$ref", "allOf", "anyOf", "oneOf", "if"})
_OTHER_KEYWORDS = _OBJECT_KEYWORDS.union(
    ("$comment", "$defs", "$id", "$schema", "definitions", "title", "description", "default", "examples"),
    ("additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties"),
    ("required", "dependentRequired", "minProperties", "maxProperties"),
)
"""What a root without `type` may hold. `{"a": {"type": "integer"}}` is no schema: `properties` was forgotten."""


class CompiledSchema:
    """A validator for a schema and, made when first asked for, for its parts. Parts are named by JSON pointers."""

    __slots__ = (
        "_expansion",
        "_explained",
        "_options",
        "_parts",
        "effort",
        "is_recursive",
        "root",
        "validator",
        "work",
        "work_each",
    )

    def __init__(self, schema: object, *, is_closing: bool = False) -> None:
        """`is_closing`: objects in it whose names are listed take no others, unless the schema says so."""
        copy = _Copy()
        self.root = copy.root(schema)
        if is_closing:
            _close(self.root)
        self._expansion = Expansion(self.root) if copy.has_references else None
        self.is_recursive = self._expansion is not None and self._expansion.is_recursive()
        size = copy.nodes if self._expansion is None else max(copy.nodes, self._expansion.size)
        levels = (self._expansion or Expansion(self.root)).unevaluated_levels() if copy.unevaluated else 0
        self.work = size * 3**levels + copy.backtracking * _BACKTRACK_WORK
        """The most that one value may cost, in checks of less than 100 ns."""
        self.effort = Effort(self.root, self.work - copy.backtracking * _BACKTRACK_WORK, copy, self.is_recursive)
        self.work_each = self.effort.each + copy.backtracking * _BACKTRACK_WORK
        """The same for one value among many, most of which one part of the schema looks at."""
        self._options: dict[str, Any] = _options(copy.patterns)
        self.validator = _compile(self.root, self._options)
        self._parts: _Parts | None = None
        self._explained: _Parts | None = None

    def is_valid_at(self, pointer: str, value: JSON) -> bool:
        """Whether a part of the schema takes the value. If that cannot be told: yes, so that it is left alone."""
        if self._parts is None:
            self._parts = _Parts(self.root, type(self.validator), self._options)
        part = self._parts.get(pointer)
        try:
            return part is None or part.is_valid(value)
        except ValueError:
            return True

    def errors(self, pointer: str, value: JSON) -> Iterable[ValidationError]:
        """Why a part of the schema does not take the value.

        The validator lists the errors of all alternatives at all levels: with four kinds of expression, each with two
        operands, a mistake eight levels down takes it 15 seconds. So where a schema leads back to itself it is not
        followed: that is one error of the kind `Custom`, whose message is the pointer to go on with.
        """
        if self._expansion is None or not self.is_recursive:
            return self.validator.iter_errors(value)
        if self._explained is None:
            cut = self._expansion.cut()
            if cut is None:
                return ()
            keywords = {CUT: _reference_keyword(self.is_valid_at)}
            self._explained = _Parts(cut, type(self.validator), {**self._options, "keywords": keywords})
        part = self._explained.get(pointer)
        return () if part is None else part.iter_errors(value)


class _Parts:
    """Validators for the parts of one document."""

    __slots__ = ("_kind", "_made", "_options", "_registry")

    def __init__(self, root: Schema, kind: type[Validator], options: dict[str, Any]) -> None:
        import jsonschema_rs

        draft: int = getattr(jsonschema_rs, kind.__name__.removesuffix("Validator"))
        self._kind = kind
        self._options = options
        self._registry = jsonschema_rs.Registry([(_BASE, root)], draft=draft, retriever=_refuse)
        self._made: dict[str, Validator | None] = {}

    def get(self, pointer: str) -> Validator | None:
        """The validator for a part, `None` if there can be none."""
        if pointer not in self._made:
            schema: Schema = {"$ref": f"{_BASE}#{quote(pointer, safe='/~')}"}
            try:
                self._made[pointer] = self._kind(schema, registry=self._registry, **self._options)
            except ValueError:
                self._made[pointer] = None
        return self._made[pointer]


def _options(patterns: int) -> dict[str, Any]:
    from jsonschema_rs import FancyRegexOptions

    size = _PATTERN_BYTES // max(patterns, 10)
    regex = FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT, size_limit=size)
    return {"retriever": _refuse, "validate_formats": False, "pattern_options": regex}


def _compile(root: Schema, options: dict[str, Any]) -> Validator:
    import jsonschema_rs

    draft = root.pop("$schema", None)
    kind: type[Validator] = jsonschema_rs.Draft202012Validator
    if isinstance(draft, str):
        kind = jsonschema_rs.validator_cls_for({"$schema": draft})
    try:
        return kind(root, **options)
    except jsonschema_rs.ValidationError as error:
        raise DefinitionError(_fault(error, root)) from None
    except ValueError as error:
        raise DefinitionError(f"the schema cannot be compiled: {error}") from None


def _reference_keyword(is_valid_at: Callable[[str, JSON], bool]) -> type[KeywordValidator]:
    """A keyword that does what `$ref` does, without saying why."""

    class Reference:
        def __init__(self, parent_schema: Schema, value: Any, schema_path: list[str | int]) -> None:
            self._pointer = str(value)

        def validate(self, instance: Any) -> None:
            if not is_valid_at(self._pointer, instance):
                raise ValueError(self._pointer)

    return Reference


def _refuse(uri: str) -> JSON:
    raise ValueError(f"{uri} is outside of the schema")


class _Copy:
    """Copies a schema to plain JSON values of its own, within limits."""

    def __init__(self) -> None:
        self._chars = self.nodes = 0
        self.patterns = self.backtracking = self.unevaluated = 0
        self.has_references = False

    def root(self, schema: object) -> Schema:
        if not isinstance(schema, Mapping):
            raise DefinitionError(f"the schema must be a JSON object such as {_EXAMPLE}, not {type_of(schema)}")
        root = self._object(schema, 0)
        types = root.get("type")
        if "type" in root:
            is_object = "object" in types if isinstance(types, list) else types == "object"
        else:
            is_object = not _OBJECT_KEYWORDS.isdisjoint(root) or root.keys() <= _OTHER_KEYWORDS
        if not is_object:
            raise DefinitionError(f"the root of the schema must be an object such as {_EXAMPLE}, not {show(root)}")
        return root

    def _value(self, value: object, depth: int) -> JSON:
        self.nodes += 1
        if depth > MAX_SCHEMA_DEPTH:
            raise DefinitionError(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels: make it flatter")
        if self.nodes > MAX_SCHEMA_NODES:
            raise DefinitionError(f"the schema has more than {MAX_SCHEMA_NODES:,} parts: describe less")
        match value:
            case None | bool():
                return value
            case str():
                return self._text(value)
            case int():
                return int(value)
            case float() if math.isfinite(value):
                return float(value)
            case Mapping():
                return self._object(value, depth)
            case list() | tuple():
                return [self._value(item, depth + 1) for item in value]
        what = show(value) if isinstance(value, float) else f"a {type(value).__name__}"
        raise DefinitionError(f"the schema holds {what}, which JSON cannot express: use plain JSON values")

    def _object(self, value: Mapping[object, object], depth: int) -> Schema:
        copy: Schema = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise DefinitionError(f"the schema has the key {key!r}: keys must be text")
            copy[self._text(key)] = self._value(item, depth + 1)
            if key == "pattern":
                self._count([item])
            elif key == "patternProperties" and isinstance(item, Mapping):
                self._count(item)
            elif key in UNEVALUATED:
                self.unevaluated += 1
            elif key in REFERENCES:
                self.has_references = True
        return copy

    def _count(self, patterns: Collection[object]) -> None:
        self.patterns += len(patterns)
        self.backtracking += sum(1 for it in patterns if isinstance(it, str) and _BACKTRACKS.search(it))

    def _text(self, text: str) -> str:
        self._chars += len(text)
        if self._chars > MAX_SCHEMA_CHARS:
            raise DefinitionError(f"the schema has more than {MAX_SCHEMA_CHARS:,} characters of text: describe less")
        if not is_encodable(text):
            raise DefinitionError(f"the schema holds {show(text)}, which is not valid Unicode: correct that text")
        return str.__str__(text)


def _close(schema: JSON) -> None:
    if not isinstance(schema, dict):
        return
    properties, definitions = schema.get("properties"), schema.get("$defs")
    says_more = not schema.keys().isdisjoint(("additionalProperties", "patternProperties", "allOf"))
    if isinstance(properties, dict) and not says_more:
        schema |= {"additionalProperties": False, CLOSED: True}
    parts = [schema.get("items"), schema.get("additionalProperties")]
    for names in (properties, definitions):
        parts += names.values() if isinstance(names, dict) else ()
    for keyword in ("anyOf", "oneOf", "prefixItems"):
        members = schema.get(keyword)
        parts += members if isinstance(members, list) else ()
    for part in parts:
        _close(part)


def _fault(error: ValidationError, root: Schema) -> str:
    """What is wrong with a schema and what to do."""
    kind = type(error.kind).__name__
    if kind == "Referencing" and error.message.startswith("Resource "):
        uri = error.message.split("'")[1]
        return (
            f"the schema refers to '{uri}', which is outside of it and is not fetched: "
            "put that under '$defs' and refer to it as '#/$defs/…'"
        )
    if kind == "Referencing":
        return f"the schema has a reference that leads nowhere ({error.message}): correct it or add what it names"
    problem = problems_of([error], root, {})[0]
    if kind == "Format":
        return f"the schema has a pattern that cannot be used: {problem.message}"
    return f"the schema is not valid JSON Schema: {problem.message}"
