"""Asks the person at the terminal whether a call may be made: the `on_approval` hook of `chat`, `ask` and `call`.

stdout belongs to the answer, so the question stands on stderr. Questions come one after the other, and the output of
calls that run meanwhile waits. A question that somebody answers elsewhere goes away, and takes no line with it. Ctrl-C
is not handled here: it cancels the work of the command, and with it the question.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import Final, cast

from toolrun.cli.argument_editor import edit_arguments
from toolrun.cli.held_output import held_output
from toolrun.cli.output import paint, print_on_stderr
from toolrun.cli.summary import relative
from toolrun.cli.terminal_line import discard_typed, is_interactive, read_line
from toolrun.cli.wrapped_line import wrapped
from toolrun.errors import CallError, UsageError
from toolrun.execution.approval import (
    CHANGED,
    Allow,
    Answer,
    ApprovalRequest,
    Deny,
    Scope,
    change_arguments,
    current_caller,
)
from toolrun.journal.approval_row import StoredApproval, find_approval
from toolrun.journal.conversation_row import current_conversation
from toolrun.journal.settlement import person
from toolrun.journal.writer_job import NotRecordedError
from toolrun.json import JSON
from toolrun.redaction import Redactor
from toolrun.result import normalise
from toolrun.runtime import Runtime
from toolrun.text import cut, one_line
from toolrun.tools.context import Call

_STDIN: Final = 0
_STDERR: Final = 2
_LONGEST: Final = 200
"""Characters of an argument, or of a description, to show."""
_END: Final = 60
"""Those of them that are its end: what matters may stand there."""
_SCOPES: Final = {"y": Scope.ONCE, "c": Scope.CONVERSATION, "a": Scope.ALWAYS}
_WORDS: Final = {"yes": "y", "conversation": "c", "always": "a", "edit": "e", "show": "s"}
_ANSWERED: Final = {"allowed": "allowed", "used": "answered", "denied": "denied", "revoked": "revoked"}


@dataclass(slots=True)
class _OpenRequest:
    """One request while it is asked about."""

    request: ApprovalRequest
    redactor: Redactor
    changed: dict[str, JSON] | None = None
    """The arguments as the person has edited them."""
    is_cut: bool = False

    @property
    def arguments(self) -> Mapping[str, JSON]:
        return self.request.arguments if self.changed is None else self.changed

    @property
    def has_secrets(self) -> bool:
        """Then it cannot be edited: the person would have to see them, and the journal to keep them."""
        return self.redactor.value(dict(self.request.arguments)) != dict(self.request.arguments)

    def choices(self) -> dict[str, str]:
        """The answers that are possible, by their letter."""
        caller, offered = current_caller.get(), {"y": "[y]es once"}
        if current_conversation.get() is not None or (caller is not None and caller.conversation):
            offered["c"] = "[c]onversation"
        offered["a"] = "[a]lways"
        if not self.has_secrets:
            offered["e"] = "[e]dit"
        if self.is_cut:
            offered["s"] = "[s]how all"
        return {**offered, "n": "[n]o (reason)"}

    def lines(self, arguments: Mapping[str, JSON], limit: int | None = _LONGEST) -> list[str]:
        """The arguments as people read them, one per line."""
        hidden = self.redactor.value(dict(arguments))
        assert isinstance(hidden, dict)
        return [f"{one_line(name)}: {self._readable(value, limit)}" for name, value in hidden.items()]

    def _readable(self, value: JSON, limit: int | None) -> str:
        is_plain = isinstance(value, str) and _is_plain(value)
        text = one_line(str(value) if is_plain else json.dumps(value, ensure_ascii=False, default=str))
        if limit is None or len(text) <= limit:
            return text
        self.is_cut = True
        return f"{text[: limit - _END]}… ({len(text) - limit} more characters) …{text[-_END:]}"


class ApprovalPrompt:
    """Asks on the terminal. Belongs to one event loop."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        """Whose calls it asks about, once that is open."""
        self._turn = asyncio.Lock()

    async def __call__(self, request: ApprovalRequest) -> Answer:
        async with self._turn:
            with held_output.held():
                try:
                    return await self._ask(request)
                except asyncio.CancelledError:
                    discard_typed(_STDIN)
                    print_on_stderr("\n")
                    await self._say_who_answered(request)
                    raise

    async def _ask(self, request: ApprovalRequest) -> Answer:
        runtime = self.runtime
        question = _OpenRequest(request, Redactor(() if runtime is None else runtime.config.secrets.values()))
        discard_typed(_STDIN)  # nobody agrees to what they have not seen
        self._show(question)
        while True:
            choices = question.choices()
            said = await _read(f"{paint('Allow?', 'yellow')} {', '.join(choices.values())}: ")
            word, _, rest = (said or "").strip().partition(" ")
            letter = _WORDS.get(word.lower(), word.lower())
            if not letter:
                return Deny(by=person())
            if letter in ("n", "no"):
                reason = rest.strip() or await _read("Tell the model why (Enter for nothing): ") or ""
                return Deny(reason.strip(), by=person())
            if rest or letter not in choices:
                print_on_stderr(f"  Please answer {', '.join(choices)}.\n")
            elif letter == "e":
                await self._edit(question)
            elif letter == "s":
                _print_lines(question.lines(question.arguments, None))
            else:
                return Allow(_SCOPES[letter], question.changed, by=person())

    def _show(self, question: _OpenRequest) -> None:
        """What would happen, and why somebody is asked."""
        request, runtime = question.request, self.runtime
        source = request.source
        if runtime is not None and source.startswith(str(runtime.config.root)):
            source = relative(Path(source), runtime.config.root)
        number = f"Request {request.id}: " if runtime is not None and runtime.journal is not None else ""
        origin = f" ({one_line(source)})" if source else ""
        about = one_line(request.description.strip().partition("\n")[0])
        _print_lines([f"{number}{one_line(request.tool)}{origin}"], "yellow", indent=0)
        if about:
            _print_lines([cut(about, _LONGEST)], indent=2)
        _print_lines([f"You are asked because: {one_line(request.reason)}"], indent=2)
        lines = question.lines(request.arguments)
        if lines:
            print_on_stderr("  It would get:\n")
            _print_lines(lines)

    async def _edit(self, question: _OpenRequest) -> None:
        """Change the arguments, and show the difference, or why they cannot be used."""
        try:
            changed = await self._checked(question, await edit_arguments(question.arguments, _STDIN, _read))
        except (UsageError, CallError) as error:
            print_on_stderr(f"  {one_line(str(error).removeprefix(CHANGED))}\n")
            return
        before, after = question.lines(question.request.arguments, None), question.lines(changed, None)
        question.changed = changed if changed != question.request.arguments else None
        if question.changed is None:
            print_on_stderr("  Nothing is changed.\n")
        _print_lines([f"- {line}" for line in before if line not in after], "red")
        _print_lines([f"+ {line}" for line in after if line not in before], "green")

    async def _checked(self, question: _OpenRequest, arguments: dict[str, JSON]) -> dict[str, JSON]:
        """The arguments as the tool would get them. Raises UsageError or CallError if it cannot be called so."""
        if question.redactor.value(arguments) != arguments:
            raise UsageError("there is a secret in it, which would be written to the journal")
        if self.runtime is None:
            return arguments
        executor, name = self.runtime.executor, question.request.tool
        trial = Call(executor, name, dict(question.request.arguments), None)
        change_arguments(trial, await executor.find(name), arguments)
        return cast("dict[str, JSON]", normalise(trial.arguments))

    async def _say_who_answered(self, request: ApprovalRequest) -> None:
        """The question goes away: say why, unless whoever asked has gone, which is told elsewhere."""
        row = await self._find(request.id)
        if row is not None and row.answered_by is not None:
            who = row.answered_by.removeprefix("person:")
            print_on_stderr(f"  {_ANSWERED.get(row.state, row.state).capitalize()} elsewhere by {one_line(who)}.\n")
        elif row is not None and time_ns() // 1000 >= row.expires_at:
            print_on_stderr("  Nobody has answered in time.\n")

    async def _find(self, id: int) -> StoredApproval | None:
        journal = None if self.runtime is None else self.runtime.journal
        if journal is None:
            return None
        try:
            return await asyncio.wrap_future(journal.run(lambda connection: find_approval(connection, id)))
        except NotRecordedError:
            return None


def terminal_prompt() -> ApprovalPrompt | None:
    """How to ask the person at the terminal; None if nobody is there."""
    return ApprovalPrompt() if is_interactive() else None


async def always_yes(_: ApprovalRequest) -> Answer:
    """The person has said yes in advance."""
    return Allow(by=person())


async def _read(question: str) -> str | None:
    print_on_stderr(question)
    line = await read_line(_STDIN)
    if line is None:
        print_on_stderr("\n")  # the terminal shows nothing for Ctrl-D
    return line


def _print_lines(lines: list[str], colour: str = "", indent: int = 4) -> None:
    for line in lines:
        for row in wrapped(line, _STDERR, indent):
            print_on_stderr(f"{paint(row, colour) if colour else row}\n")


def _is_plain(text: str) -> bool:
    """Whether a text can be shown without quotes, and is not taken for a number or anything else."""
    if not text or not text.isprintable() or text != text.strip() or text[0] in '"{[':
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False
