"""Clients over their servers, so that one test runs through every provider package, streamed and not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from providers.anthropic import AnthropicServer
from providers.base import Server
from providers.google import GoogleServer
from providers.ollama import OllamaServer
from providers.openai import OpenAIServer
from providers.rules import blocks
from toolrun import ToolExecutor
from toolrun.clients import AnthropicClient, GoogleClient, ModelClient, OllamaClient, OpenAIClient

ANTHROPIC_MODEL = "claude-sonnet-5-5"
OLLAMA_MODEL = "qwen3:0.6b"
OPENAI_MODEL = "gpt-5"
GOOGLE_MODEL = "gemini-3.5-flash"
KINDS = [
    f"{provider} {mode}" for provider in ("anthropic", "ollama", "openai", "google") for mode in ("streamed", "whole")
]


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
            return OpenAIClient(executor, OPENAI_MODEL, "key", self.server.url, **{"max_retries": 0, **options})
        if self.provider == "google":
            return GoogleClient(executor, GOOGLE_MODEL, "key", self.server.url, **{"max_retries": 1, **options})
        client = OllamaClient(executor, OLLAMA_MODEL, self.server.url, **options)
        client.retry_delays = ()
        return client

    @property
    def cut_off(self) -> str:
        """What the provider calls an end by the limit on tokens."""
        return {"anthropic": "max_tokens", "google": "MAX_TOKENS"}.get(self.provider, "length")

    def results(self, request: int) -> list[str]:
        """The texts of the tool results in a request, as they were sent."""
        body = self.server.bodies[request]
        if self.provider == "google":
            found = [part["functionResponse"]["response"] for part in _parts(body) if "functionResponse" in part]
            return [_response_text(it) for it in found]
        messages = body["messages"]
        if self.provider != "anthropic":
            return [_text(message["content"]) for message in messages if message["role"] == "tool"]
        found = [block for message in messages for block in blocks(message) if block["type"] == "tool_result"]
        return [_text(block["content"]) for block in found]

    def said(self, request: int) -> list[str]:
        """What users and models said in a request, in order."""
        body = self.server.bodies[request]
        if self.provider == "google":
            return [part["text"] for part in _parts(body) if part.get("text") and not part.get("thought")]
        messages = body["messages"]
        if self.provider != "anthropic":
            said = [it for it in messages if it["role"] in ("user", "assistant") and it.get("content")]
            return [_text(it["content"]) for it in said]
        return [block["text"] for message in messages for block in blocks(message) if block["type"] == "text"]

    def offered(self, request: int) -> list[str]:
        """The names of the tools that the model could use in a request."""
        body = self.server.bodies[request]
        if body.get("tool_choice") in ("none", {"type": "none"}):
            return []
        if self.provider == "google":
            mode = (body.get("toolConfig") or {}).get("functionCallingConfig", {}).get("mode")
            tools = [it for tools in body.get("tools") or [] for it in tools.get("functionDeclarations") or []]
            return [] if mode == "NONE" else [tool["name"] for tool in tools]
        return [tool["name"] if "name" in tool else tool["function"]["name"] for tool in body.get("tools") or []]


def _parts(body: Any) -> list[Any]:
    return [part for content in body["contents"] for part in content["parts"]]


def _response_text(response: Any) -> str:
    [value] = response.values()
    return value if isinstance(value, str) else str(value)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@contextmanager
def open_side(kind: str) -> Iterator[Side]:
    """One of KINDS. At the end no request may have broken a rule of the provider."""
    provider, mode = kind.split()
    servers: dict[str, type[Server]] = {
        "anthropic": AnthropicServer,
        "google": GoogleServer,
        "ollama": OllamaServer,
        "openai": OpenAIServer,
    }
    with servers[provider]() as server:
        yield Side(provider, server, mode == "streamed")
    assert server.violations == []
    assert server.remaining == 0, "the client did not ask for all answers of the script"


def shape(messages: list[BaseMessage]) -> list[str]:
    """The types of messages, for a glance."""
    return [message.type for message in messages]
