"""Python files with a PEP 723 header: their functions run in worker processes with dependencies of their own.

A file is described from inside its environment, once for each content; a file that has not changed is listed from the
cache, without starting anything. An edited file is noticed at the next call: calls that run finish in the old workers.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from toolrun.config.model import Config
from toolrun.config.value_type import SECONDS, VALUE_TYPES, count
from toolrun.errors import CallError, ConfigError, DefinitionError, ProtocolError, UnavailableError
from toolrun.json import JSON, Schema, dumps, loads
from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import Engine, ProcessSpec
from toolrun.schema.origin import Origin
from toolrun.scripts.environment import Environments, Requirements, read_requirements
from toolrun.scripts.pep723 import find_fault
from toolrun.scripts.pool import Pool, RetiredError
from toolrun.scripts.pool_state import PoolLimits
from toolrun.scripts.pooled_worker import NoPool, PooledWorker
from toolrun.scripts.request import Request
from toolrun.text import suggestion
from toolrun.tools.context import Call, current_call
from toolrun.tools.manager import ToolManager
from toolrun.worker import DIRECTORY

logger = logging.getLogger("toolrun")

WORKER: Final = Path(DIRECTORY)
_LOOK_EVERY: Final = 0.001
"""Seconds between two looks whether a file was edited: under load a look for each call would be a tenth of its cost."""
_DESCRIPTION: Final = 2
"""To be raised when the files in the cache get another form."""
_DECLARED: Final = {
    "timeout": SECONDS,
    "concurrency": count(1),
    "memory_mb": count(1),
    "secrets": VALUE_TYPES["tuple[str, ...]"],
    "idempotent": VALUE_TYPES["bool"],
}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a script says of itself, in `[tool.toolrun]` of its metadata."""

    timeout: float | None = None
    concurrency: int = 1
    memory_mb: int | None = None
    secrets: tuple[str, ...] = ()
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """One content of a file."""

    sha256: str
    requirements: Requirements
    declared: Declared


class ScriptTool:
    """A function of a script."""

    isolated = True
    """It runs in a process, which is killed when a call is given up."""
    schema_origin = Origin.SIGNATURE
    __slots__ = (
        "_config",
        "_script",
        "_secrets",
        "description",
        "function",
        "idempotent",
        "is_async",
        "name",
        "schema",
        "source",
        "timeout",
    )

    def __init__(self, script: Script, name: str, about: Mapping[str, Any], declared: Declared) -> None:
        self._script = script
        self.source = script.path
        self.name = name
        self.function = str(about["name"])
        self.description = str(about.get("description") or "")
        self.schema: Schema = about["schema"]
        self.is_async = True
        self.timeout = declared.timeout
        self.idempotent = declared.idempotent
        self._config, self._secrets = script.granted(name, declared)

    async def ainvoke(self, arguments: dict[str, JSON]) -> JSON:
        call = current_call.get()
        while True:
            self._script.look(perf_counter() if call is None else call.started)
            try:
                return await self._script.pool.run(Request(self.function, arguments, self._config, self._secrets, call))
            except RetiredError:  # it was edited while this call waited: the new version takes it
                continue

    def submit(self, call: Call) -> Request | None:
        """The same without a coroutine, if a worker is free at this moment; None if not."""
        script = self._script
        if call.started >= script.next_look:
            script.look(call.started)
        request = Request(self.function, call.arguments, self._config, self._secrets, call)
        return request if script.pool.submit(request) else None


@dataclass(frozen=True, slots=True)
class ScriptServices:
    """What all scripts of a project share."""

    config: Config
    manager: ToolManager
    engine: Engine
    environments: Environments
    cache: Path
    variables: Mapping[str, str]
    """The environment variables of every worker."""
    on_progress: Callable[[str], None]
    """Told what is done while an environment is being made."""


