"""`toolrun describe`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from toolrun.cli.invocation import Invocation, shared_options
from toolrun.cli.output import Output, claim_stdout, visible
from toolrun.cli.session import run_with_tools
from toolrun.cli.summary import Summary, summarise
from toolrun.document import suggestion
from toolrun.errors import ConfigError
from toolrun.runtime import Runtime
from toolrun.schema import ArgumentSchema

if TYPE_CHECKING:
    from rich.text import Text


@click.command(name="describe")
@click.argument("tool")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, with the JSON Schema of the arguments.")
@shared_options()
@click.pass_obj
def command(invocation: Invocation, tool: str, as_json: bool) -> None:
    """Show what TOOL does, the parameters that it takes, and its time limit."""
    output = claim_stdout()

    async def find(runtime: Runtime) -> Summary:
        found = runtime.manager.get(tool)
        if found is None:
            names = [each.name for each in runtime.manager]
            raise ConfigError(f"Tool '{tool}' not found; {suggestion(tool, names)}")
        return summarise(runtime, found)

    summary = run_with_tools(invocation, find)
    if as_json:
        output.json(summary.to_dict())
    else:
        _show(output, summary)


def _show(output: Output, summary: Summary) -> None:
    parameters = ArgumentSchema(summary.schema).describe()
    facts = f"Timeout: {summary.timeout:g} s\nSource: {summary.source}"
    if not output.is_terminal:
        output.text(f"{summary.name}\n\n{summary.description.strip()}\n\nParameters:\n{parameters}\n\n{facts}")
        return
    from rich.text import Text

    output.rich(
        Text(summary.name, "bold cyan"),
        Text(visible(f"\n{summary.description.strip()}\n")),
        Text("Parameters", "bold"),
        *(_parameter(line) for line in visible(parameters).splitlines()),
        Text(f"\n{facts}", "dim"),
    )


def _parameter(line: str) -> Text:
    """A line such as `  brightness (integer, default 100): From 0 to 100.`, its parts told apart by colour."""
    from rich.text import Text

    parts = re.fullmatch(r"( +\S+)( \(.*?\))(:.*)?", line)
    if parts is None:
        return Text(line)
    return Text.assemble((parts[1], "cyan"), (parts[2], "dim"), parts[3] or "")
