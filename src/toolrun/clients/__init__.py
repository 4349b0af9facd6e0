"""Models that call tools: one loop for all providers, and a thin client for each.

The names below are imported on first use, so that importing this package loads no provider package.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.clients.anthropic import AnthropicClient as AnthropicClient
    from toolrun.clients.choice import Choice as Choice
    from toolrun.clients.choice import choose as choose
    from toolrun.clients.choice import open_client as open_client
    from toolrun.clients.google import GoogleClient as GoogleClient
    from toolrun.clients.local.local_client import LocalChatModel as LocalChatModel
    from toolrun.clients.local.local_client import LocalClient as LocalClient
    from toolrun.clients.loop import Turn as Turn
    from toolrun.clients.model_client import ModelClient as ModelClient
    from toolrun.clients.model_error import ModelAuthError as ModelAuthError
    from toolrun.clients.model_error import ModelContextError as ModelContextError
    from toolrun.clients.model_error import ModelError as ModelError
    from toolrun.clients.model_error import ModelNotFoundError as ModelNotFoundError
    from toolrun.clients.model_error import ModelOverloadedError as ModelOverloadedError
    from toolrun.clients.model_error import ModelProtocolError as ModelProtocolError
    from toolrun.clients.model_error import ModelReplyError as ModelReplyError
    from toolrun.clients.model_error import ModelRequestError as ModelRequestError
    from toolrun.clients.model_error import ModelTimeoutError as ModelTimeoutError
    from toolrun.clients.model_error import ModelUnavailableError as ModelUnavailableError
    from toolrun.clients.ollama import OllamaClient as OllamaClient
    from toolrun.clients.openai import OpenAIClient as OpenAIClient
    from toolrun.clients.turn_event import Done as Done
    from toolrun.clients.turn_event import Ended as Ended
    from toolrun.clients.turn_event import Event as Event
    from toolrun.clients.turn_event import Reply as Reply
    from toolrun.clients.turn_event import Text as Text
    from toolrun.clients.turn_event import Thought as Thought
    from toolrun.clients.turn_event import ToolArguments as ToolArguments
    from toolrun.clients.turn_event import ToolFinished as ToolFinished
    from toolrun.clients.turn_event import ToolProgress as ToolProgress
    from toolrun.clients.turn_event import ToolStarted as ToolStarted
    from toolrun.clients.turn_event import Usage as Usage
    from toolrun.clients.turn_limits import TurnLimits as TurnLimits
    from toolrun.clients.wording import Wording as Wording


def _missing(module: str, error: ModuleNotFoundError) -> Exception | None:
    """The error for a missing LangChain, which names the extra to install."""
    if error.name is None or not error.name.startswith("langchain_core"):
        return None
    from toolrun.extra import missing

    extras = {name: name for name in ("anthropic", "google", "ollama", "openai")} | {"local.local_client": "local"}
    return missing(extras.get(module, "langchain"), error)


__getattr__, __dir__, __all__ = export(
    __name__,
    {
        "anthropic": ["AnthropicClient"],
        "choice": ["Choice", "choose", "open_client"],
        "google": ["GoogleClient"],
        "local.local_client": ["LocalChatModel", "LocalClient"],
        "loop": ["Turn"],
        "model_client": ["ModelClient"],
        "model_error": [
            "ModelAuthError",
            "ModelContextError",
            "ModelError",
            "ModelNotFoundError",
            "ModelOverloadedError",
            "ModelProtocolError",
            "ModelReplyError",
            "ModelRequestError",
            "ModelTimeoutError",
            "ModelUnavailableError",
        ],
        "ollama": ["OllamaClient"],
        "openai": ["OpenAIClient"],
        "turn_event": [
            "Done",
            "Ended",
            "Event",
            "Reply",
            "Text",
            "Thought",
            "ToolArguments",
            "ToolFinished",
            "ToolProgress",
            "ToolStarted",
            "Usage",
        ],
        "turn_limits": ["TurnLimits"],
        "wording": ["Wording"],
    },
    _missing,
)
