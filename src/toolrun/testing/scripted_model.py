"""`ScriptedModel`: a LangChain chat model that plays a script and records the requests."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from toolrun.errors import ConfigError, UsageError
from toolrun.result import ToolCall

_WORDS = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Said:
    """One answer of a scripted model."""

    text: str = ""
    """`{result}` stands for the text of the last tool result, `{question}` for the last question of the user."""
    calls: Sequence[ToolCall] = ()
    """Arguments that are a string are sent unchanged, whether they are JSON or not."""
    stop: str = "stop"
    """Why the answer ended; `length`: the limit on tokens cut it off."""


Part = Said | str | ToolCall | AIMessage | Sequence[AIMessageChunk | BaseException] | BaseException
ModelScript = Sequence[Part | Callable[[Sequence[BaseMessage]], Part]]
"""An answer, its text, a single call, a message or the pieces of one as they are, an error to raise (also after some
pieces); or a function that makes one of these from the messages."""


@dataclass(slots=True)
class _State:
    position: int = 0
    requests: list[list[BaseMessage]] = field(default_factory=list)
    offers: list[list[Mapping[str, Any]]] = field(default_factory=list)


class ScriptedModel(BaseChatModel):
    """Plays a script, one part for each request. With `disable_streaming=True` each answer is one piece."""

    script: Any
    repeat: bool = False
    """Start again at the end of the script instead of raising an error."""
    model: str = "scripted"
    _state: _State = PrivateAttr(default_factory=_State)

    def __init__(self, script: ModelScript = (), **options: Any) -> None:
        super().__init__(**{"script": list(script), **options})

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """The model of a script in a TOML or JSON file. Raises ConfigError."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (OSError, ValueError) as error:
            raise ConfigError(f"The script {path} cannot be read: {error}") from error
        try:
            return cls([_read_answer(answer) for answer in document["answer"]], repeat=bool(document.get("repeat")))
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{path} is not a script: it needs [[answer]] with text and [[answer.calls]] with name and arguments; "
                f"{type(error).__name__}: {error}"
            ) from error

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """The messages of each request."""
        return self._state.requests

    @property
    def offers(self) -> list[list[Mapping[str, Any]]]:
        """The tools that were offered with each request; none where calls were forbidden."""
        return self._state.offers

    @property
    def _llm_type(self) -> str:
        return "toolrun-scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[] if tool_choice == "none" else [convert_to_openai_tool(it) for it in tools], **options)

    def _next(
        self, messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Said | AIMessage | Sequence[AIMessageChunk | BaseException]:
        state = self._state
        state.requests.append(list(messages))
        state.offers.append(list(tools))
        if state.position >= len(self.script):
            if not self.repeat or not self.script:
                raise UsageError(
                    f"The script has {len(self.script)} answers, and this is request {len(state.requests)}. "
                    "Add an answer, or set repeat."
                )
            state.position = 0
        part = self.script[state.position]
        state.position += 1
        part = part(messages) if callable(part) else part
        if isinstance(part, BaseException):
            raise part
        if isinstance(part, str):
            part = Said(part)
        elif isinstance(part, ToolCall):
            part = Said(calls=[part])
        return _filled(part, messages) if isinstance(part, Said) else part

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        part = self._next(messages, more.get("tools", ()))
        if isinstance(part, AIMessage):
            message = part
        else:
            chunks = list(_pieces(part, messages))
            whole = chunks[0] + chunks[1:]
            message = AIMessage(
                content=whole.content,
                tool_calls=whole.tool_calls,
                invalid_tool_calls=whole.invalid_tool_calls,
                usage_metadata=whole.usage_metadata,
                response_metadata=whole.response_metadata,
            )
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **more)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        part = self._next(messages, more.get("tools", ()))
        if isinstance(part, AIMessage):
            part = [AIMessageChunk(**part.model_dump(exclude={"type"}))]
        for chunk in _pieces(part, messages):
            yield ChatGenerationChunk(message=chunk)


def _pieces(
    part: Said | Sequence[AIMessageChunk | BaseException], messages: Sequence[BaseMessage]
) -> Iterator[AIMessageChunk]:
    for piece in _chunks(part, messages) if isinstance(part, Said) else part:
        if isinstance(piece, BaseException):
            raise piece
        yield piece


def _filled(said: Said, messages: Sequence[BaseMessage]) -> Said:
    text = said.text
    for mark, message_class in (("{result}", ToolMessage), ("{question}", HumanMessage)):
        if mark in text:
            last = next((it for it in reversed(messages) if isinstance(it, message_class)), None)
            text = text.replace(mark, "" if last is None else str(last.text))
    return Said(text, said.calls, said.stop)


def _chunks(said: Said, messages: Sequence[BaseMessage]) -> list[AIMessageChunk]:
    """The answer in chunks: words, then calls, then the usage and the reason for its end."""
    chunks = [AIMessageChunk(content=word) for word in _WORDS.findall(said.text)]
    for index, call in enumerate(said.calls):
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments or {})
        piece = tool_call_chunk(name=call.name, args=text, id=call.id or f"call_{len(messages)}_{index}", index=index)
        chunks.append(AIMessageChunk(content="", tool_call_chunks=[piece]))
    read, written = sum(len(str(it.text).split()) for it in messages), len(said.text.split()) + 10 * len(said.calls)
    usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    end = AIMessageChunk(content="", usage_metadata=usage, response_metadata={"finish_reason": said.stop})
    return [*chunks, end]


def _read_answer(answer: Mapping[str, Any]) -> Said:
    calls = [
        ToolCall(call.get("id", ""), call["name"], call.get("raw", call.get("arguments", {})))
        for call in answer.get("calls", ())
    ]
    unknown = set(answer) - {"text", "calls", "stop"}
    if unknown:
        raise KeyError(f"'{unknown.pop()}' is an unknown key")
    return Said(answer.get("text", ""), calls, answer.get("stop", "stop"))
