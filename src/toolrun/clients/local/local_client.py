"""A model in a GGUF file, run in this process by `xllamacpp` (llama.cpp). It calls tools by constrained output.

llama.cpp computes in a thread, so the event loop stays free. Abandoning an answer stops llama.cpp at the next token, or
at the next batch while it still processes the prompt.
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

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_ai_message_chunks
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.messages.utils import message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from toolrun.clients.local import constrained
from toolrun.clients.model_client import ModelClient
from toolrun.clients.model_error import About, ModelContextError, ModelError, ModelRequestError
from toolrun.clients.provider import Provider
from toolrun.clients.result_content import Capabilities
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.errors import ConfigError
from toolrun.extra import missing

try:
    import xllamacpp
except ImportError as error:
    raise missing("local", error) from error

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

_BATCH_TOKENS: Final = 512
"""Tokens of the prompt in one batch. Processing can be stopped between batches."""
_LABEL: Final = "The local model"
_CONTEXT_EXCEEDED: Final = "exceed_context_size_error"


def _threads() -> int:
    """Half of the cores. llama.cpp's threads wait for each other all the time: one without a core delays all."""
    return max(1, (os.cpu_count() or 2) // 2)


class LocalChatModel(BaseChatModel):
    """A LangChain chat model for a GGUF file. The constructor loads the file, which may take seconds."""

    path: str
    context: int = 8192
    """The size of the context in tokens. A model trained with less uses less."""
    max_tokens: int = 2048
    """The limit for one answer."""
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

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """`tool_choice="none"`: the model sees the tools and what they returned, but can only answer."""
        converted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=converted, may_call=tool_choice != "none", **options)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        completion = _Completion(self, messages, stop, **more)
        chunks: list[AIMessageChunk] = []
        errors: list[ModelError] = []

        def on_piece(piece: dict[str, Any]) -> bool:
            try:
                chunks.extend(completion.parse_piece(piece))
            except ModelError as error:  # llama.cpp would swallow the exception
                errors.append(error)
            return bool(errors)

        completion.run(on_piece)
        if errors:
            raise errors[0]
        whole = add_ai_message_chunks(*chunks, completion.last_chunk())
        return ChatResult(generations=[ChatGeneration(message=message_chunk_to_message(whole))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        completion = _Completion(self, messages, stop, **more)
        async with contextlib.aclosing(_stream_from_thread(completion.run)) as pieces:
            async for piece in pieces:
                for chunk in completion.parse_piece(piece):
                    yield ChatGenerationChunk(message=chunk)
        yield ChatGenerationChunk(message=completion.last_chunk())


def _load(model: LocalChatModel) -> Any:
    if not Path(model.path).is_file():
        raise ConfigError(f"There is no file {model.path}. Name a GGUF file: local:PATH/TO/MODEL.gguf")
    options = xllamacpp.CommonParams()
    options.model.path = model.path
    options.n_ctx = model.context
    options.n_batch = options.n_ubatch = _BATCH_TOKENS
    options.n_parallel = 1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = model.threads
    options.verbosity = -1  # llama.cpp would write to stdout
    # llama.cpp always listens on a local port. The key keeps other programs out.
    options.api_keys = [secrets.token_urlsafe()]
    options.ui = False
    try:
        return xllamacpp.Server(options)
    except RuntimeError as error:
        raise ConfigError(
            f"{model.path} cannot be loaded: it is not a GGUF file, or there is not enough memory."
        ) from error


class _Completion:
    """One chat completion of llama.cpp: the request, and its response piece by piece."""

    def __init__(
        self,
        model: LocalChatModel,
        messages: Sequence[BaseMessage],
        stop: Sequence[str] | None,
        tools: Sequence[Any] = (),
        may_call: bool = True,
        **more: Any,
    ) -> None:
        offered = constrained.function_definitions(tools)
        self._model = model
        self._parser = constrained.OutputParser() if offered else None
        self._reason = "stop"
        self._usage: UsageMetadata | None = None
        self._body: dict[str, Any] = {
            "messages": constrained.chat_messages(messages, offered),
            "temperature": model.temperature,
            "max_tokens": model.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,  # so that `on_piece` is called while the prompt is processed
            "chat_template_kwargs": {"enable_thinking": False},
            **({"stop": list(stop)} if stop else {}),
            **more,
        }
        if offered:
            schema = {"name": "reply", "schema": constrained.output_schema(offered if may_call else ())}
            self._body["response_format"] = {"type": "json_schema", "json_schema": schema}

    def run(self, on_piece: Callable[[dict[str, Any]], bool]) -> None:
        """Compute the answer and call `on_piece` with each piece, until it returns True. Blocks. Raises ModelError."""
        try:
            self._model._server.handle_chat_completions(self._body, on_piece)
        except (ValueError, RuntimeError) as error:
            raise ModelRequestError(f"{_LABEL} '{self._model.model}' refused the request: {error}") from error

    def parse_piece(self, piece: dict[str, Any]) -> list[AIMessageChunk]:
        """The new text in a piece, if there is any. Raises ModelError."""
        if "error" in piece:
            raise self._error(piece["error"])
        if "usage" in piece:
            read, written = piece["usage"]["prompt_tokens"], piece["usage"]["completion_tokens"]
            self._usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
        for choice in piece.get("choices", ()):
            self._reason = choice.get("finish_reason") or self._reason
            content = choice["delta"].get("content") or ""
            text = self._parser.feed(content) if self._parser is not None else content
            if text:
                return [AIMessageChunk(content=text)]
        return []

    def last_chunk(self) -> AIMessageChunk:
        """The last chunk, with the tool call if there is one, and the metadata."""
        call = self._parser.tool_call() if self._parser is not None else None
        calls = [] if call is None else [tool_call_chunk(name=call[0], args=call[1], id=None, index=0)]
        metadata = {"finish_reason": self._reason, "model_name": self._model.model}
        return AIMessageChunk(
            content="", tool_call_chunks=calls, usage_metadata=self._usage, response_metadata=metadata
        )

    def _error(self, error: dict[str, Any]) -> ModelError:
        name, reason = self._model.model, str(error.get("message", error)).rstrip(".")
        if error.get("type") == _CONTEXT_EXCEEDED:
            advice = ModelContextError.advice
            return ModelContextError(f"The conversation is too long for the model '{name}': {reason}. {advice}")
        return ModelRequestError(f"{_LABEL} '{name}' failed: {reason}.")


async def _stream_from_thread(
    run: Callable[[Callable[[dict[str, Any]], bool]], None],
) -> AsyncGenerator[dict[str, Any], None]:
    """The pieces that `run` produces in a thread. Leaving early tells it to stop, without waiting for that."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[Any] = asyncio.Queue()
    is_abandoned = threading.Event()
    end = object()

    def put(piece: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

    def on_piece(piece: object) -> bool:
        put(piece)
        return is_abandoned.is_set()

    def work() -> None:
        try:
            run(on_piece)
        except ModelError as error:
            put(error)
        finally:
            put(end)

    # Not a daemon: a thread that is inside llama.cpp when the interpreter exits would crash it.
    threading.Thread(target=work, name="toolrun").start()
    try:
        while (piece := await pieces.get()) is not end:
            if isinstance(piece, ModelError):
                raise piece
            yield piece
    finally:
        is_abandoned.set()


class LocalClient(ModelClient):
    """Asks a model in a GGUF file."""

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
        self.provider = Provider(_LABEL, "openai", no_tools="none")
        self.about = About(_LABEL, chat_model.model, str(path))

    async def _find_capabilities(self) -> Capabilities:
        return Capabilities(getattr(self.chat_model, "context", None), refuses_images=True)
