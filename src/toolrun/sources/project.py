"""Loads all tools of a project: function files, scripts, catalogs and MCP servers."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from toolrun.builtins import BUILTINS, Handler
from toolrun.config.model import Config, ServerSettings
from toolrun.errors import CallError, ConfigError, DefinitionError
from toolrun.regular_file import MAX_PYTHON_BYTES, read_regular_file
from toolrun.scripts.pep723 import has_header
from toolrun.sources.catalog import declared_tool, read_catalog
from toolrun.sources.function_file import load_functions
from toolrun.sources.load_problem import LoadProblem
from toolrun.tools.manager import ToolManager, logger

if TYPE_CHECKING:
    from toolrun.mcp.client.mcp_source import McpSource
    from toolrun.processes.engine import Engine
    from toolrun.scripts.environment import Environments
    from toolrun.scripts.source import Script, ScriptServices, ScriptTool

_RETRY = 10.0
"""Seconds after which a script that could not be loaded is tried again, if one of its tools is called."""
_DRAIN = 5.0
"""Seconds that running calls of scripts have to end when the project is closed."""


class Project:
    """Adds the tools of a project to a manager, and closes their workers and servers."""

    def __init__(
        self,
        config: Config,
        manager: ToolManager,
        internals: Mapping[str, Handler],
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """`on_progress` gets a line for each step in making the environments of scripts. Default: they are logged."""
        self._config = config
        self._manager = manager
        self._internals = internals
        self._on_progress = on_progress or _log_progress
        self.problems: list[LoadProblem] = []
        """The files and tools that could not be loaded. The others work."""
        self.scripts: list[Script] = []
        self.mcp: McpSource | None = None
        """The MCP servers, if there are any."""
        self._engine: Engine | None = None
        self._environments: Environments | None = None
        self._deferred: dict[str, float] = {}
        """Names of scripts that are not loaded, and when that may be tried again, on the clock of `monotonic`."""
        self._loading = asyncio.Lock()

    async def load(self, environ: Mapping[str, str], *, lazy: bool = False) -> None:
        """Load the files. Connections to servers open in the background; this does not wait for them.

        `lazy`: a script is loaded when one of its tools is waited for.
        """
        self._is_lazy = lazy
        self._start_servers(environ)
        paths = _files(self._config.root, self._config.files.python)
        scripts = [path for path in paths if await asyncio.to_thread(is_script, path)]
        loaded = dict(zip(scripts, await self._load_scripts(scripts, environ), strict=True)) if scripts else {}
        for path in paths:
            self._add(loaded[path] if path in loaded else self._load_functions(path), path)
        for path in _files(self._config.root, self._config.files.catalogs):
            catalog = read_catalog(path)
            self.problems += catalog.problems
            tools = [declared_tool(it, builtins=BUILTINS, internals=self._internals) for it in catalog.declarations]
            self._add(tools, path)
        if self.mcp is not None:
            self.mcp.open()

    def _start_servers(self, environ: Mapping[str, str]) -> None:
        config = self._config
        servers = dict(config.servers)
        for reason in config.missing_servers.values():
            self.problems.append(LoadProblem(config.path or config.root, None, "", reason))
        for pattern in config.mcp.files:
            path = _resolve_path(pattern, config.root)
            servers = self._read_servers(path, environ) | servers  # the configuration itself takes precedence
        for name, settings in config.servers.items():
            if settings.enabled and bool(settings.command) == bool(settings.url):
                fault = "needs either 'command' or 'url'" + (", and has both" if settings.url else "")
                self.problems.append(LoadProblem(config.path or config.root, None, "", f"[servers.{name}] {fault}"))
                del servers[name]
        enabled = {name: settings for name, settings in servers.items() if settings.enabled}
        if enabled:
            from toolrun.mcp.client.mcp_source import McpSource

            self.mcp = McpSource(config, enabled, self._manager, environ)

    def _read_servers(self, path: Path, environ: Mapping[str, str]) -> dict[str, ServerSettings]:
        from toolrun.mcp.hosts.host_files import read_servers

        try:
            servers, problems = read_servers(path, environ)
        except ConfigError as error:
            self.problems.append(LoadProblem(path, None, "", str(error).removeprefix(f"{path}: ")))
            return {}
        self.problems += [LoadProblem(path, None, "", f"server '{name}': {it}") for name, it in problems.items()]
        return servers

    async def wait_for(self, name: str) -> None:
        """Wait until there is a tool of that name, or none can be expected any more."""
        async with self._loading:
            for script in self.scripts:
                is_due = self._deferred.get(script.name, math.inf) <= monotonic()
                if is_due and name not in self._manager and _may_be_of(name, script.path):
                    self._add(await self._load_deferred(script), script.path)
        if self.mcp is not None and not self.unavailable(name):
            await self.mcp.wait_for(name)

    def missing(self) -> str:
        """Which servers are not connected, for a model that asks for an unknown tool."""
        return self.mcp.missing() if self.mcp is not None else ""

    def unavailable(self, name: str) -> str:
        """Why the script that may have a tool of that name is not loaded; empty if there is no such script."""
        root = self._config.root
        for script in self.scripts:
            if script.name in self._deferred and _may_be_of(name, script.path):
                file = script.path.relative_to(root) if script.path.is_relative_to(root) else script.path
                reasons = [problem.message for problem in self.problems if problem.file == script.path]
                return f"{file}: {reasons[0] if reasons else 'it was not loaded in time'}"
        return ""

    def names(self) -> list[str]:
        """The names of scripts that are not loaded: a script with one function has a tool of its name."""
        return list(self._deferred)

    async def close(self) -> None:
        closing = [script.close(_DRAIN) for script in self.scripts]
        await asyncio.gather(*closing, *([self.mcp.close()] if self.mcp is not None else []))
        if self._environments is not None:
            await self._environments.close()
        if self._engine is not None:
            await self._engine.close()

    def _load_functions(self, path: Path) -> list[Any]:
        root = str(self._config.root)
        if root not in sys.path:
            sys.path.append(root)  # last, so that the project's own modules shadow nothing
        try:
            return list(load_functions(path))
        except ConfigError as error:
            self.problems.append(LoadProblem(path, None, "", str(error)))
            return []

    async def _load_scripts(self, paths: list[Path], environ: Mapping[str, str]) -> list[list[ScriptTool]]:
        from toolrun.processes.local import LocalEngine
        from toolrun.scripts.environment import Environments
        from toolrun.scripts.source import ScriptServices, worker_variables

        workers = self._config.workers
        cache = _resolve_path(workers.cache, self._config.root)
        self._engine = LocalEngine()
        self._environments = Environments(
            cache,
            allow_build=workers.allow_build,
            variables=environ,
            extra={name: environ[name] for name in workers.variables if name in environ},
            on_progress=self._on_progress,
        )
        around = ScriptServices(
            self._config,
            self._manager,
            self._engine,
            self._environments,
            cache,
            worker_variables(environ, workers.variables),
            self._on_progress,
        )
        loaded = await asyncio.gather(*(self._load_script(path, around) for path in paths))
        self.scripts.sort(key=lambda script: paths.index(script.path))
        return loaded

    async def _load_script(self, path: Path, around: ScriptServices) -> list[ScriptTool]:
        from toolrun.scripts.source import Script

        try:
            script = await Script.open(path, around)
        except ConfigError as error:
            self.problems.append(LoadProblem(path, None, "", str(error)))
            return []
        self.scripts.append(script)
        if self._is_lazy:
            self._deferred[script.name] = 0.0
            return []
        return await self._load_deferred(script)

    async def _load_deferred(self, script: Script) -> list[ScriptTool]:
        """The tools of a script. One whose environment or worker cannot be had is tried again at a later call."""
        self._deferred[script.name] = 0.0  # until it has ended, one way or the other
        self.problems[:] = [it for it in self.problems if it.file != script.path]
        try:
            tools = await script.load()
        except (ConfigError, CallError, OSError) as error:
            detail = getattr(error, "detail", "")
            message = f"{error}\n{detail}" if detail else str(error)
            self.problems.append(LoadProblem(script.path, None, "", message))
            self._deferred[script.name] = monotonic() + _RETRY
            return []
        del self._deferred[script.name]
        return tools

    def _add(self, tools: list[Any], path: Path) -> None:
        for index, tool in enumerate(tools):
            settings = self._config.tool.get(tool.name)
            if settings is not None and not settings.enabled:
                continue
            try:
                self._manager.add(tool)
            except DefinitionError as error:
                self.problems.append(LoadProblem(path, index, tool.name, str(error)))


def _may_be_of(name: str, path: Path) -> bool:
    """Whether a tool has the name of a Python file, or one that begins with it, as the tools of scripts have."""
    return path.suffix == ".py" and isinstance(name, str) and (name == path.stem or name.startswith(f"{path.stem}."))


def _resolve_path(directory: str, root: Path) -> Path:
    return root / Path(directory).expanduser()


def _log_progress(line: str) -> None:
    logger.info("%s", line)


def is_script(path: Path) -> bool:
    """Whether a file has a PEP 723 header, valid or not."""
    try:
        return has_header(read_regular_file(path, MAX_PYTHON_BYTES).decode("utf-8", "replace"))
    except OSError:
        return False  # importing it reports the reason


def _files(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    """What matches the patterns, each once, in a stable order, but no directory and nothing that starts with _ or ."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if not path.is_dir() and not path.name.startswith(("_", ".")):
                found[path] = None
    return list(found)