class Script:
    """One file."""

    def __init__(self, path: Path, services: ScriptServices) -> None:
        self.path = path
        self.name = path.stem
        self._services = services
        self._file = str(path)
        self._stamp = _stamp(self._file)
        self.next_look = 0.0
        """When the file is to be looked at again, on the clock of `time.perf_counter`."""
        self._version = read_version(path, services.config)
        self.pool = self._new_pool(self._version)
        self._retired: list[Pool] = []
        self._renewal: asyncio.Task[None] | None = None
        self._tools: list[ScriptTool] = []
        self._announced = ""
        """The environment whose making was announced last: many calls may wait for it."""

    @property
    def environment(self) -> Path | None:
        """The interpreter of its environment, if it is made."""
        return self._services.environments.known(self._version.requirements)

    @property
    def declared(self) -> Declared:
        """What it says of itself, as far as the configuration lets it."""
        return self._version.declared

    @property
    def tools(self) -> list[ScriptTool]:
        """Those of the last load."""
        return list(self._tools)

    async def prepare(self) -> Path:
        """Make its environment now, if it is not there. Raises ScriptEnvironmentError."""
        return await self._interpreter(self._version)

    async def load(self) -> list[ScriptTool]:
        """The tools of the file as it is now. Raises CallError or ConfigError if it cannot be described."""
        version = self._version
        description = await self._description(version)
        functions = description["functions"]
        for function in description["skipped"]:
            logger.warning("%s: '%s' is no tool: %s", self.path, function["name"], function["reason"])
        for warning in description["warnings"]:
            logger.warning("%s: %s", self.path, warning)
        if not functions:
            raise ConfigError("has no public function that can be a tool")
        self._tools = [
            ScriptTool(self, self.name if len(functions) == 1 else f"{self.name}.{it['name']}", it, version.declared)
            for it in functions
        ]
        return self._tools

    def granted(self, tool: str, declared: Declared) -> tuple[Mapping[str, JSON], Mapping[str, str]]:
        """The configuration of a tool, and the secrets that it declares and is granted."""
        config = self._services.config
        settings = config.tool.get(tool)
        if settings is None:
            return {}, {}
        names = [name for name in settings.secrets if name in declared.secrets and name in config.secrets]
        return dict(settings.config), {name: config.secrets[name] for name in names}

    async def close(self, drain: float) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
        await asyncio.gather(*(pool.close(drain) for pool in (self.pool, *self._retired)))

    def look(self, now: float) -> None:
        """Notice an edit of the file, but look at it only so often."""
        if now < self.next_look:
            return
        self.next_look = now + _LOOK_EVERY
        try:
            stamp = _stamp(self._file)
        except OSError:  # a file that is gone goes on as it was
            return
        if stamp != self._stamp:
            self._stamp = stamp
            self._take_edit()

    def _take_edit(self) -> None:
        try:
            version = read_version(self.path, self._services.config)
        except ConfigError as error:
            logger.warning("%s was edited and %s; its last good version stays in use", self.path, error)
            return
        if version.sha256 == self._version.sha256:
            return
        logger.info("%s was edited: the next calls use the new version", self.path)
        self.pool.retire()
        self._retired.append(self.pool)
        self._version, self.pool = version, self._new_pool(version)
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        """Offer the tools of the new version, and of the next one if it is edited again meanwhile."""
        version = None
        while version is not self._version:
            version, old = self._version, {tool.name for tool in self._tools}
            try:
                self._offer(await self.load(), old)
            except (CallError, ConfigError, OSError) as error:
                logger.warning("%s: %s", self.path, error)

    def _offer(self, tools: list[ScriptTool], old: set[str]) -> None:
        manager = self._services.manager
        for name in old - {tool.name for tool in tools}:
            manager.remove(name)
        for tool in tools:
            settings = self._services.config.tool.get(tool.name)
            if settings is None or settings.enabled:
                manager.remove(tool.name)  # it is replaced on purpose: no warning
                try:
                    manager.add(tool)
                except DefinitionError as error:
                    logger.warning("%s: %s", self.path, error)

    def _new_pool(self, version: Version) -> Pool:
        workers = self._services.config.workers
        limits = PoolLimits(
            concurrency=version.declared.concurrency,
            max_workers=workers.max_workers,
            idle_timeout=workers.idle_timeout,
            start_timeout=workers.start_timeout,
            max_calls=workers.max_calls,
            max_age=workers.max_age,
            max_memory=None if version.declared.memory_mb is None else version.declared.memory_mb * 900_000,
            grace=workers.grace,
        )
        return Pool(self.name, self._services.engine, lambda: self._spec(version), limits)

    async def _spec(self, version: Version, *options: str) -> ProcessSpec:
        interpreter = await self._interpreter(version)
        options = options or ("--concurrency", str(version.declared.concurrency))
        return ProcessSpec(
            name=self.name,
            program=interpreter,
            arguments=(str(WORKER / "__main__.py"), str(self.path), *options),
            directory=self._services.config.root,
            variables=self._services.variables,
            memory=None if version.declared.memory_mb is None else version.declared.memory_mb * 1_000_000,
            label=str(self.path),
        )

    async def _interpreter(self, version: Version) -> Path:
        requirements, environments = version.requirements, self._services.environments
        if requirements.key != self._announced and environments.known(requirements) is None:
            self._announced = requirements.key
            needs = ", ".join(requirements.metadata.get("dependencies", [])) or "no packages"
            self._services.on_progress(f"{self.name}: making its environment ({needs})")
        return await environments.interpreter(requirements)

    async def _description(self, version: Version) -> dict[str, list[Any]]:
        """The functions of the file, those that cannot be tools, and what is to be warned of."""
        parts = (str(_DESCRIPTION), version.sha256, version.requirements.key, _worker_key())
        key = hashlib.sha256("".join(parts).encode()).hexdigest()
        file = self._services.cache / "descriptions" / f"{key[:32]}.json"
        with suppress(OSError, ValueError):
            cached: dict[str, list[Any]] = loads(file.read_bytes())
            return cached
        info: dict[str, Any] = await self._describe(version)
        found: dict[str, Any] = {part: info.get(part) for part in ("functions", "skipped", "warnings")}
        if not all(isinstance(part, list) for part in found.values()):
            raise ProtocolError(f"The worker of '{self.name}' does not say what is in it.")
        with suppress(OSError):  # a full disk costs time, not the tool
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{id(self)}.part")
            part.write_bytes(dumps(found))
            part.replace(file)
        return found

    async def _describe(self, version: Version) -> dict[str, JSON]:
        spec = await self._spec(version, "--describe")
        worker = PooledWorker(self.name, NoPool(), 0.0)
        worker.start(self._services.engine, spec)
        limit = self._services.config.workers.start_timeout
        try:
            async with asyncio.timeout(limit):
                await worker.ready
        except TimeoutError:
            raise UnavailableError(f"The worker of '{self.name}' was not ready within {limit:g} s.") from None
        finally:
            await worker.close(self._services.config.workers.grace)
        return worker.info


