"""Anthropic's Messages API: `POST /v1/messages`, as one JSON object or as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from providers.base import UNSET, Exchange, Server, Step, pieces
from providers.rules import anthropic_problem

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicServer(Server):
    """Use it as `ChatAnthropic(base_url=server.url, api_key=…)`. Any key will do, none will not."""

    cached = (0, 0)
    """Tokens that come from the cache, and that go into it."""

    def answer(self, exchange: Exchange) -> None:
        if exchange.path != "/v1/messages":
            self.others.append(exchange.request)
            if exchange.path == "/v1/models":
                models = [{"id": "claude-test", "type": "model", "display_name": "Test", "created_at": _EPOCH}]
                return exchange.send_json({"data": models, "has_more": False, "first_id": None, "last_id": None})
            return self._refuse(exchange, 404, f"Not found: {exchange.path}")
        self.requests.append(exchange.request)
        headers = exchange.request.headers
        if not (headers.get("x-api-key") or headers.get("authorization")):
            return self._refuse(exchange, 401, "x-api-key header is required")
        step = self.next_step(exchange.body)
        if step is None:
            return self._refuse(exchange, 400, "the script is over")
        if exchange.is_out_of_the_ordinary(step):
            return None
        if step.status != 200:
            return self._refuse(exchange, step.status, step.error or "scripted", dict(step.headers))
        problem = anthropic_problem(exchange.body)
        if problem:
            self.violations.append(problem)
            return self._refuse(exchange, 400, problem)
        message = self._message(exchange.body, step)
        if exchange.body.get("stream"):
            return exchange.send_stream(step, "text/event-stream; charset=utf-8", _events(message, step))
        for block in message["content"]:
            block.pop("raw", None)
        return exchange.send_json(message)

    def _refuse(self, exchange: Exchange, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        error = {"type": _KINDS.get(status, "api_error"), "message": message}
        exchange.send_json({"type": "error", "error": error, "request_id": self.new_id("req_")}, status, headers)

    def _message(self, body: dict[str, Any], step: Step) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if step.thinking:
            content.append({"type": "thinking", "thinking": step.thinking, "signature": "c2lnbmF0dXJl"})
        if step.text:
            content.append({"type": "text", "text": step.text})
        for call in step.calls:
            id = self.new_id("toolu_") if call.id is None else call.id
            use = {"type": "tool_use", "id": id, "name": call.name, "input": dict(call.arguments or {})}
            content.append(use if call.raw is UNSET else {**use, "raw": call.raw})
        return {
            "id": self.new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": step.stop or ("tool_use" if step.calls else "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": len(json.dumps(body)) // 4,
                "output_tokens": len(json.dumps(content)) // 4,
                "cache_creation_input_tokens": self.cached[1],
                "cache_read_input_tokens": self.cached[0],
            },
        }


_EPOCH = "2026-01-01T00:00:00Z"


def _events(message: dict[str, Any], step: Step) -> Iterator[bytes]:
    """The answer as a stream, exactly in the order of the real one."""
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield _event("message_start", message=begun)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block, step.chunk)
    if step.error:
        yield _event("error", error={"type": "overloaded_error", "message": step.error})
        return
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage=message["usage"])
    yield _event("message_stop")


def _block_events(index: int, block: dict[str, Any], size: int) -> Iterator[bytes]:
    def delta(kind: str, **content: str) -> bytes:
        return _event("content_block_delta", index=index, delta={"type": kind, **content})

    match block["type"]:
        case "text":
            yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for piece in pieces(block["text"], size):
                yield delta("text_delta", text=piece)
        case "thinking":
            start: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
            yield _event("content_block_start", index=index, content_block=start)
            for piece in pieces(block["thinking"], size):
                yield delta("thinking_delta", thinking=piece)
            yield delta("signature_delta", signature=block["signature"])
        case "tool_use":
            start = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
            yield _event("content_block_start", index=index, content_block=start)
            for piece in ["", *pieces(block.get("raw", json.dumps(block["input"])), size)]:
                yield delta("input_json_delta", partial_json=piece)
    yield _event("content_block_stop", index=index)


def _event(name: str, **content: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **content})}\n\n".encode()
