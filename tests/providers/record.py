"""What the chat models of LangChain send for our tools, recorded in `recorded/`.

`PYTHONPATH=tests python -m providers.record` writes the files anew; a look at the difference is the review.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_ollama import ChatOllama
from pydantic import SecretStr

from providers.anthropic import AnthropicServer
from providers.base import Server, Step
from providers.offered import TOOLS
from providers.ollama import OllamaServer
from toolrun.clients.bindable import bindable
from toolrun.clients.dialect import for_provider
from toolrun.tools.protocol import schema_of

RECORDED = Path(__file__).parent / "recorded"
QUESTION = "What can you do?"


def plain() -> list[dict[str, Any]]:
    """The tools with their schemas as they are, in the form that `bind_tools` takes."""
    return [
        {
            "type": "function",
            "function": {"name": it.name, "description": it.description, "parameters": dict(schema_of(it))},
        }
        for it in TOOLS
    ]


def ask(server: Server, model: BaseChatModel, tools: Sequence[Any]) -> dict[str, Any]:
    """The body of the one request that a question makes."""
    server.play(Step(text="This and that."))
    model.bind_tools(tools).invoke(QUESTION)
    assert not server.violations
    return server.requests[-1].body


def bodies() -> dict[str, dict[str, Any]]:
    """The requests by the name of the file that they are in."""
    with OllamaServer() as ollama, AnthropicServer() as anthropic:
        qwen = ChatOllama(base_url=ollama.url, model="qwen3:0.6b", temperature=0)
        claude = ChatAnthropic(  # type: ignore[call-arg]
            base_url=anthropic.url, api_key=SecretStr("x"), model="claude-test", max_tokens=1000
        )
        with closing(qwen._client):
            return {
                "ollama": ask(ollama, qwen, bindable(for_provider(TOOLS, "ollama"))),
                "ollama_without_us": ask(ollama, qwen, plain()),
                "anthropic": ask(anthropic, claude, bindable(for_provider(TOOLS, "anthropic"))),
            }


def recorded(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    return body


if __name__ == "__main__":
    RECORDED.mkdir(exist_ok=True)
    for name, body in bodies().items():
        text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
        (RECORDED / f"{name}.json").write_text(text, encoding="utf-8")
