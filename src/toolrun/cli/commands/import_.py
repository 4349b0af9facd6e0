"""`toolrun import`: copies MCP servers from the configuration of other programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from toolrun.cli.editing import confirm, replace_file, text_of, yes_option
from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, Output, claim_stdout, complain, inform, near
from toolrun.config.load import FILE_NAME
from toolrun.config.model import Config
from toolrun.config.parse import parse_toml
from toolrun.errors import ConfigError
from toolrun.hidden_characters import reveal
from toolrun.json import JSON
from toolrun.mcp.hosts.host_files import FoundServer, HostFile, existing, expanded, hidden_in, host_files, read_file
from toolrun.mcp.hosts.toml_entry import server_table, without_secrets
from toolrun.runtime import read_config
from toolrun.text import section, suggestion

_NEW: Final = "new"
_CONFIGURED: Final = "configured"
_READ: Final = "read from its file"


@dataclass(frozen=True, slots=True)
class Found:
    """A server and where it was found."""

    place: HostFile
    server: FoundServer
    state: str
    """Whether toolrun already uses it."""
    problem: str
    """Why it cannot be used; empty if it can."""

    @property
    def target(self) -> str:
        """Its command or URL, without secrets."""
        settings, _ = without_secrets(self.server.name, self.server.settings)
        return settings.url or " ".join([settings.command, *settings.args])

    def to_dict(self) -> dict[str, JSON]:
        return {
            "name": self.server.name,
            "client": self.place.client,
            "file": str(self.place.path),
            "target": self.target,
            "state": self.state,
            "problem": self.problem or None,
            "note": self.server.note or None,
            "hidden_characters": list(hidden_in(self.server)),
        }


@click.command(name="import")
@click.argument("servers", nargs=-1)
@click.option("--all", "wants_all", is_flag=True, help="Copy all new servers, except those with problems.")
@click.option(
    "--from", "source", metavar="FILE", type=click.Path(), help="Search this file instead of the usual places."
)
@click.option("--with-secrets", is_flag=True, help="Copy passwords and keys verbatim, not as ${VARIABLE}.")
@click.option("--json", "as_json", is_flag=True, help="Print the servers as a JSON array.")
@yes_option
@shared_options()
@click.pass_obj
def command(
    options: Options,
    servers: tuple[str, ...],
    wants_all: bool,
    source: str | None,
    with_secrets: bool,
    as_json: bool,
    yes: bool,
) -> int:
    """Find the MCP servers of other programs, and copy SERVERS into toolrun.toml.

    Searches .mcp.json, .vscode/mcp.json and .cursor/mcp.json of the project, and the user's files of Claude Desktop,
    VS Code and Cursor. Without SERVERS and --all, it lists the servers and changes nothing.
    """
    config = read_config(options.config)
    output = claim_stdout()
    found, has_failed = _search(config, source)
    if as_json:
        output.json([it.to_dict() for it in found])
        return FAILED if has_failed else OK
    if not servers and not wants_all:
        _show(output, found)
        return FAILED if has_failed else OK
    new = [it for it in found if it.state == _NEW] if wants_all else []
    for it in new:
        if why := it.server.problem or _warning(it.server):
            complain(f"{reveal(it.server.name)} in {near(it.place.path)} is skipped: {why}")
    chosen = [it for it in new if not it.server.problem and not _warning(it.server)]
    chosen += [_pick(name, found) for name in servers]
    return _copy(output, config, _distinct(chosen), with_secrets, yes)


def _search(config: Config, source: str | None) -> tuple[list[Found], bool]:
    """The servers of all files, and whether a file could not be read."""
    found: list[Found] = []
    has_failed = False
    if source is not None:
        looked_at = [HostFile("", Path(source).expanduser().absolute())]
    else:
        looked_at = list(existing(host_files(config.root, os.environ)))
    used = {(config.root / Path(file).expanduser()).resolve() for file in config.mcp.files}
    for place in looked_at:
        try:
            servers = read_file(place.path)
        except ConfigError as error:
            complain(str(error))
            has_failed = True
            continue
        for server in servers:
            is_configured = server.name in config.servers or server.name in config.missing_servers
            state = _CONFIGURED if is_configured else _READ if place.path.resolve() in used else _NEW
            found.append(Found(place, server, state, expanded(server, os.environ)[1]))
    return found, has_failed


def _show(output: Output, found: Sequence[Found]) -> None:
    if not found:
        complain("no MCP servers found; --from FILE searches another file")
        return
    columns = [Column("SERVER", "bold cyan"), Column("STATE"), Column("FILE", "dim"), Column("STARTS", wraps=True)]
    rows = [(reveal(it.server.name), it.state, near(it.place.path), reveal(it.target)) for it in found]
    output.table(columns, rows)
    for it in found:
        for text in filter(None, (it.problem, it.server.note, _warning(it.server))):
            complain(f"{reveal(it.server.name)} in {near(it.place.path)}: {text}")
    if any(it.state == _NEW for it in found):
        inform("Run toolrun import NAME to copy one into toolrun.toml, or toolrun import --all for all new ones.")


def _warning(server: FoundServer) -> str:
    """What a person should know before the server is copied."""
    places = hidden_in(server)
    return f"it has hidden characters in {', '.join(places)}; do not copy it unless you know why" if places else ""


def _pick(name: str, found: Sequence[Found]) -> Found:
    same = [it for it in found if it.server.name == name]
    if not same:
        raise ConfigError(f"no server '{name}' was found; {suggestion(name, [it.server.name for it in found])}")
    if same[0].state == _CONFIGURED:
        raise ConfigError(
            f"{section('servers', name)} is already in the configuration; remove it there first to copy it again"
        )
    return _only(same)


def _only(same: Sequence[Found]) -> Found:
    """The one server behind several entries of the same name. Raises ConfigError if they differ."""
    first = same[0]
    if any(_essence(it) != _essence(first) for it in same):
        files = ", ".join(near(it.place.path) for it in same)
        raise ConfigError(f"'{first.server.name}' differs between {files}; choose one with --from FILE")
    if first.server.problem:
        raise ConfigError(f"'{first.server.name}' in {near(first.place.path)} {first.server.problem}; correct it there")
    return first


def _essence(found: Found) -> object:
    return replace(found.server.settings, cwd="")


def _distinct(chosen: Sequence[Found]) -> list[Found]:
    by_name: dict[str, list[Found]] = {}
    for it in chosen:
        by_name.setdefault(it.server.name, []).append(it)
    return [_only(same) for same in by_name.values()]


def _copy(output: Output, config: Config, chosen: Sequence[Found], with_secrets: bool, yes: bool) -> int:
    if not chosen:
        complain("there are no new servers to copy")
        return OK
    path = config.path or config.root / FILE_NAME
    before = text_of(path)
    tables: list[str] = []
    variables: dict[str, str] = {}
    for it in chosen:
        settings, hidden = it.server.settings, dict[str, str]()
        if not with_secrets:
            settings, hidden = without_secrets(it.server.name, settings)
        tables.append(server_table(it.server.name, settings, config.root))
        variables |= {name: f"{where} of '{it.server.name}' in {near(it.place.path)}" for name, where in hidden.items()}
    added = "\n".join(tables)
    after = _appended(before or "", added, path)
    output.text(added.rstrip("\n"))
    for it in chosen:
        if warning := _warning(it.server):
            complain(f"{it.server.name}: {warning}")
    if not yes and not confirm(f"Add this to {near(path)}?"):
        complain("nothing was changed")
        return FAILED
    backup = replace_file(path, before, after)
    inform(f"Wrote {near(path)}" + (f"; backup in {near(backup)}" if backup else ""))
    for name, where in variables.items():
        inform(f"Set the variable {name}: its value is in {where}.")
    for it in chosen:
        if it.server.note:
            complain(f"{it.server.name}: {it.server.note}")
    return OK


def _appended(before: str, added: str, path: Path) -> str:
    """The text of toolrun.toml with the tables at its end. Raises ConfigError if that would break it."""
    newline = "\r\n" if "\r\n" in before else "\n"
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    after = before + (gap + added).replace("\n", newline)
    expected = parse_toml(before)
    servers = expected.setdefault("servers", {})
    try:
        found = parse_toml(after)
    except ConfigError:
        found = {}
    if not isinstance(servers, dict) or found != expected | {"servers": servers | parse_toml(added)["servers"]}:
        raise ConfigError(f"{path}: cannot append [servers.NAME]; add this by hand:\n{added}")
    return after
