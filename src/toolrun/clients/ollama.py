"""Ollama's models, through `langchain-ollama`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolrun.clients.model_client import ModelClient
from toolrun.clients.model_error import About
from toolrun.clients.result_content import UNKNOWN_CAPABILITIES, Capabilities, ImageSupport
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.extra import missing

try:
    import httpx
    import ollama
    from langchain_ollama import ChatOllama
except ImportError as error:
    raise missing("ollama", error) from error

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

DEFAULT_URL: Final = "http://127.0.0.1:11434"
_CONNECT_TIMEOUT: Final = 10.0
_METADATA_TIMEOUT: Final = 5.0


class OllamaClient(ModelClient):
    """Asks a model of a local or remote Ollama."""

    retry_delays: Sequence[float] = (0.5, 2.0)

    def __init__(
        self,
        executor: ToolExecutor,
        model: str,
        base_url: str | None = None,
        *,
        system: str | None = None,
        limits: TurnLimits = TurnLimits(),  # noqa: B008  frozen, so one for all is fine
        wording: Wording | str | Path | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of `ChatOllama`: `num_ctx`, `temperature`, `reasoning`, `keep_alive`, …"""
        options["client_kwargs"] = {
            "timeout": httpx.Timeout(limits.answer_time, connect=_CONNECT_TIMEOUT),
            # A kept-alive connection belongs to one event loop; a new one costs next to nothing on the same machine.
            "limits": httpx.Limits(max_keepalive_connections=0),
            **options.get("client_kwargs", {}),
        }
        chat_model = ChatOllama(model=model, base_url=base_url, **options)
        super().__init__(chat_model, executor, system=system, limits=limits, wording=wording)
        self._base_url = base_url
        address = base_url or DEFAULT_URL
        self.about = About(
            "Ollama",
            model,
            address,
            if_unreachable=f"Is Ollama running at {address}? Start it with `ollama serve`.",
            if_unauthorised="Set OLLAMA_API_KEY, or put the name and password into base_url.",
            if_not_found=f"Get it with `ollama pull {model}`.",
        )

    async def _find_capabilities(self) -> Capabilities:
        """What Ollama reports about the model. The size of the context is known only while the model is loaded."""
        tokens = getattr(self.chat_model, "num_ctx", None)
        try:
            async with ollama.AsyncClient(self._base_url, timeout=_METADATA_TIMEOUT) as client:
                shown = await client.show(self.about.model)
                loaded = (await client.ps()).models if tokens is None else []
        except (httpx.HTTPError, ollama.ResponseError, ConnectionError, ValueError):
            return Capabilities(tokens)
        sees = "vision" in (shown.capabilities or ())
        sizes = [getattr(it, "context_length", None) for it in loaded if it.model == self.about.model]
        return Capabilities(
            tokens or next(filter(None, sizes), UNKNOWN_CAPABILITIES.context_tokens),
            ImageSupport.IN_RESULT if sees else ImageSupport.NONE,
            refuses_images=shown.capabilities is not None and not sees,
        )
