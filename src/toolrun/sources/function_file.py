"""Python files without a PEP 723 header: their `@tool` functions run in this process."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from toolrun.errors import ConfigError
from toolrun.execution.failure import text_of
from toolrun.regular_file import MAX_PYTHON_BYTES, read_regular_file
from toolrun.tools.function import FunctionTool

_PACKAGE: Final = re.compile(r"[A-Za-z0-9_]{1,80}")


def load_functions(path: Path, *, is_edited: bool = False) -> list[FunctionTool[..., Any]]:
    """Import a file and return its tools, in order. Raises ConfigError for a file that cannot be imported.

    `is_edited`: it was imported before, and may have been edited in the same second.
    """
    module = _import(path, is_edited=is_edited)
    tools = [value for value in vars(module).values() if isinstance(value, FunctionTool)]
    return [tool for tool in tools if not _is_imported(tool, module)]


def functions_without_tool(path: Path) -> list[str]:
    """The public functions of a file that has no tool, which its author may have meant to be tools.

    A module that another file imports holds what its tools share, and needs none.
    """
    name = _module_name(path)
    module = sys.modules.get(name)
    if module is None or any(
        getattr(it, "__file__", None) == str(path) for it in list(sys.modules.values()) if it is not module
    ):
        return []
    functions = (value for value in vars(module).values() if isinstance(value, FunctionType))
    return [it.__name__ for it in functions if it.__module__ == name and not it.__name__.startswith("_")]


def _is_imported(tool: FunctionTool[..., Any], module: ModuleType) -> bool:
    """Whether the tool is another module's. A tool that the file itself made from an imported function is not."""
    home = sys.modules.get(tool.__module__)
    return home not in (None, module) and any(value is tool for value in vars(home).values())


def _import(path: Path, *, is_edited: bool) -> ModuleType:
    name = _module_name(path)
    if path.suffix != ".py":
        raise ConfigError("is not a Python file")
    spec = importlib.util.spec_from_file_location(
        name, path, loader=(_EditedLoader if is_edited else _Loader)(name, str(path))
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and pydantic look up a class's module by its name
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before  # its tools stay in use
        raise ConfigError(
            f"cannot be imported: {type(error).__name__}: {text_of(error)}{_line(error, path)}{_advice(error, path)}"
        ) from error
    return module


def _module_name(path: Path) -> str:
    """Unique, so that two files called search.py do not replace each other."""
    # A link may lead to itself, on which `resolve` fails.
    return f"toolrun_tools.{path.stem}_{hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:8]}"


class _Loader(SourceFileLoader):
    """Reads the file and its bytecode."""

    def get_data(self, path: str) -> bytes:
        return read_regular_file(path, MAX_PYTHON_BYTES)


class _EditedLoader(_Loader):
    """Leaves the bytecode alone: Python compares whole seconds, and would take that of the version before."""

    def path_stats(self, path: str) -> Any:
        raise OSError


def _advice(error: BaseException, path: Path) -> str:
    """What to do about a package that is missing: a script has packages of its own."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    is_local = any((folder / package).is_dir() or (folder / f"{package}.py").exists() for folder in path.parents[:2])
    if is_local or package in sys.stdlib_module_names or package == "toolrun" or not _PACKAGE.fullmatch(package):
        return ""
    return (
        f". Install the package where toolrun runs, or make the file a script, which has packages of its own: begin it "
        f"with the three lines '# /// script', '# dependencies = [\"{package}\"]' and '# ///', and remove @tool, since "
        "every public function of a script is a tool"
    )


def _line(error: BaseException, path: Path) -> str:
    """The line of the file in which the error was raised."""
    if isinstance(error, SyntaxError):
        return ""  # its text has the line
    line, traceback = 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f" (line {line})" if line else ""
