"""The composition root: a configuration becomes a manager full of tools and an executor that runs them.

Everything else receives what it needs; here it is made, and here it ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolrun.builtins import BUILTINS, Handler
from toolrun.config import Config, find_config, load_config
from toolrun.errors import ConfigError, DefinitionError
from toolrun.executor import ToolExecutor
from toolrun.manager import ToolManager, logger
from toolrun.observers import LogObserver, Observer
from toolrun.redaction import Redactor
from toolrun.settings import JSON
from toolrun.sources.catalog import Problem, declared_tool, read_catalog
from toolrun.sources.function import load_functions
from toolrun.workers.pep723 import has_header


class Runtime:
    """A configured set of tools, ready to be called. Use `async with Runtime.open(…)`."""

    def __init__(self, config: Config, observers: tuple[Observer, ...] = ()) -> None:
        self.config = config
        self.manager = ToolManager()
        self.problems: list[Problem] = []
        """Files and tools that could not be loaded, each with the reason. The others work."""
        self._internals: dict[str, Handler] = {}
        self._builtins: dict[str, Handler] = dict(BUILTINS)
        log = LogObserver(slow_call=config.limits.slow_call, redactor=Redactor(config.secrets.values()))
        self.executor = ToolExecutor(
            self.manager,
            config.timeout,
            limits=config.limits,
            settings=config.tool,
            secrets=config.secrets,
            observers=[log, *observers],
        )

    @staticmethod
    @asynccontextmanager
    async def open(
        source: str | Path | Config | None = None,
        *,
        observers: tuple[Observer, ...] = (),
        overrides: Mapping[str, JSON] | None = None,
    ) -> AsyncIterator[Runtime]:
        """Load a configuration and its tools; on leaving, end everything that was started.

        `source` is the path of a toolrun.toml, a Config, or nothing: then the nearest toolrun.toml upwards is used, and
        without one the defaults. Raises ConfigError for a configuration that cannot be used.
        """
        runtime = Runtime(read_config(source, overrides=overrides), observers)
        try:
            runtime._load()
            yield runtime
        finally:
            await runtime.executor.close()

    def register_internal(self, name: str, handler: Callable[[dict[str, Any]], object]) -> None:
        """Offer a service of the host application to catalog entries of type `internal`."""
        self._internals[name] = handler

    def _load(self) -> None:
        root = self.config.root
        for path in _files(root, self.config.files.python):
            self._load_python(path)
        for path in _files(root, self.config.files.catalogs):
            catalog = read_catalog(path)
            self.problems += catalog.problems
            for index, declaration in enumerate(catalog.declarations):
                tool = declared_tool(declaration, builtins=self._builtins, internals=self._internals)
                self._add(tool, path, index)
        for problem in self.problems:
            logger.warning("%s", problem)

    def _load_python(self, path: Path) -> None:
        try:
            if has_header(path.read_text(encoding="utf-8", errors="replace")):
                raise ConfigError("declares its own dependencies (PEP 723); script tools are not supported yet")
            if str(self.config.root) not in sys.path:
                sys.path.append(str(self.config.root))  # last, so that the project's own modules shadow nothing
            tools = load_functions(path)
        except (ConfigError, OSError) as error:
            self.problems.append(Problem(path, None, "", str(error)))
            return
        for index, tool in enumerate(tools):
            self._add(tool, path, index)

    def _add(self, tool: Any, path: Path, index: int) -> None:
        settings = self.config.tool.get(tool.name)
        if settings is not None and not settings.enabled:
            return
        try:
            self.manager.add(tool)
        except DefinitionError as error:
            self.problems.append(Problem(path, index, tool.name, str(error)))


def read_config(source: str | Path | Config | None, *, overrides: Mapping[str, JSON] | None = None) -> Config:
    """The configuration that `source` means, with the environment of this process."""
    if isinstance(source, Config):
        return source
    path = Path(source) if source is not None else find_config(Path.cwd())
    return load_config(path, environ=os.environ, overrides=overrides or {})


def _files(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    """The files that the patterns name, each once, in a stable order; those that start with _ are not tools."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and not path.name.startswith(("_", ".")):
                found[path] = None
    return list(found)
