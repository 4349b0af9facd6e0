"""The tools as the shell completes them: known from the last run that loaded them, file by file.

Completing must not run anything of the project: no file is imported, no server and no worker is started. So each
command that has loaded tools leaves their names here, with a stamp of each file. A Python file that has changed since,
or that nobody has loaded, is read as text: what its functions are called, and what values their parameters name.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolrun.config.cache_directory import cache_directory
from toolrun.regular_file import MAX_PYTHON_BYTES, read_regular_file
from toolrun.tools.naming import name_of_function

if TYPE_CHECKING:
    from toolrun.config.model import Config
    from toolrun.runtime import Runtime

_MAX_BYTES: Final = 4_000_000
_MAX_VALUES: Final = 100
_HEADER: Final = "# /// script"

Parameters = dict[str, list[str]]
"""The parameters of a tool, each with the values that it can have, if there are few."""
Tools = dict[str, dict[str, Any]]
"""By name: `help` and `parameters`."""


def remember_tools(runtime: Runtime) -> None:
    """Keep what the shell may complete. It does not matter if that fails: completion then knows less."""
    from toolrun.tools.protocol import schema_of, source_of

    config = runtime.config
    known: dict[str, dict[str, Any]] = {}
    for tool in runtime.manager:
        source = source_of(tool)
        group = known.setdefault(source, {"stamp": _stamp(source) or _stamp(config.path), "tools": {}})
        headline = tool.description.strip().partition("\n")[0]
        group["tools"][tool.name] = {"help": headline, "parameters": _parameters(schema_of(tool))}
    with contextlib.suppress(OSError, ValueError):
        path = _path(config)
        before = _read(path)
        groups = {source: it for source, it in before.items() if _is_current(source, it, config)} | known
        if groups != before:
            _write(path, groups)


def known_tools(config: Config) -> Tools:
    """The tools of a project by name, without loading one."""
    groups = _read(_path(config))
    found: Tools = {}
    for source, group in groups.items():
        if _is_current(source, group, config):
            found |= group["tools"]
    for pattern in config.files.python:
        for path in sorted(config.root.glob(pattern)):
            current = str(path) in groups and _is_current(str(path), groups[str(path)], config)
            if not current and not path.name.startswith(("_", ".")):
                found |= _tools_in(path)
    return found


def _parameters(schema: Mapping[str, Any]) -> Parameters:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    definitions = schema.get("$defs")
    return {
        str(name): _values(it, definitions if isinstance(definitions, Mapping) else {})
        for name, it in properties.items()
    }


def _values(schema: Any, definitions: Mapping[str, Any]) -> list[str]:
    """What a parameter can be, as it is written on the command line."""
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    if isinstance(reference, str):
        schema = definitions.get(reference.removeprefix("#/$defs/"))
        definitions = {}  # one step: a definition may refer to itself
    if not isinstance(schema, Mapping):
        return []
    values = schema.get("enum")
    if schema.get("type") == "boolean":
        values = [True, False]
    if "const" in schema:
        values = [schema["const"]]
    if isinstance(values, list) and len(values) <= _MAX_VALUES:
        return [it if isinstance(it, str) else json.dumps(it) for it in values]
    choices = [it for key in ("anyOf", "oneOf") for it in schema.get(key) or ()]
    return [value for it in choices for value in _values(it, definitions)]


def _tools_in(path: Path) -> Tools:
    """The tools of a Python file, as far as its text says."""
    try:
        text = read_regular_file(path, MAX_PYTHON_BYTES).decode("utf-8", "replace")
        functions = [it for it in ast.parse(text).body if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    if _HEADER in text:
        public = [it for it in functions if not it.name.startswith("_")]
        names = [name_of_function(path.stem, it.name) for it in public]
    else:
        public = [it for it in functions if _name_of_tool(it)]
        names = [_name_of_tool(it) for it in public]
    return {name: {"help": _headline(it), "parameters": _declared(it)} for name, it in zip(names, public, strict=True)}


def _name_of_tool(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Empty if it has no `@tool`."""
    for it in function.decorator_list:
        call = it.func if isinstance(it, ast.Call) else it
        if (call.id if isinstance(call, ast.Name) else getattr(call, "attr", "")) != "tool":
            continue
        options = it.keywords if isinstance(it, ast.Call) else []
        given = [key.value.value for key in options if key.arg == "name" and isinstance(key.value, ast.Constant)]
        return str(given[0]) if given else function.name
    return ""


def _headline(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return (ast.get_docstring(function) or "").partition("\n")[0]


def _declared(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Parameters:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return {it.arg: _hinted(it.annotation) for it in arguments if _name(it.annotation) != "ToolContext"}


def _hinted(hint: ast.expr | None) -> list[str]:
    if _name(hint) == "bool":
        return ["true", "false"]
    if isinstance(hint, ast.BinOp):  # X | None
        return _hinted(hint.left)
    if not isinstance(hint, ast.Subscript):
        return []
    items = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
    if _name(hint.value) == "Annotated":
        return _hinted(items[0])
    if _name(hint.value) != "Literal":
        return []
    values = [it.value for it in items if isinstance(it, ast.Constant)]
    return [it if isinstance(it, str) else json.dumps(it) for it in values if it is not None]


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _path(config: Config) -> Path:
    cache = cache_directory(config.workers, config.root)
    return cache / "completion" / f"{hashlib.sha256(os.fsencode(config.root)).hexdigest()[:32]}.json"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        groups = json.loads(read_regular_file(path, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return groups if isinstance(groups, dict) and all(map(_is_group, groups.values())) else {}


def _is_group(group: object) -> bool:
    return isinstance(group, dict) and isinstance(group.get("tools"), dict) and "stamp" in group


def _write(path: Path, groups: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(groups, file)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _is_current(source: str, group: Mapping[str, Any], config: Config) -> bool:
    """Whether a file is the one that was loaded; of a server, whether the configuration is."""
    stamp = _stamp(source) if Path(source).is_absolute() else _stamp(config.path)
    return stamp is not None and stamp == group["stamp"]


def _stamp(path: str | Path | None) -> list[int] | None:
    if not path or not Path(path).is_absolute():
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size]


def matching(tools: Tools, beginning: str) -> Iterator[tuple[str, str]]:
    """The names that begin so, with their help."""
    for name, about in sorted(tools.items()):
        if name.startswith(beginning):
            yield name, str(about.get("help", ""))
