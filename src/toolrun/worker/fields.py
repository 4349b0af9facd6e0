"""The fields of dataclasses, TypedDicts and NamedTuples, and defaults as a schema shows them."""

from __future__ import annotations

from . import normalise
from .type_spec import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .type_spec import Schema, TypeSpec


class Field:
    __slots__ = ("hint", "is_required", "name", "schema")

    def __init__(self, name: str, hint: Any, is_required: bool, schema: Schema) -> None:
        self.name = name
        self.hint = hint
        self.is_required = is_required
        self.schema = schema
        """What the schema of the field has besides that of its type."""


def has_pydantic_fields(hint: Any) -> bool:
    """Whether a dataclass says `= Field(…)` of pydantic: only pydantic knows what that means."""
    found = getattr(hint, "__dataclass_fields__", {}).values()
    return any(type(field.default).__module__.startswith("pydantic.") for field in found)


def fields_of(hint: Any) -> Iterator[Field]:
    hints = _hints(hint)
    if hasattr(hint, "__dataclass_fields__"):
        return _dataclass_fields(hint, hints)
    return _named_tuple_fields(hint, hints) if issubclass(hint, tuple) else _typed_dict_fields(hint, hints)


def _hints(hint: Any) -> dict[str, Any]:
    import typing

    try:
        return typing.get_type_hints(hint, include_extras=True)
    except Exception:  # noqa: BLE001  a name that is not there; the others are read one by one
        own = [vars(cls).get("__annotations__", {}) for cls in reversed(hint.__mro__)]
        return {name: inner for annotations in own for name, inner in annotations.items()}


def _typed_dict_fields(hint: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name, inner in hints.items():
        # An explicit mark decides: where annotations are text, __required_keys__ does not see it.
        marks: list[str] = []
        bare = _without_marks(inner, marks)
        is_required = name in hint.__required_keys__
        for mark in marks:
            is_required = mark == "Required" if mark in ("Required", "NotRequired") else is_required
        yield Field(name, bare, is_required, {})


def _without_marks(hint: Any, marks: list[str]) -> Any:
    """The hint of a field without Required, NotRequired and ReadOnly, which only a TypedDict knows."""
    if hasattr(hint, "__metadata__"):
        from typing import Annotated

        inner = _without_marks(hint.__origin__, marks)
        return hint if inner is hint.__origin__ else Annotated[(inner, *hint.__metadata__)]
    mark = name_of(hint)
    if mark not in ("Required", "NotRequired", "ReadOnly"):
        return hint
    marks.append(mark)
    return _without_marks(hint.__args__[0], marks)


def _named_tuple_fields(hint: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name in hint._fields:
        has_default = name in hint._field_defaults
        extra = shown_default(hint._field_defaults[name]) if has_default else {}
        yield Field(name, hints.get(name, object), not has_default, extra)


def _dataclass_fields(hint: Any, hints: dict[str, Any]) -> Iterator[Field]:
    for name, field in hint.__dataclass_fields__.items():
        if not field.init or field._field_type.name == "_FIELD_CLASSVAR":
            continue
        has_default, has_factory = (
            type(it).__name__ != "_MISSING_TYPE" for it in (field.default, field.default_factory)
        )
        extra = shown_default(field.default) if has_default else {}
        if isinstance(field.metadata.get("description"), str):
            extra["description"] = field.metadata["description"]
        yield Field(name, hints.get(name, field.type), not (has_default or has_factory), extra)


def shown_default(default: object, spec: TypeSpec | None = None) -> Schema:
    """A default as it stands in a schema, unless JSON cannot express it."""
    if default is None or type(default) in (int, bool):
        return {"default": default}
    import json

    try:
        value = default if spec is None or spec.dump is None else spec.dump(default)
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, default=_for_schema)
        return {"default": json.loads(text.encode())}
    except Exception:  # noqa: BLE001  a foreign object's own methods
        return {}


def _for_schema(value: Any) -> object:
    """As an argument is written, which is not always as a result is."""
    kind = type(value)
    if kind.__module__ == "datetime" and kind.__name__ == "timedelta":
        return iso_duration(value)
    if hasattr(kind, "__members__") and type(value.value) not in (str, int, bool, float, type(None)):
        return value.name
    return normalise.convert(value)


def iso_duration(value: Any) -> str:
    """`PT1M30S`, as pydantic writes it."""
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    clock = [f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M")) if amount]
    if seconds or fraction or not (clock or value.days):
        clock.append(f"{seconds}{fraction}S")
    return f"{sign}P{f'{value.days}D' if value.days else ''}{'T' if clock else ''}{''.join(clock)}"
