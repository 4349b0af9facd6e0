"""Large results and images, through the real provider packages over HTTP."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from providers.base import Asked, Step
from providers.clients import ANTHROPIC_MODEL, KINDS, OLLAMA_MODEL, Side, open_side
from providers.ollama import OllamaServer
from providers.rules import blocks
from toolrun import ToolExecutor
from toolrun.clients import AnthropicClient, OllamaClient

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n pretend").decode()


@pytest.fixture(autouse=True)
def tools(executor: ToolExecutor) -> None:
    @executor.manager.add
    async def photograph(kind: str = "image/png") -> Any:
        """Take a picture."""
        return [{"type": "text", "text": "Click."}, {"type": "image", "data": PIXEL, "mimeType": kind}]

    @executor.manager.add
    async def read(size: int) -> str:
        """Read a long text."""
        return "x" * size


def sent_result(side: Side) -> Any:
    [result] = [it for it in blocks(side.server.bodies[1]["messages"][-1]) if it["type"] == "tool_result"]
    return result["content"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "anthropic" in kind])
async def test_anthropic_sees_images_in_results(executor: ToolExecutor, kind: str) -> None:
    with open_side(kind) as side:
        side.server.play(Step(calls=[Asked("photograph", {})]), Step(text="A pixel."))
        await side.client(executor).query("What do you see?")
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        assert sent_result(side) == [{"type": "text", "text": "Click."}, image]


async def test_an_image_that_anthropic_does_not_take_is_named(executor: ToolExecutor) -> None:
    with open_side("anthropic streamed") as side:
        side.server.play(Step(calls=[Asked("photograph", {"kind": "image/tiff"})]), Step(text="Nothing."))
        client = side.client(executor)
        await client.query("What do you see?")
        assert sent_result(side) == f"Click.\n{client.wording.image_not_shown.format(kind='image/tiff')}"


async def test_a_model_of_ollama_that_can_see_gets_images(executor: ToolExecutor) -> None:
    with OllamaServer(sees=True) as server:
        server.play(Step(calls=[Asked("photograph", {})]), Step(text="A pixel."))
        await OllamaClient(executor, OLLAMA_MODEL, server.url).query("What do you see?")
        result = server.bodies[1]["messages"][-1]
    assert result["role"] == "tool"
    assert result["content"].strip() == "Click."
    assert result["images"] == [PIXEL]


async def test_a_model_of_ollama_that_cannot_see_is_told_of_images(executor: ToolExecutor) -> None:
    with OllamaServer() as server:
        server.play(Step(calls=[Asked("photograph", {})]), Step(text="Nothing."))
        client = OllamaClient(executor, OLLAMA_MODEL, server.url)
        await client.query("What do you see?")
        result = server.bodies[1]["messages"][-1]
    assert result["content"] == f"Click.\n{client.wording.image_not_shown.format(kind='image/png')}"
    assert not result.get("images")


@pytest.mark.parametrize("options", [{}, {"num_ctx": 4096}], ids=["loaded", "set"])
async def test_results_are_cut_to_half_of_the_context_that_ollama_has(executor: ToolExecutor, options: Any) -> None:
    with OllamaServer(context_length=4096) as server:
        calls = [Asked("read", {"size": 90_000}), Asked("read", {"size": 50})]
        server.play(Step(calls=calls), Step(text="Long."))
        reply = await OllamaClient(executor, OLLAMA_MODEL, server.url, **options).query("Read.")
        long, short = [message["content"] for message in server.bodies[1]["messages"] if message["role"] == "tool"]
    assert len(short) == 50
    assert 3500 < len(long) < 4500
    assert "characters left out" in long
    assert len(str(reply.calls[0].result.result)) == 90_000


async def test_short_results_cost_no_question_about_the_model(executor: ToolExecutor) -> None:
    with OllamaServer() as server:
        server.play(Step(calls=[Asked("read", {"size": 50})]), Step(text="Short."))
        await OllamaClient(executor, OLLAMA_MODEL, server.url).query("Read.")
        assert server.others == []


async def test_results_are_cut_to_the_context_of_anthropics_model(executor: ToolExecutor) -> None:
    with open_side("anthropic streamed") as side:
        side.server.play(Step(calls=[Asked("read", {"size": 90_000})]), Step(text="Long."))
        small = {"max_input_tokens": 10_000, "image_tool_message": True}
        client = AnthropicClient(executor, ANTHROPIC_MODEL, "key", side.server.url, profile=small, max_tokens=100)
        await client.query("Read.")
        assert 19_000 < len(sent_result(side)) < 21_000
