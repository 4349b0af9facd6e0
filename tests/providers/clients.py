"""Clients over their servers, so that one test runs through every provider package, streamed and not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from providers.anthropic import AnthropicServer
from providers.base import Server
from providers.ollama import OllamaServer
from providers.openai import OpenAIServer
from providers.rules import blocks
from toolrun import ToolExecutor
from toolrun.clients import AnthropicClient, ModelClient, OllamaClient

ANTHROPIC_MODEL = "claude-sonnet-5-5"
OLLAMA_MODEL = "qwen3:0.6b"
OPENAI_MODEL = "gpt-5"
KINDS = ["anthropic streamed", "anthropic whole", "ollama streamed", "ollama whole"]
ALL_KINDS = [*KINDS, "openai streamed", "openai whole"]


@dataclass
class Side:
    """A provider's server, and what makes clients of it."""

    provider: str
    server: Server
    streams: bool

    def client(self, executor: ToolExecutor, **options: Any) -> ModelClient:
        options = {"disable_streaming": not self.streams, **options}
        if self.provider == "anthropic":
            return AnthropicClient(executor, ANTHROPIC_MODEL, "key", self.server.url, **{"max_retries": 0, **options})
        if self.provider == "openai":
            more = {name: options.pop(name) for name in ("limits", "system", "wording") if name in options}
            model = ChatOpenAI(
                model=OPENAI_MODEL,
                base_url=self.server.url,
                api_key=SecretStr("key"),
                max_retries=0,
                stream_usage=True,
                **options,
            )
            return ModelClient(model, executor, **more)
        client = OllamaClient(executor, OLLAMA_MODEL, self.server.url, **options)
        client.retry_delays = ()
        return client

    @property
    def cut_off(self) -> str:
        """What the provider calls an end by the limit on tokens."""
        return "max_tokens" if self.provider == "anthropic" else "length"

    def results(self, request: int) -> list[str]:
        """The texts of the tool results in a request, as they were sent."""
        messages = self.server.bodies[request]["messages"]
        if self.provider != "anthropic":
            return [_text(message["content"]) for message in messages if message["role"] == "tool"]
        found = [block for message in messages for block in blocks(message) if block["type"] == "tool_result"]
        return [_text(block["content"]) for block in found]

    def said(self, request: int) -> list[str]:
        """What users and models said in a request, in order."""
        messages = self.server.bodies[request]["messages"]
        if self.provider != "anthropic":
            said = [it for it in messages if it["role"] in ("user", "assistant") and it.get("content")]
            return [_text(it["content"]) for it in said]
        return [block["text"] for message in messages for block in blocks(message) if block["type"] == "text"]

    def offered(self, request: int) -> list[str]:
        """The names of the tools that the model could use in a request."""
        body = self.server.bodies[request]
        if body.get("tool_choice") in ("none", {"type": "none"}):
            return []
        return [tool["name"] if "name" in tool else tool["function"]["name"] for tool in body.get("tools") or []]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@contextmanager
def open_side(kind: str) -> Iterator[Side]:
    """One of KINDS. At the end no request may have broken a rule of the provider."""
    provider, mode = kind.split()
    servers: dict[str, type[Server]] = {"anthropic": AnthropicServer, "ollama": OllamaServer, "openai": OpenAIServer}
    with servers[provider]() as server:
        yield Side(provider, server, mode == "streamed")
    assert server.violations == []
    assert server.remaining == 0, "the client did not ask for all answers of the script"


def shape(messages: list[BaseMessage]) -> list[str]:
    """The types of messages, for a glance."""
    return [message.type for message in messages]
