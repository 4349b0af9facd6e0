"""`toolrun list`."""

from __future__ import annotations

import click

from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, claim_stdout, complain
from toolrun.cli.session import run_with_tools
from toolrun.cli.summary import Summary, summarise
from toolrun.runtime import Runtime


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@shared_options()
@click.pass_obj
def command(options: Options, as_json: bool) -> None:
    """List the tools: name, source and description."""
    output = claim_stdout()
    tools = run_with_tools(options, _summaries)
    if as_json:
        output.json([{"name": tool.name, "description": tool.description, "source": tool.source} for tool in tools])
    elif tools:
        columns = [Column("TOOL", "bold cyan"), Column("SOURCE", "dim"), Column("DESCRIPTION", wraps=True)]
        output.table(columns, [(tool.name, tool.source, tool.headline) for tool in tools])
    else:
        complain("there are no tools here; write one with 'toolrun new NAME'")


async def _summaries(runtime: Runtime) -> list[Summary]:
    await runtime.ready()
    return [summarise(runtime, tool) for tool in runtime.manager]
