"""Ollama's own API: `POST /api/chat` as one JSON object or as lines of JSON, and the questions about models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from providers.base import UNSET, Asked, Exchange, Server, Step, pieces
from providers.rules import ollama_problem, ollama_tool

_NOW = "2026-11-15T12:00:00.000000Z"


class OllamaServer(Server):
    """Use it as `ChatOllama(base_url=server.url, model=…)`."""

    def __init__(
        self, models: tuple[str, ...] = ("qwen3:0.6b",), *, sees: bool = False, context_length: int = 4096
    ) -> None:
        super().__init__()
        self.models = models
        """Those that were pulled; another one is answered with status 404."""
        self.sees = sees
        self.context_length = context_length

    @property
    def tools_as_read(self) -> list[dict[str, Any]]:
        """The tools of the last request as the server's types let them through to the model."""
        return [ollama_tool(tool) for tool in self.requests[-1].body.get("tools") or []]

    def answer(self, exchange: Exchange) -> None:
        if exchange.path != "/api/chat":
            self.others.append(exchange.request)
            return self._answer_question(exchange)
        self.requests.append(exchange.request)
        body = exchange.body
        step = self.next_step(body)
        if step is None:
            return exchange.send_json({"error": "the script is over"}, 400)
        if exchange.is_out_of_the_ordinary(step):
            return None
        if step.status != 200:
            return exchange.send_json({"error": step.error or "scripted"}, step.status, step.headers)
        if body.get("model") not in self.models:
            return exchange.send_json({"error": f"model '{body.get('model')}' not found"}, 404)
        problem = ollama_problem(body)
        if problem:
            self.violations.append(problem)
            return exchange.send_json({"error": problem}, 400)
        if body.get("stream", True):
            lines = (json.dumps(line).encode() + b"\n" for line in self._lines(body, step))
            return exchange.send_stream(step, "application/x-ndjson", lines)
        return exchange.send_json(self._whole(body, step))

    def _answer_question(self, exchange: Exchange) -> None:
        match exchange.path:
            case "/api/version":
                exchange.send_json({"version": "0.99.0"})
            case "/api/tags":
                exchange.send_json({"models": [_listed(name) for name in self.models]})
            case "/api/ps":
                loaded = [{**_listed(name), "context_length": self.context_length} for name in self.models]
                exchange.send_json({"models": loaded})
            case "/api/show" if exchange.body.get("model") not in self.models:
                exchange.send_json({"error": f"model '{exchange.body.get('model')}' not found"}, 404)
            case "/api/show":
                able = ["completion", "tools", *(["vision"] if self.sees else [])]
                about = {"general.architecture": "qwen3", "qwen3.context_length": 40960}
                exchange.send_json({"details": _DETAILS, "model_info": about, "capabilities": able})
            case "/":
                exchange.send_bytes(b"Ollama is running", headers={"content-type": "text/plain"})
            case _:
                exchange.send_json({"error": f"path {exchange.path!r} not found"}, 404)

    def _call(self, index: int, call: Asked) -> dict[str, Any]:
        arguments: Any = dict(call.arguments or {}) if call.raw is UNSET else call.raw
        id = self.new_id("call_") if call.id is None else call.id
        return {"id": id, "function": {"index": index, "name": call.name, "arguments": arguments}}

    def _lines(self, body: dict[str, Any], step: Step) -> Iterator[dict[str, Any]]:
        """As the real server: text and thoughts in pieces, each call whole and on a line of its own."""
        for piece in pieces(step.thinking, step.chunk):
            yield {**_head(body, content="", thinking=piece), "done": False}
        for piece in pieces(step.text, step.chunk):
            yield {**_head(body, content=piece), "done": False}
        for index, call in enumerate(step.calls):
            yield {**_head(body, content="", tool_calls=[self._call(index, call)]), "done": False}
        if step.error:
            yield {"error": step.error}
        else:
            yield {**_head(body, content=""), **_end(body, step)}

    def _whole(self, body: dict[str, Any], step: Step) -> dict[str, Any]:
        message: dict[str, Any] = {"content": step.text}
        if step.thinking:
            message["thinking"] = step.thinking
        if step.calls:
            message["tool_calls"] = [self._call(index, call) for index, call in enumerate(step.calls)]
        return {**_head(body, **message), **_end(body, step)}


_DETAILS = {
    "format": "gguf",
    "family": "qwen3",
    "families": ["qwen3"],
    "parameter_size": "0.6B",
    "quantization_level": "Q4_K_M",
}


def _listed(name: str) -> dict[str, Any]:
    return {"name": name, "model": name, "modified_at": _NOW, "size": 1, "digest": "0" * 64, "details": _DETAILS}


def _head(body: dict[str, Any], **message: Any) -> dict[str, Any]:
    return {"model": body["model"], "created_at": _NOW, "message": {"role": "assistant", **message}}


def _end(body: dict[str, Any], step: Step) -> dict[str, Any]:
    return {
        "done": True,
        "done_reason": step.stop or "stop",
        "total_duration": 5_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": len(json.dumps(body)) // 4,
        "prompt_eval_duration": 1_000_000,
        "eval_count": max(1, (len(step.text) + 40 * len(step.calls)) // 4),
        "eval_duration": 3_000_000,
    }
