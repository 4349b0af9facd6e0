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

from toolrun.errors import ConfigError, JournalError, MissingExtraError
from toolrun.execution.executor import ToolExecutor
from toolrun.execution.log import LogObserver
from toolrun.execution.observer import Observer
from toolrun.extra import missing
from toolrun.json import JSON
from toolrun.redaction import Redactor
from toolrun.tools.manager import ToolManager, logger
from toolrun.tools.protocol import Tool

if TYPE_CHECKING:  # what reads files is imported when a project is opened
    from pathlib import Path

    from toolrun.builtins import Handler
    from toolrun.config.model import Config
    from toolrun.execution.approval import OnApproval
    from toolrun.journal.journal import Journal
    from toolrun.mcp.client.mcp_tool import McpTool
    from toolrun.mcp.client.supervisor import Supervisor
    from toolrun.scripts.source import Script
    from toolrun.sources.load_problem import LoadProblem
    from toolrun.sources.project import Project
    from toolrun.trust.approvals import Approvals
    from toolrun.trust.pins import DefinitionChange


class Runtime:
    """A configured set of tools, ready to be called. Use `async with Runtime.open(…)`."""

    def __init__(
        self,
        config: Config,
        observers: tuple[Observer, ...] = (),
        on_progress: Callable[[str], None] | None = None,
        consumer: str = "",
        *,
        on_approval: OnApproval | None = None,
        asks: bool = False,
    ) -> None:
        self.config = config
        self.consumer = consumer
        self.journal: Journal | None = None
        """The record of calls, while the runtime is open and if the project has one."""
        self.manager = ToolManager()
        self.problems: list[LoadProblem] = []
        """Files and tools that could not be loaded, each with the reason. The others work."""
        self._internals: dict[str, Handler] = {}
        self._project: Project | None = None
        self._on_progress = on_progress
        self._on_approval = on_approval
        self.approvals: Approvals | None = None
        """Who is asked about calls, while the runtime is open."""
        self._asks = asks
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
        consumer: str = "",
        on_approval: OnApproval | None = None,
        asks: bool = False,
    ) -> AsyncIterator[Runtime]:
        """Load a configuration and its tools; on leaving, end everything that was started.

        `source` is the path of a toolrun.toml, a Config, or nothing: then the nearest toolrun.toml upwards is used,
        and without one the defaults. toolrun connects to MCP servers in the background: `ready` waits for them.
        `on_progress` is told in lines of text what is done while the environment of a script is being made, which may
        take a while; by default the log is told. `lazy`: a script is loaded, and its environment made, when one of its
        tools is called or `ready` waits for it; `problems` are not logged. `consumer` is who the journal says makes the
        calls. `on_approval` is asked about calls for which the rules of [approval] want it. `asks`: with `[trust]
        on_change = "ask"`, a tool whose definition changed is held until `accept`, because the program asks a person
        about `changes`. Raises ConfigError for a configuration that cannot be used.
        """
        config = read_config(source, overrides=overrides)
        runtime = Runtime(config, observers, on_progress, consumer, on_approval=on_approval, asks=asks)
        runtime.executor.home = asyncio.get_running_loop()
        telemetry = contextlib.AsyncExitStack()
        try:
            if config.telemetry.enabled:
                await runtime._open_telemetry(telemetry)
            runtime._open_journal()
            runtime._open_approvals()
            await runtime._load(lazy)
            yield runtime
        finally:
            if runtime._project is not None:
                await runtime._project.close()
            await runtime.executor.close()
            if runtime.journal is not None:
                runtime.journal.close()
            await telemetry.aclose()

    def _open_journal(self) -> None:
        """A project remembers its calls. A journal that cannot be used is no reason to do without tools."""
        settings = self.config.journal
        if self.config.path is None or not settings.enabled:
            return
        from toolrun.journal.recorder import CallRecorder

        try:
            self.journal = open_journal(self.config, self.consumer)
        except JournalError as error:
            if settings.required:
                raise ConfigError(f"{error} (the project has [journal] required = true)") from error
            self.executor.journal_problem = str(error)
            logger.warning("calls are not recorded: %s", error, extra={"journal": True})
            return
        self.executor.recorder = CallRecorder(self.journal, is_required=settings.required, program=self._program)

    async def _open_telemetry(self, stack: contextlib.AsyncExitStack) -> None:
        try:
            from toolrun.telemetry import open_telemetry
        except MissingExtraError as error:
            raise missing("otel", error, "[telemetry] enabled = true") from error
        redactor = Redactor(self.config.secrets.values())
        opening = open_telemetry(content=self.config.telemetry.content, redactor=redactor)
        telemetry = self.executor.tracer = await stack.enter_async_context(opening)
        self.executor.observers.add(telemetry)

    @property
    def _program(self) -> str:
        """The command that finds this project from anywhere, if somebody has named it."""
        where = () if self.config.is_found or self.config.path is None else ("--config", str(self.config.path))
        import shlex  # few programs ask

        return shlex.join(["toolrun", *where])

    def _open_approvals(self) -> None:
        from toolrun.trust.approvals import Approvals

        redactor = Redactor(self.config.secrets.values())
        self.approvals = self.executor.approver = Approvals(
            self.config.approval, self._on_approval, journal=self.journal, redactor=redactor, program=self._program
        )

    async def _load(self, lazy: bool) -> None:
        import toolrun.schema.arguments  # noqa: F401  the first call shall not wait for the validator
        from toolrun.sources.project import Project

        self._project = Project(
            self.config,
            self.manager,
            self._internals,
            self._on_progress,
            asks=self._asks,
            directory=working_directory(self.config),
        )
        self.problems = self._project.problems
        await self._project.load(os.environ, lazy=lazy)
        self.executor.pending_tools = self._project
        self.executor.missing_secrets = self.config.missing_secrets
        if not lazy:
            self.log_problems()

    def log_problems(self, tool: str | None = None) -> None:
        """Log what could not be loaded, and which tools lack a secret. With `tool`: only what may concern that one."""
        project = self._project
        for problem in self.problems if tool is None or project is None else project.problems_about(tool):
            logger.warning("%s", problem, extra={"file": str(problem.file)})
        for name, settings in self.config.tool.items():
            if tool not in (None, name):
                continue
            for secret in settings.secrets:
                if secret in self.config.missing_secrets:
                    reason = self.config.missing_secrets[secret]
                    logger.warning("tool '%s' lacks a secret: %s", name, reason, extra={"secret": secret})

    async def ready(self, tool: str | None = None, *, timeout: float | None = None) -> None:
        """Wait until every MCP server is connected, or has failed as often as it may.

        With `tool`: until that tool is there, or no server can be expected to list it. A server that is still
        connecting is, for as long as its `start_timeout` says; if the name is `server__…`, only that server.
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

    def awaited(self, tool: str) -> list[Supervisor]:
        """The MCP servers for which `ready(tool)` waits."""
        return self._project.awaited(tool) if self._project is not None else []

    def missing(self) -> str:
        """Which MCP servers are not connected, and why; empty if all are."""
        return self._project.missing() if self._project is not None else ""

    def unavailable(self, tool: str) -> str:
        """Why the file that may have this tool is not loaded; empty if there is no such file."""
        return self._project.unavailable(tool) if self._project is not None else ""

    @property
    def servers(self) -> list[Supervisor]:
        """The MCP servers, each with its state."""
        mcp = self._project.mcp if self._project is not None else None
        return mcp.supervisors if mcp is not None else []

    @property
    def changes(self) -> list[DefinitionChange]:
        """Tools of MCP servers that are not the ones that were agreed to. Some may be held: see `held`."""
        mcp = self._project.mcp if self._project is not None else None
        return mcp.changes if mcp is not None else []

    @property
    def held(self) -> Mapping[str, McpTool]:
        """Tools that are neither offered nor called until somebody accepts their changes, by name."""
        mcp = self._project.mcp if self._project is not None else None
        return mcp.held if mcp is not None else {}

    def change_of(self, tool: Tool) -> DefinitionChange | None:
        """What is different about a tool since it was agreed to."""
        mcp = self._project.mcp if self._project is not None else None
        return mcp.change_of(tool) if mcp is not None else None

    @property
    def pin_problem(self) -> str:
        """Why it is not remembered what the tools of MCP servers say of themselves; empty if it is."""
        mcp = self._project.mcp if self._project is not None else None
        return mcp.pin_problem if mcp is not None else ""

    async def accept(self, change: DefinitionChange, by: str) -> None:
        """Agree to what a tool has become. `by` says who does. Raises PinError."""
        if self._project is not None and self._project.mcp is not None:
            await self._project.mcp.accept(change, by)

    @property
    def scripts(self) -> list[Script]:
        """The files whose tools run in workers."""
        return self._project.scripts if self._project is not None else []

    async def load_script(self, script: Script) -> None:
        """Load a script that `lazy` has left out. If that fails, `problems` has the reason."""
        if self._project is not None:
            await self._project.load_script(script)

    async def refresh(self) -> list[str]:
        """Load files with tools that are new or were edited, and remove the tools of files that are gone.

        Returns a line for each file. Modules that tool files import are not loaded again.
        """
        return await self._project.refresh() if self._project is not None else []

    async def follow_files(self, tell: Callable[[str], None]) -> None:
        """`refresh` whenever a file has changed, until this is cancelled. `tell` gets the lines."""
        from toolrun.sources.file_watch import possible_changes

        files = self.config.files
        async for _ in possible_changes(self.config.root, (*files.python, *files.catalogs)):
            for line in await self.refresh():
                tell(line)

    def register_internal(self, name: str, handler: Callable[[dict[str, Any]], object]) -> None:
        """Offer a service of the host application to catalog entries of type `internal`."""
        self._internals[name] = handler


def read_config(source: str | Path | Config | None, *, overrides: Mapping[str, JSON] | None = None) -> Config:
    """The configuration that `source` means, with the environment of this process.

    The variables of the file that [environment] names become variables of this process, unless they are set.
    """
    from pathlib import Path

    from toolrun.config.load import find_config, load_config
    from toolrun.config.model import Config

    if isinstance(source, Config):
        config = source
    else:
        path = Path(source) if source is not None else find_config(Path.cwd(), environ=os.environ)
        config = load_config(path, environ=os.environ, overrides=overrides or {}, is_found=source is None)
    for name, value in config.variables.items():
        os.environ.setdefault(name, value)  # here, as the packages of providers look there for their keys
    return config


def working_directory(config: Config) -> Path:
    """Where relative paths of tools begin: the current directory of the program, wherever a tool runs.

    A server makes that of its project the current one. If there is none any more, it is that of the project, too.
    """
    from pathlib import Path

    try:
        return Path.cwd()
    except FileNotFoundError:
        return config.root


def open_journal(config: Config, consumer: str) -> Journal:
    """The record of calls of a project. Raises JournalError."""
    from toolrun.journal.journal import Journal
    from toolrun.journal.retention import Retention
    from toolrun.journal.stored_answer import Answers

    settings = config.journal
    return Journal(
        config.journal_file,
        consumer=consumer,
        redactor=Redactor(config.secrets.values()),
        is_power_safe=settings.durability == "power",
        max_chars=settings.max_chars,
        answers=Answers(settings.answers),
        retention=Retention(settings.days, settings.max_mb * 1_000_000),
        keeps_conversations=settings.conversations,
    )
