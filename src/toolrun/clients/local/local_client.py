"""A model in a GGUF file, run in this process by `xllamacpp` (llama.cpp). It calls tools by constrained output.

llama.cpp computes in a thread, so the event loop stays free. Whoever leaves an answer stops it at the next token, or at
the next part of the question while that is still being read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_ai_message_chunks
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.messages.utils import message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field, PrivateAttr

from toolrun.clients.extra import missing
from toolrun.clients.local import constrained
from toolrun.clients.model_client import ModelClient
from toolrun.clients.model_error import About, ModelContextError, ModelError, ModelRequestError
from toolrun.clients.provider import Provider
from toolrun.clients.result_content import Abilities
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.errors import ConfigError

try:
    import xllamacpp
except ImportError as error:
    raise missing("local", error) from error

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

_BATCH: Final = 512
"""Tokens of the question that are read at a time; in between, reading can be stopped."""
_LABEL: Final = "The local model"
_TOO_LONG: Final = "exceed_context_size_error"


def _threads() -> int:
    """Half of the cores. llama.cpp's threads wait for each other all the time: one that gets no core stops all."""
    return max(1, (os.cpu_count() or 2) // 2)


class LocalChatModel(BaseChatModel):
    """A chat model of LangChain's over a GGUF file, which is read when it is made: that may take seconds."""

    path: str
    context: int = 8192
    """Tokens that the model can read and write at most; models that were made for less use less."""
    max_tokens: int = 2048
    """Tokens of one answer."""
    temperature: float = 0.0
    threads: int = Field(default_factory=_threads)
    _server: Any = PrivateAttr()

    def __init__(self, path: str | Path, **options: Any) -> None:
        """Raises ConfigError."""
        super().__init__(**{"path": str(path), **options})
        self._server = _load(self)

    @property
    def model(self) -> str:
        return Path(self.path).name

    @property
    def _llm_type(self) -> str:
        return "toolrun-local"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[] if tool_choice == "none" else list(tools), **options)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        answer = _Answer(self, messages, stop, **more)
        chunks: list[AIMessageChunk] = []
        errors: list[ModelError] = []

        def hear(piece: dict[str, Any]) -> bool:
            try:
                chunks.extend(answer.read(piece))
            except ModelError as error:  # llama.cpp would swallow it
                errors.append(error)
            return bool(errors)

        answer.speak(hear)
        if errors:
            raise errors[0]
        whole = add_ai_message_chunks(*chunks, answer.end())
        return ChatResult(generations=[ChatGeneration(message=message_chunk_to_message(whole))])

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        answer = _Answer(self, messages, stop, **more)
        async with contextlib.aclosing(_in_thread(answer.speak)) as pieces:
            async for piece in pieces:
                for chunk in answer.read(piece):
                    yield ChatGenerationChunk(message=chunk)
        yield ChatGenerationChunk(message=answer.end())


def _load(model: LocalChatModel) -> Any:
    if not Path(model.path).is_file():
        raise ConfigError(f"There is no file {model.path}. Name a GGUF file: local:PATH/TO/MODEL.gguf")
    options = xllamacpp.CommonParams()
    options.model.path = model.path
    options.n_ctx = model.context
    options.n_batch = options.n_ubatch = _BATCH
    options.n_parallel = 1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = model.threads
    options.verbosity = -1  # it would write to stdout
    # It always listens on a port of this machine, which nobody else is meant to use.
    options.api_keys = [secrets.token_urlsafe()]
    options.ui = False
    try:
        return xllamacpp.Server(options)
    except RuntimeError as error:
        raise ConfigError(
            f"{model.path} cannot be loaded: it is no GGUF file, or there is not enough memory."
        ) from error


