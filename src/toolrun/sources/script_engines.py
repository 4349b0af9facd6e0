"""The engines that the scripts of a project need, each opened once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolrun.config.model import Config, WorkerSettings

if TYPE_CHECKING:
    from toolrun.processes.engine import Engine


class ScriptEngines:
    """Where the processes of scripts run."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ
        self._engines: dict[str, Engine] = {}

    def engine_of(self, script: str) -> Engine:
        """The engine of a script, by its name. Raises ConfigError."""
        settings, workers = self._config.tool.get(script), self._config.workers
        name = (settings.engine if settings is not None else "") or workers.engine
        if name not in self._engines:
            self._engines[name] = _new_engine(workers, self._environ) if name == "ray" else _new_local_engine()
        return self._engines[name]

    async def close(self) -> None:
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
