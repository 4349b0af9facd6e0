"""`toolrun describe`: shows a tool as people read it, or as a provider gets it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import click

from toolrun.cli.command_runner import ready_for, run_with_tools
from toolrun.cli.completers import tool_names
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, terminal_safe
from toolrun.cli.summary import Summary, summarise
from toolrun.clients.dialect import PROVIDERS, Simplification, for_provider
from toolrun.errors import ConfigError
from toolrun.hidden_characters import reveal
from toolrun.json import JSON
from toolrun.runtime import Runtime
from toolrun.schema import ArgumentSchema
from toolrun.text import close_names, suggestion
from toolrun.tools.protocol import Tool

if TYPE_CHECKING:
    from rich.text import Text

_WAIT: Final = 10.0
"""Seconds to wait for MCP servers whose tools are sent beside this one."""


@click.command(name="describe")
@click.argument("tool", shell_complete=tool_names)
@click.option(
    "--for", "provider", type=click.Choice(list(PROVIDERS)), help="Show the tool as sent to this model provider."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, with the JSON Schema of the arguments.")
@shared_options()
@click.pass_obj
def command(options: Options, tool: str, provider: str | None, as_json: bool) -> None:
    """Show the description of TOOL, its parameters and its time limit."""
    output = claim_stdout()
    if provider is not None:
        _show_sent(output, *_sent(options, tool, provider), as_json=as_json)
        return

    async def describe(runtime: Runtime) -> Summary:
        await ready_for(runtime, tool)
        held = runtime.held.get(tool)
        return summarise(runtime, _find(runtime, tool) if held is None else held)

    summary = run_with_tools(options, describe, lazy=True)
    if as_json:
        output.json(summary.to_dict())
    else:
        _show(output, summary)


def _find(runtime: Runtime, name: str) -> Tool:
    found = runtime.manager.get(name)
    if found is None:
        if reason := runtime.unavailable(name):
            raise ConfigError(f"Tool '{name}' is not available: {reason}")
        runtime.log_problems(name)  # it may be in a file that could not be loaded
        names = [each.name for each in runtime.manager]  # without those of scripts, which were not asked
        meant = suggestion(name, names) if close_names(name, names) else "`toolrun list` shows all tools"
        missing = f"\n{more}" if (more := runtime.missing()) else ""
        raise ConfigError(f"Tool '{name}' not found; {meant}{missing}")
    return found


def _sent(options: Options, tool: str, provider: str) -> tuple[dict[str, JSON], list[Simplification]]:
    """The tool as sent to the provider among all the others, and its simplifications."""

    async def convert(runtime: Runtime) -> tuple[dict[str, JSON], list[Simplification]]:
        await ready_for(runtime, tool)
        await runtime.ready(timeout=_WAIT)
        name = _find(runtime, tool).name
        offer = for_provider(runtime.manager, provider)
        return offer.tool(name), [each for each in offer.report if each.tool == name]

    return run_with_tools(options, convert)


def _show_sent(output: Output, sent: dict[str, JSON], report: list[Simplification], *, as_json: bool) -> None:
    if as_json:
        output.json({"tool": sent, "simplified": [each.to_dict() for each in report]})
        return
    lines = [f"  {each.path or '(tool)'}: {each.what} → {each.where}" for each in report]
    simplified = "\n".join(["Simplified:", *lines]) if lines else "Nothing is simplified."
    output.text(f"{json.dumps(sent, ensure_ascii=False, indent=2)}\n\n{simplified}")


def _show(output: Output, summary: Summary) -> None:
    parameters = reveal(ArgumentSchema(summary.said_schema).describe())
    effects = "" if summary.effects is None else f"\nEffects: {summary.effects}"
    facts = f"Timeout: {summary.timeout:g} s{effects}\nSource: {summary.source}"
    if summary.change is not None:
        state = "held until somebody accepts it" if summary.change.is_held else "not accepted yet"
        facts = f"{facts}\nChanged: {', '.join(summary.change.parts)}, {state} (toolrun trust)"
    if not output.is_terminal:
        output.text(f"{summary.name}\n\n{summary.said_description.strip()}\n\nParameters:\n{parameters}\n\n{facts}")
        return
    from rich.text import Text

    output.rich(
        Text(summary.name, "bold cyan"),
        Text(terminal_safe(f"\n{summary.said_description.strip()}\n")),
        Text("Parameters", "bold"),
        *(_parameter(line) for line in terminal_safe(parameters).splitlines()),
        Text(f"\n{facts}", "dim"),
    )


def _parameter(line: str) -> Text:
    """A line such as `  brightness (integer, default 100): From 0 to 100.`, its parts told apart by colour."""
    from rich.text import Text

    parts = re.fullmatch(r"( +\S+)( \(.*?\))(:.*)?", line)
    if parts is None:
        return Text(line)
    return Text.assemble((parts[1], "cyan"), (parts[2], "dim"), parts[3] or "")