class _Answer:
    """One request to llama.cpp, and what comes back."""

    def __init__(
        self,
        model: LocalChatModel,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        tools: Sequence[Any] = (),
        **more: Any,
    ) -> None:
        offered = constrained.functions(tools)
        self._model = model
        self._reader = constrained.Reader() if offered else None
        self._reason = "stop"
        self._usage: UsageMetadata | None = None
        self._body: dict[str, Any] = {
            "messages": constrained.dialogue(messages, offered),
            "temperature": model.temperature,
            "max_tokens": model.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,  # so that `hear` is called while the question is being read
            "chat_template_kwargs": {"enable_thinking": False},
            **({"stop": list(stop)} if stop else {}),
            **more,
        }
        if offered:
            schema = {"name": "reply", "schema": constrained.sayable(offered)}
            self._body["response_format"] = {"type": "json_schema", "json_schema": schema}

    def speak(self, hear: Callable[[dict[str, Any]], bool]) -> None:
        """Compute, and pass on each piece until `hear` says that it was enough. Blocks. Raises ModelError."""
        try:
            self._model._server.handle_chat_completions(self._body, hear)
        except (ValueError, RuntimeError) as error:
            raise ModelRequestError(f"{_LABEL} '{self._model.model}' refused the request: {error}") from error

    def read(self, piece: dict[str, Any]) -> list[AIMessageChunk]:
        """What is new in a piece, if anything. Raises ModelError."""
        if "error" in piece:
            raise self._error(piece["error"])
        if "usage" in piece:
            read, written = piece["usage"]["prompt_tokens"], piece["usage"]["completion_tokens"]
            self._usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
        for choice in piece.get("choices", ()):
            self._reason = choice.get("finish_reason") or self._reason
            said = choice["delta"].get("content") or ""
            text = self._reader.feed(said) if self._reader is not None else said
            if text:
                return [AIMessageChunk(content=text)]
        return []

    def end(self) -> AIMessageChunk:
        """The last chunk: the call, if it was one, and what is known of the answer."""
        call = self._reader.call() if self._reader is not None else None
        calls = [] if call is None else [tool_call_chunk(name=call[0], args=call[1], id=None, index=0)]
        metadata = {"finish_reason": self._reason, "model_name": self._model.model}
        return AIMessageChunk(
            content="", tool_call_chunks=calls, usage_metadata=self._usage, response_metadata=metadata
        )

    def _error(self, error: dict[str, Any]) -> ModelError:
        name, reason = self._model.model, str(error.get("message", error)).rstrip(".")
        if error.get("type") == _TOO_LONG:
            advice = ModelContextError.advice
            return ModelContextError(f"The conversation is too long for the model '{name}': {reason}. {advice}")
        return ModelRequestError(f"{_LABEL} '{name}' failed: {reason}.")


async def _in_thread(speak: Callable[[Callable[[Any], bool]], None]) -> AsyncGenerator[Any, None]:
    """What `speak` passes on. Leaving early tells it to stop, and does not wait until it has."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[Any] = asyncio.Queue()
    has_left = threading.Event()
    end = object()

    def put(piece: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

    def hear(piece: object) -> bool:
        put(piece)
        return has_left.is_set()

    def work() -> None:
        try:
            speak(hear)
        except ModelError as error:
            put(error)
        finally:
            put(end)

    # No daemon: one that is inside llama.cpp when the interpreter ends would crash it.
    threading.Thread(target=work, name="toolrun").start()
    try:
        while (piece := await pieces.get()) is not end:
            if isinstance(piece, ModelError):
                raise piece
            yield piece
    finally:
        has_left.set()


class LocalClient(ModelClient):
    """Asks the model in a GGUF file."""

    def __init__(
        self,
        executor: ToolExecutor,
        path: str | Path,
        *,
        system: str | None = None,
        limits: TurnLimits = TurnLimits(),  # noqa: B008  frozen, so one for all is fine
        wording: Wording | str | Path | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of `LocalChatModel`: `context`, `max_tokens`, `temperature`, `threads`."""
        chat_model = LocalChatModel(path, **options)
        super().__init__(chat_model, executor, system=system, limits=limits, wording=wording)
        self.provider = Provider(_LABEL, "openai")
        self.about = About(_LABEL, chat_model.model, str(path))

    async def _find_abilities(self) -> Abilities:
        return Abilities(getattr(self.chat_model, "context", None))
