"""`search_web`, against a real HTTP server that answers as SearXNG and Brave do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from toolrun import ErrorKind, Runtime, SideEffects, ToolResult
from toolrun.config.model import Config, ToolSettings

RESULTS = [
    {"title": f"Result <b>{n}</b> &amp; more", "url": f"https://example.org/{n}", "content": f"Text {n} " * 100}
    for n in range(1, 9)
]


class Server:
    """Answers with whatever `body` and `status` are, and remembers what was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body = json.dumps({"results": RESULTS}).encode()
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.release: threading.Event | None = None
        """If there is one, nothing is answered before it is set."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                if outer.release is not None:
                    outer.release.wait(30)
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, format: str, *args: object) -> None:
                pass

            def handle(self) -> None:
                with suppress(ConnectionError):  # the client has given up
                    super().handle()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        if self.release is not None:
            self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.asked[-1][0]).query)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Server()
    yield made
    made.close()


@asynccontextmanager
async def project(root: Path, config: dict[str, Any], **secrets: str) -> AsyncIterator[Runtime]:
    """A project whose search is configured like that."""
    (root / "tools").mkdir(exist_ok=True)
    declared = {
        "name": "search_web",
        "description": "Search the web.",
        "parameters": {"type": "object", "additionalProperties": True},
        "implementation": {"type": "builtin", "handler": "search_web"},
    }
    (root / "tools" / "search.json").write_text(json.dumps(declared))
    settings = ToolSettings(config=config, secrets=tuple(secrets))
    async with Runtime.open(Config(None, root, tool={"search_web": settings}, secrets=secrets)) as runtime:
        yield runtime


async def search(root: Path, config: dict[str, Any], arguments: dict[str, Any] | None = None, **secrets: str) -> Any:
    """The outcome of one search."""
    async with project(root, config, **secrets) as runtime:
        return await runtime.executor.execute("search_web", arguments or {"query": "who built the wall"})


def assert_unavailable(result: ToolResult, *words: str) -> None:
    assert result.error_kind is ErrorKind.UNAVAILABLE, result
    assert result.error is not None
    assert result.error.startswith("The service behind 'search_web' is unavailable: ")
    for each in words:
        assert each in result.error
    assert result.side_effects is SideEffects.FAILED


async def test_results_are_few_and_short_and_plain_text(tmp_path: Path, server: Server) -> None:
    result = await search(tmp_path, {"url": server.url})
    assert result.success, result.error
    assert result.result["query"] == "who built the wall"
    found = result.result["results"]
    assert [it["title"] for it in found] == [f"Result {n} & more" for n in range(1, 6)]
    assert found[0]["url"] == "https://example.org/1"
    assert found[0]["snippet"].startswith("Text 1 Text 1")
    assert found[0]["snippet"].endswith("1…") or found[0]["snippet"].endswith("Text…")
    assert all(len(it["snippet"]) <= 301 for it in found)
    path, _ = server.asked[0]
    assert path.startswith("/search?")
    assert server.query() == {"q": ["who built the wall"], "format": ["json"], "language": ["auto"]}


async def test_how_many_results_come_is_for_the_model_then_for_the_configuration(
    tmp_path: Path, server: Server
) -> None:
    config = {"url": f"{server.url}/", "max_results": 2, "language": "de"}
    assert len((await search(tmp_path, config)).result["results"]) == 2
    assert server.query()["language"] == ["de"]
    three = await search(tmp_path, config, {"query": "x", "max_results": 3})
    assert len(three.result["results"]) == 3
    all_of_them = await search(tmp_path, config, {"query": "x", "max_results": 1000})
    assert len(all_of_them.result["results"]) == 8


async def test_an_info_box_comes_first(tmp_path: Path, server: Server) -> None:
    box = {"infobox": "Berlin Wall", "id": "https://en.wikipedia.org/wiki/Berlin_Wall", "content": "A barrier."}
    server.body = json.dumps({"results": RESULTS, "infoboxes": [{"infobox": "empty"}, box]}).encode()
    result = await search(tmp_path, {"url": server.url})
    assert result.result["results"][0] == {"title": "Berlin Wall", "url": box["id"], "snippet": "A barrier."}
    assert len(result.result["results"]) == 5


async def test_nothing_found_is_an_answer(tmp_path: Path, server: Server) -> None:
    server.body = b'{"results": [{"title": null, "content": 5}, "x"]}'
    result = await search(tmp_path, {"url": server.url})
    assert result.result == {
        "query": "who built the wall",
        "results": [],
        "note": "Nothing was found. Try other or fewer words.",
    }


async def test_a_key_is_sent_to_brave_and_shown_nowhere(tmp_path: Path, server: Server) -> None:
    items = [{"title": "One", "url": "https://one.example", "description": "The <strong>first</strong>."}]
    server.body = json.dumps({"web": {"results": items}}).encode()
    config = {"provider": "brave", "url": f"{server.url}/res/v1/web/search"}
    result = await search(tmp_path, config, BRAVE_API_KEY="hidden-key")
    assert result.result["results"] == [{"title": "One", "url": "https://one.example", "snippet": "The first."}]
    path, headers = server.asked[0]
    assert path.startswith("/res/v1/web/search?q=who+built+the+wall&count=5")
    assert headers["x-subscription-token"] == "hidden-key"
    server.status = 401
    refused = await search(tmp_path, config, BRAVE_API_KEY="hidden-key")
    assert_unavailable(refused, "refuses the request (401)", "Check the key")
    assert "hidden-key" not in refused.text


async def test_a_key_that_is_missing_is_named(tmp_path: Path) -> None:
    result = await search(tmp_path, {"provider": "brave"})
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert "it needs the secret BRAVE_API_KEY" in result.error
    assert "[tool.search_web]" in result.error


async def test_a_redirect_is_not_followed_with_the_key(tmp_path: Path, server: Server) -> None:
    server.status, server.headers = 302, {"Location": f"{server.url}/elsewhere"}
    result = await search(tmp_path, {"provider": "brave", "url": server.url}, BRAVE_API_KEY="k")
    assert_unavailable(result, f"redirects to {server.url}/elsewhere", "Set 'url' to the new address")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (429, b"", "too many at a time (429)"),
        (403, b"", "for a SearXNG that json is allowed"),
        (500, b"oops", "answered with an error (500)"),
        (200, b"<html>blocked</html>", "did not answer with search results"),
        (200, b"[1, 2]", "did not answer with search results"),
        (200, b'{"results": "' + b"x" * 2_100_000, "did not answer with search results"),
        (200, b"", "did not answer with search results"),
    ],
)
async def test_a_server_that_refuses_or_talks_rubbish_is_unavailable(
    tmp_path: Path, server: Server, status: int, body: bytes, words: str
) -> None:
    server.status, server.body = status, body
    assert_unavailable(await search(tmp_path, {"url": server.url}), words)


async def test_a_server_that_cannot_be_reached_is_unavailable(tmp_path: Path, server: Server) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        result = await search(tmp_path, {"url": f"http://127.0.0.1:{port}"})
    assert_unavailable(result, f"http://127.0.0.1:{port}/search cannot be reached", "Is it running")


async def test_a_server_that_never_answers_is_given_up_before_the_deadline_of_the_call(
    tmp_path: Path, server: Server
) -> None:
    server.release = threading.Event()
    assert_unavailable(await search(tmp_path, {"url": server.url, "timeout": 0.2}), "did not answer in time")


@pytest.fixture(scope="module")
def runtime_of_primp() -> None:
    """The HTTP package of ddgs opens a runtime with its first request and keeps it: here, before a test is watched."""
    import primp

    with suppress(Exception):
        primp.Client(timeout=1).get("http://127.0.0.1:1")


@pytest.mark.usefixtures("runtime_of_primp")
async def test_the_search_engines_without_a_network_are_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:  # a proxy that nobody serves: no request gets out
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("DDGS_PROXY", f"http://127.0.0.1:{unused.getsockname()[1]}")
        result = await search(tmp_path, {})
    assert_unavailable(result, "search engines cannot be reached", "Is this machine online?")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"provider": "altavista"}, "'provider' must be one of ddgs, searxng, brave, not 'altavista'"),
        ({"provider": "searxng"}, "'url' must be the address of a SearXNG"),
        ({"url": "file:///etc/passwd"}, "'url' must start with http:// or https://"),
        ({"url": 5}, "'url' must be a string"),
        ({"url": "http://x", "timeout": "soon"}, "'timeout' must be a number > 0"),
    ],
)
async def test_a_wrong_setting_is_named(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    result = await search(tmp_path, config)
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert words in result.error
    assert result.error.endswith("in [tool.search_web] of toolrun.toml.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"query": "  "}, "'query' is empty"),
        ({"query": "x" * 500}, "'query' is longer than 400 characters"),
        ({"query": "x", "max_results": "many"}, "'max_results' must be a whole number"),
        ({}, "missing 'query'"),
    ],
)
async def test_a_query_that_cannot_be_searched_for_is_refused(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    async with project(tmp_path, {}) as runtime:
        result = await runtime.executor.execute("search_web", arguments)
    assert result.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert words in (result.error or "")
