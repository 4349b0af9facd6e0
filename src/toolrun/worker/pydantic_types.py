"""Hints that pydantic reads, where the environment has it: models, constraints, its own types, and foreign ones."""

from __future__ import annotations

import sys
import typing
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .convert import Convert
    from .hint import Schema


def adapt(hint: Any, definitions: Schema) -> tuple[Any, Schema]:
    """The type's adapter, and a schema whose own definitions can stand beside the given ones.

    Raises ImportError without pydantic, and whatever pydantic raises for a type that it cannot express.
    """
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(for_pydantic(hint))
    schema = adapter.json_schema()
    if any(definitions.get(name, made) != made for name, made in schema.get("$defs", {}).items()):
        schema = adapter.json_schema(ref_template=f"#/$defs/{len(definitions)}.{{model}}")
        schema["$defs"] = {f"{len(definitions)}.{name}": it for name, it in schema["$defs"].items()}
    return adapter, schema


def converter(adapter: Any) -> Convert:
    """As JSON, not as objects: only there a strict model takes text for a date, and a list for a set."""
    from pydantic_core import to_json

    return lambda value: adapter.validate_json(to_json(value))


def dumper(adapter: Any) -> Convert:
    return lambda value: adapter.dump_python(value, mode="json", warnings=False)


def for_pydantic(hint: Any) -> Any:
    """Before Python 3.12 pydantic takes only typing_extensions' TypedDict; users write typing's."""
    if sys.version_info >= (3, 12):
        return hint
    if hasattr(hint, "__required_keys__") and type(hint).__module__ == "typing":
        import typing_extensions as te

        fields: dict[str, Any] = {}
        for name, field in typing.get_type_hints(hint, include_extras=True).items():
            # An explicit mark decides: where annotations are text, __required_keys__ does not see it.
            mark = te.get_origin(field) if te.get_origin(field) in (te.Required, te.NotRequired) else None
            inner = for_pydantic(te.get_args(field)[0] if mark else field)
            is_required = name in hint.__required_keys__ if mark is None else mark is te.Required
            fields[name] = te.Required[inner] if is_required else te.NotRequired[inner]
        return te.TypedDict(hint.__name__, fields)  # type: ignore[operator]  # the functional form, from data
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if not arguments or origin is typing.Literal:
        return hint
    is_annotated = hasattr(hint, "__metadata__")
    replaced = tuple(for_pydantic(argument) for argument in (arguments[:1] if is_annotated else arguments))
    if replaced == arguments[: len(replaced)]:
        return hint
    if is_annotated:
        return typing.Annotated[(replaced[0], *hint.__metadata__)]
    is_union = origin is typing.Union or type(hint).__name__ == "UnionType"
    return typing.Union[replaced] if is_union else origin[replaced]
