"""Python files with a PEP 723 header: their functions run in worker processes with dependencies of their own.

A file is described from inside its environment, once for each content; a file that has not changed is listed from the
cache, without starting anything.

An edited file is noticed at the next call, which waits until the file is still: many programs save in place, and half a
file may be a valid script without the function that is called, or with half of it. The workers get the content that was
read then, not the path. Calls that run finish in the old workers; on a cluster they are replaced in turn (`roll.py`).
If a call cannot be started in a new version that may still be half a file, the file gets a little longer to change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final

from toolrun.config.model import Config, ToolSettings
from toolrun.errors import CallError, ConfigError, DefinitionError, ProtocolError, UnavailableError
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import Engine, PlacingEngine, ProcessSpec
from toolrun.processes.sandbox.confine import Sandboxes
from toolrun.processes.sandbox.policy import Policy
from toolrun.scripts.description_cache import Description, DescriptionCache, read_description
from toolrun.scripts.environment import Environments
from toolrun.scripts.on_node import recipe
from toolrun.scripts.pool import Pool
from toolrun.scripts.pool_state import PoolLimits
from toolrun.scripts.pooled_worker import NoPool, PooledWorker
from toolrun.scripts.roll import roll
from toolrun.scripts.script_process import script_process, worker_options
from toolrun.scripts.script_sandbox import granted_variables, script_policy
from toolrun.scripts.script_tool import ScriptTool
from toolrun.scripts.script_version import Declared, Stamp, Version, read_stamped, stamp_of
from toolrun.tools.effects import Effects
from toolrun.tools.key_argument import hide_key_argument
from toolrun.tools.manager import ToolManager
from toolrun.tools.naming import name_of_function

logger = get_logger("toolrun")

_NO_SETTINGS: Final = ToolSettings()
_LOOK_EVERY: Final = 0.001
"""Seconds between two looks whether a file was edited: under load a look for each call would be a tenth of its cost."""
_STILL: Final = 0.1
"""Seconds without a change after which an edited file is read."""
_SETTLED: Final = 1.0
"""Seconds without a change after which nobody can be in the middle of saving it."""
_POLL: Final = 0.02
_MAX_NAME: Final = 120


@dataclass(frozen=True, slots=True)
class ScriptServices:
    """What all scripts of a project share."""

    config: Config
    manager: ToolManager
    engine_of: Callable[[str], Engine]
    """The engine of a script, by its name."""
    environments: Environments
    cache: Path
    environ: Mapping[str, str]
    """The environment variables of this program, of which a worker gets what it is granted."""
    sandboxes: Sandboxes
    on_progress: Callable[[str], None]
    """Told what is done while an environment is being made."""


class Script:
    """One file. Belongs to one event loop."""

    def __init__(self, path: Path, services: ScriptServices, stamp: Stamp, version: Version) -> None:
        """Use `open`, which reads the file."""
        self.path = path
        self.name = path.stem
        self._services = services
        self._descriptions = DescriptionCache(services.cache / "descriptions")
        self._file = str(path)
        self._stamp = stamp
        self.next_look = 0.0
        """When the file is to be looked at again, on the clock of `time.perf_counter`."""
        self._version = version
        self._engine = services.engine_of(self.name)
        self.pool = self._new_pool(version)
        self.retired: set[Pool] = set()
        """Those whose last calls have not ended, and one that is about to take over."""
        self._newest = version
        self._roll: asyncio.Task[None] | None = None
        self._is_changing = self._must_be_read = False
        """Whether the file may be half saved; whether the version in use is older than the file."""
        self._news = asyncio.Event()
        """Set when one of these changes."""
        self.tasks_of_edit: set[asyncio.Task[None]] = set()
        """What an edit that was noticed has started, until its tools are those of the new version."""
        self._is_described = True
        self._tools: list[ScriptTool] = []
        self._policies: dict[str, Policy] = {}
        """Of the version that was started last, by its hash."""
        self._announced = ""
        """The environment whose making was announced last: many calls may wait for it."""

    @staticmethod
    async def open(path: Path, services: ScriptServices) -> Script:
        """Raises ConfigError for a file that cannot be used."""
        stamp, version = await asyncio.to_thread(read_stamped, path, services.config)
        return Script(path, services, stamp, version)

    @property
    def environment(self) -> Path | None:
        """The interpreter of its environment, if it is made."""
        return self._services.environments.known(self._version.requirements)

    @property
    def declared(self) -> Declared:
        return self._version.declared

    @property
    def tools(self) -> list[ScriptTool]:
        return list(self._tools)

    async def prepare(self) -> Path:
        """Make its environment now, if it is not there. Raises ScriptEnvironmentError."""
        return await self._interpreter(self._version)

    async def load(self) -> list[ScriptTool]:
        """The tools of the file as it is now. Raises CallError or ConfigError if it cannot be described."""
        version = self._version
        found = await self._description(version)
        for it in found.skipped:
            logger.warning("%s: '%s' is not a tool: %s", self.path, it["name"], it["reason"])
        for warning in found.warnings:
            logger.warning("%s: %s", self.path, warning)
        self._tools = self._make_tools(version, found)
        return self._tools

    def _make_tools(self, version: Version, found: Description) -> list[ScriptTool]:
        declared = version.declared
        functions = [it for it in found.functions if it["name"] != declared.verify]
        if declared.verify is not None and len(functions) == len(found.functions):
            raise ConfigError(f"has no public function '{declared.verify}', which its header names in 'verify'")
        if not functions:
            raise ConfigError("has no public function that can be a tool")
        named = [(name_of_function(self.name, about["name"]), about) for about in functions]
        verifiers = [self._make_verifier(name, declared, found) for name, _ in named]
        return [ScriptTool(self, *it, declared, verifier) for it, verifier in zip(named, verifiers, strict=True)]

    def _make_verifier(self, tool: str, declared: Declared, found: Description) -> ScriptTool | None:
        """What finds out whether a call of `tool` has acted: a function of the script, which no model sees."""
        about = next((it for it in found.functions if it["name"] == declared.verify), None)
        if about is None:
            return None
        harmless = replace(declared, effects=Effects.NONE, timeout=None)
        description = about.get("description") or "Find out whether a call has acted."
        verifier = ScriptTool(self, tool, {**about, "description": description}, harmless)
        verifier.name = f"{tool[:_MAX_NAME]}.verify"
        return verifier

    def settings(self, tool: str) -> ToolSettings:
        """What toolrun.toml says of one of its tools, or of the script."""
        return self._services.config.tool.get(tool, _NO_SETTINGS)

    def granted(self, tool: str, declared: Declared) -> tuple[Mapping[str, JSON], Mapping[str, str]]:
        """The configuration of a tool, and the secrets that it declares and is granted."""
        config, settings = self._services.config, self.settings(tool)
        names = [name for name in settings.secrets if name in declared.secrets and name in config.secrets]
        return dict(settings.config), {name: config.secrets[name] for name in names}

    async def close(self, drain: float) -> None:
        for task in self.tasks_of_edit:
            task.cancel()
        if self.tasks_of_edit:
            await asyncio.wait(self.tasks_of_edit)
        await asyncio.gather(*(pool.close(drain) for pool in (self.pool, *self.retired)))

    def look(self, now: float) -> bool:
        """Notice an edit of the file, but look at it only so often. Whether the file is certainly the one in use."""
        if now >= self.next_look and not self._is_changing:
            self.next_look = now + _LOOK_EVERY
            if self._has_changed():
                self.next_look = 0.0  # every call comes here until the file has settled
                self._is_changing = self._must_be_read = True
                self._start(self._follow())
        return not self._is_changing

    async def current_pool(self) -> Pool:
        """The workers of the file as it is, as soon as an edit was read."""
        while self._must_be_read:
            await self._news.wait()
        return self.pool

    async def has_replaced(self, pool: Pool) -> bool:
        """Whether the version of this pool was half a file: another one has taken its place."""
        while self.pool is pool and self._is_changing:
            await self._news.wait()
        return self.pool is not pool

    def _has_changed(self) -> bool:
        try:
            stamp = stamp_of(self._file)
        except OSError:  # a file that is gone goes on as it was
            return False
        is_other, self._stamp = stamp != self._stamp, stamp
        return is_other

    async def _follow(self) -> None:
        """Read the file each time it is still, until it has settled."""
        fault: ConfigError | None = None
        while self._must_be_read:
            while not await self._stays_for(_STILL):
                pass
            try:
                self._stamp, version = await asyncio.to_thread(read_stamped, self.path, self._services.config)
                fault = None
                self._replace(version)
            except ConfigError as error:
                fault = error
            self._must_be_read = False
            self._announce()
            self._must_be_read = not await self._stays_for(_SETTLED - _STILL)
        self._is_changing = False
        self._announce()
        if fault is not None:
            logger.warning("%s was edited and %s; its last good version stays in use", self.path, fault)

    async def _stays_for(self, seconds: float) -> bool:
        """Whether the file does not change for so long."""
        end = monotonic() + seconds
        while monotonic() < end:
            await asyncio.sleep(_POLL)
            if self._has_changed():
                return False
        return True

    def _replace(self, version: Version) -> None:
        if version.sha256 == self._newest.sha256:
            return
        logger.info("%s was edited: the next calls use the new version", self.path)
        self._newest, pool = version, self._new_pool(version)
        if self._roll is not None:
            self._roll.cancel()
        if isinstance(self._engine, PlacingEngine):
            self._roll = self._start(self._take_turns(version, pool))
        else:
            self._use(version, pool)

    async def _take_turns(self, version: Version, pool: Pool) -> None:
        self.retired.add(pool)
        try:
            await roll(self.pool, pool, lambda: self._use(version, pool))
        finally:
            if self.pool is not pool:  # it was edited again before this version was used
                pool.retire(self.retired.discard)

    def _use(self, version: Version, pool: Pool) -> None:
        self.retired.add(self.pool)
        self.retired.discard(pool)
        self.pool.retire(self.retired.discard)
        self._version, self.pool = version, pool
        if self._is_described:
            self._is_described = False
            self._start(self._renew())

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks_of_edit.add(task)
        task.add_done_callback(self.tasks_of_edit.discard)
        return task

    async def _renew(self) -> None:
        """Offer the tools of the new version, and of the next one if it is edited again meanwhile."""
        version = None
        while version is not self._version:
            version, old, failure = self._version, self._tools, None
            try:
                found = await self._description(version)
                has_lost = not {tool.function for tool in old} <= {it["name"] for it in found.functions}
            except (CallError, ConfigError, OSError) as error:
                failure, has_lost = error, True
            while has_lost and self._is_changing and version is self._version:
                await self._news.wait()  # it may be half a file
            if version is not self._version:
                continue
            try:
                if failure is not None:
                    raise failure
                self._offer(await self.load(), {tool.name for tool in old})
            except (CallError, ConfigError, OSError) as error:
                logger.warning("%s: %s", self.path, error)
        self._is_described = True

    def _offer(self, tools: list[ScriptTool], old: set[str]) -> None:
        manager = self._services.manager
        for name in old - {tool.name for tool in tools}:
            manager.remove(name)
        for tool in tools:
            settings = self._services.config.tool.get(tool.name)
            if settings is None or settings.enabled:
                manager.remove(tool.name)  # it is replaced on purpose: no warning
                try:
                    if settings is not None and settings.key_argument:
                        hide_key_argument(tool, settings.key_argument)
                    manager.add(tool)
                except DefinitionError as error:
                    logger.warning("%s: %s", self.path, error)

    def _new_pool(self, version: Version) -> Pool:
        workers = self._services.config.workers
        limits = PoolLimits(
            concurrency=version.declared.concurrency,
            max_workers=self.settings(self.name).replicas or workers.max_workers,
            idle_timeout=workers.idle_timeout,
            start_timeout=workers.start_timeout,
            max_calls=workers.max_calls,
            max_age=workers.max_age,
            max_memory=None if version.declared.memory_mb is None else version.declared.memory_mb * 900_000,
            grace=workers.grace,
            spreads=isinstance(self._engine, PlacingEngine),
        )
        return Pool(self.name, self._engine, lambda: self._spec(version), limits)

    async def _spec(self, version: Version, *options: str) -> ProcessSpec:
        if isinstance(self._engine, PlacingEngine):
            return await self._place(self._engine, version, options)
        policy, sandboxes = self._policy(version, await self._interpreter(version)), self._services.sandboxes
        options = options or worker_options(version)
        return await script_process(self.path, version, policy, self._variables(), options, sandboxes)

    async def _place(self, engine: PlacingEngine, version: Version, options: tuple[str, ...]) -> ProcessSpec:
        """The same on another machine, where its environment is made."""
        services = self._services
        granted = granted_variables(self.name, services.config)
        variables = {name: services.environ[name] for name in granted if name in services.environ}
        wanted = recipe(
            self.path,
            version,
            options or worker_options(version),
            services.config,
            services.sandboxes.project_paths,
            variables,
            is_description=bool(options),
        )
        return await engine.place(wanted, services.on_progress)

    def _policy(self, version: Version, interpreter: Path) -> Policy:
        """What it may do: the same for every worker of a version, as it takes a while to find out."""
        known = self._policies.get(version.sha256)
        if known is None or known.program != interpreter:
            config, paths = self._services.config, self._services.sandboxes.project_paths
            known = script_policy(self.path, version.declared, config, paths, interpreter)
            self._policies = {version.sha256: known}
        return known

    def _variables(self) -> dict[str, str]:
        """Where programs and home are, the locale, and what is granted to all scripts or to this one."""
        config = self._services.config
        return child_environment(self._services.environ, granted_variables(self.name, config).__contains__)

    async def _interpreter(self, version: Version) -> Path:
        requirements, environments = version.requirements, self._services.environments
        if requirements.key != self._announced and environments.known(requirements) is None:
            self._announced = requirements.key
            needs = ", ".join(requirements.metadata.get("dependencies", [])) or "no packages"
            self._services.on_progress(f"{self.name}: creating its environment ({needs})")
        return await environments.interpreter(requirements)

    async def _description(self, version: Version) -> Description:
        known = await asyncio.to_thread(self._descriptions.find, version)
        if known is not None:
            return known
        found = read_description(await self._describe(version))
        if found is None:
            raise ProtocolError(f"The worker of '{self.name}' does not say what is in it.")
        await asyncio.to_thread(self._descriptions.keep, version, found)
        return found

    async def _describe(self, version: Version) -> dict[str, JSON]:
        spec = await self._spec(version, "--describe")
        worker = PooledWorker(self.name, NoPool(), 0.0)
        worker.start(self._engine, spec)
        limits = self._services.config.workers
        try:
            async with asyncio.timeout(limits.start_timeout):
                await worker.ready
        except TimeoutError:
            reason = f"was not ready within {limits.start_timeout:g} s."
            raise UnavailableError(f"The worker of '{self.name}' {reason}") from None
        finally:
            await worker.close(limits.grace)
        return worker.info
