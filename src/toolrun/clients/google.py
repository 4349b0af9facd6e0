"""Google's Gemini models, through `langchain-google-genai`."""

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
    from langchain_google_genai import ChatGoogleGenerativeAI
except ImportError as error:
    raise missing("google", error) from error

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

_IF_UNAUTHORISED: Final = "Pass api_key=…, or set GOOGLE_API_KEY or GEMINI_API_KEY."


class GoogleClient(ModelClient):
    """Asks a Gemini model. The package itself retries when the service is overloaded."""

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
        """`options` are those of `ChatGoogleGenerativeAI`: `temperature`, `max_tokens`, `thinking_level`, …"""
        api_key = api_key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
        if not api_key and "credentials" not in options and not options.get("vertexai"):
            raise ModelAuthError(f"There is no API key for Google. {_IF_UNAUTHORISED}")
        given: dict[str, Any] = {"model": model, "api_key": api_key, "base_url": base_url, **options}
        chat_model = ChatGoogleGenerativeAI(**{name: value for name, value in given.items() if value is not None})
        super().__init__(chat_model, executor, system=system, limits=limits, wording=wording)
        self.about = About(
            "Gemini",
            model,
            base_url or "",
            if_unreachable="Check the network, and base_url if you set it.",
            if_unauthorised=_IF_UNAUTHORISED,
            if_not_found="Check the name of the model.",
        )
