"""`toolrun call`."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from typing import Final

import click

from toolrun.cli.exit import FAILED, OK, USAGE
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, complain
from toolrun.cli.session import run_with_tools
from toolrun.errors import ErrorKind, SideEffects
from toolrun.json import JSON
from toolrun.logger import get_logger
from toolrun.result import ToolResult, render
from toolrun.runtime import Runtime
from toolrun.tools.context import Progress

logger = get_logger("toolrun")

_PAIR: Final = re.compile(r"(?P<name>[^=]+?)(?P<sign>:?=)(?P<value>.*)", re.DOTALL)
_REFUSED: Final = (ErrorKind.UNKNOWN_TOOL, ErrorKind.INVALID_ARGUMENTS)


def _check_seconds(ctx: click.Context, option: click.Parameter, seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:  # nor NaN
        raise click.BadParameter(f"{seconds} is not a number of seconds > 0.", ctx, option)
    return seconds


@click.command(name="call")
@click.argument("tool")
@click.argument("arguments", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON, also for a failed call.")
@click.option("--timeout", metavar="SECONDS", type=float, callback=_check_seconds, help="Give up after this time.")
@shared_options()
@click.pass_obj
def command(options: Options, tool: str, arguments: tuple[str, ...], as_json: bool, timeout: float | None) -> int:
    """Call TOOL and print its result.

    ARGUMENTS are pairs, or one JSON object, or - to read the JSON object from stdin:

    \b
      toolrun call add a=2 b=3
      toolrun call set_light room=office brightness:=40
      toolrun call add '{"a": 2, "b": 3}'
      echo '{"a": 2, "b": 3}' | toolrun call add -

    NAME=VALUE is text, converted to the type of the parameter. NAME:=JSON is a JSON value.

    Exit code: 0 success, 1 the tool failed, 2 unknown tool or invalid arguments.
    """
    given = read_arguments(arguments)
    output = claim_stdout()

    async def call(runtime: Runtime) -> int:
        await runtime.ready(tool)  # the start of a server has its own time limit
        runtime.executor.limits = replace(runtime.executor.limits, strict=True)  # a person has mistyped the name
        result = await runtime.executor.execute(tool, given, timeout=timeout, on_progress=_show_progress)
        if result.error_kind is ErrorKind.UNKNOWN_TOOL:
            runtime.log_problems()  # it may be in a file that could not be loaded
        is_killed = getattr(runtime.manager.get(tool), "isolated", False) is True
        # Before the runtime closes: what a tool left behind may take a moment to end.
        return _answer(result, output, as_json, _failure(result, options, is_killed=is_killed))

    return run_with_tools(options, call, lazy=True)


def _answer(result: ToolResult, output: Output, as_json: bool, failure: str) -> int:
    """Print the result or the failure, and return the exit code."""
    if as_json:
        output.json(result.to_dict())
    elif result.success:
        output.text(render(result.result))  # in full: the limit on `result.text` is for models
    if result.success:
        return OK
    complain(failure)
    return USAGE if result.error_kind in _REFUSED else FAILED


def read_arguments(words: tuple[str, ...]) -> dict[str, JSON] | str | bytes:
    """The arguments of the call: an object, or JSON text for the executor to parse."""
    if words == ("-",):
        if sys.stdin is None:
            raise _usage("- reads the arguments from stdin, which is closed")
        return sys.stdin.buffer.read().strip() or b"{}"
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return words[0]
    arguments: dict[str, JSON] = {}
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None:
            raise _usage(f"'{word}' is neither NAME=VALUE nor a JSON object")
        name, value = pair["name"], pair["value"]
        if name in arguments:
            raise _usage(f"'{name}' is given twice; a list is written {name}:='[\"one\", \"two\"]'")
        arguments[name] = _parse(name, value) if pair["sign"] == ":=" else value
    return arguments


def _parse(name: str, text: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _usage(f"{name}:= needs JSON, but {text!r:.80} is not JSON ({error}); for text write {name}=…") from None
    return value


def _usage(message: str) -> click.UsageError:
    return click.UsageError(message, click.get_current_context())


def _show_progress(progress: Progress) -> None:
    total = "" if progress.total is None else f"/{progress.total:g}"
    logger.info("progress: %g%s %s", progress.progress, total, progress.message)


def _failure(result: ToolResult, options: Options, *, is_killed: bool) -> str:
    is_tool_error = result.error_kind is ErrorKind.TOOL_ERROR
    lines = [f"{result.tool_name} failed: {result.error}" if is_tool_error else result.error or ""]
    if result.detail:
        lines.append(result.detail)
    if result.side_effects is SideEffects.UNKNOWN:
        more = "Its process is gone." if is_killed else "It may still act."
        lines.append(f"It was running when it was abandoned: it may have acted. {more}")
    if is_tool_error and not options.verbosity:
        lines.append("-v shows where, -vv the traceback.")
    return "\n".join(lines)
