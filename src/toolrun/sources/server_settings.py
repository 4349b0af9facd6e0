"""Which MCP servers a project uses: those of its configuration, and those of other programs' files that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from toolrun.config.model import Config, ServerSettings
from toolrun.errors import ConfigError
from toolrun.sources.load_problem import LoadProblem
from toolrun.text import section


def find_servers(
    config: Config, files: Iterable[Path], environ: Mapping[str, str]
) -> tuple[dict[str, ServerSettings], set[str], list[LoadProblem]]:
    """The servers to start, the names that are reserved for servers, and what cannot be used."""
    servers = dict(config.servers)
    reserved = {*config.servers, *config.missing_servers}
    where = config.path or config.root
    problems = [LoadProblem(where, None, "", reason) for reason in config.missing_servers.values()]
    for path in files:
        found, unusable = _read(path, environ, problems)
        servers = found | servers  # the configuration itself takes precedence
        reserved |= {*found, *unusable}
    for name, settings in config.servers.items():
        if settings.enabled and bool(settings.command) == bool(settings.url):
            fault = "needs either 'command' or 'url'" + (", and has both" if settings.url else "")
            problems.append(LoadProblem(where, None, "", f"{section('servers', name)} {fault}"))
            del servers[name]
    return {name: it for name, it in servers.items() if it.enabled}, reserved, problems


def _read(
    path: Path, environ: Mapping[str, str], problems: list[LoadProblem]
) -> tuple[dict[str, ServerSettings], list[str]]:
    """The servers of another program's file, and the names of those that cannot be used."""
    from toolrun.mcp.hosts.host_files import read_servers

    try:
        servers, unusable = read_servers(path, environ)
    except ConfigError as error:
        problems.append(LoadProblem(path, None, "", str(error).removeprefix(f"{path}: ")))
        return {}, []
    problems += [LoadProblem(path, None, "", f"server '{name}': {it}") for name, it in unusable.items()]
    return servers, list(unusable)
