"""What may happen to a journal while calls are made: each time calls go on, and what is missing is on record."""

from __future__ import annotations

import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolrun import ToolExecutor, ToolManager, tool
from toolrun.config.model import ToolSettings
from toolrun.errors import ConfigError, ErrorKind, JournalError
from toolrun.journal import database
from toolrun.journal.history import open_history
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder
from toolrun.runtime import Runtime

PROGRAM = """
import asyncio, mmap, os, resource, struct, sys
from pathlib import Path
from toolrun import ToolExecutor, ToolManager, tool
from toolrun.config.model import ToolSettings
from toolrun.journal.journal import Journal
from toolrun.journal.recorder import CallRecorder

@tool
async def look(n: int) -> int:
    "Look."
    return n

@tool
async def wait(n: int) -> int:
    "Wait."
    await asyncio.sleep(0)
    return n

@tool
async def act(n: int) -> int:
    "Act."
    return n

@tool
async def hang(n: int) -> None:
    "Never end."
    await asyncio.Event().wait()

path = Path(sys.argv[1])

def open_executor():
    global journal
    journal = Journal(path)
    harmless = ToolSettings(effects="none")
    settings = {"wait": harmless, "hang": harmless, "act": ToolSettings(effects="once")}
    manager = ToolManager([look, wait, act, hang])
    return ToolExecutor(manager, observers=[], settings=settings, recorder=CallRecorder(journal))
"""


