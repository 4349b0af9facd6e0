"""A script on a node of a cluster: what its gateway tells of it, and the process that is made from that.

`recipe` is on the gateway's side, `main` is the program of a replica. The environment is made on the node, once for all
replicas there with the same requirements, by the same code as on one machine; the index that its packages come from is
the node's own. Nothing of the project is copied: a script on a node works in the project's folder if the node has a
folder of that path, such as a shared one, and else in an empty one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from toolrun.config.cache_directory import cache_directory
from toolrun.config.model import Config, Permissions, ToolSettings, WorkerSettings
from toolrun.json import JSON
from toolrun.processes.child_environment import child_environment
from toolrun.processes.engine import ProcessSpec, Recipe
from toolrun.processes.sandbox.confine import Sandboxes
from toolrun.processes.sandbox.policy import ProjectPaths
from toolrun.scripts.environment import Environments
from toolrun.scripts.script_process import script_process
from toolrun.scripts.script_sandbox import script_policy
from toolrun.scripts.script_version import Version, make_version

_MODULE: Final = "toolrun.scripts.on_node"
_DEFAULT_RESOURCES: Final = {"CPU": 0.5}
_OWN: Final = ("cache", "allow_build", "sandbox", "sandbox_required", "max_timeout", "max_concurrency", "max_memory_mb")
"""The settings of [workers] that a node needs to know."""


def recipe(
    path: Path,
    version: Version,
    options: tuple[str, ...],
    config: Config,
    project_paths: ProjectPaths,
    variables: Mapping[str, str],
    *,
    is_description: bool,
) -> Recipe:
    """What a replica needs to know. `variables` are those that the script is granted.

    To be described, a script needs nothing of a node but a moment.
    """
    settings = config.tool.get(path.stem, ToolSettings())
    permissions = {it.name: _plain(getattr(settings.permissions, it.name)) for it in fields(Permissions)}
    content: dict[str, JSON] = {
        "path": str(path),
        "content": version.content.decode(),
        "lock": None if version.requirements.lock is None else version.requirements.lock.decode(),
        "options": list(options),
        "variables": dict(variables),
        "project_paths": {it.name: _plain(getattr(project_paths, it.name)) for it in fields(ProjectPaths)},
        "workers": {name: getattr(config.workers, name) for name in _OWN},
        "tool": {"sandbox": settings.sandbox, "permissions": permissions},
    }
    resources = {name: value for name, value in settings.resources.items() if isinstance(value, int | float)}
    return Recipe(
        name=path.stem,
        label=str(path),
        program=_MODULE,
        content=content,
        resources={} if is_description else resources or _DEFAULT_RESOURCES,
    )


def _plain(value: Any) -> JSON:
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return str(value) if isinstance(value, Path) else value


async def make(content: Mapping[str, Any], on_progress: Callable[[str], None]) -> ProcessSpec:
    """The process of a recipe, on this machine. Raises CallError, ConfigError or OSError."""
    path = Path(content["path"])
    workers = WorkerSettings(**content["workers"])
    cache = _cache(workers, Path(content["project_paths"]["root"]))
    project_paths = _project_paths(content["project_paths"], cache)
    permissions = {
        name: tuple(it) if isinstance(it, list) else it for name, it in content["tool"]["permissions"].items()
    }
    settings = ToolSettings(sandbox=content["tool"]["sandbox"], permissions=Permissions(**permissions))
    config = Config(path=None, root=project_paths.root, workers=workers, tool={path.stem: settings})
    lock = content["lock"]
    version = make_version(content["content"].encode(), None if lock is None else lock.encode(), config)
    granted: dict[str, str] = content["variables"]
    environments = Environments(
        cache, allow_build=workers.allow_build, variables=os.environ, extra=granted, on_progress=on_progress
    )
    try:
        interpreter = await environments.interpreter(version.requirements)
    finally:
        await environments.close()
    policy = script_policy(path, version.declared, config, project_paths, interpreter)
    sandboxes = Sandboxes(cache, project_paths, workers.sandbox_required)
    variables = child_environment(os.environ) | granted
    return await script_process(path, version, policy, variables, content["options"], sandboxes)


def _cache(workers: WorkerSettings, root: Path) -> Path:
    """Where the node keeps environments: for a relative path the project's folder, if it is there."""
    cache = cache_directory(workers, root)
    is_relative = workers.cache and not Path(workers.cache).expanduser().is_absolute()
    return cache_directory(WorkerSettings(), root) if is_relative and not root.is_dir() else cache


def _project_paths(content: Mapping[str, Any], cache: Path) -> ProjectPaths:
    root = Path(content["root"])
    if not root.is_dir():
        root = cache / "projects" / hashlib.sha256(content["root"].encode()).hexdigest()[:16]
        root.mkdir(parents=True, exist_ok=True)
    own = (path for path in map(Path, content["hidden"]) if path != cache)
    protected, writable = (tuple(map(Path, content[name])) for name in ("protected", "writable"))
    return ProjectPaths(root, (cache, *own), protected, writable, is_configured=content["is_configured"])


def main() -> None:
    from toolrun.processes.ray.replica import serve

    serve(make)


if __name__ == "__main__":
    main()
