"""Models that use the tools: one loop for all providers, and a thin client for each.

The names below are imported when they are first asked for, so that importing this package loads no provider's.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.clients.anthropic import AnthropicClient as AnthropicClient
    from toolrun.clients.choice import Choice as Choice
    from toolrun.clients.choice import choose as choose
    from toolrun.clients.choice import open_client as open_client
    from toolrun.clients.client import ModelClient as ModelClient
    from toolrun.clients.errors import ModelAuthError as ModelAuthError
    from toolrun.clients.errors import ModelContextError as ModelContextError
    from toolrun.clients.errors import ModelError as ModelError
    from toolrun.clients.errors import ModelNotFoundError as ModelNotFoundError
    from toolrun.clients.errors import ModelOverloadedError as ModelOverloadedError
    from toolrun.clients.errors import ModelProtocolError as ModelProtocolError
    from toolrun.clients.errors import ModelRequestError as ModelRequestError
    from toolrun.clients.errors import ModelTimeoutError as ModelTimeoutError
    from toolrun.clients.errors import ModelUnavailableError as ModelUnavailableError
    from toolrun.clients.events import Done as Done
    from toolrun.clients.events import Ended as Ended
    from toolrun.clients.events import Event as Event
    from toolrun.clients.events import Reply as Reply
    from toolrun.clients.events import Text as Text
    from toolrun.clients.events import ToolFinished as ToolFinished
    from toolrun.clients.events import ToolProgress as ToolProgress
    from toolrun.clients.events import ToolStarted as ToolStarted
    from toolrun.clients.events import Usage as Usage
    from toolrun.clients.limits import TurnLimits as TurnLimits
    from toolrun.clients.local.client import LocalChatModel as LocalChatModel
    from toolrun.clients.local.client import LocalClient as LocalClient
    from toolrun.clients.ollama import OllamaClient as OllamaClient
    from toolrun.clients.wording import Wording as Wording


def _missing(module: str, error: ModuleNotFoundError) -> Exception | None:
    """Without LangChain: which extra to install."""
    if error.name is None or not error.name.startswith("langchain_core"):
        return None
    from toolrun.clients.extra import missing

    return missing({"anthropic": "anthropic", "local.client": "local"}.get(module, "ollama"), error)


__getattr__, __dir__, __all__ = export(
    __name__,
    {
        "anthropic": ["AnthropicClient"],
        "choice": ["Choice", "choose", "open_client"],
        "client": ["ModelClient"],
        "errors": [
            "ModelAuthError",
            "ModelContextError",
            "ModelError",
            "ModelNotFoundError",
            "ModelOverloadedError",
            "ModelProtocolError",
            "ModelRequestError",
            "ModelTimeoutError",
            "ModelUnavailableError",
        ],
        "events": ["Done", "Ended", "Event", "Reply", "Text", "ToolFinished", "ToolProgress", "ToolStarted", "Usage"],
        "limits": ["TurnLimits"],
        "local.client": ["LocalChatModel", "LocalClient"],
        "ollama": ["OllamaClient"],
        "wording": ["Wording"],
    },
    _missing,
)
