"""`toolrun install`: adds toolrun to the MCP servers of another program."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click

from toolrun.cli.editing import confirm, replace_file, text_of, yes_option
from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, complain, inform, near
from toolrun.errors import ConfigError
from toolrun.extra import is_installed, missing
from toolrun.json import JSON
from toolrun.mcp.hosts import jsonc
from toolrun.mcp.hosts.host_files import host_files
from toolrun.mcp.http_token import VARIABLE, token_file
from toolrun.runtime import read_config


@dataclass(frozen=True, slots=True)
class Client:
    """A program that can use toolrun as an MCP server."""

    title: str
    section: str
    """The key of the servers in its file."""
    has_type: bool
    """Whether an entry needs `"type": "stdio"`."""
    is_of_user: bool
    """Whether its file is for all projects of the user."""
    advice: str
    reference: str = ""
    """How its file refers to the variable with the token; empty if it cannot use servers with a URL."""


CLIENTS: Final[Mapping[str, Client]] = {
    "claude-desktop": Client("Claude Desktop", "mcpServers", False, True, "Quit Claude Desktop and start it again."),
    "claude-code": Client(
        "Claude Code",
        "mcpServers",
        True,
        False,
        "Start claude in this directory; it asks once whether to trust the server.",
        f"${{{VARIABLE}}}",
    ),
    "cursor": Client(
        "Cursor",
        "mcpServers",
        False,
        False,
        "Open this directory in Cursor and enable it in Settings, MCP.",
        f"${{env:{VARIABLE}}}",
    ),
    "vscode": Client(
        "VS Code",
        "servers",
        True,
        False,
        "Open this directory in VS Code and run 'MCP: List Servers'.",
        f"${{env:{VARIABLE}}}",
    ),
}


@click.command(name="install")
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--name", metavar="NAME", help="The name of the server there. Default: toolrun.")
@click.option("--url", metavar="URL", help="Let the client use the running 'toolrun serve --http' at this URL.")
@click.option("--print", "only_prints", is_flag=True, help="Only print the entry and the path of the file.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the file, the entry and what was done.")
@yes_option
@shared_options()
@click.pass_obj
def command(
    options: Options, client: str, name: str | None, url: str | None, only_prints: bool, as_json: bool, yes: bool
) -> int:
    """Add toolrun, with the tools of this project, to the MCP servers of CLIENT.

    CLIENT is claude-desktop, claude-code, cursor or vscode. toolrun shows the entry, asks, and keeps a backup.

    The client starts toolrun itself. With --url it uses a server that runs; its file then refers to the token as
    $TOOLRUN_SERVE_TOKEN.
    """
    config = read_config(options.config)
    if config.path is None:
        raise ConfigError("there is no toolrun.toml in or above this directory; 'toolrun init' creates one")
    target = CLIENTS[client]
    path = next(place.path for place in host_files(config.root, os.environ) if place.client == client)
    name = name or _default_name(target, config.root)
    entry = _entry(target, config.path) if url is None else _entry_with_url(target, url)
    output = claim_stdout()
    shown = json.dumps({target.section: {name: entry}}, indent=2, ensure_ascii=False)

    report = partial(_report, output, as_json, {"file": str(path), "name": name, "entry": entry})
    if only_prints:
        if as_json:
            report(False)
        else:
            inform(f"{near(path)} needs:")
            output.text(shown)
        return OK
    before = text_of(path)
    present, after = _edited(path, before or "", target.section, name, entry)
    if present == entry:
        inform(f"{target.title} already has it, in {near(path)}.")
        report(False)
        return OK
    if not as_json:
        output.text(shown)
    elif not yes:
        inform(shown)
    if not yes and not confirm(f"{'Change' if present is not None else 'Add'} this in {near(path)}?"):
        complain("nothing was changed")
        report(False)
        return FAILED
    backup = replace_file(path, before, after)
    report(True, backup)
    inform(f"Wrote {near(path)}" + (f"; backup in {near(backup)}" if backup else ""))
    _tell_next_steps(target, config.root, url)
    return OK


def _report(output: Output, as_json: bool, about: dict[str, JSON], wrote: bool, backup: Path | None = None) -> None:
    if as_json:
        output.json({**about, "wrote": wrote, "backup": None if backup is None else str(backup)})


def _edited(path: Path, before: str, section: str, name: str, entry: dict[str, JSON]) -> tuple[JSON, str]:
    """The entry that is there, if any, and the file with the new one."""
    try:
        present = _present(before, section, name)
        after = jsonc.with_entry(before, section, name, entry)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}. Nothing was changed.") from None
    if present is not None and present != entry and not _is_ours(present):
        raise ConfigError(f"{path}: '{name}' is already another server; choose another name with --name")
    return present, after


def _tell_next_steps(client: Client, root: Path, url: str | None) -> None:
    if url is not None:
        file = shlex.quote(str(token_file(root)))
        inform(f'{client.title} needs the token in its environment: export {VARIABLE}="$(cat {file})"')
    inform(client.advice)
    if not is_installed("mcp"):
        complain(str(missing("mcp", ImportError(name="mcp"), "toolrun serve")))


def _default_name(client: Client, root: Path) -> str:
    """`toolrun`; with the project in a file for all projects."""
    folder = re.sub(r"[^A-Za-z0-9_-]+", "-", root.name).strip("-")
    return f"toolrun-{folder}" if client.is_of_user and folder else "toolrun"


def _entry(client: Client, config: Path) -> dict[str, JSON]:
    kind: dict[str, JSON] = {"type": "stdio"} if client.has_type else {}
    return {**kind, "command": str(_program()), "args": ["serve", "--config", str(config)]}


def _entry_with_url(client: Client, url: str) -> dict[str, JSON]:
    """Without the token: the file may be in a repository."""
    if not client.reference:
        raise ConfigError(f"{client.title} only has servers that it starts itself; leave out --url")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--url {url}: write the URL that 'toolrun serve --http' shows, http://127.0.0.1:8000/mcp")
    kind: dict[str, JSON] = {"type": "http"} if client.has_type else {}
    return {**kind, "url": url, "headers": {"Authorization": f"Bearer {client.reference}"}}


def _program() -> Path:
    """The absolute path of this program."""
    started = Path(sys.argv[0])
    if started.name.startswith("toolrun") and started.is_file():
        return started.absolute()
    return Path(sys.executable).with_name("toolrun")


def _present(text: str, section: str, name: str) -> JSON:
    """The entry of that name, if there is one."""
    document = jsonc.parse(text) if text.strip() else {}
    table = document.get(section) if isinstance(document, dict) else None
    found: JSON = table.get(name) if isinstance(table, dict) else None
    return found


def _is_ours(entry: JSON) -> bool:
    if not isinstance(entry, dict):
        return False
    command, headers = entry.get("command"), entry.get("headers")
    if isinstance(command, str):
        return Path(command).stem == "toolrun"
    return isinstance(headers, dict) and VARIABLE in str(headers.get("Authorization"))
