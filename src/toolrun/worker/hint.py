"""A type hint → its JSON Schema, and what makes a value of that type from JSON. For the host and for the worker.

With the standard library only, and without importing it: a hint can only be of a type whose module has been imported
already. What is beyond that (pydantic models, constraints, foreign types) is pydantic's, if the environment has it;
what nobody can express is `{}` and a `HintProblem`, and takes values as they come.
"""

from __future__ import annotations

import sys

from . import convert as of
from .type_spec import PLAIN, HintProblem, TypeSpec, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .type_spec import Schema

_ARRAYS = {"list", "List", "Sequence", "MutableSequence", "Iterable", "Collection", "Container"}
_SETS = {"set": set, "frozenset": frozenset, "Set": set, "MutableSet": set, "AbstractSet": set, "FrozenSet": frozenset}
_OBJECTS = {"dict", "Dict", "Mapping", "MutableMapping"}
_GENERICS = {"UnionType", "Union", "_UnionGenericAlias", "_LiteralGenericAlias"}
"""The types of unions and literals."""
_QUALIFIERS = {"Required", "NotRequired", "ReadOnly", "Final", "ClassVar"}
_TEXT_FORMATS = {
    "datetime.datetime": "date-time",
    "datetime.date": "date",
    "datetime.time": "time",
    "datetime.timedelta": "duration",
    "uuid.UUID": "uuid",
    "pathlib.Path": "path",
    "pathlib.PurePath": "path",
    "pathlib.PosixPath": "path",
    "pathlib.PurePosixPath": "path",
    "builtins.bytes": "binary",
}
_FIELD_TEXTS = {"annotation", "default", "default_factory", "description"}
"""What pydantic's `Field` may be given that constrains nothing."""


