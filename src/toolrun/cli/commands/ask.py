"""`toolrun ask`: one question to a model, which may use the tools."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from toolrun.cli.approval_prompt import terminal_prompt
from toolrun.cli.command_runner import run_with_tools
from toolrun.cli.definition_question import DefinitionQuestions, can_ask
from toolrun.cli.exit import FAILED, OK
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Output, claim_stdout, complain
from toolrun.cli.status_line import StatusLine, status_line
from toolrun.cli.turn import (
    Display,
    choose_model,
    find_conversation,
    model_options,
    model_settings,
    open_model,
    wait_for_servers,
)
from toolrun.clients.choice import Choice
from toolrun.clients.model_error import ModelError
from toolrun.clients.sendable import sendable_json
from toolrun.clients.turn_event import Done, Ended, Reply, ToolFinished, Usage
from toolrun.errors import PinError
from toolrun.execution.failure import text_of
from toolrun.journal.history import PastConversation
from toolrun.journal.settlement import person
from toolrun.redaction import Redactor
from toolrun.runtime import Runtime

if TYPE_CHECKING:
    from toolrun.clients.model_client import ModelClient


@click.command(name="ask")
@click.argument("question", required=False)
@click.option(
    "--conversation",
    metavar="ID",
    help="Store the conversation under this ID, or continue it. Without QUESTION, "
    "finish its last answer, which a crash has cut off.",
)
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print the answer, its calls and its token usage as JSON.")
@shared_options()
@click.pass_obj
def command(
    options: Options,
    question: str | None,
    conversation: str | None,
    model: str | None,
    system: str | None,
    as_json: bool,
) -> int:
    """Ask a model, which may use the tools, and print its answer.

    QUESTION is one argument, so it needs quotes; - reads it from stdin. Tool calls are shown on stderr. On a terminal
    you are asked before a call that needs your approval; elsewhere such a call is refused.

    Exit code: 0 the model answered, 1 it failed, refused or said nothing, 2 there is no usable model.
    """
    output = claim_stdout()
    options.asks = can_ask()
    ask = _Question(model, system, conversation, output, as_json=as_json)
    try:
        ask.question = None if question is None and conversation else _read(question)
        return run_with_tools(options, ask.answer, on_approval=ask.prompt)
    except click.exceptions.Exit:
        raise
    except Exception as error:  # of any kind: it is explained on stderr as always, and is JSON for programs
        ask.show_failure(error)
        raise


class _Question:
    """One question, its answer, and what was done on the way."""

    def __init__(
        self, model: str | None, system: str | None, conversation: str | None, output: Output, *, as_json: bool
    ) -> None:
        self.question: str | None = ""
        """None: the last one of the conversation."""
        self.prompt = terminal_prompt()
        self._model = model
        self._conversation = conversation
        self._system = system
        self._output = output
        self._as_json = as_json
        self._choice: Choice | None = None
        self._calls: list[ToolFinished] = []

    async def answer(self, runtime: Runtime) -> int:
        if self.prompt is not None:
            self.prompt.runtime = runtime
        settings = model_settings(runtime.config, self._system)
        past, id = None, self._conversation
        if id is not None:
            past = find_conversation(runtime.config, id, must_exist=self.question is None)
        self._choice = await asyncio.to_thread(choose_model, settings, self._model, past)
        with status_line(self._output, str(self._choice), is_wanted=not self._as_json):
            client = await open_model(runtime, self._choice, settings)
            await wait_for_servers(runtime)
        for change in await asyncio.to_thread(lambda: list(DefinitionQuestions().accepted(runtime.changes))):
            try:
                await runtime.accept(change, person())
            except PinError as error:
                complain(str(error))
        with status_line(self._output, is_wanted=not self._as_json) as status:
            return await self._turn(runtime, client, status, id, past)

    async def _turn(
        self, runtime: Runtime, client: ModelClient, status: StatusLine, id: str | None, past: PastConversation | None
    ) -> int:
        redactor = Redactor(runtime.config.secrets.values())
        output, as_json = self._output, self._as_json
        streams = output.is_terminal
        display = Display(
            output, redactor, streams=streams, prints_answer=not as_json, status=status, model=str(self._choice)
        )
        display.wait_for_model()
        ended = Ended.EMPTY
        try:
            async with contextlib.AsyncExitStack() as stack:
                stored = None
                if id is not None:
                    opening = client.open_conversation(id, must_exist=past is not None, any_model=True)
                    stored = await stack.enter_async_context(await opening)
                    stored.change_model(str(self._choice))
                turn = client.turn(self.question, conversation=stored)
                events = await stack.enter_async_context(contextlib.aclosing(turn.stream()))
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
            kept = {"conversation": reply.conversation} if reply.conversation else {}
            self._output.json(sendable_json({**parts, "model": str(self._choice), **kept}))

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


def _read(question: str | None) -> str:
    if question is None:
        raise click.UsageError("Missing argument 'QUESTION'.", click.get_current_context())
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
    return {"arguments": given, **finished.result.to_dict(full=True)}
