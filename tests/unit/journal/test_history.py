"""What a journal tells of past calls: which ones, and how long they took."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolrun.journal.call_record import CallState, Ending, ToolRow
from toolrun.journal.history import open_history
from toolrun.journal.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.db")
    yield journal
    journal.close()


def add(journal: Journal, ending: Ending, name: str = "look", *, age: float = 0.0, repairs: str | None = None) -> str:
    record = journal.new_record(ToolRow(name, "", ""), "{}", "none", int(age * 1_000_000))
    record.ending = ending
    if repairs is not None:
        record.repairs = repairs
    journal.add(record)
    return str(record.id)


def test_percentiles_are_those_of_the_calls_that_ran(journal: Journal) -> None:
    times = [10] * 400 + [20] * 530 + [30] * 50 + [40] * 20
    for index, took in enumerate(sorted(times, key=lambda it: (it * 7919) % 31)):  # in no order of their own
        add(journal, Ending(CallState.DONE if index % 10 else CallState.FAILED, took, "1"))
    slowest = add(journal, Ending(CallState.DONE, 41, "1"))
    for _ in range(5000):
        add(journal, Ending(CallState.REFUSED, 1, error="no", error_kind="overloaded"))
    journal.flush()
    with open_history(journal.path) as history:
        (found,) = history.statistics()
    assert (found.p50_us, found.p95_us, found.p99_us) == (20, 30, 40)
    assert (found.slowest[0], str(found.slowest[1])) == (41, slowest)
    assert (found.calls, found.failed) == (6001, 5100)
    assert found.outcomes == {"ok": 901, "failed": 100, "overloaded": 5000}


def test_no_doubt_is_left_out_however_many_there_are(journal: Journal) -> None:
    for _ in range(1501):
        add(journal, Ending(CallState.IN_DOUBT, 1, error="lost", error_kind="timeout"))
    journal.flush()
    with open_history(journal.path) as history:
        assert len(history.in_doubt()) == 1501


def test_a_call_that_runs_or_was_settled_as_done_has_not_failed(journal: Journal) -> None:
    journal.add(journal.new_record(ToolRow("look", "", ""), "{}", "none"))
    for settled_as in ("done", "not_done", None):
        id = int(add(journal, Ending(CallState.IN_DOUBT, 1, error="lost", error_kind="timeout")))
        if settled_as is not None:
            assert journal.settle(id, settled_as, "person").result(10) is None
    add(journal, Ending(CallState.DONE, 1, "1"))
    journal.flush()
    with open_history(journal.path) as history:
        (found,) = history.statistics()
    assert (found.calls, found.failed) == (5, 2)


def test_statistics_are_by_tool_the_most_used_first_and_can_be_narrowed(journal: Journal) -> None:
    done = Ending(CallState.DONE, 5, "1")
    repaired = '[{"reason":"read as JSON"},{"reason":"renamed"}]'
    add(journal, done, "rare", age=7200, repairs='[{"reason":"cut')
    add(journal, done, "rare", age=3600)
    for _ in range(3):
        add(journal, done, "common", repairs=repaired)
    add(journal, done, "common", age=3600)
    journal.flush()
    with open_history(journal.path) as history:
        assert [(it.tool, it.calls, it.failed) for it in history.statistics()] == [("common", 4, 0), ("rare", 2, 0)]
        assert history.statistics()[0].repairs == {"read as JSON": 3, "renamed": 3}
        assert [it.tool for it in history.statistics(tool="rare")] == ["rare"]
        (lately,) = history.statistics(since=history.calls()[2].at)
        assert (lately.tool, lately.calls) == ("common", 3)
        assert history.statistics(tool="nobody") == []
