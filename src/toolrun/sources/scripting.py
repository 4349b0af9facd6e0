"""What the scripts of a project share: their engines, each opened once, environments and sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from toolrun.config.cache_directory import cache_directory
from toolrun.config.model import Config, WorkerSettings

if TYPE_CHECKING:
    from pathlib import Path

    from toolrun.processes.engine import Engine
    from toolrun.tools.manager import ToolManager


class Scripting:
    """Made when a project has its first script."""

    def __init__(
        self,
        config: Config,
        manager: ToolManager,
        environ: Mapping[str, str],
        on_progress: Callable[[str], None],
        directory: Path | None,
    ) -> None:
        from toolrun.processes.sandbox.confine import Sandboxes
        from toolrun.processes.sandbox.project_paths import paths_of_project
        from toolrun.scripts.environment import Environments
        from toolrun.scripts.source import ScriptServices

        self._config, self._environ = config, environ
        self._engines: dict[str, Engine] = {}
        workers = config.workers
        cache = cache_directory(workers, config.root)
        self._environments = Environments(
            cache,
            allow_build=workers.allow_build,
            variables=environ,
            extra={name: environ[name] for name in workers.variables if name in environ},
            on_progress=on_progress,
        )
        sandboxes = Sandboxes(cache, paths_of_project(config, cache, directory), workers.sandbox_required)
        self.services = ScriptServices(
            config, manager, self._engine_of, self._environments, cache, environ, sandboxes, on_progress
        )

    def _engine_of(self, script: str) -> Engine:
        """The engine of a script, by its name. Raises ConfigError."""
        settings, workers = self._config.tool.get(script), self._config.workers
        name = (settings.engine if settings is not None else "") or workers.engine
        if name not in self._engines:
            self._engines[name] = _new_engine(workers, self._environ) if name == "ray" else _new_local_engine()
        return self._engines[name]

    async def close(self) -> None:
        await self._environments.close()
        for engine in self._engines.values():
            await engine.close()


def _new_local_engine() -> Engine:
    from toolrun.processes.local import LocalEngine

    return LocalEngine()


def _new_engine(workers: WorkerSettings, environ: Mapping[str, str]) -> Engine:
    """The engine of a cluster. Raises ConfigError if it cannot be had."""
    from toolrun.processes.ray.cluster_client import ClusterSettings
    from toolrun.processes.ray.ray_engine import RayEngine

    settings = ClusterSettings(
        address=workers.address or environ.get("RAY_ADDRESS", ""),
        lease=workers.lease,
        timeout=workers.start_timeout,
        allow_cluster_without_token=workers.allow_cluster_without_token,
    )
    return RayEngine(settings, environ)
