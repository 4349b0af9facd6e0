"""OpenAI's Chat Completions: `POST /chat/completions`, as one JSON object or as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from providers.base import UNSET, Exchange, Server, Step, pieces
from providers.rules import openai_problem


class OpenAIServer(Server):
    """Use it as `ChatOpenAI(base_url=server.url, api_key=…)`."""

    def answer(self, exchange: Exchange) -> None:
        if exchange.path != "/chat/completions":
            self.others.append(exchange.request)
            return self._refuse(exchange, 404, f"Unknown request URL: {exchange.path}")
        self.requests.append(exchange.request)
        step = self.next_step(exchange.body)
        if step is None:
            return self._refuse(exchange, 400, "the script is over")
        if exchange.is_out_of_the_ordinary(step):
            return None
        if step.status != 200:
            return self._refuse(exchange, step.status, step.error or "scripted")
        problem = openai_problem(exchange.body)
        if problem:
            self.violations.append(problem)
            return self._refuse(exchange, 400, problem)
        calls = [
            {
                "id": self.new_id("call_") if call.id is None else call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments or {}) if call.raw is UNSET else call.raw,
                },
            }
            for call in step.calls
        ]
        if exchange.body.get("stream"):
            events = self._events(exchange.body, step, calls)
            return exchange.send_stream(step, "text/event-stream; charset=utf-8", events)
        message = {
            "role": "assistant",
            "content": step.text,
            "refusal": None,
            **({"tool_calls": calls} if calls else {}),
        }
        choice = {"index": 0, "message": message, "finish_reason": _reason(step), "logprobs": None}
        body = {**self._head(exchange.body, "chat.completion"), "choices": [choice], "usage": _USAGE}
        return exchange.send_json(body)

    def _refuse(self, exchange: Exchange, status: int, message: str) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        exchange.send_json({"error": error}, status)

    def _head(self, body: dict[str, Any], kind: str) -> dict[str, Any]:
        return {"id": self.new_id("chatcmpl-"), "object": kind, "created": 1_790_000_000, "model": body["model"]}

    def _events(self, body: dict[str, Any], step: Step, calls: list[dict[str, Any]]) -> Iterator[bytes]:
        head = self._head(body, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
            return _event({**head, "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(step.text, step.chunk):
            yield chunk({"content": piece})
        for index, call in enumerate(calls):
            function = call["function"]
            start = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
            yield chunk({"tool_calls": [start]})
            for piece in pieces(function["arguments"], step.chunk):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, _reason(step))
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _event({**head, "choices": [], "usage": _USAGE})
        yield b"data: [DONE]\n\n"


_USAGE = {
    "prompt_tokens": 40,
    "completion_tokens": 9,
    "total_tokens": 49,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


def _reason(step: Step) -> str:
    return step.stop or ("tool_calls" if step.calls else "stop")


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