class HintReader:
    """Reads the hints of one function."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.definitions: Schema = {}
        """Schemas that hints refer to: those of types that contain themselves, and pydantic's."""
        self.problems: list[HintProblem] = []
        self._scope = scope
        self._open: dict[object, TypeSpec] = {}
        """The types that are being read: one of them inside of itself is a reference."""
        self._recursive: dict[object, str] = {}
        self._adapted_count = 0
        self._pydantic_reason = ""

    def read_parameter(self, hint: Any) -> TypeSpec:
        """`read`, whatever the hint does when it is looked at."""
        try:
            return self.read(hint)
        except Exception as error:  # noqa: BLE001  the hint's own class, and RecursionError
            return self._give_up(f"the type hint cannot be read ({type(error).__name__}: {error})")

    def resolve(self, hint: Any) -> Any:
        """A hint that is text, as what it names; any other as it is. Raises whatever looking it up raises."""
        for _ in range(2):  # in quotes, where all annotations are text already
            text = getattr(hint, "__forward_arg__", hint)
            if not isinstance(text, str):
                return hint
            hint = eval(text, self._scope)
        return hint

    def read(self, hint: Any) -> TypeSpec:
        try:
            if hint in PLAIN:
                return PLAIN[hint]
        except TypeError:  # not hashable
            pass
        kind = type(hint).__name__
        if kind in ("str", "ForwardRef"):
            return self._read_text(getattr(hint, "__forward_arg__", hint))
        # To ask a generic hint for attributes that it does not have takes as long as all the rest.
        is_generic = kind in _GENERICS or (kind == "GenericAlias" and isinstance(hint.__origin__, type))
        if not is_generic and not isinstance(hint, type):
            if hasattr(hint, "__metadata__"):
                return self._read_annotated(hint)
            if hasattr(hint, "__supertype__"):  # NewType
                return self.read(hint.__supertype__)
            if hasattr(hint, "__value__"):  # `type X = …`
                return self._read_alias(hint, hint.__name__, _value_of(hint))
            if kind == "InitVar":
                return self.read(hint.type)
        spec = self._read_generic(hint, name_of(hint), getattr(hint, "__args__", ()))
        if spec is None and isinstance(hint, type):
            spec = self._read_class(hint)
        return spec or self._adapt(hint) or self._give_up(f"{getattr(hint, '__name__', hint)} has no form in JSON")

    def _read_text(self, text: str) -> TypeSpec:
        try:
            hint = self.resolve(text)
        except Exception as error:  # noqa: BLE001  the script's own names
            shown = text.strip("'\"")
            return self._give_up(f"the type hint '{shown}' cannot be resolved ({error})", unresolved=str(error))
        if isinstance(hint, str):
            return self._give_up(f"the type hint '{text}' is text")
        return self.read(hint) if isinstance(hint, type) else self._read_alias(text, text, hint)

    def _read_alias(self, key: object, name: str, hint: Any) -> TypeSpec:
        """What a name stands for. It may contain itself: `Json = int | list["Json"]`."""
        if key in self._open:
            return self._referred(key, name)
        opened = self._open[key] = TypeSpec({})
        spec = self.read(hint)
        del self._open[key]
        opened.convert = spec.convert
        return self._defined(key, spec)

    def _referred(self, key: object, name: str) -> TypeSpec:
        """A type inside of itself, by a name that the schema has for it."""
        taken = {*self._recursive.values(), *self.definitions}
        name = self._recursive.setdefault(key, _free_name(name, taken))
        opened = self._open[key]
        return TypeSpec(
            {"$ref": f"#/$defs/{name}"}, lambda value: opened.convert(value) if opened.convert is not None else value
        )

    def _defined(self, key: object, spec: TypeSpec) -> TypeSpec:
        if key not in self._recursive:
            return spec
        self.definitions[self._recursive[key]] = spec.schema
        return TypeSpec({"$ref": f"#/$defs/{self._recursive[key]}"}, spec.convert)

    def _give_up(self, reason: str, unresolved: str = "") -> TypeSpec:
        self.problems.append(HintProblem(reason, "any value is accepted", self._pydantic_reason, unresolved))
        return TypeSpec({})

    def _read_annotated(self, hint: Any) -> TypeSpec:
        texts = [item for item in hint.__metadata__ if isinstance(item, str)]
        others = [item for item in hint.__metadata__ if not isinstance(item, str)]
        spec = None
        if any(map(_is_constraint, others)):
            spec = self._adapt(hint)
            if spec is None:
                self.problems.append(HintProblem("its constraints are not checked", detail=self._pydantic_reason))
        spec = spec or self.read(hint.__origin__)
        found = (getattr(item, "description", None) or getattr(item, "documentation", None) for item in others)
        description = " ".join(texts) or next((text for text in found if isinstance(text, str)), "")
        if not description:
            return spec
        described = TypeSpec({**spec.schema, **spec.described(description)}, spec.convert, spec.exact, as_is=spec.as_is)
        described.dump, described.names, described.is_described = spec.dump, spec.names, True
        return described

    def _read_generic(self, hint: Any, name: str, arguments: tuple[Any, ...]) -> TypeSpec | None:
        """Any, unions, literals and containers."""
        if name == "Any":
            return TypeSpec({})
        if name in ("Union", "UnionType") and arguments:
            return self._read_union(hint, arguments)
        if name == "Literal":
            return _literal(arguments) or self._give_up("an option of Literal has no form in JSON")
        if name in ("type", "Type"):
            return self._give_up("a class has no form in JSON")
        if name in _QUALIFIERS and arguments:
            return self.read(arguments[0])
        if name == "TypeVar":
            return self.read(hint.__bound__) if hint.__bound__ is not None else TypeSpec({})
        if name in _ARRAYS:
            items = self._read_item(arguments)
            return TypeSpec({"type": "array", **items.schema_as("items")}, of.array(items.spec), as_is=items.as_is)
        if name in _SETS:
            items = self._read_item(arguments)
            schema = {"type": "array", **items.schema_as("items"), "uniqueItems": True}
            return TypeSpec(schema, of.collection(_SETS[name], items.spec))
        if name in ("tuple", "Tuple"):
            return self._read_tuple(arguments, is_bare=not hasattr(hint, "__args__"))
        if name in _OBJECTS:
            return self._read_mapping(arguments)
        return None

    def _read_item(self, arguments: tuple[Any, ...]) -> _Item:
        has_hint = bool(arguments) and type(arguments[0]).__name__ != "TypeVar"
        return _Item(self.read(arguments[0]) if has_hint else None)

    def _read_mapping(self, arguments: tuple[Any, ...]) -> TypeSpec:
        keys, values = self._read_item(arguments[:1]), self._read_item(arguments[1:])
        key = None if keys.spec is None or keys.spec.exact is str else keys.spec
        schema: Schema = {"type": "object", **values.schema_as("additionalProperties")}
        if key is not None and key.schema.get("type") == "string":
            schema["propertyNames"] = key.schema
        return TypeSpec(schema, of.mapping(key, values.spec), as_is=key is None and values.as_is)

    def _read_tuple(self, arguments: tuple[Any, ...], is_bare: bool) -> TypeSpec:
        if is_bare or arguments[1:] == (...,):
            items = self._read_item(arguments)
            return TypeSpec({"type": "array", **items.schema_as("items")}, of.collection(tuple, items.spec))
        specs = [self.read(argument) for argument in arguments if argument != ()]  # so is Tuple[()] before Python 3.11
        schema: Schema = {"type": "array", "minItems": len(specs), "maxItems": len(specs)}
        if specs:
            schema["prefixItems"] = [spec.schema for spec in specs]
        return TypeSpec(schema, of.row(specs, len(specs), None))

    def _read_union(self, hint: Any, options: tuple[Any, ...]) -> TypeSpec:
        adapted_before, definitions_before = self._adapted_count, dict(self.definitions)
        specs = [self.read(option) for option in options]
        others = [spec for spec in specs if spec.exact is not type(None)]
        if self._adapted_count > adapted_before and len(others) > 1:
            # Which of several models is meant, pydantic knows best.
            definitions, self.definitions = self.definitions, definitions_before
            spec = self._adapt(hint)
            if spec is not None:
                return spec
            self.definitions = definitions
        schema = {"anyOf": [spec.schema for spec in specs]}
        as_is = all(spec.as_is for spec in specs)
        if any(spec.convert is None for spec in specs):
            return TypeSpec(schema)
        if len(others) == 1 and len(specs) == 2:
            return TypeSpec(schema, of.optional(others[0]), others[0].exact, as_is=as_is)
        return TypeSpec(schema, of.union(specs), as_is=as_is)

    def _read_class(self, hint: Any) -> TypeSpec | None:
        if hasattr(hint, "__pydantic_validator__") or hasattr(hint, "__pydantic_config__"):
            return None
        enum = sys.modules.get("enum")
        if enum is not None and issubclass(hint, enum.Enum):
            return _enumeration(hint)
        is_named_tuple = issubclass(hint, tuple) and hasattr(hint, "_fields")
        if hasattr(hint, "__dataclass_fields__") or hasattr(hint, "__required_keys__") or is_named_tuple:
            return self._read_fields(hint, is_named_tuple)
        name = f"{hint.__module__.split('.')[0]}.{hint.__qualname__}"  # pathlib has been a package for a while
        if name == "decimal.Decimal":
            return TypeSpec({"anyOf": [{"type": "number"}, {"type": "string"}]}, of.decimal(hint))
        if name in _TEXT_FORMATS:
            return TypeSpec({"type": "string", "format": _TEXT_FORMATS[name]}, of.from_text(hint, name))
        return None

    def _read_fields(self, hint: Any, is_named_tuple: bool) -> TypeSpec | None:
        """A dataclass, a TypedDict or a NamedTuple. One that contains itself is referred to by name."""
        from . import fields

        if hint in self._open:
            return self._referred(hint, hint.__name__)
        if fields.has_pydantic_fields(hint):
            return None
        spec = self._open[hint] = TypeSpec({"type": "array" if is_named_tuple else "object"})
        spec.as_is = False
        found = [(it.name, self.read(it.hint), it.is_required, it.schema) for it in fields.fields_of(hint)]
        if is_named_tuple:
            _fill_row(spec, hint, found)
        else:
            _fill_record(spec, hint, found)
        del self._open[hint]
        return self._defined(hint, spec)

    def _adapt(self, hint: Any) -> TypeSpec | None:
        """By pydantic, if the environment has it and it knows the type."""
        self._pydantic_reason = ""
        try:
            from . import pydantic_types

            adapter, schema, note = pydantic_types.adapt(hint, self.definitions)
        except ImportError as error:
            self._pydantic_reason = f"only pydantic could read it, which cannot be imported ({error}); install pydantic"
            return None
        except Exception as error:  # noqa: BLE001  an old pydantic, or a type that it cannot express either
            self._pydantic_reason = " ".join(str(error).partition("\n\nFor further")[0].split())[:500]
            return None
        self._adapted_count += 1
        self.definitions.update(schema.pop("$defs", {}))
        schema.pop("title", None)
        spec = TypeSpec(schema, pydantic_types.converter(adapter))
        spec.note = note
        schema.update(spec.described(schema.get("description", "")))
        spec.dump = pydantic_types.dumper(adapter)
        return spec


