"""Finding and killing tagged processes: real ones, since the subject is what the system shows of them."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial

import pytest

from toolrun.processes import fork_guard
from toolrun.processes.watchdog import count_tagged, kill_tagged, last_pid

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


def test_tagged_processes_are_counted_by_tag(sleepers: Sleepers, tag: str) -> None:
    for number in (1, 2, 2):
        process = sleepers.start({NAME: f"{tag}:{number}"}, "/bin/sh", "-c", "echo; read -r _")
        assert process.stdout is not None
        assert process.stdout.readline(), "its program runs"
    counts = count_tagged(f"{NAME}={tag}:".encode())
    assert counts == {b"1": 1, b"2": 2}


def test_a_new_process_has_a_new_number(sleepers: Sleepers) -> None:
    before = last_pid()
    sleepers.start({})
    assert last_pid() != before


async def test_a_worker_with_too_many_processes_is_killed_and_no_other(
    sleepers: Sleepers, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_guard, "MAX_PROCESSES", 2)
    monkeypatch.setattr(fork_guard, "_INTERVAL", 0.01)
    told: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
    guard = fork_guard.ForkGuard(NAME)

    def tell(name: str, reason: str) -> None:
        if not told.done():
            told.set_result((name, reason))

    for name in ("few", "many"):
        guard.add(f"{tag}:{name}", partial(tell, name))
    try:
        for name in ("few", "few", "many", "many", "many"):
            sleepers.start({NAME: f"{tag}:{name}"})
        async with asyncio.timeout(LIMIT):
            assert await told == ("many", "killed by toolrun: it had more than 2 processes")
    finally:
        for name in ("few", "many"):
            guard.remove(f"{tag}:{name}")