def start(body: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM + body, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run(body: str, *arguments: object) -> str:
    output, _ = start(body, *arguments).communicate(timeout=60)
    return output


def rows(path: Path, question: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute(question).fetchall()
    finally:
        connection.close()


FLOOD = """
shared = mmap.mmap(os.open(sys.argv[2], os.O_RDWR), 8)
async def main():
    executor = open_executor()
    print(journal.process, flush=True)
    n = 0
    while True:
        result = await executor.execute(sys.argv[3], {"n": n})
        assert result.success
        n += 1
        struct.pack_into("q", shared, 0, n)
        if n == int(sys.argv[4]):
            print("enough", flush=True)
asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["look", "wait", "act"])
@pytest.mark.parametrize(
    ("processes", "count"),
    [(1, 5000), (2, 5000), *(pytest.param(it, 100_000, marks=pytest.mark.real_time) for it in (1, 2))],
)
def test_a_killed_process_loses_no_more_than_what_may_be_in_memory(
    tmp_path: Path, kind: str, processes: int, count: int
) -> None:
    path = tmp_path / "journal.db"
    if kind == "act":
        count //= 10
    counters, victims = [], []
    for number in range(processes):
        counter = tmp_path / f"counter-{number}"
        counter.write_bytes(bytes(8))
        counters.append(counter)
        victims.append(start(FLOOD, path, counter, kind, count))
    owners = []
    for victim in victims:
        assert victim.stdout is not None
        owners.append(int(victim.stdout.readline()))
    for victim in victims:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "enough\n"
    for victim in victims:
        victim.send_signal(signal.SIGKILL)
    for victim in victims:
        victim.communicate(timeout=30)
    for owner, counter in zip(owners, counters, strict=True):
        (made,) = struct.unpack("q", counter.read_bytes())
        ((begun, done),) = rows(
            path, f"SELECT count(*), count(*) FILTER (WHERE state = 'done') FROM call WHERE process = {owner}"
        )
        assert isinstance(begun, int)
        assert isinstance(done, int)
        assert done <= made + 1
        if kind == "act":  # each start was on disk before its body ran
            assert made <= begun <= made + 1
        else:
            assert begun >= made - 4096
        numbers = [number for (number,) in rows(path, NUMBERS.format(owner=owner))]
        assert numbers == list(range(len(numbers)))  # what is on disk is a beginning of what happened


NUMBERS = "SELECT arguments ->> '$.n' FROM call WHERE process = {owner} ORDER BY id"

PACED = """
import sqlite3, threading, time
shared = mmap.mmap(os.open(sys.argv[2], os.O_RDWR), 8 * 10_000)

def twin():
    "Does what the journal's thread does, in the simplest way: what is the machine able to do at the moment?"
    own = sqlite3.connect(f"{path}-twin", isolation_level=None, check_same_thread=False)
    own.execute("PRAGMA journal_mode = WAL")
    own.execute("PRAGMA synchronous = NORMAL")
    own.execute("CREATE TABLE beat (at)")
    worst = 0
    while True:
        began = time.monotonic_ns()
        struct.pack_into("q", shared, 8, began)
        threading.Event().wait(0.02)
        own.execute("INSERT INTO beat VALUES (?)", (began,))
        worst = max(worst, time.monotonic_ns() - began)
        struct.pack_into("q", shared, 16, worst)

async def main():
    executor = open_executor()
    threading.Thread(target=twin, daemon=True).start()
    print(journal.process, flush=True)
    hanging = asyncio.create_task(executor.execute("hang", {"n": -1}))
    for n in range(9000):
        assert (await executor.execute(sys.argv[3], {"n": n})).success
        struct.pack_into("q", shared, 8 * (n + 10), time.monotonic_ns())
        struct.pack_into("q", shared, 0, n + 1)
        await asyncio.sleep(0.001)
asyncio.run(main())
"""
MOMENT = 50_000_000
"""Nanoseconds."""


@pytest.mark.parametrize("kind", ["look", "wait"])
@pytest.mark.parametrize("calls", [100, *(pytest.param(n, marks=pytest.mark.real_time) for n in range(37, 2000, 173))])
def test_what_was_done_50_ms_before_its_process_was_killed_is_on_record(tmp_path: Path, kind: str, calls: int) -> None:
    path, counter = tmp_path / "journal.db", tmp_path / "counter"
    counter.write_bytes(bytes(80_000))
    victim = start(PACED, path, counter, kind)
    assert victim.stdout is not None
    owner = int(victim.stdout.readline())
    deadline = time.monotonic() + 60
    while struct.unpack_from("q", counter.read_bytes())[0] < calls:
        assert victim.poll() is None
        assert time.monotonic() < deadline
    killed = time.monotonic_ns()
    victim.send_signal(signal.SIGKILL)
    victim.communicate(timeout=30)
    made, beat, worst, *_ = told = struct.unpack("10000q", counter.read_bytes())
    late = max(worst, killed - beat) - 20_000_000  # how late the twin was: so may the journal be
    assert rows(path, "SELECT state FROM call WHERE arguments ->> '$.n' = -1") == [
        ("started",)
    ]  # it is seen as it runs
    numbers = [number for (number,) in rows(path, NUMBERS.format(owner=owner)) if number != -1]
    assert numbers == list(range(len(numbers)))
    lost = [killed - at for at in told[10 + len(numbers) : 10 + made]]
    assert all(age <= MOMENT + max(0, late) for age in lost), (lost, late)


FORK = """
async def calls(executor, first):
    for n in range(first, first + 3):
        for name in ("look", "wait", "act"):
            assert (await executor.execute(name, {"n": n})).success, name
    same = await executor.execute("act", {"n": 0}, key="the same")
    return same.replayed

executor = open_executor()
print(asyncio.run(calls(executor, 0)), journal.process, flush=True)
for child in range(2):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if child == 0:
                print(asyncio.run(calls(executor, 100)), journal.process, flush=True)
            journal.close()
            status = 0
        finally:
            os._exit(status)
    assert asyncio.run(calls(executor, 200)) is True
    assert os.waitpid(pid, 0)[1] == 0
print(asyncio.run(calls(executor, 300)), journal.process, flush=True)
journal.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_records_its_calls_as_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    assert run(FORK, path).splitlines() == ["False 1", "True 2", "True 1"]  # the second child made no call
    assert rows(path, "SELECT process, state, count(*) FROM call GROUP BY 1, 2 ORDER BY 1") == [
        (1, "done", 9 * 4 + 1),
        (2, "done", 9),
    ]
    assert rows(path, "SELECT count(*) FROM process WHERE ended_at IS NULL") == [(0,)]
    assert rows(path, "SELECT count(*) FROM gap") == [(0,)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_in_the_middle_of_writing_loses_nothing_of_the_parents(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    body = """
async def main():
    for n in range(4000):
        assert (await executor.execute("look", {"n": n})).success
        if n % 500 == 0:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
executor = open_executor()
asyncio.run(main())
journal.close()
print("done")
"""
    assert run(body, path) == "done\n"
    assert rows(path, "SELECT process, state, count(*) FROM call GROUP BY 1, 2") == [(1, "done", 4000)]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs a list of its own descriptors")
def test_a_forked_child_takes_neither_the_open_file_along_nor_what_is_queued(tmp_path: Path) -> None:
    """SQLite in the child would believe that it has the locks of the parent."""
    body = """
async def main():
    executor = open_executor()
    await executor.execute("act", {"n": 1})
    with journal._writer.file.lock:
        journal.run(lambda connection: None)
        while journal._writer._queue:
            await asyncio.sleep(0)
        await executor.execute("look", {"n": 1})
    return os.fork() if journal._writer._queue else None
pid = asyncio.run(main())
if pid == 0:
    links = [f"/proc/self/fd/{it}" for it in os.listdir("/proc/self/fd")]
    held = [it for it in links if os.path.exists(it) and "journal.db" in os.readlink(it)]
    os._exit(len(held) + 100 * len(journal._writer._queue))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
journal.close()
"""
    assert run(body, tmp_path / "journal.db") == "0\n"


def test_calls_go_on_with_a_full_disk_and_what_could_not_be_kept_is_on_record(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    body = """
async def main():
    executor = open_executor()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert (await executor.execute("act", {"n": 0})).success
    await journal.drain()
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
    for n in range(10_000):
        assert (await executor.execute("look", {"n": n})).success
    assert (await executor.execute("act", {"n": 1})).success
    print(journal.problem is not None)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await journal.drain()
    print(journal.problem)
asyncio.run(main())
journal.close()
"""
    assert run(body, path) == "True\nNone\n"
    ((written,),) = rows(path, "SELECT count(*) FROM call")
    ((gaps, lost),) = rows(path, "SELECT count(*), sum(calls) FROM gap")
    assert isinstance(written, int)
    assert isinstance(lost, int)
    assert gaps == 1
    assert written + lost == 10_002
    assert rows(path, "SELECT arguments FROM call WHERE effects = 'once' AND state = 'done' ORDER BY id") == [
        ('{"n":0}',),
        ('{"n":1}',),
    ]


@tool
async def act(n: int) -> int:
    """Act."""
    return n


ONCE = ToolSettings(effects="once")


async def test_a_required_journal_refuses_calls_that_may_act_while_it_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = Journal(path)
    recorder = CallRecorder(journal, is_required=True)
    executor = ToolExecutor(ToolManager([act]), settings={"act": ONCE}, recorder=recorder)
    assert (await executor.execute("act", {"n": 1})).success
    await journal.drain()
    path.rename(path.with_name("elsewhere.db"))
    path.mkdir()  # nothing can be written there
    refused = await executor.execute("act", {"n": 2})
    assert refused.error_kind is ErrorKind.UNAVAILABLE
    path.rmdir()
    assert (await executor.execute("act", {"n": 3})).success
    await executor.close()
    journal.close()
    assert rows(path, "SELECT state FROM call ORDER BY id") == [("refused",), ("done",)]
    assert rows(path, "SELECT count(*) FROM gap") == [(1,)]


async def test_calls_are_recorded_and_end_when_the_clock_jumps_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolrun.journal import journal as journal_module
    from toolrun.journal import recorder, writer

    path, now = tmp_path / "journal.db", [10**18]
    for module in (journal_module, recorder, writer):
        monkeypatch.setattr(module, "time_ns", lambda: now[0])
    journal = Journal(path)
    manager = ToolManager()

    @tool
    async def jump() -> str:
        """Jump."""
        now[0] -= 24 * 3600 * 10**9
        return "back"

    manager.add(jump)
    executor = ToolExecutor(manager, settings={"jump": ONCE}, recorder=CallRecorder(journal))
    for _ in range(3):
        assert (await executor.execute("jump")).success
    await executor.close()
    journal.close()
    with open_history(path) as history:
        found = sorted(history.calls(), key=lambda call: call.id)
    assert [call.state for call in found] == ["done"] * 3
    assert [call.at for call in found] == sorted((call.at for call in found), reverse=True)
    assert all(call.run_us is not None and 0 <= call.run_us < 60_000_000 for call in found)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("damaged", "mv {path} {path}.damaged"),
        ("locked by another program", "Another program has locked it"),
        ("the lock file is a directory", "set [journal] path to another file"),
    ],
)
async def test_a_journal_that_turns_out_to_be_unusable_when_it_is_there_stops_no_call_and_says_what_to_do(
    tmp_path: Path, fault: str, advice: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config, path = tmp_path / "toolrun.toml", tmp_path / ".toolrun/journal.db"
    config.write_text("")
    async with Runtime.open(config) as runtime:
        runtime.manager.add(act)
        assert (await runtime.executor.execute("act", {"n": 1})).success
    other = sqlite3.connect(path, isolation_level=None)
    match fault:
        case "damaged":
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            data = bytearray(path.read_bytes())
            data[4096:] = b"\xff" * (len(data) - 4096)
            path.write_bytes(data)
        case "locked by another program":
            monkeypatch.setattr(database, "_BUSY", 0.05)
            other.execute("BEGIN IMMEDIATE")
        case _:
            path.with_name("journal.db-lock").unlink()
            path.with_name("journal.db-lock").mkdir()
    async with Runtime.open(config) as runtime:
        runtime.manager.add(act)
        assert (await runtime.executor.execute("act", {"n": 1})).success
        assert runtime.journal is None
        assert advice.format(path=path) in str(runtime.executor.health().journal)
    assert "calls are not recorded" in caplog.text
    assert advice.format(path=path) in caplog.text
    config.write_text("[journal]\nrequired = true\n")
    with pytest.raises(ConfigError, match="required = true"):
        async with Runtime.open(config):
            pass
    if fault == "damaged":
        with pytest.raises(JournalError, match=r"damaged"), open_history(path) as history:
            history.calls()
    other.close()


@pytest.mark.parametrize("fault", ["foreign file", "no database", "a directory", "no folder", "old SQLite", "network"])
async def test_a_project_without_a_usable_journal_makes_its_calls(
    tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / ".toolrun"
    path = folder / "journal.db"
    if fault == "no folder":  # as root a folder that is not writable is writable
        folder.write_text("a file")
    else:
        folder.mkdir()
    match fault:
        case "foreign file":
            connection = sqlite3.connect(path)
            connection.execute("CREATE TABLE theirs (x)")
            connection.close()
        case "no database":
            path.write_bytes(b"no database" * 1000)
        case "a directory":
            path.mkdir()
        case "old SQLite":
            monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
        case "network":
            monkeypatch.setattr(database, "file_system", lambda _: "nfs4")
    (tmp_path / "toolrun.toml").write_text(f'[journal]\npath = "{path}"\n')
    async with Runtime.open(tmp_path / "toolrun.toml") as runtime:
        runtime.manager.add(act)
        assert (await runtime.executor.execute("act", {"n": 1})).success
        assert runtime.journal is None
    assert "calls are not recorded" in caplog.text
