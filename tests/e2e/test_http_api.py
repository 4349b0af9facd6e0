"""The HTTP API of `toolrun serve --http`: requests for approval, beside MCP on the same port."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.console import toolrun
from support.serving import Served, http_client, served
from support.waiting import until

TOOLS = '''
from pathlib import Path

from toolrun import tool


@tool(effects="once")
def remove(path: str) -> str:
    """Remove a file."""
    with Path("ran.txt").open("a") as file:
        print(path, file=file)
    return f"removed {path}"
'''
TOKEN = "a-token-of-this-test"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "toolrun.toml").write_text('[approval]\ndefault = "ask"\n')
    (tmp_path / "tools/files.py").write_text(TOOLS)
    return tmp_path


@pytest.fixture
def server(project: Path) -> Iterator[Served]:
    with served("--token", TOKEN, cwd=project) as server:
        yield server


@pytest.fixture
def api(server: Served) -> Iterator[httpx2.Client]:
    host, port = server.place
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=f"http://{host}:{port}", headers=headers, timeout=60) as client:
        yield client


async def remove(server: Served, path: str) -> Any:
    async with http_client(server.url, "legacy", TOKEN) as client:
        return await client.call_tool("remove", {"path": path})


def test_there_is_nothing_to_answer_at_first(api: httpx2.Client) -> None:
    answer = api.get("/api/approvals")
    assert (answer.status_code, answer.json()) == (200, {"approvals": []})
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "accept"), [("/api/tools/remove/call", "*/*"), ("/api/tools/no/call", "text/event-stream")]
)
def test_no_browser_takes_what_a_tool_returns_for_anything_else(api: httpx2.Client, path: str, accept: str) -> None:
    called = api.post(path, json={"arguments": {}}, headers={"Accept": accept})
    for answer in (called, api.get("/api/calls"), api.get("/api/nothing"), api.get("/metrics")):
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_call_of_a_model_waits_for_an_answer_and_is_made_with_it(
    server: Served, api: httpx2.Client, project: Path
) -> None:
    refused = await remove(server, "/x")
    assert refused.is_error
    (request,) = api.get("/api/approvals").json()["approvals"]
    assert (request["state"], request["tool"], request["arguments"]) == ("pending", "remove", {"path": "/x"})
    answer = api.post(f"/api/approvals/{request['id']}", json={"answer": "allow", "by": "ann"})
    assert (answer.status_code, answer.json()) == (200, {"id": request["id"], "state": "allowed"})
    (granted,) = api.get("/api/approvals").json()["approvals"]
    assert granted["answered_by"] == "HTTP client ann"
    assert not (await remove(server, "/x")).is_error
    assert (await remove(server, "/x")).is_error
    assert (project / "ran.txt").read_text() == "/x\n"


async def test_no_and_other_arguments_and_taking_back(server: Served, api: httpx2.Client, project: Path) -> None:
    await remove(server, "/x")
    api.post("/api/approvals/1", json={"answer": "deny", "reason": "not on Fridays"})
    assert "not on Fridays" in (await remove(server, "/x")).content[0].text
    await remove(server, "/x")
    api.post("/api/approvals/2", json={"answer": "allow", "scope": "always", "arguments": {"path": "/other"}})
    assert (await remove(server, "/x")).content[0].text == "removed /other"
    assert api.delete("/api/approvals/2").json() == {"id": 2, "state": "revoked"}
    assert (await remove(server, "/x")).is_error
    assert (project / "ran.txt").read_text() == "/other\n"


async def test_arguments_that_the_tool_cannot_take_are_no_answer(server: Served, api: httpx2.Client) -> None:
    await remove(server, "/x")
    for arguments in ({"path": 7}, {}, {"path": "/x", "other": 1}):
        answer = api.post("/api/approvals/1", json={"answer": "allow", "arguments": arguments})
        assert answer.status_code == 400, arguments
    assert [row["state"] for row in api.get("/api/approvals").json()["approvals"]] == ["pending"]


async def test_arguments_are_text_too_so_that_no_number_loses_its_digits(
    server: Served, api: httpx2.Client, project: Path
) -> None:
    path = "/x12345678901234567890"
    await remove(server, path)
    (request,) = api.get("/api/approvals").json()["approvals"]
    assert request["text"] == f'{{"path":"{path}"}}'
    for text, why in (("{", "are not JSON"), ("[]", "are not a JSON object"), ('{"path":"/a","path":"/b"}', "path")):
        answer = api.post("/api/approvals/1", json={"answer": "allow", "arguments": text})
        assert (answer.status_code, why in answer.json()["error"]) == (400, True)
    assert api.post("/api/approvals/1", json={"answer": "allow", "arguments": '{"path": "/y"}'}).status_code == 200
    assert (await remove(server, path)).content[0].text == "removed /y"


async def test_arguments_that_are_not_shown_in_full_are_not_replaced(server: Served, api: httpx2.Client) -> None:
    await remove(server, "x" * 20_000)
    (request,) = api.get("/api/approvals").json()["approvals"]
    assert request["withheld"] == "cut"
    answer = api.post("/api/approvals/1", json={"answer": "allow", "arguments": {"path": "/x"}})
    assert (answer.status_code, "too long" in answer.json()["error"]) == (400, True)
    assert api.post("/api/approvals/1", json={"answer": "deny"}).status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_call_that_waits_finds_its_request_and_its_answer_after_a_restart(project: Path, number: int) -> None:
    def call(server: Served, accept: str) -> tuple[httpx2.Client, httpx2.Request]:
        host, port = server.place
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": accept}
        client = httpx2.Client(base_url=f"http://{host}:{port}", headers=headers, timeout=60)
        return client, client.build_request("POST", "/api/tools/remove/call", json={"arguments": {"path": "/x"}})

    with served("--token", TOKEN, cwd=project) as server:
        client, request = call(server, "text/event-stream")
        with client, suppress(httpx2.TransportError):
            lines = client.send(request, stream=True).iter_lines()
            assert any(line.startswith("event: started") for line in lines)
            await until(lambda: [it["id"] for it in client.get("/api/approvals").json()["approvals"]] == [1])
            server.process.send_signal(number)
            assert not any(line.startswith("event: result") for line in lines)
    assert toolrun("approvals", "allow", "1", cwd=project).returncode == 0
    with served("--token", TOKEN, cwd=project) as server:
        client, request = call(server, "application/json")
        with client:
            assert client.send(request).json()["result"] == "removed /x"
            assert client.send(request).json()["error_kind"] == "not_approved"
    assert (project / "ran.txt").read_text() == "/x\n"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "the body is not JSON"),
        (b"[]", 400, "send a JSON object; got []"),
        (b"{}", 400, "missing 'answer'"),
        (b'{"answer": "yes"}', 400, "'answer' must be one of"),
        (b'{"answer": "allow", "scope": "for ever"}', 400, 'must be one of "once", "conversation", "always"'),
        (b'{"answer": "allow", "scope": []}', 400, "'scope' must be string"),
        (b'{"answer": "allow", "arguments": [1]}', 400, "'arguments' must be object"),
        (b'{"answer": "deny", "reason": 7}', 400, "'reason' must be string"),
        (b'{"answer": "allow", "sccope": "once"}', 400, "unknown parameter 'sccope' (did you mean 'scope'?)"),
        (b'{"answer": "allow"}', 404, "the request 7 does not exist"),
        (b'{"answer": "allow", "reason": "' + b"x" * 1_000_001 + b'"}', 413, "at most 1,000,000 bytes"),
    ],
)
def test_an_answer_that_cannot_be_used_says_why(api: httpx2.Client, body: bytes, status: int, words: str) -> None:
    answer = api.post("/api/approvals/7", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize("id", ["x", "-1", "1.5", "²", str(2**63), "1%00"])
def test_a_request_has_a_number(api: httpx2.Client, id: str) -> None:
    answer = api.post(f"/api/approvals/{id}", json={"answer": "allow"})
    assert answer.status_code == 404
    assert "requests have numbers" in answer.json()["error"]


async def test_an_answer_comes_once(server: Served, api: httpx2.Client) -> None:
    await remove(server, "/x")
    assert api.post("/api/approvals/1", json={"answer": "deny", "by": "ann"}).status_code == 200
    again = api.post("/api/approvals/1", json={"answer": "allow"})
    assert again.status_code == 409
    assert again.json()["error"] == "the request 1 is denied already by HTTP client ann"


def test_a_method_that_is_not_for_a_path_is_told_so(api: httpx2.Client) -> None:
    answer = api.delete("/api/approvals")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json() == {"error": "use GET here"}


@pytest.mark.parametrize("path", ["/health", "/", "/metrics", "/api/tools", "/api/tools/remove", "/console/main.js"])
def test_a_path_that_is_only_read_takes_no_post_of_any_type(api: httpx2.Client, path: str) -> None:
    for media_type in ("application/json", "text/plain"):
        answer = api.post(path, content=b"{}", headers={"Content-Type": media_type})
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_the_api_is_behind_the_guard(server: Served) -> None:
    host, port = server.place
    with httpx2.Client(base_url=f"http://{host}:{port}", timeout=60) as stranger:
        assert stranger.get("/api/approvals").status_code == 401
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert stranger.get("/api/approvals", headers={**token, "Origin": "http://evil.example"}).status_code == 403
        assert stranger.get("/api/approvals", headers={**token, "Host": "evil.example"}).status_code == 421
        posted = stranger.post("/api/approvals/1", headers={**token, "Content-Type": "text/plain"}, content=b"{}")
        assert posted.status_code == 415


def test_the_page_and_its_health_need_no_token(server: Served) -> None:
    host, port = server.place
    with httpx2.Client(base_url=f"http://{host}:{port}", timeout=60) as stranger:
        page = stranger.get("/")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert stranger.get("/health").json() == {"status": "ok"}
        assert stranger.get("/ready").json() == {"status": "ready"}
        for path in ("/", "/health", "/ready"):
            assert stranger.get(path, headers={"Host": "evil.example"}).status_code == 421
            assert stranger.get(path, headers={"Origin": "http://evil.example"}).status_code == 403
        for path in ("/console/../api.py", "/console/%2e%2e/api.py", "/console", "/health/", "/api/tools"):
            assert stranger.get(path).status_code == 401


def test_a_path_that_is_not_there_is_told_so(api: httpx2.Client) -> None:
    answer = api.get("/api/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"].startswith('there is no "/api/nothing" here')
