"""`toolrun ask`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

import click

from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import claim_stdout, complain
from toolrun.cli.session import run_with_tools
from toolrun.cli.turn import Display, model_options, model_settings, open_model, wait_for_servers
from toolrun.clients.choice import Choice, choose
from toolrun.clients.model_error import ModelError
from toolrun.clients.turn_event import Done, Reply, ToolFinished
from toolrun.json import JSON
from toolrun.redaction import Redactor
from toolrun.runtime import Runtime


@click.command(name="ask")
@click.argument("question")
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print the answer, its calls and its token usage as JSON.")
@shared_options()
@click.pass_obj
def command(options: Options, question: str, model: str | None, system: str | None, as_json: bool) -> int:
    """Ask a model, which may use the tools, and print its answer.

    QUESTION is one argument, so it needs quotes; - reads it from stdin. Tool calls are shown on stderr.

    Exit code: 0 the model answered, 1 it failed, 2 there is no usable model.
    """
    text = _read(question)
    output = claim_stdout()

    async def ask(runtime: Runtime) -> int:
        settings = model_settings(runtime.config, system)
        choice = await asyncio.to_thread(choose, settings, os.environ, model)
        client = await open_model(runtime, choice, settings)
        await wait_for_servers(runtime)
        redactor = Redactor(runtime.config.secrets.values())
        display = Display(output, redactor, streams=output.is_terminal and not as_json)
        try:
            async with contextlib.aclosing(client.stream(text)) as events:
                async for event in events:
                    if as_json and isinstance(event, Done):
                        output.json(_to_dict(event.reply, choice))
                    else:
                        display.show(event)
        except ModelError as error:
            display.end_line()
            complain(str(error))
            return FAILED
        return OK

    return run_with_tools(options, ask)


def _read(question: str) -> str:
    if question != "-":
        text = question
    elif sys.stdin is None:
        text = ""
    else:
        text = sys.stdin.buffer.read().decode(errors="replace")
    if not text.strip():
        raise click.UsageError("the question is empty", click.get_current_context())
    return text.strip()


def _to_dict(reply: Reply, choice: Choice) -> JSON:
    usage = reply.usage
    return {
        "text": reply.text,
        "calls": [_call(finished) for finished in reply.calls],
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        "ended": str(reply.ended),
        "model": str(choice),
    }


def _call(finished: ToolFinished) -> JSON:
    arguments = finished.call.arguments
    given: JSON = dict(arguments) if isinstance(arguments, dict) else str(arguments)
    return {"arguments": given, **finished.result.to_dict()}
