"""The tools of MCP servers: adds them to a manager, and follows the lists of the servers.

The tools of a server that is lost stay, and their calls say that it is not available. A tool is removed when its server
lists its tools without it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Mapping
from fnmatch import fnmatchcase
from time import monotonic

from toolrun.config.cache_directory import cache_directory
from toolrun.config.model import Config, ServerSettings, ToolSettings
from toolrun.errors import DefinitionError
from toolrun.json import JSON
from toolrun.mcp.client.channel import Server
from toolrun.mcp.client.mcp_tool import McpTool
from toolrun.mcp.client.session import ListedTool
from toolrun.mcp.client.supervisor import Supervisor
from toolrun.mcp.client.tool_review import review_tools
from toolrun.mcp.tool_names import PROVIDERS, name_tools, owner_of, settings_names
from toolrun.processes.local import LocalEngine
from toolrun.processes.sandbox.confine import Sandboxes
from toolrun.processes.sandbox.project_paths import paths_of_project
from toolrun.redaction import Redactor
from toolrun.tools.key_argument import hide_key_argument
from toolrun.tools.manager import ToolManager, logger
from toolrun.tools.protocol import Tool
from toolrun.trust.pins import DefinitionChange, Pins

_LOOK_AGAIN = 1.0
"""Seconds from one look to the next whether somebody has accepted a change."""
_SHOWN = 20
"""How many tool names an error shows."""


class McpSource:
    """The servers of a project. Belongs to the event loop that it is made in, and starts to connect at once."""

    def __init__(
        self,
        config: Config,
        servers: Mapping[str, ServerSettings],
        manager: ToolManager,
        environ: Mapping[str, str],
        reserved: Collection[str] = (),
        pins: Pins | None = None,
    ) -> None:
        """`servers` are started. `reserved` has the names of further servers, whose tools nobody else may pose as.

        `pins` knows what the tools said of themselves when they were agreed to.
        """
        self._config = config
        self._manager = manager
        self._server_names = [*servers, *(name for name in reserved if name not in servers)]
        self._engine = LocalEngine()
        self._listed: dict[str, dict[str, ListedTool]] = {}
        self._tools: dict[str, McpTool] = {}
        """Our tools in the manager, by their names there."""
        self.held: dict[str, McpTool] = {}
        """Tools that are not in the manager because they are not the ones that were agreed to, by their names here."""
        self._refused: dict[str, ListedTool] = {}
        """Tools that the manager rejected, so that each is reported once."""
        self._is_open = False
        self._began = monotonic()
        self._pins = pins
        self._owners: dict[str, tuple[str, str]] = {}
        """The names without a prefix that tools have had since this process started."""
        self._redactor = Redactor(config.secrets.values())
        self._news = asyncio.Event()
        """Set when tools may have changed, or the first attempts of a server are over."""
        cache = cache_directory(config.workers, config.root)
        sandboxes = Sandboxes(cache, paths_of_project(config, cache), config.workers.sandbox_required)
        self.supervisors = [
            Supervisor(
                Server(name, settings, config.mcp, config.root, environ, self._engine, cache, sandboxes),
                self._on_listed,
                self._survivors,
                self._review,
            )
            for name, settings in servers.items()
        ]
        self._background: dict[str, asyncio.Task[None]] = {}
        """What is done for the pins in the background, by its purpose."""
        self._waiting = [asyncio.ensure_future(self._announce_when_over(supervisor)) for supervisor in self.supervisors]

    def open(self) -> None:
        """Start to add tools to the manager. Called when the tools of other sources are there, which come first."""
        self._is_open = True
        self._update()

    async def ready(self) -> None:
        """Wait until every server is connected, or its first attempts have all failed."""
        for supervisor in self.supervisors:
            await supervisor.first_attempts_over.wait()

    def awaited(self, name: str) -> list[Supervisor]:
        """The servers that are still connecting and may have a tool of that name.

        If the name has the prefix of a server, only that one. Each is awaited for as long as one start of it may take:
        whoever asks for a tool that does not exist shall not wait for all attempts of a server that hangs.
        """
        owner, elapsed = owner_of(name, self._server_names), monotonic() - self._began
        return [
            it
            for it in self.supervisors
            if not it.first_attempts_over.is_set() and owner in (None, it.name) and elapsed < it.server.start_timeout
        ]

    async def wait_for(self, name: str) -> None:
        """Wait until there is a tool of that name, or none can be expected any more."""
        while name not in self._manager and name not in self.held and (awaited := self.awaited(name)):
            end = self._began + max(it.server.start_timeout for it in awaited)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(end - monotonic()):
                    await self._news.wait()

    @property
    def changes(self) -> list[DefinitionChange]:
        """The tools of these servers that are not the ones that were agreed to."""
        return self._pins.changes(self._server_names) if self._pins is not None else []

    @property
    def pin_problem(self) -> str:
        """Why it is not remembered what the tools say of themselves."""
        return self._pins.problem if self._pins is not None else ""

    def unavailable(self, name: str) -> str:
        """Why the tool of that name is held; empty if it is not."""
        tool = self.held.get(name)
        change = self.change_of(tool) if tool is not None else None
        return change.reason if change is not None else ""

    async def accept(self, change: DefinitionChange, by: str) -> None:
        """Agree to what a tool has become. Raises PinError."""
        if self._pins is not None:
            await asyncio.to_thread(self._pins.accept, change, by)
            self._update()
            self._announce()

    def missing(self) -> str:
        """Which servers are not connected, for a model that asks for an unknown tool."""
        lost = [it for it in self.supervisors if it.session is None]
        named = "; ".join(f"'{it.name}' ({_why(it)})" for it in lost)
        return f"The tools of these MCP servers are not known now: {named}" if lost else ""

    async def close(self) -> None:
        self._is_open = False  # what happens from here on says nothing about names
        if (watch := self._background.get("watch")) is not None:
            watch.cancel()
        await asyncio.gather(*self._background.values(), return_exceptions=True)
        await asyncio.gather(*(supervisor.close() for supervisor in self.supervisors))
        await asyncio.gather(*self._waiting)
        await self._engine.close()

    async def _announce_when_over(self, supervisor: Supervisor) -> None:
        await supervisor.first_attempts_over.wait()
        self._announce()
        self._claim_names()

    def _review(self, server: Server, listed: list[ListedTool]) -> list[ListedTool]:
        """Runs in a thread."""
        wanted = [tool for tool in listed if _is_wanted(tool.name, server.settings)]
        return review_tools(server, wanted, self._config.trust.max_description, self._pins, self._redactor)

    def _on_listed(self, supervisor: Supervisor, listed: list[ListedTool]) -> None:
        self._listed[supervisor.name] = {tool.name: tool for tool in listed}
        if self._is_open:
            self._update()
        self._announce()

    def _update(self) -> None:
        """Bring the manager in line with the lists. A tool that has not changed stays the same object."""
        by_name = self._manager.by_name
        others = [name for name, tool in by_name.items() if self._tools.get(name) is not tool]
        owners = {**self._pins.owners(), **self._owners} if self._pins is not None else {}
        table = name_tools({name: self._listed.get(name, {}) for name in self._server_names}, others, owners)
        names = {origin: name for name, origin in table.items()}
        supervisors = {supervisor.name: supervisor for supervisor in self.supervisors}
        for name, tool in list(self._tools.items()):
            server, original = table.get(name, ("", ""))
            is_same = tool.supervisor.name == server and self._listed[server][original] == tool.listed
            if not is_same or self._is_held(tool) or tool.agreed_annotations != self._agreed_annotations(tool):
                del self._tools[name]
                if by_name.get(name) is tool:
                    self._manager.remove(name)
        self.held = {}
        for server, listed in self._listed.items():
            for original, one in listed.items():
                self._add(supervisors[server], one, names[server, original])
        self._claim_names()
        if self.changes:
            self._run_beside("watch", self._watch_for_acceptance)

    def _add(self, supervisor: Supervisor, listed: ListedTool, name: str) -> None:
        settings = self._settings(supervisor.name, listed.name)
        is_off = any(not it.enabled for it in settings)
        if is_off or name in self._tools or self._refused.get(name) == listed:
            return
        tool = McpTool(supervisor, listed, name, *settings[:1])
        tool.qualified_name = settings_names(supervisor.name, listed.name, self._server_names)[0]
        if self._is_held(tool):
            self.held[name] = tool
            return
        tool.agreed_annotations = self._agreed_annotations(tool)
        try:
            if tool.settings.key_argument:
                hide_key_argument(tool, tool.settings.key_argument)
            self._manager.add(tool)
        except DefinitionError as error:
            self._refused[name] = listed
            logger.warning("MCP server '%s' lists a tool that cannot be used: %s", supervisor.name, error)
        else:
            self._tools[name] = tool

    def change_of(self, tool: Tool) -> DefinitionChange | None:
        """What is different about a tool since it was agreed to."""
        if self._pins is None or not isinstance(tool, McpTool):
            return None
        return self._pins.change_of(tool.supervisor.name, tool.listed.name)

    def _is_held(self, tool: McpTool) -> bool:
        change = self.change_of(tool)
        return change is not None and change.is_held

    def _agreed_annotations(self, tool: McpTool) -> Mapping[str, JSON] | None:
        """A server cannot free its tool from approval by a change that nobody has accepted."""
        change = self.change_of(tool)
        said = None if change is None else change.before.said.get("annotations", {})
        return said if isinstance(said, Mapping) else None

    def _claim_names(self) -> None:
        """Once every server has been asked, the names in use belong to their tools: one that comes later gets a prefix.

        Before that, nobody has a better claim: two servers that are new at the same time both get their prefixes.
        """
        is_over = all(it.first_attempts_over.is_set() for it in self.supervisors)
        if self._pins is None or not self._is_open or not is_over:
            return
        in_use = {**self._tools, **self.held}
        origins = {name: (tool.supervisor.name, tool.listed.name) for name, tool in in_use.items()}
        claimed = {name: origin for name, origin in origins.items() if name == PROVIDERS.fit(origin[1])}
        self._owners |= claimed
        known = self._pins.owners()
        if any(known.get(name) != origin for name, origin in claimed.items()):
            self._run_beside("names", self._save_names)

    async def _save_names(self) -> None:
        assert self._pins is not None
        saved: dict[str, tuple[str, str]] = {}
        while saved != self._owners:
            saved = dict(self._owners)
            await asyncio.to_thread(self._pins.establish, saved)

    async def _watch_for_acceptance(self) -> None:
        """Somebody may accept a change with `toolrun trust`, while this process runs."""
        assert self._pins is not None
        while self.changes:
            await asyncio.sleep(_LOOK_AGAIN)
            if await asyncio.to_thread(self._pins.is_outdated):
                await asyncio.to_thread(self._pins.refresh)
                self._update()
                self._announce()

    def _run_beside(self, purpose: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        running = self._background.get(purpose)
        if running is None or running.done():
            self._background[purpose] = asyncio.ensure_future(work())

    def _settings(self, server: str, tool: str) -> list[ToolSettings]:
        """The sections [tool.NAME] that mean a tool of a server, the most specific first."""
        names = settings_names(server, tool, self._server_names)
        return [self._config.tool[name] for name in names if name in self._config.tool]

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _survivors(self) -> str:
        names = [name for name, tool in self._manager.by_name.items() if not _is_lost(tool)]
        if not names:
            return "There are no other tools."
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"Everything else works: {', '.join(names[:_SHOWN])}{more}."


def _why(supervisor: Supervisor) -> str:
    """Why there is no session."""
    if supervisor.first_attempts_over.is_set():
        return supervisor.error or "connecting again"
    return f"still connecting: {supervisor.error}" if supervisor.error else "still connecting"


def _is_lost(tool: object) -> bool:
    return isinstance(tool, McpTool) and tool.supervisor.session is None


def _is_wanted(name: str, settings: ServerSettings) -> bool:
    if settings.include and not any(fnmatchcase(name, pattern) for pattern in settings.include):
        return False
    return not any(fnmatchcase(name, pattern) for pattern in settings.exclude)
