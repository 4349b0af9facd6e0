"""OpenAI's models, and every server that speaks its protocol (LM Studio, vLLM, llama.cpp, OpenRouter)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolrun.clients.model_client import ModelClient
from toolrun.clients.model_error import About, ModelAuthError
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.extra import missing

try:
    from langchain_openai import ChatOpenAI
except ImportError as error:
    raise missing("openai", error) from error

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

_IF_UNAUTHORISED: Final = "Pass api_key=…, or set OPENAI_API_KEY."
_NO_KEY: Final = "none"
"""What servers of one's own get, which want some key and look at none."""


class OpenAIClient(ModelClient):
    """Asks a model of OpenAI, or with `base_url` of any server with the same protocol. The package itself retries."""

    def __init__(
        self,
        executor: ToolExecutor,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        system: str | None = None,
        limits: TurnLimits = TurnLimits(),  # noqa: B008  frozen, so one for all is fine
        wording: Wording | str | Path | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of `ChatOpenAI`: `temperature`, `max_tokens`, `use_responses_api`, `max_retries`, …

        OPENAI_API_KEY is for OpenAI, or for the server that OPENAI_BASE_URL names: a `base_url` does not get it.
        """
        has_own_server = base_url is not None
        api_key = api_key or (_NO_KEY if has_own_server else os.environ.get("OPENAI_API_KEY"))
        if not api_key and os.environ.get("OPENAI_BASE_URL"):
            api_key = _NO_KEY
        if not api_key and "default_headers" not in options:
            raise ModelAuthError(f"There is no API key for OpenAI. {_IF_UNAUTHORISED}")
        if has_own_server:
            options = {"use_responses_api": False, **options}  # which few servers have
        given: dict[str, Any] = {"stream_usage": True, **options, "api_key": api_key or _NO_KEY}
        if has_own_server:
            given["base_url"] = base_url
        chat_model = ChatOpenAI(model=model, **given)
        super().__init__(chat_model, executor, system=system, limits=limits, wording=wording)
        address = str(base_url or chat_model.openai_api_base or os.environ.get("OPENAI_BASE_URL") or "")
        self.about = About(
            "The server" if has_own_server else "OpenAI",
            model,
            address,
            if_unreachable=f"Is the server running at {address}?" if address else "Check the network.",
            if_unauthorised="Pass api_key=…." if has_own_server else _IF_UNAUTHORISED,
            if_not_found="Check the name of the model.",
        )