class _Item:
    """The hint of what is in a container, if there is one."""

    def __init__(self, spec: TypeSpec | None) -> None:
        self.spec = spec if spec is not None and spec.convert is not None else None
        self.as_is = spec is None or spec.as_is
        self._schema = None if spec is None else spec.schema

    def schema_as(self, keyword: str) -> Schema:
        return {} if self._schema is None else {keyword: self._schema}


def _value_of(alias: Any) -> Any:
    """What `type X = …` stands for; `X[int]` of `type X[T] = …` has int for T."""
    value = alias.__value__
    given = dict(zip(alias.__type_params__, getattr(alias, "__args__", ())))  # noqa: B905  not in 3.9
    wanted = getattr(value, "__parameters__", ())
    return value[tuple(given.get(it, it) for it in wanted)] if given and wanted else given.get(value, value)


def _is_constraint(item: Any) -> bool:
    kind = type(item)
    library = kind.__module__.split(".")[0]
    if library == "pydantic" and kind.__name__ == "FieldInfo":
        is_only_text = _FIELD_TEXTS.issuperset(getattr(item, "_attributes_set", ("unknown",)))
        return not is_only_text or bool(getattr(item, "metadata", True))
    return library in ("pydantic", "annotated_types") or hasattr(item, "__get_pydantic_core_schema__")


