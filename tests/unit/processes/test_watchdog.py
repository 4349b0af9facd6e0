"""Finding and killing tagged processes: real ones, since the subject is what the system shows of them."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial

import pytest

from toolrun.processes import fork_guard, watchdog
from toolrun.processes.watchdog import descendants, find_children, find_tagged, kill_tagged, last_pid

LIMIT = 30.0
NAME = "TOOLRUN_TEST_TAG"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of processes only on Linux")


class Sleepers:
    """Starts processes that do nothing, each in a session of its own."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, variables: Mapping[str, str], *command: str) -> subprocess.Popen[bytes]:
        process = self._stack.enter_context(
            subprocess.Popen(
                command or ("/bin/sleep", "60"),
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        )
        self._stack.callback(process.kill)
        return process


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    with ExitStack() as stack:
        yield Sleepers(stack)


@pytest.fixture
def tag() -> str:
    """The first part of a tag that nobody else has."""
    return secrets.token_hex(8)


def is_killed(process: subprocess.Popen[bytes]) -> bool:
    return process.wait(LIMIT) == -signal.SIGKILL


def test_only_tagged_processes_are_killed(sleepers: Sleepers, tag: str) -> None:
    third, other = sleepers.start({NAME: f"{tag}:3"}), sleepers.start({NAME: f"{tag}:31"})
    assert kill_tagged(f"{NAME}={tag}:3\0".encode(), LIMIT)
    assert is_killed(third)
    assert other.poll() is None


def test_a_tag_may_be_the_beginning_of_one(sleepers: Sleepers, tag: str) -> None:
    ours = [sleepers.start({"A": "1", NAME: f"{tag}:{number}", "B": "2"}) for number in range(3)]
    others = [sleepers.start({NAME: "another"}), sleepers.start({f"NOT_{NAME}": f"{tag}:1"})]
    assert kill_tagged(f"{NAME}={tag}:".encode(), LIMIT)
    assert all(is_killed(process) for process in ours)
    assert [process.poll() for process in others] == [None, None]


def test_the_group_of_a_tagged_process_is_killed_with_it(sleepers: Sleepers, tag: str) -> None:
    leader = sleepers.start({NAME: tag}, "/bin/sh", "-c", "/usr/bin/env -i /bin/sh -c 'echo; sleep 60' & wait")
    assert leader.stdout is not None
    assert leader.stdout.readline(), "a child without the tag runs"
    assert kill_tagged(f"{NAME}={tag}\0".encode(), LIMIT)
    assert leader.stdout.read() == b"", "whoever held it open has gone"
    assert is_killed(leader)


def test_a_tagged_process_in_the_middle_of_an_exec_is_not_missed(sleepers: Sleepers, tag: str) -> None:
    again = 'exec /bin/sh -c "$0" "$0"'
    for number in range(20):  # it can be in any state when it is looked at
        restless = sleepers.start({NAME: f"{tag}:{number}"}, "/bin/sh", "-c", again, again)
        assert kill_tagged(f"{NAME}={tag}:{number}\0".encode(), LIMIT)
        assert is_killed(restless)


def test_a_process_without_variables_is_no_reason_for_doubt(sleepers: Sleepers, tag: str) -> None:
    bare = sleepers.start({})
    assert kill_tagged(f"{NAME}={tag}\0".encode(), 0.1)
    assert bare.poll() is None


def test_a_child_that_has_ended_and_was_not_reaped_is_no_reason_for_doubt(sleepers: Sleepers, tag: str) -> None:
    ended = sleepers.start({NAME: tag}, "/bin/true")
    assert kill_tagged(f"{NAME}={tag}\0".encode(), LIMIT)
    assert ended.wait(LIMIT) in (0, -signal.SIGKILL)


def test_tagged_processes_are_found_by_tag(sleepers: Sleepers, tag: str) -> None:
    started: dict[bytes, set[int]] = {b"1": set(), b"2": set()}
    for number in (1, 2, 2):
        process = sleepers.start({NAME: f"{tag}:{number}"}, "/bin/sh", "-c", "echo; read -r _")
        assert process.stdout is not None
        assert process.stdout.readline(), "its program runs"
        started[str(number).encode()].add(process.pid)
    assert find_tagged(f"{NAME}={tag}:".encode()) == started


def test_a_new_process_has_a_new_number(sleepers: Sleepers) -> None:
    before = last_pid()
    sleepers.start({})
    assert last_pid() != before


def test_the_descendants_of_a_process_are_found_whoever_their_parent_is() -> None:
    children = {1: [2, 3], 3: [4], 4: [5, 6], 7: [8]}
    assert descendants(1, children) == {1, 2, 3, 4, 5, 6}
    assert descendants(5, children) == {5}


def test_the_children_of_a_process_are_found(sleepers: Sleepers) -> None:
    started = {sleepers.start({}).pid for _ in range(2)}
    assert started <= set(find_children()[os.getpid()])


@asynccontextmanager
async def guarded(pids: Mapping[str, int]) -> AsyncIterator[asyncio.Future[tuple[str, str]]]:
    """The first of some workers, known by their tags, that the guard kills, and the reason."""
    told: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
    guard = fork_guard.ForkGuard(NAME)

    def tell(name: str, reason: str) -> None:
        if not told.done():
            told.set_result((name, reason))

    for name, pid in pids.items():
        guard.add(name, pid, partial(tell, name))
    try:
        async with asyncio.timeout(LIMIT):
            yield told
    finally:
        for name in pids:
            guard.remove(name)


@pytest.fixture
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_guard, "MAX_PROCESSES", 3)
    monkeypatch.setattr(fork_guard, "_INTERVAL", 0.01)


