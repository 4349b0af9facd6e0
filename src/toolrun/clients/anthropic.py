"""Anthropic's models, through `langchain-anthropic`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolrun.clients.model_client import ModelClient
from toolrun.clients.model_error import About, ModelAuthError
from toolrun.clients.turn_limits import TurnLimits
from toolrun.clients.wording import Wording
from toolrun.extra import missing

try:
    from langchain_anthropic import ChatAnthropic
except ImportError as error:
    raise missing("anthropic", error) from error

if TYPE_CHECKING:
    from toolrun.execution.executor import ToolExecutor

_IF_UNAUTHORISED = "Pass api_key=…, or set ANTHROPIC_API_KEY."


class AnthropicClient(ModelClient):
    """Asks a model of Anthropic. The package itself retries when the service is overloaded."""

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
        """`options` are those of `ChatAnthropic`: `temperature`, `max_tokens`, `thinking`, `max_retries`, …"""
        given: dict[str, Any] = {"model": model, "api_key": api_key, "base_url": base_url, **options}
        chat_model = ChatAnthropic(**{name: value for name, value in given.items() if value is not None})
        if not chat_model.anthropic_api_key.get_secret_value() and "default_headers" not in options:
            raise ModelAuthError(f"There is no API key for Anthropic. {_IF_UNAUTHORISED}")
        super().__init__(chat_model, executor, system=system, limits=limits, wording=wording)
        self.about = About(
            "Anthropic",
            model,
            str(chat_model.anthropic_api_url),
            if_unreachable="Check the network, and base_url if you set it.",
            if_unauthorised=_IF_UNAUTHORISED,
            if_not_found="Check the name of the model.",
        )
