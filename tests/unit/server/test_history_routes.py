"""The journal over HTTP: lists, one call in full, numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.api_client import Asked, asked

TOOLS = '''
@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b

@tool
async def twice(context: ToolContext, a: int) -> int:
    """Add a number to itself."""
    return (await context.call_tool("add", {"a": a, "b": a})).result
'''


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asked(tmp_path / "project", TOOLS) as made:
        yield made


async def test_calls_are_listed_as_soon_as_they_are_answered(api: Asked) -> None:
    for number in range(5):
        await api.call("add", a=number)
    await api.call("add", a="x")
    page = await api.get("/api/calls", limit=2)
    assert [(it["outcome"], it["arguments"]) for it in page["calls"]] == [("refused", '{"a":"x"}'), ("ok", '{"a":4}')]
    rest = await api.get("/api/calls", limit=500, before=page["next"])
    assert (page["total"], rest["total"]) == (6, None)
    assert ([it["arguments"] for it in rest["calls"]], rest["next"]) == ([f'{{"a":{n}}}' for n in (3, 2, 1, 0)], None)
    assert [it["error_kind"] for it in (await api.get("/api/calls", outcome="refused"))["calls"]] == [
        "invalid_arguments"
    ]
    assert len((await api.get("/api/calls", q='"a":3'))["calls"]) == 1
    assert (await api.get("/api/calls", until="1h"))["calls"] == []
    assert len((await api.get("/api/calls", since="1h"))["calls"]) == 6


async def test_a_call_in_full_has_what_was_sent_and_what_was_run(api: Asked) -> None:
    done = await api.call("add", A="5", other=1)
    shown = await api.get(f"/api/calls/{done['recorded_as']}")
    assert (shown["sent"], shown["arguments"]) == ({"A": "5", "other": 1}, {"a": 5})
    assert (shown["dropped"], shown["result"], shown["outcome"]) == (["other"], 6, "ok")
    assert [it["event"] for it in shown["timeline"]] == ["accepted", "started", "ended"]
    assert shown["repairs"] == done["repairs"]


async def test_a_call_in_full_has_the_calls_that_its_tool_made(api: Asked) -> None:
    done = await api.call("twice", a="4")
    [row] = (await api.get("/api/calls", tool="twice"))["calls"]
    assert done["recorded_as"] in (None, row["id"])
    shown = await api.get(f"/api/calls/{row['id']}")
    [child] = shown["children"]
    assert (child["tool"], child["parent"], child["result"]) == ("add", row["id"], "8")
    assert [it["call"] for it in shown["timeline"] if it["event"] == "called"] == [child["id"]]


@pytest.mark.parametrize("id", ["1-99", "0-0", "x", "1", "-", "1-1-1", "99999999999-1"])
async def test_a_call_that_is_not_there_is_told_so(id: str, api: Asked) -> None:
    answer = await api.client.get(f"/api/calls/{id}")
    assert (answer.status_code, f"there is no call {id}" in answer.json()["error"]) == (404, True)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"outcome": "bad"}, "outcome must be one of ok, failed"),
        ({"limit": "0"}, "limit must be a number from 1 to 500"),
        ({"limit": "x"}, "limit must be a number"),
        ({"since": "yesterday"}, "is not a time; write 10m"),
        ({"before": "x"}, "is not where a page of calls ended"),
    ],
)
async def test_a_list_that_cannot_be_asked_for_says_why(query: dict[str, str], words: str, api: Asked) -> None:
    answer = await api.client.get("/api/calls", params=query)
    assert (answer.status_code, words in answer.json()["error"]) == (400, True), answer.text


async def test_statistics_count_what_became_of_calls(api: Asked) -> None:
    for number in ("1", 2, 3, "x"):
        await api.call("add", a=number)
    [add] = (await api.get("/api/stats"))["tools"]
    assert (add["calls"], add["failed"], add["outcomes"]) == (4, 1, {"ok": 3, "invalid_arguments": 1})
    assert add["repairs"] == {"number sent as text": 1}
    assert 0 < add["p50_us"] <= add["p95_us"] <= add["p99_us"] == add["slowest"]["run_us"]
    assert (await api.get("/api/stats", tool="other"))["tools"] == []


async def test_a_series_has_a_value_for_each_span(api: Asked) -> None:
    for number in (1, 2, "x"):
        await api.call("add", a=number)
    series = await api.get("/api/series", since="10m", step=60)
    spans = len(series["times"])
    assert spans in (10, 11)
    lists = [
        *series["outcomes"].values(),
        *(series[name] for name in ("repaired", "p50_ms", "p99_ms", "busy", "busy_workers")),
    ]
    assert {len(values) for values in lists} == {spans}
    assert (sum(series["outcomes"]["ok"]), sum(series["outcomes"]["refused"])) == (2, 1)
    assert all(later - earlier == 60 for earlier, later in zip(series["times"], series["times"][1:], strict=False))
    assert [it is None for it in series["p50_ms"]].count(False) in (1, 2)


@pytest.mark.parametrize(
    ("query", "words"), [({"since": "2100-01-01"}, "in the past"), ({"since": "30d", "step": "1"}, "step is too short")]
)
async def test_a_series_that_cannot_be_made_says_why(query: dict[str, str], words: str, api: Asked) -> None:
    answer = await api.client.get("/api/series", params=query)
    assert (answer.status_code, words in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    "since",
    [
        "",
        "10m",
        "90min",
        "9999w",
        "00:00",
        "00:00:00",
        "0001-01-01",
        "2026-02-28",
        "2026-11-16T14:30:00Z",
        "0001-01-01T00:00:00+14:00",
        "1700000000000000",
    ],
)
async def test_a_time_in_every_form_of_the_document_is_taken(since: str, api: Asked) -> None:
    for path in ("/api/calls", "/api/stats", "/api/series"):
        await api.get(path, since=since)


async def test_without_a_journal_the_rest_works(tmp_path: Path) -> None:
    async with asked(tmp_path / "project", TOOLS, "[journal]\nenabled = false\n") as api:
        assert (await api.call("add", a=1))["result"] == 2
        assert len((await api.get("/api/tools"))["tools"]) == 2
        for path in ("/api/calls", "/api/stats", "/api/series", "/api/effects", "/api/conversations"):
            answer = await api.client.get(path)
            assert (answer.status_code, "calls are not recorded here" in answer.json()["error"]) == (503, True)
        health = await api.get("/api/health")
        assert health["journal"] == {"path": None, "problem": None}
