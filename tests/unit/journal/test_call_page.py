"""Many calls at a glance: pages that continue, filters that mean what they say, and queries that find their index."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolrun.journal import call_page
from toolrun.journal.call_page import (
    OUTCOMES,
    CallFilter,
    count_of_calls,
    glance_at_tools,
    outcome_of,
    outcomes_over_time,
    page_of_calls,
)
from toolrun.journal.database import open_writer
from toolrun.journal.statements import sql

STATES = ("refused", "started", "done", "failed", "cancelled", "in_doubt")
KINDS = (None, "timeout", "cancelled", "tool_error", "invalid_arguments")
SETTLED = (None, "done", "not_done", "repeated")
EVERY = [
    (state, kind, settled)
    for state, kind, settled in itertools.product(STATES, KINDS, SETTLED)
    if settled is None or state == "in_doubt"
]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_writer(tmp_path / "journal.db", is_power_safe=False)
    connection.execute(sql("add_tool"), ("add", "tools/sums.py", "1", "host", 0))
    connection.execute(sql("add_tool"), ("remove", "tools/files.py", "1", "host", 0))
    yield connection
    connection.close()


def add(
    journal: sqlite3.Connection,
    id: int,
    at: int,
    *,
    tool: int = 1,
    state: str = "done",
    error_kind: str | None = None,
    settled_as: str | None = None,
    run_us: int | None = 10,
    **more: object,
) -> None:
    values = {
        **{"id": id, "process": 1, "tool": tool, "at": at, "state": state, "error_kind": error_kind},
        **{"settled_as": settled_as, "consumer": "serve", "run_us": run_us, **more},
    }
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    journal.execute(f"INSERT INTO call ({names}) VALUES ({marks})", tuple(values.values()))


def ids(journal: sqlite3.Connection, wanted: CallFilter) -> list[int]:
    return [call.id for call in page_of_calls(journal, wanted, limit=500)[0]]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_filter_for_an_outcome_finds_exactly_the_calls_that_are_shown_with_it(
    outcome: str, journal: sqlite3.Connection
) -> None:
    for id, (state, kind, settled) in enumerate(EVERY, 1):
        add(journal, id, id, state=state, error_kind=kind, settled_as=settled)
    wanted = [id for id, given in enumerate(EVERY, 1) if outcome_of(*given) == outcome]
    assert sorted(ids(journal, CallFilter(outcome=outcome))) == wanted
    assert wanted


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(1, 7))
def test_pages_have_every_call_once_the_newest_first(times: list[int], limit: int) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        from toolrun.journal.database import migrations

        for script in migrations():
            connection.executescript(script)
        connection.execute(sql("add_tool"), ("add", "", "1", "host", 0))
        for id, at in enumerate(times, 1):
            add(connection, id, at)
        found: list[tuple[int, int]] = []
        before: str | None = ""
        while before is not None:
            calls, before = page_of_calls(connection, CallFilter(), before, limit)
            assert 1 <= len(calls) <= limit
            found += [(call.at, call.id) for call in calls]
        assert found == sorted(((at, id) for id, at in enumerate(times, 1)), reverse=True)
    finally:
        connection.close()


def test_a_search_goes_on_behind_what_it_has_looked_at(
    journal: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_page, "_SCAN", 10)
    for id in range(1, 36):
        add(journal, id, id, arguments='{"path": "/rare"}' if id in (3, 30) else "{}")
    found, pages, before = [], 0, ""
    while True:
        calls, more = page_of_calls(journal, CallFilter(text="RARE"), before)
        found += [call.id for call in calls]
        pages += 1
        if more is None:
            break
        before = more
    assert (found, pages) == ([30, 3], 4)


@pytest.mark.parametrize("text", ["100%", "a_b", "back\\slash"])
def test_a_search_takes_every_character_as_it_is(text: str, journal: sqlite3.Connection) -> None:
    add(journal, 1, 1, result=f"found {text} here")
    add(journal, 2, 2, result="found 100 axb backslash here")
    assert ids(journal, CallFilter(text=text)) == [1]


@pytest.mark.parametrize("before", ["x", "1", "1-", f"1-{2**63}", "-1-1", "1-1 OR 1"])
def test_a_page_starts_only_where_another_ended(before: str, journal: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="is not where a page"):
        page_of_calls(journal, CallFilter(), before)


@pytest.mark.parametrize(
    "wanted",
    [
        CallFilter(),
        CallFilter(since=5, until=9),
        CallFilter(tool="add"),
        CallFilter(outcome="in_doubt"),
        CallFilter(outcome="failed"),
        CallFilter(outcome="timeout"),
        CallFilter(conversation="evening"),
        CallFilter(text="x"),
    ],
    ids=repr,
)
def test_no_page_looks_at_all_calls_to_find_its_own(wanted: CallFilter, journal: sqlite3.Connection) -> None:
    """However large the journal is: a plan without an index would read and sort it all."""
    statements: list[str] = []
    journal.set_trace_callback(statements.append)
    page_of_calls(journal, wanted, "9-9", 50)
    journal.set_trace_callback(None)
    plan = [row[3] for statement in statements for row in journal.execute(f"EXPLAIN QUERY PLAN {statement}")]
    steps = [step for step in plan if "call" in step.split()]
    assert steps
    assert not [step for step in steps if not step.startswith("SEARCH")], plan


def test_tools_are_counted_at_a_glance(journal: sqlite3.Connection) -> None:
    for id in range(1, 12):
        add(journal, id, id, run_us=id * 10)
    add(journal, 20, 20, state="failed", error_kind="tool_error")
    add(journal, 21, 21, tool=2, state="in_doubt", settled_as="done")
    add(journal, 22, 22, tool=2, state="started")
    found = glance_at_tools(journal)
    assert (found["add"].calls, found["add"].errors, found["add"].p50_us) == (12, 1, 60)
    assert (found["remove"].calls, found["remove"].errors, found["remove"].p50_us) == (2, 0, None)


def test_outcomes_over_time_know_how_busy_each_span_was(journal: sqlite3.Connection) -> None:
    add(journal, 1, 105, run_us=10, repairs="[]")
    add(journal, 2, 180, run_us=50)
    add(journal, 3, 250, state="failed", error_kind="timeout", run_us=1)
    add(journal, 4, 299, state="refused", error_kind="invalid_arguments", run_us=1)
    add(journal, 5, 300)  # outside
    first, second = outcomes_over_time(journal, 100, 300, 100)
    assert (dict(first.outcomes), first.repaired, first.run_us, first.busy_us) == ({"ok": 2}, 1, [10, 50], 30)
    assert (dict(second.outcomes), second.run_us, second.busy_us) == ({"timeout": 1, "refused": 1}, [1], 31)
    assert outcomes_over_time(journal, 100, 300, 100, "remove")[0].outcomes == {}


def test_calls_that_run_on_over_several_spans_keep_each_of_them_busy(journal: sqlite3.Connection) -> None:
    add(journal, 1, 150, run_us=200)
    add(journal, 2, 190, run_us=10)  # just to the end of its span
    add(journal, 3, 190, run_us=11)
    add(journal, 4, 390, run_us=1000)  # beyond the last span
    add(journal, 5, 200, state="started", run_us=None)
    add(journal, 6, 210, state="in_doubt", error_kind="timeout", settled_as="done", run_us=5)
    spans = outcomes_over_time(journal, 100, 400, 100)
    assert [it.busy_us for it in spans] == [70, 106, 60]
    assert [it.worker_us for it in spans] == [0, 0, 0]
    assert [sorted(it.run_us) for it in spans] == [[10, 11, 200], [5], [1000]]
    assert [dict(it.outcomes) for it in spans] == [{"ok": 3}, {"running": 1, "ok": 1}, {"ok": 1}]


def test_outcomes_over_time_know_how_busy_the_workers_were(journal: sqlite3.Connection) -> None:
    add(journal, 1, 150, run_us=100, worker="pid 7, namespaces")
    add(journal, 2, 160, run_us=10, worker="pid 8, namespaces")
    add(journal, 3, 160, run_us=20)
    spans = outcomes_over_time(journal, 100, 300, 100)
    assert [(it.busy_us, it.worker_us) for it in spans] == [(80, 60), (50, 50)]
    assert [dict(it.outcomes) for it in spans] == [{"ok": 3}, {}]


def test_the_calls_of_a_list_are_counted_and_those_of_a_search_are_not(journal: sqlite3.Connection) -> None:
    for id in range(1, 8):
        add(journal, id, id, tool=1 + id % 2)
    assert count_of_calls(journal, CallFilter()) == 7
    assert count_of_calls(journal, CallFilter(tool="add", since=3)) == 2
    assert count_of_calls(journal, CallFilter(outcome="failed")) == 0
    assert count_of_calls(journal, CallFilter(text="x")) is None
