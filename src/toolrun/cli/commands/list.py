"""`toolrun list`."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from toolrun.cli.options import Options, shared_options, wait_option
from toolrun.cli.output import Column, claim_stdout, complain
from toolrun.cli.session import run_with_tools, unsettled
from toolrun.cli.summary import Summary, summarise
from toolrun.runtime import Runtime

_WAIT: Final = 3.0
"""Seconds to wait for MCP servers: most take less, and one that hangs should not hold up a list."""


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@wait_option(_WAIT)
@shared_options()
@click.pass_obj
def command(options: Options, as_json: bool, wait: float | None) -> None:
    """List the tools: name, source and description.

    Of MCP servers that are still connecting the tools are missing; stderr names those servers.
    """
    output = claim_stdout()
    tools, late = run_with_tools(options, partial(_summaries, wait=wait))
    for line in late:
        complain(f"server {line}; 'toolrun list --wait' waits for its tools")
    if as_json:
        output.json([{"name": tool.name, "description": tool.description, "source": tool.source} for tool in tools])
    elif tools or late:
        columns = [Column("TOOL", "bold cyan"), Column("SOURCE", "dim"), Column("DESCRIPTION", wraps=True)]
        output.table(columns, [(tool.name, tool.source, tool.headline) for tool in tools])
    else:
        complain("there are no tools here; write one with 'toolrun new NAME'")


async def _summaries(runtime: Runtime, wait: float | None) -> tuple[list[Summary], list[str]]:
    """The tools, and a line for each server whose tools are not known yet."""
    await runtime.ready(timeout=wait)
    late = [f"{it.name}: {it.state}" + (f": {it.error}" if it.error else "") for it in unsettled(runtime)]
    return [summarise(runtime, tool) for tool in runtime.manager], late
