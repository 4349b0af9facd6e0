"""What the demo shows: who said what, what became of it, and what is spoken, in lines that fit a terminal."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from toolrun import Call, Observer, ToolResult
from toolrun.clients import ToolFinished, ToolStarted
from toolrun.voice import Answered, Heard, Outcome, ToolActivity, VoiceEvent

PROMPT = "> "


@dataclass
class Screen(Observer):
    """A listener of the gateway, an observer of the executor, and a place for lines of text."""

    console: Console
    on_disturbed: Callable[[], None] = lambda: None
    """Is called when something was shown while somebody may be typing."""
    _is_prompting: bool = False
    _running: int = 0
    _held: list[tuple[str, str]] = field(default_factory=list)
    """What came from the broker during a call: shown with its end, after what the tool was called with."""
    _received: dict[str, object] = field(default_factory=dict)
    """The arguments as the tools got them, by the id of the call."""

    def line(self, *parts: str | Text | tuple[str, str]) -> None:
        is_disturbed, self._is_prompting = self._is_prompting, False
        if is_disturbed:
            self.console.print()
        self.console.print(Text.assemble(*parts), soft_wrap=True)
        if is_disturbed:
            self.on_disturbed()

    def heading(self, text: str) -> None:
        self.line(("\n" + text, "bold"))

    def fact(self, label: str, text: str, style: str = "") -> None:
        """A label and some text, which is wrapped where the terminal ends."""
        room = max(40, self.console.width - 13)
        for line in text.splitlines() or [""]:
            for piece in Text(line, style).wrap(self.console, room):
                piece.rstrip()
                self.line((f"   {label:<10}", "dim"), piece)
                label = ""

    def prompt(self) -> None:
        self.console.print(PROMPT, end="", style="bold")
        self._is_prompting = True

    def typed(self) -> None:
        """Somebody has ended a line: the terminal has shown it."""
        self._is_prompting = False

    def call_finished(self, call: Call, result: ToolResult) -> None:
        self._received[call.id] = call.arguments

    def tell(self, event: VoiceEvent) -> None:
        """A `Listener`."""
        match event:
            case Heard(utterance) if utterance.source != "stdin":
                where = {"audio": "in the recording", "mqtt": "by MQTT"}.get(utterance.source, "")
                self.fact("heard", f"“{utterance.text}”, {where}" if utterance.text else "something, not understood")
            case ToolActivity(_, ToolStarted(call)):
                self._running += 1
                self.fact("calls", f"{call.name} {_json(call.arguments)}", "cyan")
            case ToolActivity(_, ToolFinished() as finished):
                self._running = max(0, self._running - 1)
                self._finish(finished)
            case Answered(outcome=Outcome.INTERRUPTED):
                self.fact("", "(interrupted)")
            case Answered(speech=speech):
                self.fact("speaks", f"“{speech}”", "bold")

    def broker(self, kind: str, text: str) -> None:
        """What happens on the broker."""
        if self._running:
            self._held.append((kind, text))
        else:
            self._show(kind, text)

    def _show(self, kind: str, text: str) -> None:
        self.fact("MQTT" if kind == "command" else "device", text, "magenta")

    def _finish(self, finished: ToolFinished) -> None:
        call, result = finished.call, finished.result
        received = self._received.pop(result.call_id, call.arguments)
        if result.repairs:
            self.fact("repaired", f"{call.name} {_json(received)}", "yellow")
        held, self._held = self._held, []
        for kind, text in held:
            self._show(kind, text)
        if result.success:
            self.fact("result", f"{result.text}  ({result.execution_time_ms:.0f} ms)", "green")
        else:
            self.fact("fails", f"{result.error}  ({result.error_kind})", "red")


class Complaints(logging.Handler):
    """Shows what the gateway logs as going wrong: a model that refuses, a loudspeaker that is not there."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.fact("log", record.getMessage(), "red")


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
