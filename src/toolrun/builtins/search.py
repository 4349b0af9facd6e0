"""Web search: a few short results that a model can read and a voice can speak. The handler behind `search_web`.

The configuration of the tool chooses one of three providers: `ddgs` (a library that asks public engines, without a
key), `searxng` (the user's own instance) and `brave` (an API with a key). All of them block, so the handler runs in a
thread. Every failure of a provider is an `UnavailableError`.
"""

from __future__ import annotations

import html
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Final

from toolrun.errors import InvalidArgumentsError, SideEffects, ToolError, UnavailableError
from toolrun.extra import missing
from toolrun.json import JSON
from toolrun.text import section
from toolrun.tools.context import ToolContext

MAX_RESULTS: Final = 5
MAX_SNIPPET: Final = 300
TIMEOUT: Final = 10.0
"""Seconds for one search, or less if the deadline of the call is nearer."""
BRAVE_URL: Final = "https://api.search.brave.com/res/v1/web/search"
BRAVE_KEY: Final = "BRAVE_API_KEY"
_MAX_RESPONSE_BYTES: Final = 2_000_000
_MAX_QUERY_CHARS: Final = 400
_RESULT_LIMIT: Final = 20

SearchResult = dict[str, JSON]
SearchProvider = Callable[["Search"], list[SearchResult]]


class Search:
    """One search: the query, the settings and the deadline."""

    def __init__(self, query: str, count: int | None, context: ToolContext) -> None:
        self.query = " ".join(query.split())
        self.tool = context.tool_name or "search_web"
        self._config = context.config
        self._secrets = context.secrets
        if not self.query:
            raise InvalidArgumentsError("Invalid parameters: 'query' is empty; give the words to search for")
        if len(self.query) > _MAX_QUERY_CHARS:
            raise InvalidArgumentsError(f"Invalid parameters: 'query' is longer than {_MAX_QUERY_CHARS} characters")
        wanted = count if count is not None else int(self._number("max_results", MAX_RESULTS))
        self.count = max(1, min(_RESULT_LIMIT, wanted))
        self.deadline = time.monotonic() + min(self._number("timeout", TIMEOUT), context.remaining())

    def setting(self, name: str, default: str = "") -> str:
        value = self._config.get(name, default)
        if not isinstance(value, str):
            raise self.misconfigured(f"'{name}' must be a string")
        return value.strip()

    def secret(self, name: str) -> str:
        if not self._secrets.get(name):
            raise self.misconfigured(
                f'it needs the secret {name}. Define it in [secrets] and grant it: secrets = ["{name}"]'
            )
        return self._secrets[name]

    def remaining(self) -> float:
        """The seconds left. Never 0, which would mean no timeout at all."""
        return max(0.1, self.deadline - time.monotonic())

    def misconfigured(self, problem: str) -> ToolError:
        return ToolError(
            f"The web search is not configured: {problem} in {section('tool', self.tool)} of toolrun.toml."
        )

    def unavailable(self, reason: str) -> UnavailableError:
        return UnavailableError(f"The service behind '{self.tool}' is unavailable: {reason}")

    def _number(self, name: str, default: float) -> float:
        value = self._config.get(name, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
            raise self.misconfigured(f"'{name}' must be a number > 0")
        return value


def search_web(query: str, count: int | None, context: ToolContext) -> JSON:
    """The best results, each with title, address and a snippet of plain text."""
    search = Search(query, count, context)
    name = search.setting("provider") or ("searxng" if search.setting("url") else "ddgs")
    provider = PROVIDERS.get(name)
    if provider is None:
        raise search.misconfigured(f"'provider' must be one of {', '.join(PROVIDERS)}, not {name!r:.40}")
    results = [found for found in provider(search) if found["title"] or found["snippet"]][: search.count]
    answer: dict[str, JSON] = {"query": search.query, "results": [*results]}
    if not results:
        answer["note"] = "Nothing was found. Try other or fewer words."
    return answer


def _ddgs(search: Search) -> list[SearchResult]:
    try:
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException
    except ImportError as error:
        advice = f"Or set 'url' in {section('tool', search.tool)} of toolrun.toml to the address of a SearXNG."
        raise ToolError(
            f"{missing('search', error, 'The web search')}. {advice}", side_effects=SideEffects.NOT_STARTED
        ) from error
    # ddgs asks two engines at a time; each pair has this time.
    seconds = max(1, int(min(5.0, search.remaining() / 3)))
    try:
        found = DDGS(timeout=seconds).text(
            search.query, region=search.setting("region", "us-en"), max_results=search.count
        )
    except DDGSException as error:
        if error.args and isinstance(error.args[0], str):  # no engine reported an error, and none had a result
            raise search.unavailable(
                "no engine gave a result; they may be refusing automatic requests. Try later or with other words."
            ) from None
        raise search.unavailable("the search engines cannot be reached. Is this machine online?") from None
    return [_result(item, "title", "href", "body") for item in found]


def _searxng(search: Search) -> list[SearchResult]:
    base = search.setting("url")
    if not base:
        raise search.misconfigured("'url' must be the address of a SearXNG")
    query = {"q": search.query, "format": "json", "language": search.setting("language", "auto")}
    answer = _fetch(search, f"{base.rstrip('/')}/search?{urllib.parse.urlencode(query)}", {})
    results = [_result(item, "title", "url", "content") for item in _objects(answer, "results")]
    boxes = [_result(item, "infobox", "id", "content") for item in _objects(answer, "infoboxes")]
    return [box for box in boxes if box["snippet"]][:1] + results


def _brave(search: Search) -> list[SearchResult]:
    query = {"q": search.query, "count": str(search.count), "text_decorations": "0"}
    address = f"{search.setting('url') or BRAVE_URL}?{urllib.parse.urlencode(query)}"
    headers = {"X-Subscription-Token": search.secret(BRAVE_KEY)}
    answer = _fetch(search, address, headers).get("web")
    return [
        _result(item, "title", "url", "description")
        for item in _objects(answer if isinstance(answer, dict) else {}, "results")
    ]


PROVIDERS: Final[Mapping[str, SearchProvider]] = {"ddgs": _ddgs, "searxng": _searxng, "brave": _brave}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they would carry the key to another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _fetch(search: Search, address: str, headers: Mapping[str, str]) -> dict[str, JSON]:
    """The JSON object at an address."""
    where = address.partition("?")[0]
    if not address.startswith(("http://", "https://")):
        raise search.misconfigured("'url' must start with http:// or https://")
    request = urllib.request.Request(address, headers={"Accept": "application/json", **headers})
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=search.remaining()) as response:
            content = json.loads(_body(search, response))
    except urllib.error.HTTPError as error:
        with error:  # closes the connection
            raise search.unavailable(_refusal(where, error)) from None
    except TimeoutError:
        raise search.unavailable(f"{where} did not answer in time.") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError):
            raise search.unavailable(f"{where} did not answer in time.") from None
        raise search.unavailable(
            f"{where} cannot be reached ({reason}). Is it running? Is this machine online?"
        ) from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise search.unavailable(f"{where} did not answer with search results. Does it offer format=json?")
    return content


