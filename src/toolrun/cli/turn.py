"""Shared by `toolrun ask`, `chat` and `voice`: the options, the model, and the display of a turn.

The answer goes to stdout, tool activity to stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from toolrun.cli.answer_view import AnswerView, MarkdownView, TextView, can_show_markdown
from toolrun.cli.output import Output, inform
from toolrun.cli.status_line import StatusLine, log_progress
from toolrun.clients.choice import PROVIDERS, Choice, choose, open_client, parse_model
from toolrun.clients.turn_event import Done, Ended, Event, Text, ToolFinished, ToolProgress, ToolStarted
from toolrun.config.model import Config, ModelSettings
from toolrun.errors import ErrorKind, SideEffects, UsageError
from toolrun.journal.history import PastConversation, open_history
from toolrun.redaction import Redactor
from toolrun.result import ToolCall, ToolResult
from toolrun.runtime import Runtime
from toolrun.text import cut, one_line
from toolrun.tools.context import Progress

if TYPE_CHECKING:
    from toolrun.clients.model_client import ModelClient

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST: Final = 160
"""Characters of arguments and results to show."""
_SERVER_TIME: Final = 10.0
"""Seconds to wait for MCP servers before the first question."""
_NOTES: Final = {
    Ended.LENGTH: "The answer is cut off: it reached its length limit.",
    Ended.REPEATS: "The model repeated the same call, and was asked to answer without tools.",
    Ended.ROUNDS: "The model reached its limit on rounds ([model] rounds), and was asked to answer without tools.",
    Ended.CALLS: "The model reached its limit on calls ([model] calls), and was asked to answer without tools.",
    Ended.TIME: "The model reached its time limit ([model] time), and was asked to answer without tools.",
    Ended.REFUSED: "The model refused to answer.",
    Ended.FILTERED: "The provider's filter stopped the answer.",
    Ended.EMPTY: "The model returned an empty answer twice.",
    Ended.MALFORMED: "The model made tool calls that could not be read, twice.",
}


def model_options(function: F) -> F:
    """The options that select the model."""
    model = click.option(
        "--model",
        metavar="PROVIDER:NAME",
        help="anthropic:MODEL, openai:MODEL, google:MODEL, ollama:MODEL, local:FILE.gguf or scripted:FILE. "
        "Default: [model], or what is found.",
    )
    system = click.option("--system", metavar="TEXT", help="The system prompt, instead of [model] system.")
    return model(system(function))


def model_settings(config: Config, system: str | None) -> ModelSettings:
    return config.model if system is None else replace(config.model, system=system)


def choose_model(settings: ModelSettings, named: str | None, past: PastConversation | None) -> Choice:
    """The model that the user names, or the one with which a conversation was held, or the default. May block."""
    is_known = past is not None and past.model != settings.use and past.model.partition(":")[0] in PROVIDERS
    if named is None and past is not None and is_known:
        return replace(parse_model(past.model, "the conversation"), why="the conversation was held with it")
    return choose(settings, os.environ, named)


def find_conversation(config: Config, name: str, *, consumer: str = "", must_exist: bool) -> PastConversation | None:
    """The stored conversation of that name; with an empty name the last one of the consumer. Raises UsageError."""
    if config.path is None or not (config.journal.enabled and config.journal.conversations):
        why = "there is no toolrun.toml here" if config.path is None else f"{config.path} switches that off"
        raise UsageError(f"Conversations are kept in the journal of a project, and {why}.")
    path = config.journal_file
    if not must_exist and not path.exists():
        return None
    with open_history(path) as history:
        found = history.conversation(name) if name else history.last_conversation(consumer)
        if found is None and must_exist:
            if name:
                raise UsageError(history.unknown_conversation(name))
            busy = history.busy_conversation(consumer)
            raise UsageError(f"There is no conversation to continue{f': {busy}' if busy else ''}.")
    return found


async def open_model(runtime: Runtime, choice: Choice, settings: ModelSettings) -> ModelClient:
    """The client for a model. Raises ToolrunError."""
    if choice.provider == "local":
        inform(f"Loading {choice.model}")
    root = runtime.config.root
    # In a thread, because importing the package of a provider may take seconds.
    return await asyncio.to_thread(open_client, choice, runtime.executor, settings, os.environ, root)


async def wait_for_servers(runtime: Runtime) -> None:
    """Wait a while until every MCP server has connected or failed, and say so if there is something to wait for."""
    waiting = [server.name for server in runtime.servers if not server.first_attempts_over.is_set()]
    if waiting:
        inform(f"Connecting to {', '.join(waiting)}")
        await runtime.ready(timeout=_SERVER_TIME)
        if late := [server.name for server in runtime.servers if not server.first_attempts_over.is_set()]:
            inform(f"Still connecting: {', '.join(late)}; their tools become available when they connect")


class Display:
    """Shows one turn as it happens."""

    def __init__(
        self,
        output: Output,
        redactor: Redactor,
        *,
        streams: bool,
        prints_answer: bool = True,
        status: StatusLine | None = None,
        model: str = "",
        is_markdown: bool = False,
    ) -> None:
        """`streams`: show the answer as it arrives, with everything that the model says before it.

        `status` shows what is waited for: the `model`, or a tool. `is_markdown`: render the answer, on a terminal.
        """
        self._status = StatusLine() if status is None else status
        self._model = model
        self._output = output
        self._redactor = redactor
        self._streams = streams and prints_answer
        self._prints_whole = prints_answer and not streams
        self._view: AnswerView = TextView(output)
        if is_markdown and can_show_markdown(output):
            self._view = MarkdownView(output, self._report_unfinished)
        self._pending = ""

    def show(self, event: Event) -> None:
        match event:
            case Text(text=text) if self._streams:
                self._say(text)
            case ToolStarted(call=call):
                self._status.end(self._model)
                self._status.begin(call.name, _key(call))
                self._note(f"{call.name} {self._arguments(call)}")
            case ToolProgress(call=call, progress=it):
                self._status.report(it, _key(call))
                log_progress(call.name, it)
            case ToolFinished(call=call, result=result):
                self._status.end(_key(call))
                if self._status.is_empty:
                    self.wait_for_model()
                self._note(f"{call.name} {self._outcome(result)}")
            case Done(reply=reply):
                self._status.clear()
                if self._prints_whole and (reply.text or not reply.ended.is_failure):
                    self._output.text(reply.text)
                self.end_line()
                if reply.ended in _NOTES:
                    inform(_NOTES[reply.ended])

    def wait_for_model(self) -> None:
        """The question is on its way."""
        self._status.begin(self._model, self._model)

    def end_line(self) -> None:
        """Start a new line, unless the output is at the start of one."""
        self._view.end_line()

    def _report_unfinished(self, text: str) -> None:
        self._status.report(Progress(0.0, message=text), self._model)

    def _say(self, text: str) -> None:
        text = self._pending + text
        self._pending = "\r" if text.endswith("\r") else ""  # perhaps the first half of a line break
        text = text.removesuffix("\r")
        if text:
            self._view.say(text)

    def _note(self, line: str) -> None:
        self.end_line()
        inform(f"  {line}")

    def _arguments(self, call: ToolCall) -> str:
        given = self._redactor.value(call.arguments)
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
        return one_line(_short(text))

    def _outcome(self, result: ToolResult) -> str:
        text = self._redactor.hide(result.error or "" if not result.success else result.text)
        if result.error_kind is not ErrorKind.IN_DOUBT:  # which says what to do about it
            text = _short(text)
        took = f"({time_taken(result.execution_time_ms)})"
        if result.success:
            return f"→ {text} {took}"
        if result.side_effects is SideEffects.NOT_STARTED:
            said = f"Tool '{result.tool_name}' was not run: "
            return f"was not run: {text.removeprefix(said)}"
        return f"failed: {text} {took}"


def time_taken(milliseconds: float) -> str:
    """How long a call took, as people read it."""
    return f"{milliseconds:.0f} ms" if milliseconds < 999.5 else f"{milliseconds / 1000:.1f} s"


def _key(call: ToolCall) -> tuple[str, str]:
    return call.name, call.id or ""


def _short(text: str) -> str:
    return cut(" ".join(text.split()), _LONGEST)
