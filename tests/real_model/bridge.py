"""Ollama's protocol for a GGUF file: `python bridge.py MODEL.gguf NAME` prints its address and serves.

It runs in an environment of its own, which has xllamacpp and nothing else. Tools and messages go through the chat
template in the file; what the model says comes back as it is, and as calls where llama.cpp's parser finds some.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import xllamacpp


def load(path: str) -> Any:
    options = xllamacpp.CommonParams()
    options.model.path = path
    options.n_ctx = 4096
    options.n_parallel = 1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 2
    options.verbosity = -1
    options.use_jinja = True
    options.ui = False
    return xllamacpp.Server(options)


def to_chat_completions(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ollama's messages have no ids: results belong to calls by their order."""
    converted, open_ids, count = [], [], 0
    for message in messages:
        kept: dict[str, Any] = {"role": message["role"], "content": message.get("content") or ""}
        if message.get("tool_calls"):
            kept["tool_calls"] = []
            for call in message["tool_calls"]:
                count += 1
                open_ids.append(f"call_{count}")
                function = {"name": call["function"]["name"], "arguments": json.dumps(call["function"]["arguments"])}
                kept["tool_calls"].append({"id": open_ids[-1], "type": "function", "function": function})
        if message["role"] == "tool":
            kept["tool_call_id"] = open_ids.pop(0)
        converted.append(kept)
    return converted


class Handler(BaseHTTPRequestHandler):
    server_version = "bridge"
    model: Any
    name: str

    def log_message(self, format: str, *args: object) -> None:
        """Only the tests speak."""

    def do_GET(self) -> None:
        self.send([{"models": [{"name": self.name, "model": self.name}], "version": "0.99.0"}])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/api/chat":
            return self.send([{"capabilities": ["completion", "tools"], "model_info": {}, "details": {}}])
        request = {
            "messages": to_chat_completions(body["messages"]),
            "temperature": 0,
            "max_tokens": 400,
            **({"tools": body["tools"]} if body.get("tools") else {}),
        }
        answer = self.model.handle_chat_completions(request)
        answer = json.loads(answer) if isinstance(answer, str | bytes) else answer
        if "error" in answer:
            return self.send([{"error": str(answer["error"])}], 500)
        choice, usage = answer["choices"][0], answer["usage"]
        message: dict[str, Any] = {"role": "assistant", "content": choice["message"].get("content") or ""}
        calls = choice["message"].get("tool_calls")
        if calls:
            message["tool_calls"] = [
                {"function": {"name": it["function"]["name"], "arguments": json.loads(it["function"]["arguments"])}}
                for it in calls
            ]
        end = {
            "done": True,
            "done_reason": "length" if choice["finish_reason"] == "length" else "stop",
            "prompt_eval_count": usage["prompt_tokens"],
            "eval_count": usage["completion_tokens"],
        }
        head = {"model": self.name, "created_at": "2026-01-01T00:00:00Z", "message": message}
        self.send([{**head, **end}])

    def send(self, lines: list[dict[str, Any]], status: int = 200) -> None:
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        self.send_response(status)
        self.send_header("content-type", "application/x-ndjson")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    Handler.model, Handler.name = load(sys.argv[1]), sys.argv[2]
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
