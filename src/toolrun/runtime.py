"""The composition root: a configuration becomes a manager full of tools and an executor that runs them.

Everything else receives what it needs; here it is made, and here it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolrun.execution.executor import ToolExecutor
from toolrun.execution.log import LogObserver
from toolrun.execution.observer import Observer
from toolrun.json import JSON
from toolrun.redaction import Redactor
from toolrun.tools.manager import ToolManager, logger

if TYPE_CHECKING:  # what reads files is imported when a project is opened
    from pathlib import Path

    from toolrun.builtins import Handler
    from toolrun.config.model import Config
    from toolrun.mcp.client.supervisor import Supervisor
    from toolrun.scripts.source import Script
    from toolrun.sources.load_problem import LoadProblem
    from toolrun.sources.project import Project


class Runtime:
    """A configured set of tools, ready to be called. Use `async with Runtime.open(…)`."""

    def __init__(
        self,
        config: Config,
        observers: tuple[Observer, ...] = (),
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.manager = ToolManager()
        self.problems: list[LoadProblem] = []
        """Files and tools that could not be loaded, each with the reason. The others work."""
        self._internals: dict[str, Handler] = {}
        self._project: Project | None = None
        self._on_progress = on_progress
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
        on_progress: Callable[[str], None] | None = None,
        lazy: bool = False,
    ) -> AsyncIterator[Runtime]:
        """Load a configuration and its tools; on leaving, end everything that was started.

        `source` is the path of a toolrun.toml, a Config, or nothing: then the nearest toolrun.toml upwards is used,
        and without one the defaults. MCP servers are connected with in the background: `ready` waits for them.
        `on_progress` is told in lines of text what is done while the environment of a script is being made, which may
        take a while; by default the log is told. `lazy`: a script is loaded, and its environment made, when one of its
        tools is called or `ready` waits for it; `problems` are not logged. Raises ConfigError for a configuration that
        cannot be used.
        """
        runtime = Runtime(read_config(source, overrides=overrides), observers, on_progress)
        runtime.executor.home = asyncio.get_running_loop()
        try:
            await runtime._load(lazy)
            yield runtime
        finally:
            if runtime._project is not None:
                await runtime._project.close()
            await runtime.executor.close()

    async def _load(self, lazy: bool) -> None:
        import toolrun.schema.arguments  # noqa: F401  the first call shall not wait for the validator
        from toolrun.sources.project import Project

        self._project = Project(self.config, self.manager, self._internals, self._on_progress)
        self.problems = self._project.problems
        await self._project.load(os.environ, lazy=lazy)
        self.executor.pending_tools = self._project
        self.executor.missing_secrets = self.config.missing_secrets
        if not lazy:
            self.log_problems()

    def log_problems(self) -> None:
        """Log what could not be loaded, and which tools lack a secret."""
        for problem in self.problems:
            logger.warning("%s", problem)
        for name, settings in self.config.tool.items():
            for secret in settings.secrets:
                if secret in self.config.missing_secrets:
                    reason = self.config.missing_secrets[secret]
                    logger.warning("tool '%s' lacks a secret: %s", name, reason, extra={"secret": secret})

    async def ready(self, tool: str | None = None, *, timeout: float | None = None) -> None:
        """Wait until every MCP server is connected, or has failed as often as it may; or until `tool` is there.

        After `timeout` seconds it returns all the same: `servers` says which are still connecting.
        """
        if self._project is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                if tool is not None:
                    await self._project.wait_for(tool)
                elif self._project.mcp is not None:
                    await self._project.mcp.ready()

    def unavailable(self, tool: str) -> str:
        """Why the script that may have this tool is not loaded; empty if there is no such script."""
        return self._project.unavailable(tool) if self._project is not None else ""

    @property
    def servers(self) -> list[Supervisor]:
        """The MCP servers, each with its state."""
        mcp = self._project.mcp if self._project is not None else None
        return mcp.supervisors if mcp is not None else []

    @property
    def scripts(self) -> list[Script]:
        """The files whose tools run in workers."""
        return self._project.scripts if self._project is not None else []

    def register_internal(self, name: str, handler: Callable[[dict[str, Any]], object]) -> None:
        """Offer a service of the host application to catalog entries of type `internal`."""
        self._internals[name] = handler


def read_config(source: str | Path | Config | None, *, overrides: Mapping[str, JSON] | None = None) -> Config:
    """The configuration that `source` means, with the environment of this process."""
    from pathlib import Path

    from toolrun.config.load import find_config, load_config
    from toolrun.config.model import Config

    if isinstance(source, Config):
        return source
    path = Path(source) if source is not None else find_config(Path.cwd())
    return load_config(path, environ=os.environ, overrides=overrides or {})