def read_version(path: Path, config: Config) -> Version:
    """Raises ConfigError for a file whose metadata cannot be used."""
    try:
        content = path.read_bytes()
        lock_file = path.with_name(f"{path.name}.lock")
        lock = lock_file.read_bytes() if lock_file.is_file() else None
        source = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}") from error
    requirements = read_requirements(source, lock)
    if requirements is None:
        raise ConfigError(f"has a header that is not valid (PEP 723), so it is not run: {find_fault(source)}")
    tools = requirements.metadata.get("tool")
    table = tools.get("toolrun", {}) if isinstance(tools, Mapping) else {}
    return Version(hashlib.sha256(content).hexdigest(), requirements, _capped(_declared(table), config))


def _declared(table: object) -> Declared:
    if not isinstance(table, Mapping):
        raise ConfigError("[tool.toolrun] in its header must be a table")
    values: dict[str, Any] = {}
    for key, value in table.items():
        kind = _DECLARED.get(key)
        if kind is None:
            raise ConfigError(f"unknown key '{key}' in [tool.toolrun] of its header; {suggestion(key, _DECLARED)}")
        if not kind.accepts(value):
            raise ConfigError(f"'{key}' in [tool.toolrun] of its header must be {kind.words}")
        values[key] = kind.convert(value)
    return Declared(**values)


def _capped(declared: Declared, config: Config) -> Declared:
    workers = config.workers
    memory = [it for it in (declared.memory_mb, workers.max_memory_mb) if it is not None]
    return Declared(
        timeout=None if declared.timeout is None else min(declared.timeout, workers.max_timeout),
        concurrency=min(declared.concurrency, workers.max_concurrency),
        memory_mb=min(memory, default=None),
        secrets=declared.secrets,
        idempotent=declared.idempotent,
    )


def worker_variables(environ: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """What a worker gets of the host's environment: where programs and home are, the locale, and what is listed."""
    return child_environment(environ, names.__contains__)


def _stamp(file: str) -> tuple[int, int, int]:
    status = os.stat(file)  # noqa: PTH116  once for each call, and pathlib takes twice as long
    return status.st_mtime_ns, status.st_size, status.st_ino


@cache
def _worker_key() -> str:
    """Changes with the code that describes scripts."""
    files = sorted(WORKER.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
