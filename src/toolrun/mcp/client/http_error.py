"""What an HTTP answer that is no success says, whatever its body is. Pure: headers and bytes in, words out.

Servers, proxies and identity providers each have their own body: a JSON-RPC error, the JSON of OAuth, a page of HTML,
nothing. The status, `WWW-Authenticate` and `Retry-After` mean the same in all of them. A body is read on the event
loop, so no more than its beginning is.
"""

from __future__ import annotations

import html
import json
import re
from collections import deque
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from toolrun.json import loads
from toolrun.mcp.client.json_rpc import TransportError
from toolrun.text import cut, printable, visible

_REFUSALS: Final = {
    401: "sign in needed",
    403: "access denied",
    407: "sign in needed at the proxy",
    429: "too many requests",
}
"""With these a request is refused before anybody acts on it."""
_TOO_MANY: Final = 429
_FAILED: Final = 500
"""From this status on the server may have acted, whatever it says."""
_GATEWAYS: Final = frozenset({502, 503, 504})
_INTERNAL_ERROR: Final = -32603
_REDIRECTS: Final = range(300, 400)
MAX_BODY: Final = 500_000
"""Bytes of a body, which take up to 10 ms to read."""
_MAX_WORDS: Final = 300
_MAX_HEADER: Final = 500
_MAX_PAGE: Final = 4096
"""Bytes of a page in which words are searched for: the patterns take time with the square of its length."""
_KEYS: Final = ("message", "detail", "title", "reason", "msg")
"""Where JSON bodies have their words, if not in `error`."""
_INSIDE: Final = ("error", "errors", "detail", "details", "data", "fault")
"""Where they have further objects with words."""
_MAX_PLACES: Final = 50
_MAX_PARTS: Final = 3
_WORDS_IN_CUT_JSON: Final = re.compile(
    r'"(?:error|error_description|message|detail)"\s*:\s*("(?:[^"\\]|\\.){1,1000}")', re.DOTALL
)
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_MARKUP: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)


class HttpError(TransportError):
    """An answer with a status from 300 on. `code`, `message` and `data` are those of a JSON-RPC error in its body."""

    def __init__(self, status: int, words: str, headers: Mapping[str, str], rpc: Mapping[str, Any] | None) -> None:
        """`words` is what the body says; `rpc` the JSON-RPC error in it."""
        self.status = status
        self.words = words
        self.headers = dict(headers)
        """`WWW-Authenticate`, `Retry-After` and the `Location` of a redirect, if it has them."""
        self.rpc = dict(rpc) if rpc is not None else None
        self.is_refusal, self.is_throttled = status in _REFUSALS, status == _TOO_MANY
        self.is_unreachable = status in _GATEWAYS
        self.may_have_acted = status >= _FAILED or status in _REDIRECTS  # 303 is what a server says after it has acted
        self.facts = "; ".join([_status(status), *(f"{name}: {value}" for name, value in self.headers.items())])
        """`HTTP 401 Unauthorized; WWW-Authenticate: Bearer`."""
        reason = "redirect not followed" if status in _REDIRECTS else _REFUSALS.get(status)
        about = f"{reason} ({self.facts})" if reason else self.facts
        self.summary = f"{about}: {words}" if words else about
        """`sign in needed (HTTP 401 Unauthorized; WWW-Authenticate: Bearer): The access token expired`."""
        code = rpc.get("code") if rpc is not None else None
        message = str(rpc.get("message") or "") if rpc is not None else ""
        super().__init__(
            code if isinstance(code, int) else _INTERNAL_ERROR,
            message or self.summary,
            rpc.get("data") if rpc is not None else None,
        )

    def to_dict(self) -> dict[str, Any]:
        return {"status": self.status, "words": self.words, "headers": self.headers, "rpc": self.rpc}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> HttpError:
        return HttpError(data["status"], data["words"], data["headers"], data["rpc"])


def read_http_error(status: int, headers: Mapping[str, str], body: bytes) -> HttpError:
    """`headers` has its names in lower case; `body` may be cut off. No more than `MAX_BODY` of it is read."""
    names = ["WWW-Authenticate", "Retry-After", *(["Location"] if status in _REDIRECTS else [])]
    kept = {name: _line(headers[name.lower()], _MAX_HEADER) for name in names if headers.get(name.lower())}
    text = body[:MAX_BODY].decode(json.detect_encoding(body), "replace")
    try:
        data: Any = loads(text)
    except ValueError:
        return HttpError(status, _line(_words(text[:_MAX_PAGE]), _MAX_WORDS), kept, None)
    error = data.get("error") if isinstance(data, dict) else None
    is_rpc = isinstance(error, dict) and isinstance(data.get("jsonrpc"), str) and isinstance(error.get("code"), int)
    return HttpError(status, _line(": ".join(_json_words(data)), _MAX_WORDS), kept, error if is_rpc else None)


def _json_words(data: Any) -> list[str]:
    """What a JSON body says, the outermost words first."""
    said: dict[str, None] = {}
    places = deque([data])
    for _ in range(_MAX_PLACES):
        if not places:
            break
        place = places.popleft()
        if isinstance(place, str):
            said[place[:_MAX_PAGE]] = None
        elif isinstance(place, list):
            places.extend(place[:_MAX_PLACES])
        elif isinstance(place, dict):
            said |= dict.fromkeys(_own_words(place))
            places.extend(inner for key in _INSIDE if isinstance(inner := place.get(key), dict | list))
    return [words for words in said if words][:_MAX_PARTS]


def _own_words(data: Mapping[str, Any]) -> list[str]:
    error, description = data.get("error"), data.get("error_description")
    said = [it[:_MAX_PAGE] for it in (error, description) if isinstance(it, str) and it]
    if not isinstance(description, str):
        said += [value[:_MAX_PAGE] for key in _KEYS if isinstance(value := data.get(key), str) and value][:1]
    return said


def _words(text: str) -> str:
    """What a body says that is not JSON, or not all of it."""
    if text.lstrip().startswith(("{", "[")):
        found = dict.fromkeys(_WORDS_IN_CUT_JSON.findall(text))
        return ": ".join([_unquoted(it) for it in found][:_MAX_PARTS]) or text
    if "<" not in text:
        return text
    title = _TITLE.search(text)
    return html.unescape(title[1] if title else _MARKUP.sub(" ", text))


def _unquoted(text: str) -> str:
    try:
        return str(loads(text))
    except ValueError:
        return text[1:-1]


def _status(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _line(text: str, limit: int) -> str:
    """One line that can be shown."""
    return cut(visible(printable(" ".join(text.split()))), limit)
