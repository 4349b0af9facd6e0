"""Hints that pydantic reads, where the environment has it: models, constraints, its own types, and foreign ones."""

from __future__ import annotations

import re
import sys
import typing
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .convert import Convert
    from .type_spec import Schema

_PORTABLE = re.compile(
    r"""\^? (?:
        [\w \-,:;/@\#%&!~"'<>=.|]              # what stands for itself, any character, alternatives
        | \\ [\^$\\.*+?()\[\]{}|/nrtfv]
        | \( (?: \?: | (?! \? ) ) | \)
        | \[ \^? (?: [\w ,:;/@%!"'<>=.*+?(){}|$] | - | \\ [\^$\\.*+?()\[\]{}|/nrtfv-] )+ \]
        | [*+?] \?? (?! [*+?{] )
        | \{ [0-9]+ (?: , [0-9]* )? \} \?? (?! [*+?{] )
    )* \$?""",
    re.ASCII | re.VERBOSE,
)
"""Patterns that mean the same to pydantic and to JSON Schema. Not among them: `\\d`, `\\w`, `\\s` and `\\b`, which are
ASCII there and Unicode here, flags, `\\A`, `\\Z`, named groups, and what looks around."""


def adapt(hint: Any, definitions: Schema) -> tuple[Any, Schema, str]:
    """The type's adapter, a schema whose own definitions can stand beside the given ones, and a rule beside it.

    Raises ImportError without pydantic, and whatever pydantic raises for a type that it cannot express.
    """
    from pydantic import TypeAdapter

    if getattr(hint, "__pydantic_complete__", True) is False and hasattr(hint, "model_rebuild"):
        hint.model_rebuild()  # what is missing may be there by now; if not, this says what it is
    adapter: Any = TypeAdapter(for_pydantic(hint))
    schema = adapter.json_schema()
    if any(definitions.get(name, made) != made for name, made in schema.get("$defs", {}).items()):
        schema = adapter.json_schema(ref_template=f"#/$defs/{len(definitions)}.{{model}}")
        schema["$defs"] = {f"{len(definitions)}.{name}": it for name, it in schema["$defs"].items()}
    return adapter, schema, move_patterns(schema, adapter)


def move_patterns(schema: Schema, source: Any) -> str:
    """Move patterns that JSON Schema would read otherwise into descriptions. `source` is an adapter or a model.

    The pattern is pydantic's, and pydantic judges it when it makes the value. Returns the rule of the schema's own
    root, whose description the caller writes.
    """
    core = getattr(source, "__pydantic_core_schema__", None) or getattr(source, "core_schema", None)
    is_python = _uses_python_patterns(core)
    rule = ""
    stack: list[tuple[Any, bool]] = [(schema, True)]
    while stack:
        part, is_schema = stack.pop()
        if isinstance(part, list):
            stack += [(item, True) for item in part]
        if not isinstance(part, dict):
            continue
        if is_schema:
            found = _move_pattern(part, is_python)
            if found and part is schema:
                rule = found
            elif found:
                part["description"] = "\n".join(filter(None, (part.get("description"), found)))
        for key, item in part.items():
            if not is_schema or key not in ("default", "examples", "enum", "const"):
                # The keys of these are names of the author's, not keywords.
                stack.append((item, not is_schema or key not in ("properties", "$defs", "patternProperties")))
    return rule


def _move_pattern(part: Schema, is_python: bool) -> str:
    keys = part.get("patternProperties")
    if isinstance(keys, dict) and len(keys) == 1 and not _is_portable(next(iter(keys)), is_python):
        ((pattern, values),) = part.pop("patternProperties").items()
        part["additionalProperties"] = values
        return f"Names must match the regular expression {pattern}"
    pattern = part.get("pattern")
    if not isinstance(pattern, str) or _is_portable(pattern, is_python):
        return ""
    del part["pattern"]
    return f"Must match the regular expression {pattern}"


def _is_portable(pattern: str, is_python: bool) -> bool:
    """Nothing is with Python's `re`: it has flags, and its `$` also matches before a line break at the end."""
    return not is_python and len(pattern) <= 1000 and bool(_PORTABLE.fullmatch(pattern))


def _uses_python_patterns(core: Any) -> bool:
    """Whether a core schema has patterns for Python's `re`: by `regex_engine`, or compiled ones."""
    met: set[int] = set()
    stack = [core]
    while stack:
        part = stack.pop()
        if isinstance(part, re.Pattern) or part == "python-re":
            return True
        if id(part) in met or not isinstance(part, (dict, list, tuple)):
            continue
        met.add(id(part))
        stack += part.values() if isinstance(part, dict) else part
    return False


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
