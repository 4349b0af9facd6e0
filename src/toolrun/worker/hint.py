"""A type hint → its JSON Schema, and what makes a value of that type from JSON.

With the standard library only, and without importing it: a hint can only be of a type whose module the script has
imported already. What is beyond that (pydantic models, constraints, foreign types) is pydantic's, if the environment
has it; what nobody can express is `{}` and a warning, and gets values as they come.
"""

from __future__ import annotations

import sys

from . import convert as of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .convert import Convert

    Schema = dict[str, Any]

_ARRAYS = {"list", "List", "Sequence", "MutableSequence", "Iterable", "Collection", "Container"}
_SETS = {"set": set, "frozenset": frozenset, "Set": set, "MutableSet": set, "AbstractSet": set, "FrozenSet": frozenset}
_OBJECTS = {"dict", "Dict", "Mapping", "MutableMapping"}
_TYPING = {"types", "typing", "typing_extensions"}
_MARKS = {"Required", "NotRequired", "ReadOnly", "Final", "ClassVar"}
_NAMED_TEXT: dict[str, str] = {
    "datetime.datetime": "date-time",
    "datetime.date": "date",
    "datetime.time": "time",
    "uuid.UUID": "uuid",
    "pathlib.Path": "path",
    "pathlib.PurePath": "path",
    "pathlib.PosixPath": "path",
    "builtins.bytes": "binary",
}
_NUMBER_OR_TEXT: dict[str, list[Schema]] = {
    "decimal.Decimal": [{"type": "number"}, {"type": "string"}],
    "datetime.timedelta": [{"type": "number"}, {"type": "string", "format": "duration"}],
}


class Kind:
    """What a hint means."""

    __slots__ = ("convert", "exact", "schema")

    def __init__(self, schema: Schema, convert: Convert | None = None, exact: type | None = None) -> None:
        self.schema = schema
        self.convert = convert
        """None if every value will do."""
        self.exact = exact
        """Values of this very type need no conversion."""


_PLAIN: dict[object, Kind] = {
    str: Kind({"type": "string"}, of.text, str),
    int: Kind({"type": "integer"}, of.integer, int),
    float: Kind({"type": "number"}, of.number, float),
    bool: Kind({"type": "boolean"}, of.boolean, bool),
    type(None): Kind({"type": "null"}, of.null, type(None)),
    list: Kind({"type": "array"}, of.array(None), list),
    dict: Kind({"type": "object"}, of.mapping(None, None), dict),
    object: Kind({}),
}


