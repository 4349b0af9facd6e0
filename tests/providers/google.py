"""Gemini: `POST /v1beta/models/MODEL:generateContent`, and `:streamGenerateContent` with server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from providers.base import UNSET, Exchange, Server, Step, pieces
from providers.rules import gemini_problem

_PATH = re.compile(r"/v1beta/models/[\w.-]+:(generateContent|streamGenerateContent)")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_USAGE = {
    "promptTokenCount": 40,
    "candidatesTokenCount": 4,
    "thoughtsTokenCount": 5,
    "cachedContentTokenCount": 30,
    "totalTokenCount": 49,
}


class GoogleServer(Server):
    """Use it as `ChatGoogleGenerativeAI(base_url=server.url, api_key=…)`."""

    def answer(self, exchange: Exchange) -> None:
        method = _PATH.fullmatch(exchange.path)
        if method is None:
            self.others.append(exchange.request)
            return self._refuse(exchange, 404, f"no such method: {exchange.path}")
        self.requests.append(exchange.request)
        step = self.next_step(exchange.body)
        if step is None:
            return self._refuse(exchange, 400, "the script is over")
        if exchange.is_out_of_the_ordinary(step):
            return None
        if step.status != 200:
            return self._refuse(exchange, step.status, step.error or "scripted", step.headers)
        problem = gemini_problem(exchange.body)
        if problem:
            self.violations.append(problem)
            return self._refuse(exchange, 400, problem)
        if method[1] == "streamGenerateContent":
            return exchange.send_stream(step, "text/event-stream", self._events(step))
        thoughts = [{"text": step.thinking, "thought": True}] if step.thinking else []
        texts = [{"text": step.text}] if step.text else []
        calls = self._calls(step)
        return exchange.send_json(_answer([*thoughts, *texts, *(calls or ())], _reason(step, calls)))

    def _refuse(self, exchange: Exchange, status: int, message: str, headers: Any = None) -> None:
        error = {"code": status, "message": message, "status": _STATUS.get(status, "UNKNOWN")}
        exchange.send_json({"error": error}, status, headers)

    def _calls(self, step: Step) -> list[dict[str, Any]] | None:
        """The parts with calls. None if the model wrote one of them in a way that the service cannot read."""
        found = []
        for index, call in enumerate(step.calls):
            arguments = dict(call.arguments or {}) if call.raw is UNSET else _read(call.raw)
            if not isinstance(arguments, dict):
                return None
            part: dict[str, Any] = {"functionCall": {"name": call.name, "args": arguments}}
            if call.id:
                part["functionCall"]["id"] = call.id
            if index == 0:
                part["thoughtSignature"] = "c2lnbmF0dXJl"
            found.append(part)
        return found

    def _events(self, step: Step) -> Iterator[bytes]:
        for piece in pieces(step.thinking, step.chunk):
            yield _event(_answer([{"text": piece, "thought": True}]))
        for piece in pieces(step.text, step.chunk):
            yield _event(_answer([{"text": piece}]))
        calls = self._calls(step)
        for part in calls or ():
            yield _event(_answer([part]))
        if step.error:
            yield _event({"error": {"code": 500, "message": step.error, "status": "INTERNAL"}})
        else:
            yield _event(_answer([{"text": ""}], _reason(step, calls)))


def _answer(parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    usage: dict[str, Any] = {}
    if reason is not None:
        candidate["finishReason"] = reason
        usage = {"usageMetadata": _USAGE}
    return {"candidates": [candidate], "modelVersion": "gemini-3.5-flash", "responseId": "r1", **usage}


def _reason(step: Step, calls: list[dict[str, Any]] | None) -> str:
    return step.stop or ("STOP" if calls is not None else "MALFORMED_FUNCTION_CALL")


def _read(raw: Any) -> Any:
    try:
        return json.loads(raw) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        return None


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\r\n\r\n".encode()
