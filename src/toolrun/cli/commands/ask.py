"""`toolrun ask`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from dataclasses import asdict

import click

from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, complain
from toolrun.cli.session import run_with_tools
from toolrun.cli.turn import Display, model_options, model_settings, open_model, wait_for_servers
from toolrun.clients.choice import Choice, choose
from toolrun.clients.model_error import ModelError
from toolrun.clients.sendable import sendable_json
from toolrun.clients.turn_event import Done, Ended, Reply, ToolFinished, Usage
from toolrun.execution.failure import text_of
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

    Exit code: 0 the model answered, 1 it failed, refused or said nothing, 2 there is no usable model.
    """
    output = claim_stdout()
    ask = _Question(model, system, output, as_json=as_json)
    try:
        ask.question = _read(question)
        return run_with_tools(options, ask.answer)
    except click.exceptions.Exit:
        raise
    except Exception as error:  # of any kind: it is explained on stderr as always, and is JSON for programs
        ask.show_failure(error)
        raise


class _Question:
    """One question, its answer, and what was done on the way."""

    def __init__(self, model: str | None, system: str | None, output: Output, *, as_json: bool) -> None:
        self.question = ""
        self._model = model
        self._system = system
        self._output = output
        self._as_json = as_json
        self._choice: Choice | None = None
        self._calls: list[ToolFinished] = []

    async def answer(self, runtime: Runtime) -> int:
        settings = model_settings(runtime.config, self._system)
        self._choice = await asyncio.to_thread(choose, settings, os.environ, self._model)
        client = await open_model(runtime, self._choice, settings)
        await wait_for_servers(runtime)
        redactor = Redactor(runtime.config.secrets.values())
        display = Display(self._output, redactor, streams=self._output.is_terminal, prints_answer=not self._as_json)
        ended = Ended.EMPTY
        try:
            async with contextlib.aclosing(client.stream(self.question)) as events:
                async for event in events:
                    display.show(event)
                    if isinstance(event, ToolFinished):
                        self._calls.append(event)
                    elif isinstance(event, Done):
                        ended = event.reply.ended
                        self._show(event.reply)
        except ModelError as error:
            display.end_line()
            self.show_failure(error)
            complain(str(error))
            return FAILED
        return FAILED if ended.is_failure else OK

    def _show(self, reply: Reply) -> None:
        if self._as_json:
            calls = [_call(finished) for finished in reply.calls]
            parts = {"text": reply.text, "calls": calls, "usage": asdict(reply.usage), "ended": str(reply.ended)}
            self._output.json(sendable_json({**parts, "model": str(self._choice)}))

    def show_failure(self, error: Exception) -> None:
        """Print an object with the keys of an answer, and the error."""
        if not self._as_json:
            return
        message = "interrupted" if isinstance(error, click.Abort) else text_of(error)
        parts = {
            "text": "",
            "calls": [_call(finished) for finished in self._calls],
            "usage": asdict(Usage()),
            "ended": "error",
            "model": None if self._choice is None else str(self._choice),
            "error": {"kind": type(error).__name__, "message": message},
        }
        self._output.json(sendable_json(parts))


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


def _call(finished: ToolFinished) -> dict[str, object]:
    arguments = finished.call.arguments
    given: object = dict(arguments) if isinstance(arguments, dict) else str(arguments)
    return {"arguments": given, **finished.result.to_dict()}
