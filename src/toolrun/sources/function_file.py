"""Python files without a PEP 723 header: their `@tool` functions run in this process."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from toolrun.errors import ConfigError
from toolrun.execution.failure import text_of
from toolrun.regular_file import MAX_PYTHON_BYTES, read_regular_file
from toolrun.tools.function import FunctionTool


def load_functions(path: Path) -> list[FunctionTool[..., Any]]:
    """Import a file and return its tools, in order. Raises ConfigError for a file that cannot be imported."""
    module = _import(path)
    tools = [value for value in vars(module).values() if isinstance(value, FunctionTool)]
    return [tool for tool in tools if not _is_imported(tool, module)]


def _is_imported(tool: FunctionTool[..., Any], module: ModuleType) -> bool:
    """Whether the tool is another module's. A tool that the file itself made from an imported function is not."""
    home = sys.modules.get(tool.__module__)
    return home not in (None, module) and any(value is tool for value in vars(home).values())


def _import(path: Path) -> ModuleType:
    # Unique, so that two files called search.py do not replace each other. A link may lead to itself: not `resolve`.
    name = f"toolrun_tools.{path.stem}_{hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:8]}"
    if path.suffix != ".py":
        raise ConfigError("is not a Python file")
    spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pydantic look up a class's module by its name
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise ConfigError(
            f"cannot be imported: {type(error).__name__}: {text_of(error)}{_line(error, path)}"
        ) from error
    return module


class _Loader(SourceFileLoader):
    """Reads the file and its bytecode."""

    def get_data(self, path: str) -> bytes:
        return read_regular_file(path, MAX_PYTHON_BYTES)


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
