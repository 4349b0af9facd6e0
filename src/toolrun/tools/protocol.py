"""What a tool is: anything with a name, a description, a schema and a way to call it, whoever made it.

Only the first two are the same for all of them. A function tool, a script and an MCP tool have `schema`, a LangChain
tool `args_schema`; some have `invoke`, some `ainvoke`. Where the kinds differ is known here and in `adapt`, where
foreign objects come in, and in `execution.prepared`, which decides how a tool runs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from toolrun.errors import DefinitionError
from toolrun.json import JSON
from toolrun.schema.origin import Origin

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Tool(Protocol):
    """What every tool has.

    Besides, it has `schema` (or LangChain's `args_schema`) and `invoke(arguments)` or `ainvoke(arguments)`. It may have
    `title`, `annotations`, `output_schema`, `timeout` (seconds), `effects`, `source` (a path, or text) and
    `schema_origin`.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...


def check_name(name: object) -> None:
    """Raises DefinitionError unless `name` is one that every consumer can carry."""
    if not isinstance(name, str) or not name:
        raise DefinitionError("The tool has no name. Give it one with @tool(name=…).")
    if not _NAME.fullmatch(name):
        raise DefinitionError(
            f"The tool name {name!r:.150} cannot be used: names are 1 to 128 characters out of A-Z a-z 0-9 _ . -"
        )


def is_seconds(value: Any) -> bool:
    """Whether a value can be a timeout: a finite number above zero. A foreign object is not asked what it is."""
    return type(value) in (int, float) and 0 < value <= sys.float_info.max


def origin_of(tool: Tool) -> Origin:
    """Who made the schema of a tool."""
    origin = getattr(tool, "schema_origin", None)
    if isinstance(origin, Origin):
        return origin
    if "langchain_core.tools.base" in sys.modules:
        from toolrun.tools.langchain_tool import is_langchain, takes_any_names  # as below

        if is_langchain(tool) and takes_any_names(tool):
            return Origin.SERVER
    return Origin.DECLARED


def source_of(tool: Tool) -> str:
    """The file or server that a tool comes from; empty if it has neither."""
    source = getattr(tool, "source", None)
    code = getattr(getattr(tool, "__wrapped__", None), "__code__", None)
    return str((code.co_filename if source is None and code is not None else source) or "")


def schema_of(tool: Tool) -> Mapping[str, JSON]:
    """The JSON Schema of a tool's arguments, from wherever its kind of object keeps it."""
    schema = getattr(tool, "schema", None)
    if isinstance(schema, Mapping):
        return schema
    if "langchain_core.tools.base" in sys.modules:
        from toolrun.tools.langchain_tool import is_langchain, langchain_schema  # reads signatures, as few tools need

        if is_langchain(tool):
            return langchain_schema(tool)
    declared: Any = getattr(tool, "tool_call_schema", None) or getattr(tool, "args_schema", None)
    if declared is None and schema is not None and not callable(schema):
        declared = schema
    if isinstance(declared, Mapping):
        return declared
    make = getattr(declared, "model_json_schema", None) or getattr(declared, "schema", None)
    if make is None:
        raise DefinitionError("there is no schema; the tool needs 'schema' or 'args_schema'")
    return cast(Mapping[str, JSON], make())
