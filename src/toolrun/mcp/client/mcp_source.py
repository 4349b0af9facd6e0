"""The tools of MCP servers: adds them to a manager, and follows the lists of the servers.

The tools of a server that is lost stay, and their calls say that it is not available. A tool is removed when its server
lists its tools without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from toolrun.config.model import Config, ServerSettings, ToolSettings
from toolrun.errors import DefinitionError
from toolrun.mcp.client.channel import Server
from toolrun.mcp.client.mcp_tool import McpTool
from toolrun.mcp.client.session import Listed
from toolrun.mcp.client.supervisor import Supervisor
from toolrun.mcp.tool_names import name_tools, settings_names
from toolrun.processes.local import LocalEngine
from toolrun.tools.manager import ToolManager, logger

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
    ) -> None:
        self._config = config
        self._manager = manager
        self._engine = LocalEngine()
        self._listed: dict[str, dict[str, Listed]] = {}
        self._tools: dict[str, McpTool] = {}
        """Our tools in the manager, by their names there."""
        self._refused: dict[str, Listed] = {}
        """Tools that the manager rejected, so that each is reported once."""
        self._is_open = False
        self._news = asyncio.Event()
        """Set when tools may have changed, or a server has settled."""
        cache = config.root / Path(config.workers.cache).expanduser()
        self.supervisors = [
            Supervisor(
                Server(name, settings, config.mcp, config.root, environ, self._engine, cache),
                self._on_listed,
                self._survivors,
            )
            for name, settings in servers.items()
        ]
        self._settling = [asyncio.ensure_future(self._settled(supervisor)) for supervisor in self.supervisors]

    def open(self) -> None:
        """Start to add tools to the manager. Called when the tools of other sources are there, which come first."""
        self._is_open = True
        self._update()

    @property
    def is_settled(self) -> bool:
        """Whether every server is connected, or its first attempts have all failed."""
        return all(supervisor.settled.is_set() for supervisor in self.supervisors)

    async def ready(self) -> None:
        """Wait until every server is connected, or its first attempts have all failed."""
        for supervisor in self.supervisors:
            await supervisor.settled.wait()

    async def wait_for(self, name: str) -> None:
        """Wait until there is a tool of that name, or all servers have settled."""
        while name not in self._manager and not self.is_settled:
            await self._news.wait()

    def missing(self) -> str:
        """Which servers are not connected, for a model that asks for an unknown tool."""
        lost = [it for it in self.supervisors if it.session is None]
        named = "; ".join(f"'{it.name}' ({it.error or 'not connected yet'})" for it in lost)
        return f"The tools of these MCP servers are not known now: {named}" if lost else ""

    async def close(self) -> None:
        await asyncio.gather(*(supervisor.close() for supervisor in self.supervisors))
        await asyncio.gather(*self._settling)
        await self._engine.close()

    async def _settled(self, supervisor: Supervisor) -> None:
        await supervisor.settled.wait()
        self._announce()

    def _on_listed(self, supervisor: Supervisor, listed: list[Listed]) -> None:
        settings = supervisor.server.settings
        self._listed[supervisor.name] = {tool.name: tool for tool in listed if _is_wanted(tool.name, settings)}
        if self._is_open:
            self._update()
        self._announce()

    def _update(self) -> None:
        """Bring the manager in line with the lists. A tool that has not changed stays the same object."""
        by_name = self._manager.by_name
        others = [name for name, tool in by_name.items() if self._tools.get(name) is not tool]
        table = name_tools({it.name: self._listed.get(it.name, {}) for it in self.supervisors}, others)
        names = {origin: name for name, origin in table.items()}
        supervisors = {supervisor.name: supervisor for supervisor in self.supervisors}
        for name, tool in list(self._tools.items()):
            server, original = table.get(name, ("", ""))
            if tool.supervisor.name != server or self._listed[server][original] != tool.listed:
                del self._tools[name]
                if by_name.get(name) is tool:
                    self._manager.remove(name)
        for server, listed in self._listed.items():
            for original, one in listed.items():
                self._add(supervisors[server], one, names[server, original])

    def _add(self, supervisor: Supervisor, listed: Listed, name: str) -> None:
        settings = self._settings(supervisor.name, listed.name)
        is_off = any(not it.enabled for it in settings)
        if is_off or name in self._tools or self._refused.get(name) == listed:
            return
        tool = McpTool(supervisor, listed, name, *settings[:1])
        try:
            self._manager.add(tool)
        except DefinitionError as error:
            self._refused[name] = listed
            logger.warning("MCP server '%s' lists a tool that cannot be used: %s", supervisor.name, error)
        else:
            self._tools[name] = tool

    def _settings(self, server: str, tool: str) -> list[ToolSettings]:
        """The sections [tool.NAME] that mean a tool of a server, the most specific first."""
        names = settings_names(server, tool, [it.name for it in self.supervisors])
        return [self._config.tool[name] for name in names if name in self._config.tool]

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _survivors(self) -> str:
        names = [name for name, tool in self._manager.by_name.items() if not _is_lost(tool)]
        if not names:
            return "No other tools are there."
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"Everything else works: {', '.join(names[:_SHOWN])}{more}."


def _is_lost(tool: object) -> bool:
    return isinstance(tool, McpTool) and tool.supervisor.session is None


def _is_wanted(name: str, settings: ServerSettings) -> bool:
    if settings.include and not any(fnmatchcase(name, pattern) for pattern in settings.include):
        return False
    return not any(fnmatchcase(name, pattern) for pattern in settings.exclude)
