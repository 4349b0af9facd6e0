"""`toolrun trust`: shows and accepts changed definitions of the tools of servers."""

from __future__ import annotations

from typing import Final

import click

from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, complain, inform
from toolrun.cli.wrapped_line import wrapped
from toolrun.errors import PinError, UsageError
from toolrun.hidden_characters import reveal
from toolrun.journal.settlement import person
from toolrun.json import JSON
from toolrun.runtime import read_config
from toolrun.text import plural, suggestion
from toolrun.trust.pins import DefinitionChange, Pins

_STDERR: Final = 2
"""The same terminal as that of the output, which is another descriptor."""


@click.command(name="trust")
@click.argument("server", required=False)
@click.argument("tools", nargs=-1)
@click.option("--all", "accepts_all", is_flag=True, help="Accept all changes of all servers.")
@click.option(
    "--forget",
    is_flag=True,
    help="Forget the accepted definitions of SERVER: those that it lists next count as accepted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@shared_options()
@click.pass_obj
def command(
    options: Options, server: str | None, tools: tuple[str, ...], accepts_all: bool, forget: bool, as_json: bool
) -> int:
    """Show which tools of MCP servers are not the ones that were agreed to, and accept the changes of SERVER.

    Without SERVER, shows what has changed and changes nothing. With SERVER, shows and accepts its changes; with TOOLS
    those only. No server is started: what is shown is what the servers listed when they were last used.

    Exit code: 0 the changes are shown or accepted, 1 there is nothing to accept, 2 there is no such server or tool.
    """
    if (forget and (server is None or tools)) or (accepts_all and (server is not None or forget)):
        raise UsageError("name a server, optionally with tools, or use --all; --forget takes a server and nothing else")
    config = read_config(options.config)
    if config.path is None:
        raise PinError("There is no toolrun.toml here or above: definitions are pinned only in projects.")
    pins = Pins(config.root, config.trust)
    pinned = pins.load()
    if server is not None and server not in pinned:
        hint = f"; {suggestion(server, pinned)}" if pinned else ", nor is any other"
        raise UsageError(f"no tools of a server '{server}' are pinned{hint}")
    if forget:
        assert server is not None
        inform(f"{plural(pins.forget(server), 'definition')} of '{server}' forgotten.")
        return OK
    output, changes = claim_stdout(), pins.changes()
    if server is None and not accepts_all:
        _show(output, changes, as_json=as_json)
        return OK
    wanted = None if server is None or not tools else [_find(name, server, list(pinned[server])) for name in tools]
    chosen = [it for it in changes if server in (None, it.server) and (wanted is None or it.tool in wanted)]
    for it in chosen:
        if not as_json:
            _show_difference(output, it)
        pins.accept(it, person())
        inform(f"Accepted: {it.server} {reveal(it.tool)} ({', '.join(it.parts)}).")
    if as_json:
        output.json([{"server": it.server, "tool": it.tool} for it in chosen])
    if not chosen:
        complain("there is nothing to accept: no definition has changed")
    return OK if chosen else FAILED


def _find(name: str, server: str, known: list[str]) -> str:
    """The tool that a person means, who sees hidden characters as `<U+200B>`. Raises UsageError."""
    shown = {reveal(it): it for it in known}
    if name not in known and name not in shown:
        raise UsageError(f"no tool '{name}' of the server '{server}' is pinned; {suggestion(name, shown)}")
    return name if name in known else shown[name]


def _show(output: Output, changes: list[DefinitionChange], *, as_json: bool) -> None:
    if as_json:
        output.json([_as_json(it) for it in changes])
        return
    for it in changes:
        _show_difference(output, it)
    if changes:
        inform("Look at each difference. To accept it: toolrun trust SERVER TOOL, or toolrun trust SERVER for all.")
    else:
        complain("no definition has changed")


def _show_difference(output: Output, change: DefinitionChange) -> None:
    lines = change.difference.splitlines()
    if output.is_terminal:
        lines = [row for line in lines for row in wrapped(line, _STDERR)]
    title = f"{change.server} {reveal(change.tool)}: {', '.join(change.parts)} changed"
    output.text("\n".join([title, *lines, ""]))


def _as_json(change: DefinitionChange) -> dict[str, JSON]:
    return {
        "server": change.server,
        "tool": change.tool,
        "parts": list(change.parts),
        "before": dict(change.before.said),
        "after": dict(change.after.said),
        "difference": change.difference,
    }