@pytest.mark.usefixtures("low_limit")
async def test_a_worker_with_too_many_processes_is_killed_and_no_other(sleepers: Sleepers, tag: str) -> None:
    first = {name: sleepers.start({NAME: name}).pid for name in (f"{tag}:few", f"{tag}:many")}
    async with guarded(first) as told:
        for name in ("few", "few", "many", "many", "many"):
            sleepers.start({NAME: f"{tag}:{name}"})
        assert await told == (f"{tag}:many", "killed by toolrun: it had more than 3 processes")


@pytest.mark.usefixtures("low_limit")
async def test_processes_count_that_have_neither_the_tag_nor_the_session_of_their_worker(
    sleepers: Sleepers, tag: str
) -> None:
    start = "env -i setsid sleep 60 & " * 3
    few = sleepers.start({NAME: f"{tag}:few"})
    many = sleepers.start({"PATH": os.environ["PATH"]}, "/bin/sh", "-c", f"read -r _; {start} wait")
    async with guarded({f"{tag}:few": few.pid, f"{tag}:many": many.pid}) as told:
        assert many.stdin is not None
        many.stdin.write(b"\n")
        many.stdin.flush()
        assert (await told)[0] == f"{tag}:many"
    for child in find_children()[many.pid]:
        os.kill(child, signal.SIGKILL)


HOST = """
import os, subprocess, sys
watchdog, pipe, tag = sys.argv[1], int(sys.argv[2]), sys.argv[3]
subprocess.Popen([sys.executable, "-I", "-S", watchdog, str(os.getpid()), tag], stdin=pipe, start_new_session=True)
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system cannot watch a process")
@pytest.mark.parametrize("ends_by", ["kill", "exit"])
def test_the_watchdog_acts_when_its_host_ends_although_somebody_holds_the_pipe(
    sleepers: Sleepers, ends_by: str
) -> None:
    value = secrets.token_hex(8)
    sleeper = sleepers.start({NAME: value})
    reading, writing = os.pipe()  # a process that forks without Python's knowledge keeps a copy: here it is this one
    try:
        command = (sys.executable, "-c", HOST, watchdog.__file__, str(reading), f"{NAME}={value}")
        with subprocess.Popen(
            command, pass_fds=[reading], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as host:
            assert host.stdout is not None
            assert host.stdout.readline() == "started\n"
            assert sleeper.poll() is None
            if ends_by == "kill":
                host.kill()
        assert sleeper.wait(LIMIT) == -signal.SIGKILL
    finally:
        os.close(reading)
        os.close(writing)
