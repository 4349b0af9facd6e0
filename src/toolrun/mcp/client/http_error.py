"""What an HTTP answer with a status of failure says, whatever its body is. Pure: headers and bytes in, words out.

Servers, proxies and identity providers each have their own body: a JSON-RPC error, the JSON of OAuth, a page of HTML,
nothing. The status, `WWW-Authenticate` and `Retry-After` mean the same in all of them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from toolrun.json import loads
from toolrun.mcp.client.json_rpc import RpcError
from toolrun.text import printable, visible

_REFUSALS: Final = {
    401: "sign in needed",
    403: "access denied",
    407: "sign in needed at the proxy",
    429: "too many requests",
}
"""With these a request is refused before anybody acts on it."""
_GATEWAYS: Final = frozenset({502, 503, 504})
_INTERNAL_ERROR: Final = -32603
_MAX_WORDS: Final = 300
_MAX_HEADER: Final = 500
_MAX_PAGE: Final = 4096
"""Bytes of a page in which words are searched for: the patterns take time with the square of its length."""
_KEYS: Final = ("message", "detail", "title", "reason")
"""Where JSON bodies have their words, if not in `error`."""
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_MARKUP: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)


class HttpError(RpcError):
    """An answer with a status from 400 on. `code`, `message` and `data` are those of a JSON-RPC error in its body."""

    def __init__(self, status: int, words: str, headers: Mapping[str, str], rpc: Mapping[str, Any] | None) -> None:
        """`words` is what the body says; `rpc` the JSON-RPC error in it."""
        self.status = status
        self.words = words
        self.headers = dict(headers)
        """`WWW-Authenticate` and `Retry-After`, if it has them."""
        self.rpc = dict(rpc) if rpc is not None else None
        code = rpc.get("code") if rpc is not None else None
        message = str(rpc.get("message") or "") if rpc is not None else ""
        super().__init__(
            code if isinstance(code, int) else _INTERNAL_ERROR,
            message or self.summary,
            rpc.get("data") if rpc is not None else None,
        )

    @property
    def is_refusal(self) -> bool:
        """Whether the request was refused before anybody acted on it."""
        return self.status in _REFUSALS

    @property
    def is_gateway(self) -> bool:
        """Whether something between us and the server could not reach it."""
        return self.status in _GATEWAYS

    @property
    def facts(self) -> str:
        """`HTTP 401 Unauthorized; WWW-Authenticate: Bearer`."""
        return "; ".join([_status(self.status), *(f"{name}: {value}" for name, value in self.headers.items())])

    @property
    def summary(self) -> str:
        """`sign in needed (HTTP 401 Unauthorized; WWW-Authenticate: Bearer): The access token expired`."""
        reason = _REFUSALS.get(self.status)
        about = f"{reason} ({self.facts})" if reason else self.facts
        return f"{about}: {self.words}" if self.words else about

    def to_dict(self) -> dict[str, Any]:
        return {"status": self.status, "words": self.words, "headers": self.headers, "rpc": self.rpc}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> HttpError:
        return HttpError(data["status"], data["words"], data["headers"], data["rpc"])


def read_http_error(status: int, headers: Mapping[str, str], body: bytes) -> HttpError:
    """`headers` has its names in lower case; `body` may be cut off."""
    kept = {
        name: _line(headers[name.lower()], _MAX_HEADER)
        for name in ("WWW-Authenticate", "Retry-After")
        if headers.get(name.lower())
    }
    try:
        data: Any = loads(body)
    except ValueError:
        return HttpError(status, _line(_text(body), _MAX_WORDS), kept, None)
    error = data.get("error") if isinstance(data, dict) else None
    is_rpc = isinstance(error, dict) and isinstance(data.get("jsonrpc"), str) and isinstance(error.get("code"), int)
    return HttpError(status, _line(_json_words(data), _MAX_WORDS), kept, error if is_rpc else None)


def _json_words(data: Any) -> str:
    if isinstance(data, str):
        return data
    if not isinstance(data, dict):
        return ""
    error, description = data.get("error"), data.get("error_description")
    if isinstance(error, dict):
        return _json_words({"message": error.get("message"), "detail": error.get("detail"), **_texts(error)})
    said = [it for it in (error, description) if isinstance(it, str) and it]
    if not isinstance(description, str):
        said += [value for key in _KEYS if isinstance(value := data.get(key), str) and value][:1]
    return ": ".join(said)


def _texts(error: Mapping[str, Any]) -> dict[str, Any]:
    return {key: error[key] for key in ("error_description", "title", "reason") if isinstance(error.get(key), str)}


def _text(body: bytes) -> str:
    text = body[:_MAX_PAGE].decode("utf-8", "replace")
    if "<" not in text:
        return text
    title = _TITLE.search(text)
    return html.unescape(title[1] if title else _MARKUP.sub(" ", text))


def _status(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _line(text: str, limit: int) -> str:
    """One line that can be shown."""
    line = visible(printable(" ".join(text.split())))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
