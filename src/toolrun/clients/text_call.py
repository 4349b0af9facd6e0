"""Tool calls that a model writes as the text of its answer. Pure.

Small models are told of the tools and name the right one, but miss the markers of their own template, so that the
provider sees no call. Such a text is read strictly: the whole answer is one JSON object, alone, in a code fence or in
`<tool_call>` tags, with the name of a tool that was offered and an object of arguments. Everything else is just text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Final

from toolrun.clients.sendable import sendable_text
from toolrun.result import ToolCall

_THOUGHT: Final = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_FENCE: Final = re.compile(r"```(?:json|JSON|tool_call|tool_code)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_TAGS: Final = re.compile(r"(?:\s*<tool_call>(?:(?!</?tool_call>).)*</tool_call>)+", re.DOTALL)
_TAG: Final = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_OPENERS: Final = ("{", "```", "<tool_call>", "<think>")
_ARGUMENTS: Final = ("arguments", "parameters")


def read_calls(text: str, known_names: Collection[str]) -> list[ToolCall]:
    """The calls that the text consists of; none if it is anything else."""
    thought = _THOUGHT.match(text)
    said = text[thought.end() if thought else 0 :].strip()
    if _TAGS.fullmatch(said):
        bodies = _TAG.findall(said)
    else:
        fence = _FENCE.fullmatch(said)
        bodies = [fence[1] if fence else said]
    calls = [_read_call(body, known_names) for body in bodies]
    return [call for call in calls if call is not None] if all(calls) else []


def _read_call(body: str, known_names: Collection[str]) -> ToolCall | None:
    body = body.strip()
    if not (body.startswith("{") and body.endswith("}")):
        return None
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    key = next((key for key in _ARGUMENTS if value.keys() == {"name", key}), None)
    if key is None or not isinstance(value["name"], str) or not isinstance(value[key], dict):
        return None
    return ToolCall("", value["name"], value[key]) if value["name"] in known_names else None


class SpokenText:
    """The text of an answer as it streams, in pieces that can be shown.

    Holds back a text that may turn out to be a call, and the first half of a surrogate pair.
    """

    def __init__(self, *, may_be_call: bool) -> None:
        self._held = ""
        self._may_be_call = may_be_call

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        self._held += piece
        if self._may_be_call:
            start = self._held.lstrip()
            if any(start.startswith(it) or it.startswith(start) for it in _OPENERS):
                return ""
            self._may_be_call = False
        if "\ud800" <= self._held[-1:] <= "\udbff":
            return self._release(len(self._held) - 1)
        return self._release(len(self._held))

    def rest(self) -> str:
        """What was held back, once the answer has ended and is not a call."""
        return self._release(len(self._held))

    def _release(self, end: int) -> str:
        text, self._held = self._held[:end], self._held[end:]
        return sendable_text(text)