def _body(search: Search, response: IO[bytes]) -> bytes:
    """The whole response. urllib's timeout applies to each read, so a slow server would never reach it."""
    received = bytearray()
    while chunk := response.read1(1 << 16):  # type: ignore[attr-defined]  # a method of http.client.HTTPResponse
        received += chunk
        if time.monotonic() > search.deadline:
            raise TimeoutError
        if len(received) > _MAX_RESPONSE_BYTES:
            raise ValueError
    return bytes(received)


def _refusal(where: str, error: urllib.error.HTTPError) -> str:
    match error.code:
        case 301 | 302 | 303 | 307 | 308:
            return f"{where} redirects to {error.headers.get('Location', 'elsewhere')}. Set 'url' to the new address."
        case 401 | 403:
            return f"{where} refuses the request ({error.code}). Check the key, or for a SearXNG that json is allowed."
        case 429:
            return f"{where} refuses the request: too many at a time ({error.code}). Try later."
    return f"{where} answered with an error ({error.code})."


def _objects(answer: Mapping[str, JSON], key: str) -> list[dict[str, JSON]]:
    found = answer.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _result(item: Mapping[str, JSON], title: str, address: str, text: str) -> SearchResult:
    return {
        "title": _plain(item.get(title), 120),
        "url": str(item.get(address) or ""),
        "snippet": _plain(item.get(text), MAX_SNIPPET),
    }


def _plain(value: object, limit: int) -> str:
    """Text without markup, cut at a word."""
    if not isinstance(value, str):
        return ""
    text = " ".join(html.unescape(re.sub(r"<[^<>]{0,200}>", "", value)).split())
    if len(text) <= limit:
        return text
    return text[:limit].rsplit(" ", 1)[0].rstrip(" ,;:.") + "…"