def _literal(options: tuple[Any, ...]) -> TypeSpec | None:
    """In JSON a member of an enumeration is written as for a parameter of that enumeration: its value or its name."""
    values = [_written(option) for option in options]
    kinds = {type(value) for value in values}
    if not kinds <= {str, int, bool, float, type(None)}:
        return None
    as_is = kinds.isdisjoint((int, float)) and all(map(_is_identical, values, options))
    return TypeSpec(_options(values, kinds), of.choice(values, options), as_is=as_is)


def _written(option: Any) -> Any:
    enum = sys.modules.get("enum")
    if enum is None or not isinstance(option, enum.Enum):
        return option
    return option.name if _is_by_name(type(option)) else option.value


def _is_by_name(enumeration: Any) -> bool:
    """Whether some member has a value that a JSON Schema cannot list."""
    return not {type(member.value) for member in enumeration} <= {str, int, bool, float, type(None)}


def _is_identical(value: Any, option: Any) -> bool:
    return value is option


def _enumeration(hint: Any) -> TypeSpec:
    by_name = _is_by_name(hint)
    values = [member.name if by_name else member.value for member in hint]
    schema = _options(values, {type(value) for value in values})
    return TypeSpec({**schema, **_about(hint)}, of.member(hint, by_name=by_name))


def _options(values: list[Any], kinds: set[type]) -> Schema:
    return {**PLAIN[next(iter(kinds))].schema, "enum": values} if len(kinds) == 1 else {"enum": values}


def _fill_record(spec: TypeSpec, hint: Any, found: list[tuple[str, TypeSpec, bool, Schema]]) -> None:
    spec.schema.update(_about(hint))
    spec.schema["properties"] = {name: {**read.schema, **extra} for name, read, _, extra in found}
    required = [name for name, _, is_required, _ in found if is_required]
    if required:
        spec.schema["required"] = required
    spec.names = frozenset(name for name, *_ in found)
    make = hint if hasattr(hint, "__dataclass_fields__") else None
    spec.convert = of.record([(name, read, is_required) for name, read, is_required, _ in found], make)


def _fill_row(spec: TypeSpec, hint: Any, found: list[tuple[str, TypeSpec, bool, Schema]]) -> None:
    least = sum(is_required for _, _, is_required, _ in found)
    spec.schema.update(_about(hint), minItems=least, maxItems=len(found))
    # The name of a place is nowhere else in the schema.
    if found:
        spec.schema["prefixItems"] = [{"title": name, **read.schema, **extra} for name, read, _, extra in found]
    spec.convert = of.row([read for _, read, _, _ in found], least, hint)


def _about(hint: type) -> Schema:
    """What a class says of itself, unless Python says it."""
    text = vars(hint).get("__doc__")
    if not isinstance(text, str) or text.startswith(f"{hint.__name__}(") or text == "An enumeration.":
        return {}
    return {"description": "\n".join(line.strip() for line in text.strip().splitlines())}


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
