"""`toolrun call`: one call of one tool, from this machine or on a server that runs."""

from __future__ import annotations

import math
from dataclasses import replace
from time import monotonic
from typing import Final

import click

from toolrun.cli.approval_prompt import always_yes, terminal_prompt
from toolrun.cli.argument_pairs import read_arguments
from toolrun.cli.command_runner import ready_for, run_with_tools
from toolrun.cli.completers import tool_arguments, tool_names
from toolrun.cli.exit import FAILED, OK, USAGE
from toolrun.cli.known_tools import known_tools
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, complain, inform
from toolrun.cli.running_server import find_server, url_option
from toolrun.cli.status_line import status_line
from toolrun.errors import ErrorKind, SideEffects
from toolrun.result import ToolResult, render
from toolrun.runtime import Runtime, read_config

_MOMENT: Final = 0.001
"""Seconds for a tool that is not there, when the time is up."""
_REFUSED: Final = (ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS)


def _check_seconds(ctx: click.Context, option: click.Parameter, seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:  # nor NaN
        raise click.BadParameter(f"{seconds} is not a number of seconds > 0.", ctx, option)
    return seconds


@click.command(name="call")
@click.argument("tool", shell_complete=tool_names)
@click.argument("arguments", nargs=-1, shell_complete=tool_arguments)
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON, also for a failed call.")
@click.option("--key", metavar="KEY", help="Make this call once: a repeat with the same key gets its answer.")
@click.option("-y", "--yes", is_flag=True, help="Approve the call yourself if a rule requires approval.")
@click.option("--timeout", metavar="SECONDS", type=float, callback=_check_seconds, help="Give up after this time.")
@url_option
@shared_options()
@click.pass_obj
def command(
    options: Options,
    tool: str,
    arguments: tuple[str, ...],
    as_json: bool,
    key: str | None,
    yes: bool,
    timeout: float | None,
    url: str | None,
) -> int:
    """Call TOOL and print its result.

    ARGUMENTS are pairs, JSON objects, or - to read a JSON object from stdin; they may be mixed:

    \b
      toolrun call add a=2 b=3
      toolrun call set_light room=office brightness:=40
      echo '{"a": 2}' | toolrun call add - b=3

    NAME=VALUE is text, converted to the type of the parameter. NAME:=JSON is a JSON value.

    Exit code: 0 success, 1 the tool failed, 2 unknown tool or invalid arguments.
    """
    if url is not None and key is not None:
        raise click.UsageError("--key cannot be used with --url: this project's journal would not record the call")
    given = read_arguments(arguments)
    output = claim_stdout()
    config = read_config(options.config)
    server = None if url is None else find_server(url, config)
    prompt = None if yes else terminal_prompt()

    async def call(runtime: Runtime) -> int:
        if prompt is not None:
            prompt.runtime = runtime
        if server is not None:
            await server.check(runtime)
        left = await _time_left(runtime, tool, timeout)
        runtime.executor.limits = replace(runtime.executor.limits, strict=True)  # a person has mistyped the name
        with status_line(output, tool, is_wanted=not as_json) as status:
            hear = status.listener(tool)
            result = await runtime.executor.execute(tool, given, timeout=left, on_progress=hear, key=key)
        if result.error_kind is ErrorKind.UNKNOWN_TOOL:
            runtime.log_problems(tool)  # it may be in a file that could not be loaded
        again = "" if key is None else options.command_line("call", tool, *arguments, "--key", key)
        failure = await _failure(runtime, result, options, again)
        return _answer(result, output, as_json, failure)  # before the runtime closes: a tool may take long to end

    if server is not None:
        config = server.config(config, is_quiet=not options.verbosity)
    return run_with_tools(options, call, lazy=True, config=config, on_approval=always_yes if yes else prompt)


async def _time_left(runtime: Runtime, tool: str, timeout: float | None) -> float | None:
    """Wait for the server of the tool. Its start has its own time limit: a tool that has come has all of the time."""
    began = monotonic()
    await ready_for(runtime, tool, timeout)
    return timeout if timeout is None or tool in runtime.manager else max(_MOMENT, began + timeout - monotonic())


def _answer(result: ToolResult, output: Output, as_json: bool, failure: str) -> int:
    """Print the result or the failure, and return the exit code."""
    if as_json:
        output.json(result.to_dict(full=True))
    elif result.success:
        output.text(render(result.shown))  # in full: the limit on `result.text` is for models
        if result.replayed:
            inform(f"This is the answer of call {result.recorded_as}, which was made before with the same key.")
    if result.success:
        return OK
    complain(failure)
    return USAGE if result.error_kind in _REFUSED else FAILED


async def _failure(runtime: Runtime, result: ToolResult, options: Options, again: str) -> str:
    """What went wrong, and what to do. `again` is the command that makes the same call, if it has a key."""
    is_tool_error = result.error_kind is ErrorKind.TOOL_ERROR
    lines = [f"{result.tool_name} failed: {result.error}" if is_tool_error else result.error or ""]
    of_scripts = _in_scripts(runtime, result)
    if of_scripts or result.detail:
        lines.append(of_scripts or result.detail or "")
    if result.error_kind is ErrorKind.UNKNOWN_TOOL and not runtime.manager.tools and not runtime.held:
        lines.append("Write one with 'toolrun new NAME', or go to the directory of your project.")
    if result.side_effects is SideEffects.UNKNOWN and result.error_kind is not ErrorKind.IN_DOUBT:
        lines.append(await _doubt(runtime, result, options, again))
    if is_tool_error and not options.verbosity:
        lines.append("-v shows where, -vv the traceback.")
    return "\n".join(lines)


def _in_scripts(runtime: Runtime, result: ToolResult) -> str:
    """The tools of scripts with that function: its file is part of a tool's name, and no other script is loaded."""
    if result.error_kind is not ErrorKind.UNKNOWN_TOOL:
        return ""
    found = [name for name in known_tools(runtime.config) if name.endswith(f".{result.tool_name}")]
    return f"Did you mean {' or '.join(found)}?" if found else ""


async def _doubt(runtime: Runtime, result: ToolResult, options: Options, again: str) -> str:
    if again:
        return f"It may have acted. Repeat it with its key, so that it is not made twice:\n  {again}"
    prepared = await runtime.executor.find(result.tool_name)
    more = ""
    if result.error_kind in (ErrorKind.TIMEOUT, ErrorKind.CANCELLED, ErrorKind.WORKER_LOST):
        is_gone = getattr(prepared.tool, "isolated", False) is True
        more = " Its process is gone." if is_gone else " It may still act."
    if prepared.is_harmless or result.recorded_as is None:
        return f"It was running when it was abandoned: it may have acted.{more}"
    from toolrun.cli.recorded_call import settle_command
    from toolrun.journal.verification import can_verify

    settle = settle_command(result.recorded_as, options, can_verify=can_verify(prepared))
    return f"It may have acted.{more} Find out, then run: {settle}"