class Reader:
    """Reads the hints of one function."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.definitions: Schema = {}
        """Schemas that hints refer to: those of types that contain themselves, and pydantic's."""
        self.problems: list[str] = []
        self._scope = scope
        self._open: dict[type, Kind] = {}
        self._recursive: dict[type, str] = {}

    def read(self, hint: Any) -> Kind:
        if isinstance(hint, str) or type(hint).__name__ == "ForwardRef":
            return self._read_text(getattr(hint, "__forward_arg__", hint))
        if hint is None:
            return _PLAIN[type(None)]
        try:
            if hint in _PLAIN:
                return _PLAIN[hint]
        except TypeError:  # not hashable
            pass
        if hasattr(hint, "__metadata__"):
            return self._read_annotated(hint)
        for attribute in ("__supertype__", "__value__"):  # NewType, and `type X = …`
            if hasattr(hint, attribute) and not isinstance(hint, type):
                return self.read(getattr(hint, attribute))
        if type(hint).__name__ == "InitVar":
            return self.read(hint.type)
        kind = self._read_generic(hint, name_of(hint), getattr(hint, "__args__", ()))
        if kind is None and isinstance(hint, type):
            kind = self._read_class(hint)
        return kind or self._read_beyond(hint)

    def _read_text(self, text: str) -> Kind:
        try:
            hint = eval(text, self._scope)
            if isinstance(hint, str):  # in quotes, where all annotations are text already
                hint = eval(hint, self._scope)
        except Exception as error:  # noqa: BLE001  the script's own names
            return self._give_up(f"the type hint '{text}' cannot be resolved ({error})")
        if isinstance(hint, str):
            return self._give_up(f"the type hint '{text}' is text")
        return self.read(hint)

    def _give_up(self, problem: str) -> Kind:
        self.problems.append(f"{problem}; any value is accepted")
        return Kind({})

    def _read_annotated(self, hint: Any) -> Kind:
        texts = [item for item in hint.__metadata__ if isinstance(item, str)]
        others = [item for item in hint.__metadata__ if not isinstance(item, str)]
        kind = None
        if any(map(_is_constraint, others)):
            kind = self._adapted(hint)
            if kind is None:
                self.problems.append("its constraints are not checked")
        kind = kind or self.read(hint.__origin__)
        found = (getattr(item, "description", None) or getattr(item, "documentation", None) for item in others)
        description = " ".join(texts) or next((text for text in found if isinstance(text, str)), "")
        return Kind({**kind.schema, "description": description}, kind.convert, kind.exact) if description else kind

    def _read_generic(self, hint: Any, name: str, arguments: tuple[Any, ...]) -> Kind | None:
        """Any, unions, literals and containers."""
        if name == "Any":
            return Kind({})
        if name in ("Union", "UnionType") and arguments:
            return self._read_union(arguments)
        if name == "Literal":
            return _literal(arguments)
        if name in _MARKS and arguments:
            return self.read(arguments[0])
        if name == "TypeVar":
            return self.read(hint.__bound__) if hint.__bound__ is not None else Kind({})
        if name in _ARRAYS:
            items = self._read_item(arguments)
            return Kind({"type": "array", **items.schema_as("items")}, of.array(items.kind))
        if name in _SETS:
            items = self._read_item(arguments)
            schema = {"type": "array", **items.schema_as("items"), "uniqueItems": True}
            return Kind(schema, of.collection(_SETS[name], items.kind))
        if name in ("tuple", "Tuple"):
            return self._read_tuple(arguments)
        if name in _OBJECTS:
            keys, values = self._read_item(arguments[:1]), self._read_item(arguments[1:])
            key = None if keys.kind is None or keys.kind.exact is str else keys.kind
            return Kind({"type": "object", **values.schema_as("additionalProperties")}, of.mapping(key, values.kind))
        return None

    def _read_item(self, arguments: tuple[Any, ...]) -> _Item:
        has_hint = bool(arguments) and type(arguments[0]).__name__ != "TypeVar"
        return _Item(self.read(arguments[0]) if has_hint else None)

    def _read_tuple(self, arguments: tuple[Any, ...]) -> Kind:
        if not arguments or arguments[1:] == (...,):
            items = self._read_item(arguments)
            return Kind({"type": "array", **items.schema_as("items")}, of.collection(tuple, items.kind))
        kinds = [self.read(argument) for argument in arguments if argument != ()]
        schema: Schema = {"type": "array", "minItems": len(kinds), "maxItems": len(kinds)}
        return Kind({**schema, "prefixItems": [kind.schema for kind in kinds]}, of.row(kinds))

    def _read_union(self, options: tuple[Any, ...]) -> Kind:
        kinds = [self.read(option) for option in options]
        schema = {"anyOf": [kind.schema for kind in kinds]}
        others = [kind for kind in kinds if kind.exact is not type(None)]
        if any(kind.convert is None for kind in kinds):
            return Kind(schema)
        if len(others) == 1 and len(kinds) == 2:
            return Kind(schema, of.optional(others[0]), others[0].exact)
        return Kind(schema, of.union(kinds))

    def _read_class(self, hint: type) -> Kind | None:
        if hasattr(hint, "__pydantic_validator__"):
            return None
        enum = sys.modules.get("enum")
        if enum is not None and issubclass(hint, enum.Enum):
            return _enumeration(hint)
        if hasattr(hint, "__dataclass_fields__") or hasattr(hint, "__required_keys__"):
            return self._read_record(hint)
        name = f"{hint.__module__.split('.')[0]}.{hint.__qualname__}"  # pathlib has been a package for a while
        if name in _NAMED_TEXT:
            return Kind({"type": "string", "format": _NAMED_TEXT[name]}, of.from_text(hint, name))
        if name in _NUMBER_OR_TEXT:
            return Kind({"anyOf": list(_NUMBER_OR_TEXT[name])}, of.from_number_or_text(hint))
        return None

    def _read_record(self, hint: type) -> Kind:
        """A dataclass or a TypedDict. One that contains itself is referred to by name."""
        if hint in self._open:
            name = self._recursive.setdefault(hint, _free_name(hint.__name__, self._recursive.values()))
            kind = self._open[hint]
            return Kind({"$ref": f"#/$defs/{name}"}, lambda value: kind.convert and kind.convert(value))
        kind = self._open[hint] = Kind({"type": "object"})
        properties: Schema = {}
        fields: list[of.Field] = []
        for name, inner, is_required, extra in _fields(hint):
            read = self.read(inner)
            properties[name] = {**read.schema, **extra}
            fields.append((name, read, is_required))
        kind.schema["properties"] = properties
        required = [name for name, _, is_required in fields if is_required]
        if required:
            kind.schema["required"] = required
        kind.convert = of.record(fields, hint if hasattr(hint, "__dataclass_fields__") else None)
        del self._open[hint]
        if hint not in self._recursive:
            return kind
        self.definitions[self._recursive[hint]] = kind.schema
        return Kind({"$ref": f"#/$defs/{self._recursive[hint]}"}, kind.convert)

    def _read_beyond(self, hint: Any) -> Kind:
        return self._adapted(hint) or self._give_up(f"{getattr(hint, '__name__', hint)} has no form in JSON")

    def _adapted(self, hint: Any) -> Kind | None:
        """By pydantic, if the environment has it and it knows the type."""
        try:
            from pydantic import TypeAdapter

            adapter: Any = TypeAdapter(hint)
            schema = adapter.json_schema()
            if any(self.definitions.get(name, made) != made for name, made in schema.get("$defs", {}).items()):
                schema = adapter.json_schema(ref_template=f"#/$defs/{len(self.definitions)}.{{model}}")
                schema["$defs"] = {f"{len(self.definitions)}.{name}": it for name, it in schema["$defs"].items()}
        except Exception:  # noqa: BLE001  no pydantic, an old one, or a type that it cannot express either
            return None
        self.definitions.update(schema.pop("$defs", {}))
        schema.pop("title", None)
        return Kind(schema, of.adapted(adapter))


