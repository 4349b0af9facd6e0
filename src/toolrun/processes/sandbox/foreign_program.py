"""A program that is no worker of ours, behind walls: an MCP server, a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from toolrun.config.model import Permissions
from toolrun.processes.engine import ProcessSpec
from toolrun.processes.sandbox.confine import Sandboxes
from toolrun.processes.sandbox.policy import OFF, STANDARD, interpreter_roots, make_policy


async def confine_program(
    spec: ProcessSpec,
    level: str,
    permissions: Permissions,
    section: str,
    sandboxes: Sandboxes,
    environ: Mapping[str, str],
) -> ProcessSpec:
    """The process behind the walls that its settings ask for. Raises UnavailableError if the system has none."""
    if level == OFF:
        return spec
    if permissions.run is not True and (permissions.run is not None or level != STANDARD):
        permissions = replace(permissions, run=(*(permissions.run or ()), str(spec.program)))  # itself
    launcher = Path(sys.executable)
    packages = (*interpreter_roots(launcher), *_own_places(spec.program), spec.directory)
    policy = make_policy(level, permissions, section, sandboxes.project_paths, launcher, packages)
    extra = {name: environ[name] for name in permissions.env if name in environ}
    spec = replace(spec, variables={**spec.variables, **extra})
    policy = replace(policy, directory=spec.directory)
    return await sandboxes.confine(spec, policy, ("--", str(spec.program), *spec.arguments), None)


def _own_places(program: Path) -> Iterator[Path]:
    """Where a program is, and where it leads to: an installation with a library beside its programs, but no home."""
    real = program.resolve()
    yield program.parent
    yield real.parent
    for directory in (real.parent.parent, *real.parents[2:4]):
        is_home = directory == Path.home() or directory.name == ".local"
        if directory != Path("/") and not is_home and (directory / "lib").is_dir():
            yield directory
