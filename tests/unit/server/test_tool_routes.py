"""The tools over HTTP: listed, described, tried and called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from support.api_client import Asked, asked, write_tools
from support.waiting import until
from toolrun import Runtime
from toolrun.clients.dialect import PROVIDERS
from toolrun.execution.dry_run import dry_run

TOOLS = '''
import asyncio

ran = []

@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    ran.append(a)
    return a + b

@tool(effects="once", approval="ask")
async def remove(path: str) -> str:
    """Remove a file."""
    return path

@tool
async def steps(context: ToolContext) -> str:
    """Report progress."""
    for step in range(3):
        context.progress(step, 3, f"step {step}")
        await asyncio.sleep(0)
    return "done"

@tool
async def endless() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return ""

@tool
async def how_often() -> int:
    """Calls of add that ran."""
    return len(ran)
'''


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asked(tmp_path / "project", TOOLS) as made:
        yield made


async def test_the_list_says_where_a_tool_comes_from_and_what_it_does(api: Asked) -> None:
    tools = {it["name"]: it for it in (await api.get("/api/tools"))["tools"]}
    assert list(tools) == ["add", "remove", "steps", "endless", "how_often"]
    assert tools["add"]["source"] == {"kind": "function", "name": "tools/own.py"}
    assert (tools["remove"]["effects"], tools["remove"]["approval"]) == ("once", "ask")
    assert {it["state"] for it in tools.values()} == {"ready"}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"q": "file"}, ["remove"]),
        ({"q": "ADD numbers"}, ["add"]),
        ({"q": "add nothing"}, []),
        ({"source": "mcp"}, []),
        ({"source": "tools/own.py", "q": "wait"}, ["endless"]),
    ],
)
async def test_the_list_is_searched(query: dict[str, str], names: list[str], api: Asked) -> None:
    assert [it["name"] for it in (await api.get("/api/tools", **query))["tools"]] == names


async def test_the_list_counts_the_calls(api: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolrun.server.tool_routes._GLANCE", 0.0)
    await api.call("add", a=1)
    await api.call("add", a="x")
    [add] = (await api.get("/api/tools", q="numbers"))["tools"]
    assert (add["calls"], add["errors"]) == (2, 1)
    assert add["p50_ms"] >= 0


async def test_a_tool_is_shown_as_each_provider_gets_it(api: Asked) -> None:
    shown = await api.get("/api/tools/add")
    assert shown["schema"]["required"] == ["a"]
    assert shown["timeout"] == 30.0
    assert set(shown["views"]) == set(PROVIDERS)
    assert shown["views"]["anthropic"]["definition"]["input_schema"]["required"] == ["a"]
    assert shown["views"]["ollama"]["notes"] == ["b: default 1 → description"]


async def test_a_tool_that_is_not_there_is_told_so(api: Asked) -> None:
    answer = await api.client.get("/api/tools/ad")
    assert (answer.status_code, answer.json()) == (404, {"error": "there is no tool 'ad'; did you mean 'add'?"})


async def test_a_check_says_what_would_be_repaired_and_runs_nothing(api: Asked) -> None:
    tried = await api.post("/api/tools/add/check", {"arguments": {"A": "5", "other": 1}})
    assert (tried["outcome"], tried["arguments"], tried["dropped"]) == ("runs", {"a": 5}, ["other"])
    assert [(it["before"], it["after"]) for it in tried["repairs"]] == [({"A": "5"}, {"a": "5"}), ("5", 5)]
    assert (await api.call("how_often"))["result"] == 0


async def test_a_check_reads_text_as_a_call_does(api: Asked) -> None:
    tried = await api.post("/api/tools/add/check", {"arguments": '{"a": 2,}'})
    assert (tried["outcome"], tried["arguments"]) == ("runs", {"a": 2})
    called = await api.post("/api/tools/add/call", {"arguments": '{"a": 2,}'})
    assert (called["result"], called["repairs"]) == (3, tried["repairs"])


async def test_a_check_says_what_is_wrong_and_where(api: Asked) -> None:
    tried = await api.post("/api/tools/add/check", {"arguments": {"a": "x", "b": []}})
    assert (tried["outcome"], tried["error_kind"], tried["arguments"]) == ("refused", "invalid_arguments", None)
    assert [it["path"] for it in tried["problems"]] == ["a", "b"]
    assert tried["message"] == (await api.call("add", a="x", b=[]))["text"]


async def test_a_check_knows_the_rules_of_approval(api: Asked) -> None:
    tried = await api.post("/api/tools/remove/check", {"arguments": {"path": "/x"}})
    assert tried["approval"] == {"action": "ask", "reason": "its author requires it"}
    assert (await api.get("/api/approvals"))["approvals"] == []


async def test_large_arguments_are_tried_where_calls_judge_them(api: Asked) -> None:
    tried = await api.post("/api/tools/add/check", {"arguments": {"a": ["x"] * 300_000}})
    assert tried["outcome"] == "refused"
    assert tried["message"] == (await api.call("add", a=["x"] * 300_000))["text"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["5", "x", "", "null", "1.0", "[1]"]),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.sampled_from("abA_"), values, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "A", "_b", "c", "arguments"]), VALUES, max_size=3)


async def test_a_check_refuses_exactly_what_a_call_refuses(tmp_path: Path) -> None:
    write_tools(tmp_path, TOOLS, "[journal]\nenabled = false\n")
    async with Runtime.open(tmp_path / "toolrun.toml") as runtime:
        loop = asyncio.get_running_loop()

        @settings(max_examples=200, derandomize=True)
        @given(st.sampled_from(["add", "how_often", "ad", "endles"]), ARGUMENTS | st.text(max_size=5))
        def compare(tool: str, arguments: Any) -> None:
            tried = asyncio.run_coroutine_threadsafe(dry_run(runtime.executor, tool, arguments), loop).result(60)
            called = asyncio.run_coroutine_threadsafe(runtime.executor.execute(tool, arguments), loop).result(60)
            assert (tried.refusal is None) == (called.error is None)
            if tried.refusal is not None:
                assert (tried.refusal.text, tried.refusal.error_kind) == (called.text, called.error_kind)
            else:
                assert (tried.call.repairs, tried.call.dropped) == (called.repairs, called.dropped)

        await asyncio.to_thread(compare)


async def test_a_call_is_answered_with_its_whole_envelope(api: Asked) -> None:
    done = await api.call("add", a="5", b=2)
    assert (done["success"], done["result"], done["text"]) == (True, 7, "7")
    assert done["repairs"][0]["after"] == 5
    failed = await api.call("add")
    assert (failed["success"], failed["error_kind"], failed["side_effects"]) == (
        False,
        "invalid_arguments",
        "not_started",
    )


async def test_a_tool_that_is_not_there_is_a_refused_call(api: Asked) -> None:
    refused = await api.call("ad", a=1)
    assert (refused["error_kind"], refused["text"].splitlines()[0]) == ("unknown_tool", 'Error: Unknown tool "ad"')


async def test_a_key_is_one_call_in_the_body_and_in_the_header(api: Asked) -> None:
    body = {"arguments": {"a": 1}, "key": "once"}
    first = await api.post("/api/tools/add/call", body)
    header = await api.client.post(
        "/api/tools/add/call", json={"arguments": {"a": 1}}, headers={"idempotency-key": '"once"'}
    )
    assert (first["replayed"], header.json()["replayed"], header.json()["key"]) == (False, True, "once")
    both = await api.client.post("/api/tools/add/call", json=body, headers={"idempotency-key": "other"})
    assert (both.status_code, "two keys" in both.json()["error"]) == (400, True)
    assert (await api.call("how_often"))["result"] == 1


async def test_a_key_of_another_call_and_of_one_that_still_runs_have_a_status(api: Asked) -> None:
    async def call(tool: str, **body: Any) -> tuple[int, str | None]:
        answer = await api.client.post(f"/api/tools/{tool}/call", json=body)
        said = answer.json()
        assert said["success"] or said["error"]
        return answer.status_code, said["error_kind"]

    assert await call("add", arguments={"a": 1}, key="k") == (200, None)
    assert await call("add", arguments={"a": 2}, key="k") == (422, "invalid_arguments")
    assert await call("how_often", key="k") == (422, "invalid_arguments")
    assert await call("add", arguments={}, key="other") == (200, "invalid_arguments")
    first = asyncio.create_task(call("endless", key="e", timeout=30))
    await until(lambda: api.runtime.executor.health().running)
    assert await call("endless", key="e", timeout=0.1) == (409, "timeout")
    first.cancel()


async def test_a_timeout_of_the_client_ends_the_call(api: Asked) -> None:
    ended = await api.post("/api/tools/endless/call", {"timeout": 0.05})
    assert (ended["error_kind"], ended["side_effects"]) == ("timeout", "unknown")


async def test_events_tell_how_a_call_goes_on(api: Asked) -> None:
    events = await api.events("/api/tools/steps/call")
    assert [name for name, _ in events] == ["started", "progress", "progress", "progress", "result"]
    assert events[0][1]["call"].startswith("run-")
    assert events[2][1] == {"progress": 1, "total": 3, "message": "step 1"}
    assert events[-1][1]["result"] == "done"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "the body is not JSON"),
        (b"[]", 400, "send a JSON object; got []"),
        (b'{"arguments": 5}', 400, "arguments"),
        (b'{"argumens": {}}', 400, "did you mean 'arguments'"),
        (b'{"timeout": -1}', 400, "timeout must be a number of seconds > 0"),
        (b'{"timeout": "5"}', 400, 'timeout: send 5, not "5"'),
        (b'{"key": 5}', 400, "key"),
        (b'{"arguments": {"a": 1, "a": 2}}', 400, "twice"),
        (b'{"arguments": {"a": "' + b"x" * 16 * 1024 * 1024 + b'"}}', 413, "at most 16,777,216 bytes"),
    ],
)
async def test_a_call_that_cannot_be_read_says_why(body: bytes, status: int, words: str, api: Asked) -> None:
    answer = await api.client.post("/api/tools/add/call", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?x=1", 'unknown parameter "x"'),
        ("?q=a&q=b", "q is given twice"),
        ("?q=%ff", "cannot be read"),
        (f"?q={'x' * 1001}", "at most 1,000 characters"),
        ("?" + "&".join(f"a{number}=1" for number in range(60)), "cannot be read"),
    ],
)
async def test_a_query_that_cannot_be_used_says_why(query: str, words: str, api: Asked) -> None:
    answer = await api.client.get(f"/api/tools{query}")
    assert (answer.status_code, words in answer.json()["error"]) == (400, True), answer.text


async def test_head_tells_what_get_would(api: Asked) -> None:
    answer = await api.client.head("/api/tools")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 100


async def test_nothing_is_observed_once_the_server_has_stopped(tmp_path: Path) -> None:
    async with asked(tmp_path / "project", TOOLS) as api:
        observers = api.runtime.executor.observers
        assert {type(it.__self__).__name__ for it in observers.on_finished} >= {"RunningCalls", "CallCounters"}  # type: ignore[attr-defined]
        await api.call("add", a=1)
    assert [type(it.__self__).__name__ for it in observers.on_finished] == ["LogObserver"]  # type: ignore[attr-defined]
    assert observers.on_started == []
