"""What is added to a journal is on disk, in order, once, or the gap is known."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from toolrun.journal.call_record import CallRecord, CallState, Ending, ToolRow
from toolrun.journal.database import open_reader
from toolrun.journal.history import PastCall, open_history
from toolrun.journal.journal import Journal
from toolrun.journal.writer import MAX_QUEUED
from toolrun.journal.writer_job import NotRecordedError
from toolrun.redaction import Redactor

ADD = ToolRow("add", "tools/math.py", "d1")
DONE = Ending(CallState.DONE, 42, "3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".toolrun" / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    journal = Journal(path, consumer="test", redactor=Redactor(["hunter22"]))
    yield journal
    journal.close()


def add(journal: Journal, arguments: str = '{"a":1}', ending: Ending | None = DONE) -> CallRecord:
    record = journal.new_record(ADD, arguments, "none")
    record.ending = ending
    journal.add(record)
    return record


def calls(path: Path) -> list[PastCall]:
    with open_history(path) as history:
        return history.calls(limit=100_000)[::-1]


def test_a_call_that_is_over_is_one_row(journal: Journal, path: Path) -> None:
    record = add(journal)
    journal.flush()
    (call,) = calls(path)
    assert (call.id, call.tool, call.source, call.definition) == (record.id, "add", "tools/math.py", "d1")
    assert (call.state, call.run_us, call.result, call.arguments) == ("done", 42, "3", '{"a":1}')
    assert (call.consumer, call.process, call.attempt, call.withheld) == ("test", journal.process, 1, None)


def test_a_call_is_seen_while_it_runs_and_ends_in_the_same_row(journal: Journal, path: Path) -> None:
    record = add(journal, ending=None)
    journal.flush()
    assert [(call.state, call.result) for call in calls(path)] == [("started", None)]
    journal.end(record, DONE)
    journal.flush()
    assert [(call.state, call.result, call.run_us) for call in calls(path)] == [("done", "3", 42)]


async def test_who_waits_is_told_when_the_start_is_on_disk(journal: Journal, path: Path) -> None:
    record = journal.new_record(ADD, "{}", "once")
    await journal.add_and_wait(record, asyncio.get_running_loop())
    assert [call.state for call in calls(path)] == ["started"]


async def test_many_who_wait_at_once_share_commits(journal: Journal, path: Path) -> None:
    loop = asyncio.get_running_loop()
    records = [journal.new_record(ADD, "{}", "once") for _ in range(500)]
    await asyncio.gather(*(journal.add_and_wait(record, loop) for record in records))
    assert len(calls(path)) == 500


def test_records_keep_their_order_and_none_is_lost_or_doubled(journal: Journal, path: Path) -> None:
    records = [add(journal) for _ in range(3000)]
    journal.flush()
    assert [call.id for call in calls(path)] == [record.id for record in records]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 1000, 1023, 1024, 1025, 2049])
def test_a_batch_of_any_size_is_written_whole_whether_calls_start_or_end_in_it(
    journal: Journal, path: Path, count: int
) -> None:
    records = [add(journal, ending=None) for _ in range(count)]
    journal.flush()
    assert [(call.id, call.state) for call in calls(path)] == [(record.id, "started") for record in records]
    for record in records:
        journal.end(record, DONE)
    over = [add(journal) for _ in range(count)]
    journal.flush()
    assert [(call.id, call.state) for call in calls(path)] == [(record.id, "done") for record in records + over]


@pytest.mark.parametrize("is_asleep", [False, True])
async def test_the_end_of_a_call_that_may_have_acted_is_soon_on_disk_though_nobody_waits_for_it(
    journal: Journal, path: Path, is_asleep: bool
) -> None:
    record = journal.new_record(ADD, "{}", "once")
    await journal.add_and_wait(record, asyncio.get_running_loop())
    if is_asleep:
        await journal.drain()
    commits = journal.commits
    journal.end(record, DONE, is_urgent=True)
    async with asyncio.timeout(10):
        while journal.commits == commits:
            await asyncio.to_thread(threading.Event().wait, 0.001)
    assert [call.state for call in calls(path)] == ["done"]


async def test_memory_is_bounded_by_waiting(journal: Journal, path: Path) -> None:
    for _ in range(3 * MAX_QUEUED):
        add(journal)
        if journal.is_full():
            await journal.drain()
            assert not journal.is_full()
    await journal.drain()
    assert len(calls(path)) == 3 * MAX_QUEUED


def test_secrets_are_hidden_by_value_and_by_name(journal: Journal, path: Path) -> None:
    failed = Ending(CallState.FAILED, 1, error="wrong password hunter22", error_kind="tool_error")
    add(journal, '{"note":"it is hunter22","api_key":"abc","n":1}', failed)
    journal.flush()
    (call,) = calls(path)
    assert call.arguments == '{"note":"it is ***","api_key":"***","n":1}'
    assert call.withheld == "hidden"
    assert call.error == "wrong password ***"
    everything = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"hunter22" not in everything
    assert b"abc" not in everything


def test_what_is_too_long_is_cut_and_says_so(path: Path) -> None:
    journal = Journal(path, max_chars=100)
    add(journal, '{"text":"' + "ä" * 500 + '"}')
    journal.close()
    (call,) = calls(path)
    assert call.arguments is not None
    assert call.arguments == '{"text":"' + "ä" * 60 + '…"}'
    assert call.withheld == "cut"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"a":1,"text":"' + "x" * 500 + '"}', '{"a":1,"text":"xxxxxxxxxx…"}'),
        ('{"a":1,"list":[' + "1," * 500 + "1]}", '{"a":1,"list":"[1,1,1,1,1…"}'),
        ('{"a":1,"b":2,"c":3,"text":"' + "x" * 500 + '"}', '{"a":"…","b":"…","c":"…","text":"…"}'),
        ('{"' + "n" * 200 + '":1}', '{"' + "n" * 98 + "…"),
    ],
    ids=["text", "list", "many", "no room"],
)
def test_arguments_that_are_cut_keep_their_names(path: Path, arguments: str, shown: str) -> None:
    journal = Journal(path, max_chars=100)
    add(journal, arguments)
    journal.close()
    (call,) = calls(path)
    assert (call.arguments, call.withheld) == (shown, "cut")


def test_secrets_in_what_is_cut_are_hidden(path: Path) -> None:
    journal = Journal(path, max_chars=200, redactor=Redactor(["hunter22"]))
    failed = Ending(CallState.FAILED, 1, error="hunter22 " * 3 + "x" * 500, error_kind="tool_error")
    add(journal, '{"password":"sesame","note":"it is hunter22","text":"' + "x" * 500 + '"}', failed)
    add(journal, ending=Ending(CallState.DONE, 1, '"it is hunter22 ' + "x" * 500 + '"'))
    journal.close()
    call, other = calls(path)
    assert call.arguments is not None
    assert (other.result or "").startswith('"it is *** xxx')
    assert call.error is not None
    assert call.arguments.startswith('{"password":"***","note":"it is ***","text":"xxx')
    assert call.error.startswith("*** *** *** xxx")
    everything = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert not any(secret in everything for secret in (b"hunter22", b"sesame"))


def test_of_a_secret_that_is_cut_in_the_middle_no_part_is_left(path: Path) -> None:
    secret = "correct-horse-battery-staple-7f3a9b2e"
    journal = Journal(path, max_chars=200, redactor=Redactor([secret]))
    text = "x" * 180 + secret
    add(journal, f'["{text}"]', Ending(CallState.FAILED, 1, error=text, error_kind="tool_error"))
    add(journal, ending=Ending(CallState.DONE, 1, f'"{text}"'))
    journal.close()
    assert len(calls(path)) == 2
    assert secret[:10].encode() not in b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_closing_writes_what_is_queued(path: Path) -> None:
    journal = Journal(path)
    for _ in range(100):
        add(journal)
    journal.close()
    assert len(calls(path)) == 100


def test_work_sees_what_was_added_before_and_keeps_its_own_failure(journal: Journal) -> None:
    add(journal)
    counted = journal.run(lambda connection: connection.execute("SELECT count(*) FROM call").fetchone()[0])
    broken = journal.run(lambda connection: connection.execute("SELECT 1 FROM nowhere"))
    add(journal)
    after = journal.run(lambda connection: connection.execute("SELECT count(*) FROM call").fetchone()[0])
    assert counted.result(10) >= 1
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        broken.result(10)
    assert after.result(10) == 2


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_file_that_is_taken_away_is_made_anew_with_the_calls_that_run(
    journal: Journal, path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    add(journal)
    running = add(journal, ending=None)
    journal.flush()
    match how:
        case "deleted":
            for file in path.parent.iterdir():
                file.unlink()
        case "moved":
            path.rename(path.with_name("elsewhere.db"))
        case "replaced":
            other = path.with_name("other.db")
            Journal(other).close()
            other.replace(path)
    add(journal)
    journal.flush()
    assert [call.state for call in calls(path) if call.id == running.id] == ["started"]
    journal.end(running, DONE)
    journal.flush()
    assert "was deleted, moved or replaced" in caplog.text
    found = {call.id: call.state for call in calls(path)}
    assert found[running.id] == "done"
    assert "started" not in found.values()
    (gap,) = journal.run(lambda connection: connection.execute("SELECT calls, reason FROM gap").fetchall()).result(10)
    assert gap == (1, "the file with these calls was deleted or moved")


def claim(journal: Journal, key: bytes, arguments: str = "{}") -> CallRecord:
    """Start a call with a key, as the ledger does."""
    record = journal.new_record(ADD, arguments, "once")
    record.key = record.fingerprint = key
    journal.run(lambda connection: journal.write_now(connection, record)).result(10)
    return record


def test_calls_with_keys_are_counted_in_the_gap_that_a_deleted_file_leaves(journal: Journal, path: Path) -> None:
    for number in range(5):
        journal.end(claim(journal, bytes([number])), DONE)
    running = claim(journal, b"running")
    journal.flush()
    path.unlink()
    add(journal)
    journal.flush()
    journal.end(running, DONE)
    journal.flush()
    with open_history(path) as history:
        assert [gap.calls for gap in history.gaps()] == [5]


def test_a_call_that_could_not_take_its_key_is_not_written_into_a_new_file(journal: Journal, path: Path) -> None:
    add(journal)
    journal.flush()
    connection = journal._writer.file.connection  # idle now; a commit that fails is as good as a broken disk
    assert connection is not None
    connection.execute("CREATE TEMP TABLE a (id INTEGER PRIMARY KEY)")
    connection.execute("CREATE TEMP TABLE b (a INTEGER REFERENCES a (id) DEFERRABLE INITIALLY DEFERRED)")
    connection.execute("PRAGMA foreign_keys = ON")

    def break_the_commit(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO temp.b VALUES (1)")

    record = journal.new_record(ADD, "{}", "once")
    record.key = record.fingerprint = b"k"
    with journal._writer.file.lock:  # so that both are in one transaction
        claiming = journal.run(lambda connection: journal.write_now(connection, record))
        breaking = journal.run(break_the_commit)
    for work in (claiming, breaking):
        with pytest.raises(NotRecordedError):
            work.result(10)
    path.unlink()
    journal.flush()
    assert record.id not in {call.id for call in calls(path)}


def is_whole(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


@pytest.mark.parametrize("has_reader", [False, True])
def test_a_log_that_is_deleted_beside_the_file_costs_no_call(
    journal: Journal, path: Path, has_reader: bool, caplog: pytest.LogCaptureFixture
) -> None:
    add(journal)
    running = add(journal, ending=None)
    journal.flush()
    reader = open_reader(path) if has_reader else None
    path.with_name("journal.db-wal").unlink()
    add(journal)
    journal.flush()
    if reader is not None:
        reader.close()
    journal.end(running, DONE)
    journal.flush()
    assert "journal.db-wal was deleted while toolrun is running; nothing is lost" in caplog.text
    assert [call.state for call in calls(path)] == ["done"] * 3
    with open_history(path) as history:
        assert history.gaps() == []
    assert is_whole(path)


def fill(journal: Journal, count: int, size: int) -> None:
    for _ in range(count):
        add(journal, '{"x":"' + "y" * size + '"}')
        if journal.is_full():
            journal.flush()
    journal.flush()


def test_a_backup_that_is_moved_over_the_file_of_a_living_writer_is_not_damaged(journal: Journal, path: Path) -> None:
    fill(journal, 300, 3000)
    backup = sqlite3.connect(path.with_name("backup.db"))
    source = sqlite3.connect(path)
    source.backup(backup)
    backup.close()
    source.close()
    fill(journal, 1800, 2500)
    fill(journal, 100, 200)
    path.with_name("backup.db").replace(path)
    add(journal, '{"x":"the last"}')
    journal.flush()
    assert is_whole(path)
    found = calls(path)
    assert len(found) == 301
    assert found[-1].arguments == '{"x":"the last"}'
    with open_history(path) as history:
        assert [gap.calls for gap in history.gaps()] == [1900]


def test_a_database_of_another_program_that_is_moved_over_the_file_is_not_written_to(
    journal: Journal, path: Path
) -> None:
    fill(journal, 300, 3000)
    foreign = sqlite3.connect(path.with_name("foreign.db"))
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.commit()
    foreign.close()
    path.with_name("foreign.db").replace(path)
    before = path.read_bytes()
    add(journal)
    with pytest.raises(NotRecordedError, match="database of another program"):
        journal.flush()
    assert path.read_bytes() == before
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
    connection.close()


async def test_a_reader_in_the_middle_does_not_make_calls_wait_for_a_checkpoint(journal: Journal, path: Path) -> None:
    reader = open_reader(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM call").fetchone()
    fill(journal, 600, 8000)
    loop = asyncio.get_running_loop()
    commits = journal.commits
    async with asyncio.timeout(9):  # SQLite's own patience is 10 seconds for each checkpoint
        for _ in range(5):
            await journal.add_and_wait(journal.new_record(ADD, "{}", "once"), loop)
    assert journal.commits == commits + 5
    reader.close()
    async with asyncio.timeout(30):  # without the reader the log is soon in the database
        while path.with_name("journal.db-wal").stat().st_size > 4 * 1024 * 1024:
            await journal.add_and_wait(journal.new_record(ADD, "{}", "once"), loop)
            await asyncio.to_thread(threading.Event().wait, 0.05)
    assert is_whole(path)


async def test_a_journal_that_cannot_be_written_stops_nobody_and_goes_on_later(
    journal: Journal, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(journal)
    journal.flush()
    connection = journal._writer.file.connection  # idle now; a limit on pages is as good as a full disk
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    big = '{"x":"' + "y" * 16_000 + '"}'
    record = journal.new_record(ADD, big, "once")
    record.is_required = True
    with pytest.raises(NotRecordedError, match="full"):
        await journal.add_and_wait(record, asyncio.get_running_loop())
    assert journal.problem is not None
    assert f"The journal {path} cannot be written: database or disk is full. Make room on the disk" in caplog.text
    assert "Calls continue without it" in caplog.text
    with pytest.raises(NotRecordedError, match="full"):
        await journal.drain()
    connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    await journal.drain()
    ids = {call.id for call in calls(path)}
    assert record.id in ids  # it is written after all
    assert journal.problem is None


@pytest.mark.parametrize("is_finished", [False, True])
def test_calls_of_a_tool_that_was_new_when_nothing_could_be_written_are_found_under_its_name(
    journal: Journal, path: Path, is_finished: bool
) -> None:
    add(journal)
    journal.flush()
    connection = journal._writer.file.connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    new, big = ToolRow("new", "tools/new.py", "d2"), '{"x":"' + "y" * 16_000 + '"}'
    if is_finished:
        journal.add((new, "none", time.time_ns(), 1, big, "1", None))
    else:
        record = journal.new_record(new, big, "none")
        record.ending = DONE
        journal.add(record)
    with pytest.raises(NotRecordedError, match="full"):
        journal.flush()
    connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    record = journal.new_record(ToolRow("newer", "tools/new.py", "d3"), "{}", "none")
    record.ending = DONE
    journal.add(record)  # the first whose tool gets a number
    journal.flush()
    journal.flush()
    assert sorted(call.tool for call in calls(path)) == ["add", "new", "newer"]


def test_a_tool_that_was_new_in_work_that_failed_is_known_under_its_name(journal: Journal, path: Path) -> None:
    """What a job raises undoes its own changes, and so the row of a tool that it was the first to use."""
    record = journal.new_record(ToolRow("new", "tools/new.py", "d2"), "{}", "once")
    record.ending = DONE

    def fail(connection: sqlite3.Connection) -> None:
        journal._rows.write(connection, [record])
        raise ValueError("afterwards")

    with pytest.raises(ValueError, match="afterwards"):
        journal.run(fail).result(10)
    add(journal)
    journal.add(record)
    journal.flush()
    assert sorted(call.tool for call in calls(path)) == ["add", "new"]


async def test_while_nothing_can_be_written_calls_do_not_wait_for_attempts_and_the_end_says_what_is_lost(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(path)
    connection = journal._writer.file.connection
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    attempts: list[str] = []
    connection.set_trace_callback(lambda it: attempts.append(it) if it.startswith("BEGIN") else None)
    big = '{"x":"' + "y" * 16_000 + '"}'
    loop = asyncio.get_running_loop()
    journal._writer._next_attempt = 0.0
    for _ in range(20):
        await journal.add_and_wait(journal.new_record(ADD, big, "once"), loop)
        journal._writer._next_attempt = time.monotonic() + 60
    assert len(attempts) == 1
    journal.close()
    assert "20 calls are not recorded in the journal" in caplog.text


def test_two_processes_write_to_one_file(journal: Journal, path: Path) -> None:
    program = """
