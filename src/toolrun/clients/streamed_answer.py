"""The events of an answer as it streams: its text, what the model thinks, the arguments of its calls. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk

from toolrun.clients.sendable import kind_of, sendable_text
from toolrun.clients.text_call import SpokenText
from toolrun.clients.turn_event import Event, Text, Thought, ToolArguments

_THOUGHTS: Final = {"thinking": "thinking", "reasoning": "reasoning"}
"""The types of blocks with what a model thinks, and the key of the text."""


class StreamedAnswer:
    """Turns the chunks of one answer into events, if anybody wants them."""

    def __init__(
        self,
        emit: Callable[[Event], None] | None,
        known_names: Collection[str],
        name_of: Callable[[str], str],
    ) -> None:
        """`known_names`: tools whose calls the model may write as text. `name_of`: the tool behind a name as sent."""
        self._emit = emit
        self._name_of = name_of
        self._spoken = SpokenText(may_be_call=bool(known_names))
        self._calls: dict[Any, tuple[str, str]] = {}
        """The id and the tool of each call, by its place in the answer: only its first piece has them."""

    def feed(self, chunk: AIMessage) -> None:
        text = self._spoken.feed(str(chunk.text))
        if self._emit is None:
            return
        for thought in _thoughts(chunk):
            self._emit(Thought(sendable_text(thought)))
        self._say(text)
        for event in self._arguments(chunk):
            self._emit(event)

    def end(self, more: str = "") -> None:
        """The answer has ended, and its text is no call."""
        self._say(self._spoken.rest() + more)

    def _say(self, text: str) -> None:
        if text and self._emit is not None:
            self._emit(Text(text))

    def _arguments(self, chunk: AIMessage) -> Iterator[ToolArguments]:
        for piece in chunk.tool_call_chunks if isinstance(chunk, AIMessageChunk) else ():
            place = piece.get("index")
            if piece.get("name"):
                self._calls[place] = (piece.get("id") or "", self._name_of(str(piece["name"])))
            if piece.get("args"):
                yield ToolArguments(*self._calls.get(place, ("", "")), sendable_text(str(piece["args"])))


def _thoughts(chunk: AIMessage) -> Iterator[str]:
    """What the model thinks, in the forms of the provider packages."""
    for block in chunk.content if isinstance(chunk.content, list) else ():
        if not isinstance(block, Mapping) or kind_of(block) not in _THOUGHTS:
            continue
        found = [block.get(_THOUGHTS[kind_of(block)])]
        if not isinstance(found[0], str):  # OpenAI's Responses
            found = [part.get("text") for part in block.get("summary") or () if isinstance(part, Mapping)]
        yield from (it for it in found if isinstance(it, str) and it)
    more = chunk.additional_kwargs.get("reasoning_content")
    if isinstance(more, str) and more:
        yield more
