"""`toolrun chat`: a conversation with a model, which may use the tools."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import click

from toolrun.cli.approval_prompt import terminal_prompt
from toolrun.cli.chat_input import TypedQuestion, question_message, read_question, with_files
from toolrun.cli.definition_question import DefinitionQuestions, can_ask
from toolrun.cli.log_handler import set_up_log
from toolrun.cli.loop_thread import Interrupted, LoopThread
from toolrun.cli.options import Options, shared_options
from toolrun.cli.output import Column, Output, claim_stdout, complain, inform
from toolrun.cli.recorded_call import past_calls, time_of
from toolrun.cli.status_line import StatusLine, status_line
from toolrun.cli.summary import summarise
from toolrun.cli.turn import (
    Display,
    choose_model,
    find_conversation,
    model_options,
    model_settings,
    open_model,
    wait_for_servers,
)
from toolrun.clients.choice import PROVIDERS, Choice, ollama_models, ollama_url, parse_model
from toolrun.clients.model_error import ModelError
from toolrun.clients.turn_event import Done, Usage
from toolrun.config.model import ModelSettings
from toolrun.errors import PinError, ToolrunError, UsageError
from toolrun.journal.settlement import person
from toolrun.redaction import Redactor
from toolrun.runtime import read_config
from toolrun.text import plural, suggestion

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from toolrun.clients.loop import Turn
    from toolrun.clients.model_client import ModelClient
    from toolrun.clients.stored_conversation import StoredConversation

_PROMPT: Final = "> "
_FURTHER: Final = "... "
_CONSUMER: Final = "chat"
"""Who the journal says made the calls, and whose conversations can be continued without an id."""


@click.command(name="chat")
@click.option(
    "--continue",
    "continued",
    metavar="[ID]",
    is_flag=False,
    flag_value="",
    help="Continue the last chat, or the conversation with this ID.",
)
@click.option("--list", "lists", is_flag=True, help="List the conversations that are kept, the last one first.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print a JSON array.")
@model_options
@shared_options()
@click.pass_obj
def command(
    options: Options, continued: str | None, lists: bool, as_json: bool, model: str | None, system: str | None
) -> None:
    """Chat with a model that may use the tools.

    Tool calls are shown as they happen. Ctrl-C interrupts the answer, Ctrl-D ends the chat; /help lists the commands.
    A backslash at the end of a line continues it; @FILE attaches a text file or a picture.
    You are asked before a call that needs your approval. Without a terminal, each line of stdin is a question, and such
    calls are refused. In a project the chat is kept: --continue goes on with it, also after a crash.
    """
    if as_json and not lists:
        raise click.UsageError("--json is for --list only", click.get_current_context())
    config = read_config(options.config)
    set_up_log(config.log, options.verbosity)
    if lists:
        _list(options, as_json=as_json)
        return
    settings = model_settings(config, system)
    past = None
    if continued is not None:
        past = find_conversation(config, continued, consumer=_CONSUMER, must_exist=True)
    choice = choose_model(settings, model, past)
    output = claim_stdout()
    options.asks = can_ask()
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    prompt = terminal_prompt()
    try:
        with LoopThread(options, config, inform if is_watched else None, _CONSUMER, prompt) as loop_thread:
            if prompt is not None:
                prompt.runtime = loop_thread.runtime
            chat = Chat(loop_thread, output, settings, choice, options)
            try:
                if past is not None:
                    chat.go_on(past.name)
                chat.talk()
            finally:
                chat.end()
    except Interrupted:
        raise click.Abort from None


class Chat:
    """A conversation at the terminal."""

    def __init__(
        self, loop_thread: LoopThread, output: Output, settings: ModelSettings, choice: Choice, options: Options
    ) -> None:
        self._loop_thread = loop_thread
        self._runtime = loop_thread.runtime
        self._output = output
        self._settings = settings
        self._choice = choice
        self._options = options
        self._client: ModelClient | None = None
        """Not before it is asked something: importing the package of a provider may take seconds."""
        self._redactor = Redactor(self._runtime.config.secrets.values())
        self._history: list[BaseMessage] = []
        self._stored: StoredConversation | None = None
        """Where the conversation is kept, once there is something to keep. Then the history is there."""
        journal = self._runtime.journal
        self._is_kept = journal is not None and journal.keeps_conversations
        self._is_over = False
        self._tells_usage = sys.stderr is not None and sys.stderr.isatty()
        self._questions = DefinitionQuestions()
        self._commands: dict[str, tuple[Callable[[str], None], str]] = {
            "/help": (self._help, "Show the commands."),
            "/tools": (self._tools, "List the tools."),
            "/model": (self._model, "Show the model; with PROVIDER:NAME, switch to another one."),
            "/new": (self._new, "Start a new conversation."),
            "/quit": (self._quit, "End the chat. Ctrl-D does the same."),
        }

    def talk(self) -> None:
        """Answer questions until the input ends. Raises click's Exit if nobody reads the answers."""
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        if is_terminal:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  gives input() history and line editing
            tools = plural(len(self._runtime.manager), "tool")
            inform(f"{self._choice} ({self._choice.why}), {tools}. /help shows the commands, Ctrl-D ends.")
        else:
            self._opened()  # nobody sees a prompt, and a model that cannot be used ends the program
        read = _Prompt().read if is_terminal else _read_line
        while not self._is_over and (line := read_question(read, _PROMPT, _FURTHER)) is not None:
            text = line.encode(errors="replace").decode().rstrip()
            if text.startswith("/"):
                self._obey(text)
            elif text:
                self._ask_with_files(text.strip())

    def _ask_with_files(self, text: str) -> None:
        try:
            question = with_files(text, Path.cwd())
        except UsageError as error:
            complain(str(error))
        else:
            self._answer(question)

    def _opened(self) -> ModelClient:
        """The client for the model. Raises Interrupted and ToolrunError."""
        if self._client is None:
            with status_line(self._output, str(self._choice)):
                self._client = self._loop_thread.run(open_model(self._runtime, self._choice, self._settings))
        return self._client

    def go_on(self, id: str) -> None:
        """Take up a conversation, and finish an answer that a crash has cut off. Raises UsageError."""
        opening = self._opened().open_conversation(id, must_exist=True, any_model=True)
        stored = self._stored = self._loop_thread.run(opening)
        stored.change_model(str(self._choice))
        inform(f"Conversation {id}, with {plural(stored.questions, 'question')} so far.")
        if stored.was_cut_off and stored.is_unfinished:
            inform("Its last answer was cut off. Finishing it now.")
            self._answer(None)

    def end(self) -> None:
        """Let go of the conversation, and say how to go on with it."""
        if self._stored is not None:
            self._stored.close()
            go_on = self._options.command_line("chat", "--continue", self._stored.id)
            inform(f"To continue this conversation: {go_on}")
            self._stored = None

    def _keep(self, client: ModelClient) -> None:
        """From now on the conversation is kept, if that is possible."""
        if self._stored is None and self._is_kept:
            try:
                self._stored = self._loop_thread.run(client.open_conversation())
            except (ToolrunError, Interrupted) as error:
                self._is_kept = False
                complain(f"this conversation is not kept: {str(error) or 'interrupted'}")

    def _answer(self, question: TypedQuestion | None) -> None:
        try:
            self._refresh()
            self._ask_about_changes()
            client = self._opened()
            asked = None if question is None else self._loop_thread.run(question_message(question, client))
        except (Interrupted, KeyboardInterrupt):
            inform("\nInterrupted.")
            return
        except ToolrunError as error:
            complain(str(error))
            return
        self._keep(client)
        if self._stored is None:
            turn = client.turn(asked, self._history)
        else:
            turn = client.turn(asked, conversation=self._stored)
        with status_line(self._output) as status:
            self._show(turn, status)

    def _show(self, turn: Turn, status: StatusLine) -> None:
        """The turn as it happens."""
        model = str(self._choice)
        display = Display(self._output, self._redactor, streams=True, status=status, model=model, is_markdown=True)
        try:
            display.wait_for_model()
            self._history = self._loop_thread.run(self._ask(turn, display))
        except Interrupted:
            display.end_line()
            inform("\nInterrupted.")
            self._history = turn.interrupted or self._history
        except ModelError as error:
            display.end_line()
            complain(str(error))
            self._history = list(error.messages) or self._history
        except ToolrunError as error:
            display.end_line()
            complain(str(error))

    def _refresh(self) -> None:
        """Notice new, edited and removed files with tools. Raises Interrupted."""
        for line in self._loop_thread.run(self._runtime.refresh()):
            inform(line)

    def _ask_about_changes(self) -> None:
        """Before a model sees them. Raises Interrupted."""
        if not self._runtime.servers:
            return
        self._loop_thread.run(wait_for_servers(self._runtime))
        for change in self._questions.accepted(self._runtime.changes):
            try:
                self._loop_thread.run(self._runtime.accept(change, person()))
            except PinError as error:
                complain(str(error))

    async def _ask(self, turn: Turn, display: Display) -> list[BaseMessage]:
        await wait_for_servers(self._runtime)
        history, began = self._history, monotonic()
        async with contextlib.aclosing(turn.stream()) as events:
            async for event in events:
                display.show(event)
                if isinstance(event, Done):
                    history = event.reply.messages
                    if self._tells_usage:
                        inform(_usage(monotonic() - began, event.reply.usage))
        return history

    def _obey(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        if name in self._commands:
            self._commands[name][0](argument.strip())
        else:
            hint = suggestion(name, self._commands)
            complain(
                f"there is no command '{name}'; {hint}\nTo ask a question that begins with /, put a space before it."
            )

    def _help(self, _: str) -> None:
        columns = [Column("COMMAND", "bold cyan"), Column("", wraps=True)]
        self._output.table(columns, [(name, text) for name, (_, text) in self._commands.items()])

    def _tools(self, _: str) -> None:
        try:
            self._refresh()
            self._loop_thread.run(wait_for_servers(self._runtime))
        except Interrupted:
            inform("\nThese are the tools available so far.")
        tools = [summarise(self._runtime, tool) for tool in self._runtime.manager]
        if not tools:
            complain(f"there are no tools here; write one with '{self._options.command_line('new', 'NAME')}'")
            return
        columns = [Column("TOOL", "bold cyan"), Column("DESCRIPTION", wraps=True)]
        self._output.table(columns, [(tool.name, tool.headline) for tool in tools])

    def _model(self, name: str) -> None:
        if not name:
            self._output.text(f"{self._choice} ({self._choice.why})")
            if self._choice.provider == "ollama":
                url = self._settings.base_url or ollama_url(os.environ)
                inform(f"Available: {', '.join(ollama_models(url) or ['?'])}")
            return
        if name.partition(":")[0] not in PROVIDERS:
            name = f"{self._choice.provider}:{name}"
        try:
            choice = parse_model(name, "/model")
            self._client = self._loop_thread.run(open_model(self._runtime, choice, self._settings))
        except (ToolrunError, Interrupted) as error:
            complain(f"{str(error) or 'interrupted'}\nThe model is still {self._choice}.")
        else:
            self._choice = choice
            if self._stored is not None:
                self._stored.change_model(str(choice))
            inform(f"Switched to {choice}.")

    def _new(self, _: str) -> None:
        self._history = []
        self.end()
        inform("New conversation.")

    def _quit(self, _: str) -> None:
        self._is_over = True


def _list(options: Options, *, as_json: bool) -> None:
    """The conversations that can be continued."""
    with past_calls(options) as history:
        kept = history.conversations()
    output = claim_stdout()
    if as_json:
        output.json([it.to_dict() for it in kept])
    elif kept:
        columns = [
            Column("CONVERSATION", "bold cyan"),
            Column("LAST USED"),
            Column("QUESTIONS"),
            Column("MODEL", "dim"),
        ]
        rows = [
            (it.conversation, time_of(it.updated_at), str(it.questions), it.model, it.first_question) for it in kept
        ]
        output.table([*columns, Column("FIRST QUESTION", wraps=True)], rows)
        inform(f"To continue one: {options.command_line('chat', '--continue')} CONVERSATION")
    else:
        complain("no conversation is stored here yet")


def _read_line(_: str) -> str | None:
    line = sys.stdin.readline() if sys.stdin is not None else ""
    return line.rstrip("\r\n") if line else None


def _usage(seconds: float, usage: Usage) -> str:
    """What a turn has taken, as far as the provider counts tokens."""
    counted = f", {plural(usage.input_tokens, 'token')} in, {usage.output_tokens} out" if usage.total_tokens else ""
    return f"  ({seconds:.1f} s{counted})"


class _Prompt:
    """Reads lines from a terminal. Ctrl-C discards the line; twice in a row it ends the chat, like Ctrl-D."""

    def __init__(self) -> None:
        self._was_interrupted = False

    def read(self, prompt: str) -> str | None:
        while True:
            try:
                line = input(prompt)
            except EOFError:
                inform("")
                return None
            except KeyboardInterrupt:
                if self._was_interrupted:
                    inform("")
                    return None
                self._was_interrupted = True
                inform("\nPress Ctrl-C again or Ctrl-D to end the chat.")
            else:
                self._was_interrupted = False
                return line
