"""The sandbox of a stdio server. Off unless its settings say otherwise: the user has installed the server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from toolrun.config.model import Permissions
from toolrun.mcp.client.channel import Server
from toolrun.processes.engine import ProcessSpec
from toolrun.processes.sandbox.policy import OFF, STANDARD, interpreter_roots, make_policy


async def confine_server(server: Server, spec: ProcessSpec) -> ProcessSpec:
    """The server behind the walls that its settings ask for. Raises UnavailableError if the system has none."""
    settings = server.settings
    permissions = settings.permissions or Permissions()
    level = settings.sandbox or (OFF if settings.permissions is None else STANDARD)
    if level == OFF or server.sandboxes is None:
        return spec
    if permissions.run is not True and (permissions.run is not None or level != STANDARD):
        permissions = replace(permissions, run=(*(permissions.run or ()), str(spec.program)))  # itself
    launcher = Path(sys.executable)
    packages = (*interpreter_roots(launcher), *_own_places(spec.program), spec.directory)
    section = f"servers.{server.name}.permissions"
    policy = make_policy(level, permissions, section, server.sandboxes.territory, launcher, packages)
    extra = {name: server.environ[name] for name in permissions.env if name in server.environ}
    spec = replace(spec, variables={**spec.variables, **extra})
    policy = replace(policy, directory=spec.directory)
    return await server.sandboxes.confine(spec, policy, ("--", str(spec.program), *spec.arguments), None)


def _own_places(program: Path) -> Iterator[Path]:
    """Where a program is, and where it leads to: an installation with a library beside its programs, but no home."""
    real = program.resolve()
    yield program.parent
    yield real.parent
    for directory in (real.parent.parent, *real.parents[2:4]):
        is_home = directory == Path.home() or directory.name == ".local"
        if directory != Path("/") and not is_home and (directory / "lib").is_dir():
            yield directory
