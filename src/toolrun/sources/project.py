"""All the tools of a project: what its configuration names, in files of every kind."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolrun.builtins import BUILTINS, Handler
from toolrun.config import Config
from toolrun.errors import ConfigError, DefinitionError
from toolrun.manager import ToolManager
from toolrun.sources.catalog import declared_tool, read_catalog
from toolrun.sources.function import load_functions
from toolrun.sources.problem import Problem
from toolrun.workers.pep723 import has_header


def load_project(config: Config, manager: ToolManager, internals: Mapping[str, Handler]) -> list[Problem]:
    """Add the tools of a project to `manager`. A file or tool that cannot be loaded is a problem; the others load."""
    problems: list[Problem] = []
    for path in _files(config.root, config.files.python):
        try:
            tools = _python_tools(path, config.root)
        except (ConfigError, OSError) as error:
            problems.append(Problem(path, None, "", str(error)))
        else:
            problems += _add(tools, path, config, manager)
    for path in _files(config.root, config.files.catalogs):
        catalog = read_catalog(path)
        problems += catalog.problems
        tools = [declared_tool(it, builtins=BUILTINS, internals=internals) for it in catalog.declarations]
        problems += _add(tools, path, config, manager)
    return problems


def _files(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    """The files that the patterns name, each once, in a stable order; those that start with _ or . are no tools."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and not path.name.startswith(("_", ".")):
                found[path] = None
    return list(found)


def _python_tools(path: Path, root: Path) -> list[Any]:
    if has_header(path.read_text(encoding="utf-8", errors="replace")):
        raise ConfigError("declares its own dependencies (PEP 723); script tools are not supported yet")
    if str(root) not in sys.path:
        sys.path.append(str(root))  # last, so that the project's own modules shadow nothing
    return list(load_functions(path))


def _add(tools: list[Any], path: Path, config: Config, manager: ToolManager) -> list[Problem]:
    problems = []
    for index, tool in enumerate(tools):
        settings = config.tool.get(tool.name)
        if settings is not None and not settings.enabled:
            continue
        try:
            manager.add(tool)
        except DefinitionError as error:
            problems.append(Problem(path, index, tool.name, str(error)))
    return problems
