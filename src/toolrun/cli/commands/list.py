"""`toolrun list`: lists the tools, and the files that cannot be used."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from toolrun.cli.command_runner import connecting, run_with_tools
from toolrun.cli.options import Options, shared_options, wait_option
from toolrun.cli.output import Column, Output, claim_stdout, complain
from toolrun.cli.running_server import find_server, url_option
from toolrun.cli.summary import Summary, summarise
from toolrun.json import JSON
from toolrun.runtime import Runtime, read_config
from toolrun.tools.protocol import Tool

_WAIT: Final = 3.0
"""Seconds to wait for MCP servers: most take less, and one that hangs should not hold up a list."""
_AT_ONCE: Final = 0.5
"""Seconds after which the tools that are there are shown, while others are waited for."""
_COLUMNS: Final = (Column("TOOL", "bold cyan"), Column("SOURCE", "dim"), Column("DESCRIPTION", wraps=True))


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@wait_option(_WAIT)
@url_option
@shared_options()
@click.pass_obj
def command(options: Options, as_json: bool, wait: float | None, url: str | None) -> None:
    """List the tools: name, source and description.

    What is there is shown at once. Of MCP servers that are still connecting the tools follow, or are missing; then
    stderr names those servers.
    """
    output = claim_stdout()
    show = partial(_show_json, output=output, wait=wait) if as_json else partial(_show, output=output, wait=wait)
    config = read_config(options.config)
    running = None if url is None else find_server(url, config)

    async def checked(runtime: Runtime) -> list[str]:
        if running is not None:
            await running.check(runtime)
        return await show(runtime)

    if running is not None:
        config = running.config(config, is_quiet=not options.verbosity)
    for server in run_with_tools(options, checked, config=config):
        complain(f"server {server}; 'toolrun list --wait' waits for its tools")


async def _show_json(runtime: Runtime, output: Output, wait: float | None) -> list[str]:
    """Print the tools. Returns a line for each server whose tools are not known yet, as `_show` does."""
    await runtime.ready(timeout=wait)
    output.json([_as_json(summarise(runtime, tool)) for tool in _every(runtime)])
    return _late(runtime)


async def _show(runtime: Runtime, output: Output, wait: float | None) -> list[str]:
    shown: dict[str, Summary] = {}
    widths: list[int] = []
    for seconds in (_AT_ONCE if wait is None else min(wait, _AT_ONCE), wait):
        await runtime.ready(timeout=seconds)
        new = {it.name: summarise(runtime, it) for it in _every(runtime) if it.name not in shown}
        if new:
            rows = [(tool.name, tool.source, tool.headline) for tool in new.values()]
            widths = output.table(_COLUMNS, rows, widths)
        shown |= new
    late = _late(runtime)
    if not shown and not late:
        complain("there are no tools here; write one with 'toolrun new NAME', or go to the directory of your project")
    return late


def _every(runtime: Runtime) -> list[Tool]:
    """The tools, and those that are held until somebody accepts their changes."""
    return [*runtime.manager, *runtime.held.values()]


def _as_json(tool: Summary) -> dict[str, JSON]:
    facts: dict[str, JSON] = {"name": tool.name, "description": tool.description, "source": tool.source}
    return facts if tool.change is None else {**facts, "changed": list(tool.change.parts), "held": tool.change.is_held}


def _late(runtime: Runtime) -> list[str]:
    return [f"{it.name}: {it.state}" + (f": {it.error}" if it.error else "") for it in connecting(runtime)]