import sys
from pathlib import Path
from toolrun.journal.call_record import Ending, CallState, ToolRow
from toolrun.journal.journal import Journal
journal = Journal(Path(sys.argv[1]))
for _ in range(2000):
    record = journal.new_record(ToolRow("other", "", ""), "{}", None)
    record.ending = Ending(CallState.DONE, 1)
    journal.add(record)
    if journal.is_full():
        journal.flush()
journal.close()
"""
    other = subprocess.Popen([sys.executable, "-c", program, str(path)])
    for _ in range(2000):
        add(journal)
        journal.flush()
    assert other.wait(60) == 0
    journal.flush()
    found = calls(path)
    assert len(found) == 4000
    assert len({call.process for call in found}) == 2


VICTIM = """
import asyncio, sys
from pathlib import Path
from toolrun.journal.call_record import ToolRow
from toolrun.journal.journal import Journal
async def main():
    journal = Journal(Path(sys.argv[1]))
    loop = asyncio.get_running_loop()
    for effects in ("once", None, "none", "idempotent"):
        await journal.add_and_wait(journal.new_record(ToolRow("victim", "", ""), "{}", effects), loop)
    print("ready", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


def end(victim: subprocess.Popen[str]) -> None:
    assert victim.stdin is not None
    assert victim.stdout is not None
    victim.stdin.close()
    victim.stdout.close()
    victim.wait(30)


def start_victim(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", VICTIM, str(path)]
    victim = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "ready\n"
    return victim


def test_calls_of_a_killed_process_are_in_doubt_for_readers_at_once_and_for_the_next_writer(path: Path) -> None:
    victim = start_victim(path)
    with open_history(path) as history:
        assert history.in_doubt() == []  # it is alive
        victim.send_signal(signal.SIGKILL)
        victim.communicate(timeout=30)
        assert [(call.state, call.effects) for call in history.in_doubt()] == [("in_doubt", "once"), ("in_doubt", None)]
        assert history.calls(state="started") == []
        assert len(history.calls(error_kind="host_lost")) == len(history.calls(not_done=True)) == 4
        assert [call.effects for call in history.calls(state="failed", limit=1)] == ["idempotent"]
        assert [(it.failed, it.outcomes) for it in history.statistics()] == [(4, {"host_lost": 4})]
    seen = calls(path)  # a reader says what the next writer writes down
    Journal(path).close()
    with closing(open_reader(path)) as reader:
        written = [state for (state,) in reader.execute("SELECT state FROM call ORDER BY id")]
    assert written == [call.state for call in seen]
    assert calls(path) == seen
    assert [(call.effects, call.state, call.error_kind, call.side_effects) for call in calls(path)] == [
        ("once", "in_doubt", "host_lost", "unknown"),
        (None, "in_doubt", "host_lost", "unknown"),
        ("none", "failed", "host_lost", "failed"),
        ("idempotent", "failed", "host_lost", "failed"),
    ]


def test_calls_of_a_living_process_are_not_touched(path: Path) -> None:
    victim = start_victim(path)
    with open_history(path) as history:
        assert len(history.calls(state="started", limit=4)) == 4
        assert history.calls(not_done=True) == []  # what runs has not failed
    Journal(path).close()
    assert [call.state for call in calls(path)] == ["started"] * 4
    victim.communicate(timeout=30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_file_is_whole_after_sigkill_at_any_moment(path: Path) -> None:
    program = VICTIM.replace(
        'print("ready", flush=True)\n    sys.stdin.read()',
        """print("ready", flush=True)
    while True:
        await journal.add_and_wait(journal.new_record(ToolRow("victim", "", ""), "{}", "once"), loop)
        print("told", flush=True)""",
    )
    for moment in range(5):
        command = [sys.executable, "-c", program, str(path)]
        victim = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        told = 4
        for _ in range(moment * 37):
            told += victim.stdout.readline() == "told\n"
        victim.send_signal(signal.SIGKILL)
        told += victim.stdout.read().count("told\n")
        end(victim)
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (process,) = connection.execute("SELECT max(id) FROM process").fetchone()
        (written,) = connection.execute("SELECT count(*) FROM call WHERE process = ?", (process,)).fetchone()
        connection.close()
        assert told <= written <= told + 1


def test_names_that_a_model_makes_up_are_bounded_and_take_no_name_from_a_tool(journal: Journal, path: Path) -> None:
    refused = Ending(CallState.REFUSED, 0, None, "Tool not found", "unknown_tool", "not_started")
    for number in range(10_005):
        record = journal.new_record(ToolRow(f"made-up-{number}", "", ""), "{}", None)
        record.ending = refused
        journal.add(record)
    journal.flush()
    add(journal)
    journal.flush()
    connection = open_reader(path)
    assert connection.execute("SELECT count(*) FROM tool").fetchone()[0] == 10_002
    connection.close()
    assert [call.tool for call in calls(path)][-6:] == [*["(other)"] * 5, "add"]
