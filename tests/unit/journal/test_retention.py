"""What is forgotten, and what never is."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from time import time_ns

import pytest

from toolrun.journal.database import open_writer
from toolrun.journal.journal import Journal
from toolrun.journal.retention import Retention

DAY = 24 * 3600 * 1_000_000


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_writer(tmp_path / "journal.db", is_power_safe=False)
    yield connection
    connection.close()


def add(
    connection: sqlite3.Connection, id: int, days: float, state: str = "done", settled_as: str | None = None
) -> None:
    at = time_ns() // 1000 - int(days * DAY)
    connection.execute(
        "INSERT INTO call (id, process, tool, at, state, consumer, key, settled_as) VALUES (?, 1, 1, ?, ?, '', ?, ?)",
        (id, at, state, b"%d" % id, settled_as),
    )
    connection.execute("INSERT INTO answer VALUES (?, '1')", (id,))


def apply(retention: Retention, connection: sqlite3.Connection) -> int:
    """Until there is no more to do. Returns the number of steps."""
    steps = 1
    while retention.step(connection):
        steps += 1
        assert steps < 100
    return steps


def kept(connection: sqlite3.Connection) -> dict[str, list[int]]:
    questions = {
        "calls": "SELECT id FROM call ORDER BY id",
        "keys": "SELECT id FROM call WHERE key IS NOT NULL ORDER BY id",
        "answers": "SELECT call FROM answer ORDER BY call",
    }
    return {name: [row[0] for row in connection.execute(question)] for name, question in questions.items()}


def test_calls_are_forgotten_after_a_month_and_keys_with_their_answers_after_a_week(
    connection: sqlite3.Connection,
) -> None:
    for id, days in enumerate((40, 29, 8, 6, 0), 1):
        add(connection, id, days)
    apply(Retention(spared=0), connection)
    assert kept(connection) == {"calls": [2, 3, 4, 5], "keys": [4, 5], "answers": [4, 5]}


def test_doubts_and_running_calls_keep_their_keys_for_ever(connection: sqlite3.Connection) -> None:
    add(connection, 1, 400, "in_doubt")
    add(connection, 2, 400, "started")
    add(connection, 3, 400, "in_doubt", "done")
    apply(Retention(spared=0), connection)
    assert kept(connection) == {"calls": [1, 2], "keys": [1, 2], "answers": [1, 2]}


def test_the_newest_calls_stay_when_the_clock_has_jumped_ahead(connection: sqlite3.Connection) -> None:
    for id in range(1, 6):
        add(connection, id, 400 - id)
    apply(Retention(spared=2), connection)
    assert kept(connection) == {"calls": [4, 5], "keys": [4, 5], "answers": [4, 5]}


def test_more_calls_than_one_step_takes_are_forgotten_with_their_answers(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    for id in range(1, 2502):
        add(connection, id, 40)
    connection.execute("COMMIT")
    apply(Retention(spared=1), connection)
    assert [len(ids) for ids in kept(connection).values()] == [1, 1, 1]


def test_the_oldest_calls_go_when_the_file_is_too_large(connection: sqlite3.Connection) -> None:
    for id in range(1, 6):
        add(connection, id, 5 - id)
        connection.execute("INSERT INTO log_line VALUES (?, 0, 0, 'info', 'so far')", (id,))
    apply(Retention(max_bytes=1, spared=2), connection)
    assert kept(connection) == {"calls": [4, 5], "keys": [4, 5], "answers": [4, 5]}
    assert connection.execute("SELECT call FROM log_line").fetchall() == [(4,), (5,)]


@pytest.mark.parametrize("retention", [Retention(spared=0), Retention(days=1000, max_bytes=1, spared=0)])
def test_doubts_and_the_calls_of_open_conversations_stay_whatever_the_reason_to_forget(
    connection: sqlite3.Connection, retention: Retention
) -> None:
    for id in range(1, 5):
        add(connection, id, 40)
    connection.execute("UPDATE call SET state = 'in_doubt' WHERE id = 1")
    for id, process in ((7, 1), (8, None)):  # somebody has the first
        connection.execute("INSERT INTO conversation VALUES (?, ?, '', '', '', ?, 0, 0)", (id, str(id), process))
    connection.execute("UPDATE call SET conversation = 7 WHERE id = 2")
    connection.execute("UPDATE call SET conversation = 8 WHERE id = 3")
    apply(retention, connection)
    assert kept(connection)["calls"] == [1, 2]


def test_an_open_conversation_keeps_the_keys_and_answers_of_its_calls(connection: sqlite3.Connection) -> None:
    for id in (1, 2):
        add(connection, id, 8)
    for id, process in ((7, 1), (8, None)):  # somebody has the first, or died in the middle of it
        connection.execute("INSERT INTO conversation VALUES (?, ?, '', '', '', ?, 0, 0)", (id, str(id), process))
    connection.execute("UPDATE call SET conversation = id + 6")
    apply(Retention(spared=0), connection)
    assert kept(connection) == {"calls": [1, 2], "keys": [1], "answers": [1]}


@pytest.mark.parametrize("state", ["in_doubt", "started"])
@pytest.mark.parametrize("days", [8, 40])
def test_the_steps_of_a_call_that_is_not_settled_keep_their_keys_and_answers(
    connection: sqlite3.Connection, state: str, days: int
) -> None:
    for id, parent in ((1, None), (2, 1), (3, 2), (4, None), (5, 4)):
        add(connection, id, days)
        connection.execute("UPDATE call SET parent = ? WHERE id = ?", (parent, id))
    connection.execute("UPDATE call SET state = ? WHERE id = 1", (state,))
    apply(Retention(spared=0), connection)
    found = kept(connection)
    assert (found["keys"], found["answers"]) == ([1, 2, 3], [1, 2, 3])


def test_ten_thousand_calls_are_spared_unless_somebody_says_otherwise(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    for id in range(1, 10_003):
        add(connection, id, 400 - id / 1000)
    connection.execute("COMMIT")
    apply(Retention(), connection)
    assert kept(connection)["calls"] == list(range(3, 10_003))


def test_one_step_deletes_a_thousand_calls_and_no_more(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    for id in range(1, 2502):
        add(connection, id, 40)
    connection.execute("UPDATE call SET key = NULL")
    connection.execute("COMMIT")
    retention = Retention(spared=0)
    assert retention.step(connection)
    assert len(kept(connection)["calls"]) == 1501
    assert apply(retention, connection) == 2
    assert kept(connection)["calls"] == []


def test_a_program_of_a_moment_forgets_old_calls_if_nobody_has_for_a_day(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    retention = Retention(spared=0)
    Journal(path, retention=retention).close()
    connection = open_writer(path, is_power_safe=False)
    add(connection, 1, 40)
    Journal(path, retention=retention).close()
    assert kept(connection)["calls"] == [1]  # it was done a moment ago
    connection.execute("UPDATE upkeep SET at = at - ?", (2 * DAY,))
    Journal(path, retention=retention).close()
    assert kept(connection) == {"calls": [], "keys": [], "answers": []}
    connection.close()


def test_a_living_program_deletes_step_by_step_until_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[bool] = []
    is_over = threading.Event()

    def step(self: Retention, connection: sqlite3.Connection) -> bool:
        steps.append(connection.in_transaction)
        if len(steps) == 5:
            is_over.set()
        return len(steps) < 5

    monkeypatch.setattr(Retention, "step", step)
    monkeypatch.setattr(Retention, "is_due", lambda *_: False)
    journal = Journal(tmp_path / "journal.db")
    journal._writer._next_housekeeping = 0.0
    journal.flush()
    assert is_over.wait(10)
    journal.flush()
    journal.close()
    assert steps == [False] * 5


def test_old_requests_for_approval_are_forgotten_and_answers_that_hold_or_were_used_by_a_known_call_are_not(
    connection: sqlite3.Connection,
) -> None:
    def ask(tool: str, days: float, state: str, expires_in: float) -> None:
        now = time_ns() // 1000
        connection.execute(
            "INSERT INTO approval (state, fingerprint, conversation, tool, source, definition, arguments, reason, "
            "consumer, asked_at, expires_at) VALUES (?, ?, '', ?, '', '', '{}', '', '', ?, ?)",
            (state, tool.encode(), tool, now - int(days * DAY), now + int(expires_in * DAY)),
        )

    ask("used by a call", 40, "used", -40)
    ask("used", 40, "used", -40)
    ask("never answered", 40, "pending", -40)
    ask("always", 40, "allowed", 10_000)
    ask("recent", 20, "used", -20)
    ask("waiting", 0, "pending", 1)
    add(connection, 1, 1)
    connection.execute("UPDATE call SET approval = 1 WHERE id = 1")
    apply(Retention(), connection)
    kept = [row[0] for row in connection.execute("SELECT tool FROM approval ORDER BY id")]
    assert kept == ["used by a call", "always", "recent", "waiting"]
