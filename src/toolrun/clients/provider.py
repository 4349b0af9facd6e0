"""What the loop has to know about a provider, by the package of the chat model. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Provider:
    """How a provider and its package behave."""

    label: str
    dialect: str
    """The dialect in which it takes tools: a key of `dialect.PROVIDERS`."""
    origin: str = ""
    """The `model_provider` in the metadata of its answers."""
    no_tools: Any = None
    """The `tool_choice` that forbids calls, of the package's type. None: requests without calls leave the tools out."""
    end: str = ""
    """The key in `response_metadata` that every complete answer has. Empty: there is none."""


_BY_PACKAGE: Final = {
    "langchain_anthropic": Provider("Anthropic", "anthropic", "anthropic", {"type": "none"}, "stop_reason"),
    "langchain_ollama": Provider("Ollama", "ollama", "ollama", None, "done_reason"),
    "langchain_openai": Provider("OpenAI", "openai", "openai", "none"),
    "langchain_google_genai": Provider("Gemini", "gemini", "google_genai", "none"),
    "langchain_google_vertexai": Provider("Gemini", "gemini", "google_vertexai", "none"),
}


def provider_of(chat_model: object) -> Provider:
    """The provider of a chat model. Unknown ones take OpenAI's format, as all of LangChain's chat models do."""
    for cls in type(chat_model).__mro__:
        found = _BY_PACKAGE.get(cls.__module__.partition(".")[0])
        if found is not None:
            return found
    return Provider(type(chat_model).__name__, "openai")


def model_name(chat_model: object) -> str:
    for attribute in ("model", "model_name"):
        name = getattr(chat_model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(chat_model).__name__
