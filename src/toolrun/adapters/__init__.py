"""The executor inside other frameworks, one file for each. Their packages are imported on first use.

Everywhere the same: an executor answers each call, so a failure of a tool is an answer that the model reads, and never
an exception that ends the run. Only the cancellation of the caller is raised.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.adapters.anthropic_sdk import AnthropicTools as AnthropicTools
    from toolrun.adapters.fastapi import get_executor as get_executor
    from toolrun.adapters.fastapi import get_runtime as get_runtime
    from toolrun.adapters.fastapi import runtime_lifespan as runtime_lifespan
    from toolrun.adapters.langchain import ToolrunTool as ToolrunTool
    from toolrun.adapters.langchain import langchain_tools as langchain_tools
    from toolrun.adapters.langchain_agent import ToolrunMiddleware as ToolrunMiddleware
    from toolrun.adapters.langgraph import ToolrunNode as ToolrunNode
    from toolrun.adapters.openai_agents import ToolrunAgent as ToolrunAgent
    from toolrun.adapters.openai_agents import agents_tools as agents_tools
    from toolrun.adapters.openai_sdk import OpenAITools as OpenAITools
    from toolrun.adapters.pydantic_ai import ToolrunToolset as ToolrunToolset

_INSTALL = {
    "fastapi": "fastapi",
    "langchain": "'toolrun[langchain]'",
    "langchain_agent": "'toolrun[langchain]'",
    "langgraph": "'toolrun[langchain]'",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
}


def _missing(module: str, error: ModuleNotFoundError) -> Exception | None:
    """The error for a framework that is not installed."""
    if module not in _INSTALL or error.name is None or error.name.startswith("toolrun"):
        return None
    from toolrun.extra import not_installed

    return not_installed(error, f"pip install {_INSTALL[module]}", f"{__name__}.{module}")


__getattr__, __dir__, __all__ = export(
    __name__,
    {
        "anthropic_sdk": ["AnthropicTools"],
        "fastapi": ["get_executor", "get_runtime", "runtime_lifespan"],
        "langchain": ["ToolrunTool", "langchain_tools"],
        "langchain_agent": ["ToolrunMiddleware"],
        "langgraph": ["ToolrunNode"],
        "openai_agents": ["ToolrunAgent", "agents_tools"],
        "openai_sdk": ["OpenAITools"],
        "pydantic_ai": ["ToolrunToolset"],
    },
    _missing,
)
