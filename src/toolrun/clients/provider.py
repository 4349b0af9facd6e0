"""What the loop has to know about a provider, by the package of the chat model. Values only."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    content_blocks: frozenset[str] | None = None
    """The content blocks that its package takes from users, beside text and images. None: any."""
    shows_images_in_results: bool = False
    """Whether the result of a call may have images. Where not, they follow in a message of the user."""
    takes_urls: bool = True
    """Whether users may show an image or a file by its address. Where not, the package would fetch it itself, from this
    machine and on its event loop, or refuse it: the content must be in the message."""
    answer_blocks: str | None = None
    """A pattern for the content blocks of its own answers that may be sent back to it. None: any."""
    forces_calls: bool = True
    """Whether a request can say that the model has to call a tool."""
    reads_calls_in_text: bool = False
    """Whether its models, which may be small ones, write calls as the text of their answer."""


_FILES: Final = frozenset({"file", "audio", "video", "media"})
_BY_PACKAGE: Final = {
    "langchain_anthropic": Provider(
        "Anthropic",
        "anthropic",
        "anthropic",
        no_tools={"type": "none"},
        end="stop_reason",
        content_blocks=frozenset({"document", "file", "text-plain", "search_result", "container_upload"}),
        answer_blocks=r"text|.*thinking|reasoning|.*tool.*|input_json_delta|non_standard|compaction",
        shows_images_in_results=True,
    ),
    "langchain_ollama": Provider(
        "Ollama",
        "ollama",
        "ollama",
        end="done_reason",
        content_blocks=frozenset(),
        answer_blocks="text",
        shows_images_in_results=True,
        takes_urls=False,
        forces_calls=False,
        reads_calls_in_text=True,
    ),
    # Chat Completions: the results of tools are text.
    "langchain_openai": Provider(
        "OpenAI",
        "openai",
        "openai",
        no_tools="none",
        end="finish_reason",
        content_blocks=frozenset({"file", "audio", "input_audio"}),
        answer_blocks=r"text|refusal|.*thinking|reasoning|.*tool.*|.*_call.*|mcp_.*|input_json_delta|non_standard",
    ),
    "langchain_google_genai": Provider(
        "Gemini",
        "gemini",
        "google_genai",
        no_tools="none",
        end="finish_reason",
        content_blocks=_FILES,
        shows_images_in_results=True,
        takes_urls=False,
    ),
    "langchain_google_vertexai": Provider(
        "Gemini",
        "gemini",
        "google_vertexai",
        no_tools="none",
        content_blocks=_FILES,
        shows_images_in_results=True,
        takes_urls=False,
    ),
}


def provider_of(chat_model: object) -> Provider:
    """The provider of a chat model. Unknown ones take OpenAI's format, as all of LangChain's chat models do."""
    for cls in type(chat_model).__mro__:
        found = _BY_PACKAGE.get(cls.__module__.partition(".")[0])
        if found is not None:
            # The Responses API, unlike Chat Completions, takes images in results.
            is_responses = getattr(chat_model, "use_responses_api", False) is True
            return replace(found, shows_images_in_results=True, end="status") if is_responses else found
    return Provider(type(chat_model).__name__, "openai")


def model_name(chat_model: object) -> str:
    for attribute in ("model", "model_name"):
        name = getattr(chat_model, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(chat_model).__name__
