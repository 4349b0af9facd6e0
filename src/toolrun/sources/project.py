"""Loads all tools of a project: function files, scripts, catalogs and MCP servers."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from toolrun.builtins import BUILTINS, Handler
from toolrun.config.model import Config
from toolrun.config.ownership import others_may_add, refusal
from toolrun.errors import CallError, ConfigError, DefinitionError
from toolrun.sources.catalog import Declaration, declared_tool, read_catalog
from toolrun.sources.file_watch import FileStamp, stamp_of
from toolrun.sources.function_file import functions_without_tool, load_functions
from toolrun.sources.load_problem import LoadProblem
from toolrun.sources.scripting import Scripting
from toolrun.sources.server_settings import find_servers
from toolrun.sources.tool_files import FUNCTION, WORD, find_files, is_script, may_be_of, names_in
from toolrun.text import plural
from toolrun.tools.key_argument import hide_key_argument
from toolrun.tools.manager import ToolManager, logger
from toolrun.tools.protocol import Tool

if TYPE_CHECKING:
    from toolrun.mcp.client.mcp_source import McpSource
    from toolrun.mcp.client.supervisor import Supervisor
    from toolrun.scripts.script_tool import ScriptTool
    from toolrun.scripts.source import Script, ScriptServices
    from toolrun.sources.command_tool import CommandServices

_RETRY = 10.0
"""Seconds after which a script that could not be loaded is tried again, at a call."""
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
        *,
        asks: bool = False,
        directory: Path | None = None,
    ) -> None:
        """`on_progress` gets a line for each step in making the environments of scripts. Default: they are logged.

        `asks`: a person will be asked about tools that are not the ones that were agreed to. `directory`: where
        relative paths of scripts begin.
        """
        self._config = config
        self._manager = manager
        self._internals = internals
        self._on_progress = on_progress or (lambda line: logger.info("%s", line))
        self._asks = asks
        self._directory = directory
        self.problems: list[LoadProblem] = []
        """The files and tools that could not be loaded. The others work."""
        self.scripts: list[Script] = []
        self.mcp: McpSource | None = None
        """The MCP servers, if there are any."""
        self._scripting: Scripting | None = None
        """What all scripts share, if there are any."""
        self._commands: CommandServices | None = None
        self._deferred: dict[str, float] = {}
        """Names of scripts that are not loaded, and when that may be tried again, on the clock of `monotonic`."""
        self._lost: dict[Path, frozenset[str]] = {}
        """The names that the tools of files may have which could not be loaded."""
        self._loading = asyncio.Lock()
        self._stamps: dict[Path, FileStamp] = {}
        """The files as they were when they were loaded."""
        self._tools: dict[Path, list[Tool]] = {}
        """The tools of the files that are no scripts."""
        self._closing: set[asyncio.Task[None]] = set()
        """Scripts whose files are gone, while their last calls end."""

    async def load(self, environ: Mapping[str, str], *, lazy: bool = False) -> None:
        """Load the files. Connections to servers open in the background; this does not wait for them.

        `lazy`: a script is loaded when one of its tools is waited for.
        """
        self._is_lazy, self._environ = lazy, environ
        self._start_servers(environ)
        self._stamps = await asyncio.to_thread(self._look)
        own = self._own(list(self._stamps), environ)
        paths = [path for path in own if not self._stamps[path].is_catalog]
        scripts = [path for path in paths if await asyncio.to_thread(is_script, path)]
        loaded = dict(zip(scripts, await self._load_scripts(scripts, environ), strict=True)) if scripts else {}
        without_tools = []
        for path in paths:
            tools = loaded[path] if path in loaded else self._load_functions(path, environ)
            if not tools and path not in loaded:
                without_tools.append(path)
            self._add(tools, path)
        self._hint_at_functions(without_tools)
        for path in own:
            if self._stamps[path].is_catalog:
                self._add(self._load_catalog(path, environ), path)
        if self.mcp is not None:
            self.mcp.open()

    def _look(self) -> dict[Path, FileStamp]:
        """The files with tools as they are now, Python files first."""
        root, files = self._config.root, self._config.files
        catalogs = {path: stamp_of(path, is_catalog=True) for path in find_files(root, files.catalogs)}
        return {path: stamp_of(path, is_catalog=False) for path in find_files(root, files.python)} | catalogs

    async def refresh(self) -> list[str]:
        """Load the files that are new or edited, and let go of those that are gone. A line for each of them."""
        lines = []
        async with self._loading:
            now = await asyncio.to_thread(self._look)
            for path in [it for it in self._stamps if it not in now]:
                self._let_go(path, [it for it in self.scripts if it.path == path])
                del self._stamps[path]
                lines.append(f"{self._shown(path)} is gone")
            for path, stamp in now.items():
                if stamp != self._stamps.get(path):
                    lines.append(f"{self._shown(path)} {await self._reload(path, is_catalog=stamp.is_catalog)}")
                    self._stamps[path] = stamp
            self._restore()
        return lines

    async def _reload(self, path: Path, *, is_catalog: bool) -> str:
        """Load one file as it is now, and say what became of it."""
        verb = "was edited" if path in self._stamps else "is new"
        script = next((it for it in self.scripts if it.path == path), None)
        is_now_script = not is_catalog and await asyncio.to_thread(is_script, path)
        if script is not None and is_now_script and script.name not in self._deferred:
            script.look(script.next_look)
            while script.tasks_of_edit:
                await asyncio.wait(script.tasks_of_edit)
            return verb
        old = [it for it in self.scripts if it.path == path]
        before = [it for it in self.problems if it.file == path]
        self.problems[:] = [it for it in self.problems if it.file != path]
        tools = await self._load_again(path, is_catalog=is_catalog, is_script=is_now_script)
        found = [it for it in self.problems if it.file == path]
        if any(it.index is None for it in found) and self._tools.get(path):
            self.problems[:] = [it for it in self.problems if it.file != path] + before
            return f"{verb}: {found[0].message}; its last good version stays in use"
        self._let_go(path, old)
        self.problems += found
        self._add(tools, path)
        messages = [it.message for it in self.problems if it.file == path]
        return f"{verb}: {'; '.join([*messages, plural(len(tools), 'tool')] if tools else messages or ['no tools'])}"

    async def _load_again(self, path: Path, *, is_catalog: bool, is_script: bool) -> Sequence[Tool]:
        if not self._own([path], self._environ):
            return []
        if is_catalog:
            return self._load_catalog(path, self._environ)
        if is_script:
            return (await self._load_scripts([path], self._environ))[0]
        tools = self._load_functions(path, self._environ, is_edited=True)
        if not tools and not any(it.file == path for it in self.problems):
            self._hint_at_functions([path])
        return tools

    def _let_go(self, path: Path, scripts: list[Script]) -> None:
        """Remove the tools of a file, and the script that it was."""
        tools = self._tools.pop(path, [])
        for script in scripts:
            tools += script.tools
            self.scripts.remove(script)
            if all(it.name != script.name for it in self.scripts):
                self._deferred.pop(script.name, None)
            task = asyncio.ensure_future(script.close(_DRAIN))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        for tool in tools:
            if self._manager.by_name.get(tool.name) is tool:
                self._manager.remove(tool.name)
        self.problems[:] = [it for it in self.problems if it.file != path]
        self._lost.pop(path, None)

    def _restore(self) -> None:
        """Add the tools whose names belonged to files that are gone."""
        files: list[tuple[Path, Sequence[Tool]]] = [
            *self._tools.items(),
            *((script.path, script.tools) for script in self.scripts),
        ]
        for path, tools in files:
            known = {it.name for it in self.problems if it.file == path}
            self._add([it for it in tools if it.name not in self._manager.by_name and it.name not in known], path)

    def _load_catalog(self, path: Path, environ: Mapping[str, str]) -> list[Tool]:
        catalog = read_catalog(path)
        self.problems += catalog.problems
        if any(it.index is None for it in catalog.problems):
            self._lost[path] = names_in(path, WORD)
        return [self._declared(it, environ) for it in catalog.declarations]

    def _declared(self, declaration: Declaration, environ: Mapping[str, str]) -> Tool:
        if declaration.implementation.command is None:
            return declared_tool(declaration, builtins=BUILTINS, internals=self._internals)
        from toolrun.sources.command_tool import CommandTool, open_commands

        self._commands = self._commands or open_commands(self._config, environ)
        return CommandTool(declaration, self._commands)

    def _own(self, paths: list[Path], environ: Mapping[str, str]) -> list[Path]:
        """The files without those of other users, which count only if somebody named the configuration."""
        config, own = self._config, []
        for path in paths:
            reason = refusal(path, config.root, config.path, environ) if config.is_found else ""
            if reason:
                self.problems.append(LoadProblem(path, None, "", reason))
                names = names_in(path, FUNCTION if path.suffix == ".py" else WORD)
                self._lost[path] = names | {f"{path.stem}.{name}" for name in names}
            else:
                own.append(path)
        return own

    def _start_servers(self, environ: Mapping[str, str]) -> None:
        config = self._config
        files = self._own([_resolve_path(it, config.root) for it in config.mcp.files], environ)
        enabled, reserved, problems = find_servers(config, files, environ)
        self.problems += problems
        if enabled:
            from toolrun.mcp.client.mcp_source import McpSource
            from toolrun.trust.pins import Pins

            pins = Pins(config.root, config.trust, asks=self._asks) if config.path is not None else None
            self.mcp = McpSource(config, enabled, self._manager, environ, reserved, pins)

    async def wait_for(self, name: str) -> None:
        """Wait until there is a tool of that name, or none can be expected any more."""
        async with self._loading:
            for script in self.scripts:
                is_due = self._deferred.get(script.name, math.inf) <= monotonic()
                if is_due and name not in self._manager and may_be_of(name, script.path):
                    self._add(await self._load_deferred(script), script.path)
        if self.mcp is not None and not self._not_loaded_yet(name):
            await self.mcp.wait_for(name)

    async def load_script(self, script: Script) -> None:
        """Load one that was not loaded at the start (`lazy`). If that fails, `problems` has the reason."""
        if script.name in self._deferred:
            self._add(await self._load_deferred(script), script.path)

    def awaited(self, name: str) -> list[Supervisor]:
        """The MCP servers that are still connecting and may have a tool of that name."""
        return self.mcp.awaited(name) if self.mcp is not None and name not in self._manager else []

    def missing(self) -> str:
        """Which servers are not connected, for a model that asks for an unknown tool."""
        return self.mcp.missing() if self.mcp is not None else ""

    def unavailable(self, name: str) -> str:
        """Why the file or entry that may have a tool of that name is not loaded; empty if there is none."""
        reason = self._not_loaded_yet(name) or (self.mcp.unavailable(name) if self.mcp is not None else "")
        if reason:
            return reason
        found = next((it for it in self.problems if name in (it.name, *self._lost.get(it.file, ()))), None)
        return "" if found is None else f"{self._shown(found.file)}: {found.message}"

    def problems_about(self, name: str) -> list[LoadProblem]:
        """What went wrong in loading what may have a tool of that name: an entry or a file with it, or any server."""
        return [
            it
            for it in self.problems
            if name in (it.name, *self._lost.get(it.file, ())) or (it.index is None and it.file not in self._lost)
        ]

    def _not_loaded_yet(self, name: str) -> str:
        for script in self.scripts:
            if script.name in self._deferred and may_be_of(name, script.path):
                reasons = [problem.message for problem in self.problems if problem.file == script.path]
                return f"{self._shown(script.path)}: {reasons[0] if reasons else 'it was not loaded in time'}"
        return ""

    def _shown(self, path: Path) -> Path:
        root = self._config.root
        return path.relative_to(root) if path.is_relative_to(root) else path

    def names(self) -> list[str]:
        """The names of scripts that are not loaded: a script has a tool of its name if a function is named like it."""
        return list(self._deferred)

    def changed_definitions(self) -> list[str]:
        """Which tools of servers are not the ones that were agreed to, and why that is not remembered."""
        if self.mcp is None:
            return []
        changed = [f"'{it.tool}' of '{it.server}': {' and '.join(it.parts)} changed" for it in self.mcp.changes]
        return [*([self.mcp.pin_problem] if self.mcp.pin_problem else []), *changed]

    async def close(self) -> None:
        closing = [script.close(_DRAIN) for script in self.scripts]
        await asyncio.gather(*closing, *self._closing, *([self.mcp.close()] if self.mcp is not None else []))
        if self._scripting is not None:
            await self._scripting.close()
        if self._commands is not None:
            await self._commands.engine.close()

    def _load_functions(self, path: Path, environ: Mapping[str, str], *, is_edited: bool = False) -> Sequence[Tool]:
        root = str(self._config.root)
        is_shared = self._config.is_found and others_may_add(self._config.root, environ)
        if root not in sys.path and not is_shared:
            sys.path.append(root)  # last, so that the project's own modules shadow nothing
        try:
            return list(load_functions(path, is_edited=is_edited))
        except ConfigError as error:
            self.problems.append(LoadProblem(path, None, "", str(error)))
            self._lost[path] = names_in(path)
            return []

    def _hint_at_functions(self, paths: list[Path]) -> None:
        """Report the files whose author has forgotten @tool."""
        for path in paths:
            if not (names := functions_without_tool(path)):
                continue
            shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
            self.problems.append(
                LoadProblem(
                    path,
                    None,
                    "",
                    f"has {plural(len(names), 'function')} but no @tool ({shown}): write '@tool' above those that are "
                    f"tools ('from toolrun import tool'), or rename it to _{path.name} if it has no tools",
                )
            )
            self._lost[path] = frozenset(names)

    async def _load_scripts(self, paths: list[Path], environ: Mapping[str, str]) -> list[list[ScriptTool]]:
        if self._scripting is None:
            self._scripting = Scripting(self._config, self._manager, environ, self._on_progress, self._directory)
        services = self._scripting.services
        loaded = await asyncio.gather(*(self._load_script(path, services) for path in paths))
        places = {path: place for place, path in enumerate(self._stamps)}
        self.scripts.sort(key=lambda script: places.get(script.path, len(places)))
        return loaded

    async def _load_script(self, path: Path, services: ScriptServices) -> list[ScriptTool]:
        from toolrun.scripts.source import Script

        try:
            script = await Script.open(path, services)
        except ConfigError as error:
            self.problems.append(LoadProblem(path, None, "", str(error)))
            names = await asyncio.to_thread(names_in, path)
            self._lost[path] = names | {f"{path.stem}.{name}" for name in names}
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

    def _add(self, tools: Sequence[Tool], path: Path) -> None:
        scripts = {it.path for it in self.scripts}
        for index, tool in enumerate(tools):
            settings = self._config.tool.get(tool.name)
            if settings is not None and not settings.enabled:
                continue
            try:
                if settings is not None and settings.key_argument:
                    hide_key_argument(tool, settings.key_argument)
                self._manager.add(tool)
                if path not in scripts:
                    self._tools.setdefault(path, []).append(tool)
            except DefinitionError as error:
                self.problems.append(LoadProblem(path, index, tool.name, str(error)))


def _resolve_path(directory: str, root: Path) -> Path:
    return root / Path(directory).expanduser()