class _Item:
    """The hint of what is in a container, if there is one."""

    def __init__(self, kind: Kind | None) -> None:
        self.kind = kind if kind is not None and kind.convert is not None else None
        self._schema = None if kind is None else kind.schema

    def schema_as(self, keyword: str) -> Schema:
        return {} if self._schema is None else {keyword: self._schema}


def name_of(hint: Any) -> str:
    """What a generic hint is called in `typing`, `collections.abc` or `builtins`; empty for any other."""
    if hint is getattr(sys.modules.get("typing"), "Any", None):
        return "Any"
    kind = type(hint)
    if kind.__name__ in ("UnionType", "Union", "TypeVar") and kind.__module__ in _TYPING:
        return kind.__name__
    origin = getattr(hint, "__origin__", hint)
    if isinstance(origin, type):
        known = ("builtins", "collections", "collections.abc", "typing")
        return origin.__name__ if origin.__module__ in known else ""
    return str(getattr(origin, "_name", None) or "")


def _is_constraint(item: Any) -> bool:
    library = type(item).__module__.split(".")[0]
    return library in ("pydantic", "annotated_types") or hasattr(item, "__get_pydantic_core_schema__")


def _literal(options: tuple[Any, ...]) -> Kind | None:
    kinds = {type(option) for option in options}
    if not kinds <= {str, int, bool, type(None)}:
        return None
    schema = {"enum": list(options)}
    return Kind({**_PLAIN[kinds.pop()].schema, **schema} if len(kinds) == 1 else schema, of.choice(options))


def _enumeration(hint: Any) -> Kind:
    values = [member.value for member in hint]
    kinds = {type(value) for value in values}
    if not kinds <= {str, int, bool, float, type(None)}:  # the names, then
        return Kind({"type": "string", "enum": [member.name for member in hint]}, of.member(hint, by_name=True))
    schema = {"enum": values}
    return Kind({**_PLAIN[kinds.pop()].schema, **schema} if len(kinds) == 1 else schema, of.member(hint, by_name=False))


def _fields(hint: Any) -> Iterator[tuple[str, Any, bool, Schema]]:
    """Name, hint, whether it is required, and what else its schema has."""
    import typing

    try:
        hints = typing.get_type_hints(hint, include_extras=True)
    except Exception:  # noqa: BLE001  a name that is not there; the others are read one by one
        own = [vars(cls).get("__annotations__", {}) for cls in reversed(hint.__mro__)]
        hints = {name: inner for annotations in own for name, inner in annotations.items()}
    if not hasattr(hint, "__dataclass_fields__"):
        for name, inner in hints.items():
            # An explicit mark decides: where annotations are text, __required_keys__ does not see it.
            mark = name_of(inner)
            is_marked = mark in ("Required", "NotRequired")
            yield name, inner, mark == "Required" if is_marked else name in hint.__required_keys__, {}
        return
    for name, field in hint.__dataclass_fields__.items():
        if not field.init or field._field_type.name == "_FIELD_CLASSVAR":
            continue
        has_default, has_factory = (
            type(it).__name__ != "_MISSING_TYPE" for it in (field.default, field.default_factory)
        )
        extra = shown_default(field.default) if has_default else {}
        if isinstance(field.metadata.get("description"), str):
            extra["description"] = field.metadata["description"]
        yield name, hints.get(name, field.type), not (has_default or has_factory), extra


def shown_default(default: object) -> Schema:
    """A default as it stands in a schema, unless JSON cannot express it."""
    if default is None or type(default) in (str, int, bool):
        return {"default": default}
    import json

    from . import normalise

    try:
        return {"default": json.loads(json.dumps(default, allow_nan=False, default=normalise.convert))}
    except Exception:  # noqa: BLE001  a foreign object's own methods
        return {}


def _free_name(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name
