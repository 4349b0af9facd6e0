"""The sandbox of a stdio server. Off unless its settings say otherwise: the user has installed the server."""

from __future__ import annotations

from toolrun.config.model import Permissions
from toolrun.mcp.client.channel import Server
from toolrun.processes.engine import ProcessSpec
from toolrun.processes.sandbox.foreign_program import confine_program
from toolrun.processes.sandbox.policy import OFF, STANDARD


async def confine_server(server: Server, spec: ProcessSpec) -> ProcessSpec:
    """The server behind the walls that its settings ask for. Raises UnavailableError if the system has none."""
    settings = server.settings
    permissions = settings.permissions or Permissions()
    level = settings.sandbox or (OFF if settings.permissions is None else STANDARD)
    if server.sandboxes is None:
        return spec
    section = f"servers.{server.name}.permissions"
    return await confine_program(spec, level, permissions, section, server.sandboxes, server.environ)
