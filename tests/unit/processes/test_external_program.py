"""Small programs of the system, run to their end or to ours."""

from __future__ import annotations

import asyncio
import os
import select
from pathlib import Path

import pytest

from toolrun.processes.external_program import run_program


async def test_a_program_gets_its_input_and_gives_its_output() -> None:
    done = await run_program(["sh", "-c", "cat; echo oops >&2; exit 3"], stdin=b"hello", timeout=30)
    assert (done.code, done.output, done.errors, done.complaint) == (3, b"hello", "oops\n", "oops")


async def test_without_a_word_the_complaint_is_the_code() -> None:
    assert (await run_program(["false"], timeout=30)).complaint == "it ended with exit code 1"


async def test_variables_are_added_to_those_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSE_SERVER", "1")
    done = await run_program(["sh", "-c", "echo $PULSE_SERVER $THEIRS"], variables={"THEIRS": "2"}, timeout=30)
    assert done.output == b"1 2\n"


@pytest.mark.parametrize("variables", [None, {"LC_ALL": "C"}])
async def test_a_program_gets_nothing_else_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str] | None
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2")
    done = await run_program(["env"], variables=variables, timeout=30)
    assert b"PATH=" in done.output
    assert b"hunter2" not in done.output


async def test_more_output_than_wanted_is_cut() -> None:
    done = await run_program(["head", "-c", "300000", "/dev/zero"], timeout=30, max_output=1000)
    assert (done.code, len(done.output)) == (0, 1000)


async def test_a_process_that_is_left_behind_does_not_hold_the_answer_back(tmp_path: Path) -> None:
    done = await run_program(["sh", "-c", 'sleep 60 & echo $! > "$0"', str(tmp_path / "left")], timeout=30)
    assert done.code == 0
    os.kill(int((tmp_path / "left").read_text()), 9)


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_program_that_is_given_up_is_ended_with_what_it_started(tmp_path: Path, how: str) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    command = ["sh", "-c", 'sleep 60 & echo $$ $! > "$0"; wait', str(started)]
    task = asyncio.create_task(run_program(command, timeout=3 if how == "timeout" else 60))
    pids = [int(pid) for pid in (await asyncio.to_thread(started.read_text)).split()]
    if how == "cancel":
        task.cancel()
    with pytest.raises(TimeoutError if how == "timeout" else asyncio.CancelledError):
        await task
    for pid in pids:
        wait_until_ended(pid)


async def test_a_program_that_is_given_up_while_it_starts_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """The event loop is held until the program runs, so that it does not know yet that the start was successful."""
    started = tmp_path / "started"
    os.mkfifo(started)
    command = ["sh", "-c", 'sleep 60 & echo $$ $! > "$0"; wait', str(started)]
    with os.fdopen(os.open(started, os.O_RDONLY | os.O_NONBLOCK)) as pipe:
        task = asyncio.create_task(run_program(command, timeout=60))
        for _ in range(2):
            await asyncio.sleep(0)
        assert select.select([pipe], [], [], 30)[0], "the program was not started"
        pids = [int(pid) for pid in pipe.readline().split()]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(pids) == 2
    for pid in pids:
        wait_until_ended(pid)


async def test_a_second_cancellation_waits_for_the_end_as_well(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    task = asyncio.create_task(run_program(["sh", "-c", 'echo $$ > "$0"; exec sleep 60', str(started)], timeout=60))
    pid = int(await asyncio.to_thread(started.read_text))
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_reaped(pid)


async def test_a_program_that_does_not_exist_is_an_error_at_once() -> None:
    with pytest.raises(FileNotFoundError):
        await run_program(["/nowhere/program"], timeout=30)


def is_reaped(pid: int) -> bool:
    """Whether a child is not only dead but also asked for."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def wait_until_ended(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 30)[0], "the process still runs"
    finally:
        os.close(descriptor)
