"""Finding and killing what bears a mark: real processes, since it is about what the system tells of them."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from toolrun.processes import fork_guard
from toolrun.processes.watchdog import count_marked, kill_marked, last_pid

LIMIT = 30.0
NAME = "TOOLRUN_TEST_MARK"

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
def mark() -> str:
    """The first part of a mark that nobody else has."""
    return secrets.token_hex(8)


def is_killed(process: subprocess.Popen[bytes]) -> bool:
    return process.wait(LIMIT) == -signal.SIGKILL


def test_only_the_bearers_of_the_mark_are_killed(sleepers: Sleepers, mark: str) -> None:
    third, other = sleepers.start({NAME: f"{mark}:3"}), sleepers.start({NAME: f"{mark}:31"})
    assert kill_marked(f"{NAME}={mark}:3\0".encode(), LIMIT)
    assert is_killed(third)
    assert other.poll() is None


def test_a_mark_may_be_the_beginning_of_one(sleepers: Sleepers, mark: str) -> None:
    ours = [sleepers.start({"A": "1", NAME: f"{mark}:{number}", "B": "2"}) for number in range(3)]
    others = [sleepers.start({NAME: "another"}), sleepers.start({f"NOT_{NAME}": f"{mark}:1"})]
    assert kill_marked(f"{NAME}={mark}:".encode(), LIMIT)
    assert all(is_killed(process) for process in ours)
    assert [process.poll() for process in others] == [None, None]


def test_the_group_of_a_bearer_goes_with_it(sleepers: Sleepers, mark: str) -> None:
    leader = sleepers.start({NAME: mark}, "/bin/sh", "-c", "/usr/bin/env -i /bin/sh -c 'echo; sleep 60' & wait")
    assert leader.stdout is not None
    assert leader.stdout.readline(), "a child without the mark runs"
    assert kill_marked(f"{NAME}={mark}\0".encode(), LIMIT)
    assert leader.stdout.read() == b"", "whoever held it open has gone"
    assert is_killed(leader)


def test_a_bearer_that_is_just_starting_another_program_is_not_overlooked(sleepers: Sleepers, mark: str) -> None:
    again = 'exec /bin/sh -c "$0" "$0"'
    for number in range(20):  # it can be in any state when it is looked at
        restless = sleepers.start({NAME: f"{mark}:{number}"}, "/bin/sh", "-c", again, again)
        assert kill_marked(f"{NAME}={mark}:{number}\0".encode(), LIMIT)
        assert is_killed(restless)


def test_a_process_without_variables_is_no_reason_for_doubt(sleepers: Sleepers, mark: str) -> None:
    bare = sleepers.start({})
    assert kill_marked(f"{NAME}={mark}\0".encode(), 0.1)
    assert bare.poll() is None


def test_a_child_that_has_ended_and_was_not_reaped_is_no_reason_for_doubt(sleepers: Sleepers, mark: str) -> None:
    ended = sleepers.start({NAME: mark}, "/bin/true")
    assert kill_marked(f"{NAME}={mark}\0".encode(), LIMIT)
    assert ended.wait(LIMIT) in (0, -signal.SIGKILL)


def test_bearers_are_counted_by_their_marks(sleepers: Sleepers, mark: str) -> None:
    for number in (1, 2, 2):
        process = sleepers.start({NAME: f"{mark}:{number}"}, "/bin/sh", "-c", "echo; read -r _")
        assert process.stdout is not None
        assert process.stdout.readline(), "its program runs"
    counts = count_marked(f"{NAME}={mark}:".encode())
    assert counts == {b"1": 1, b"2": 2}


def test_a_new_process_has_a_new_number(sleepers: Sleepers) -> None:
    before = last_pid()
    sleepers.start({})
    assert last_pid() != before


async def test_a_worker_with_too_many_processes_is_killed_and_no_other(
    sleepers: Sleepers, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_guard, "MAX_PROCESSES", 2)
    monkeypatch.setattr(fork_guard, "_INTERVAL", 0.01)
    told: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
    counting = fork_guard.Census(NAME)
    for name in ("few", "many"):
        counting.add(f"{mark}:{name}", lambda reason, name=name: told.done() or told.set_result((name, reason)))
    try:
        for name in ("few", "few", "many", "many", "many"):
            sleepers.start({NAME: f"{mark}:{name}"})
        async with asyncio.timeout(LIMIT):
            assert await told == ("many", "killed by toolrun: it had more than 2 processes")
    finally:
        for name in ("few", "many"):
            counting.remove(f"{mark}:{name}")
