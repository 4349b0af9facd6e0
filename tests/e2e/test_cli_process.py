"""`toolrun` as a process: its streams, its signals, and its end, whatever a tool does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from support.console import LIMIT, QUICKSTART, TOOLRUN, environment, on_terminal, started, toolrun, write_project

LOUD = '''
    import os, sys

    print("while loading")

    @tool
    def loud() -> str:
        """Writes to stdout in every way there is."""
        print("print")
        os.write(1, b"write\\n")
        os.system("echo child")
        sys.__stdout__.write("original\\n")
        return "the result"
'''

ENDLESS = '''
    import asyncio, sys, threading, time

    def started() -> None:
        print("started", file=sys.stderr, flush=True)

    @tool
    def in_a_thread() -> None:
        """Blocks a thread."""
        started()
        threading.Event().wait()

    @tool
    async def on_the_loop() -> None:
        """Waits on the loop."""
        started()
        await asyncio.Event().wait()

    @tool
    async def stubborn() -> None:
        """Does not let itself be cancelled."""
        started()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

    @tool
    async def in_the_pool() -> None:
        """Blocks a thread of asyncio's own pool, for which the interpreter waits."""
        started()
        await asyncio.to_thread(threading.Event().wait)

    @tool
    async def blocking() -> None:
        """Blocks the loop itself."""
        started()
        while True:
            time.sleep(0.05)

    @tool
    def leaves_a_thread() -> str:
        """Answers, and leaves a thread for which the interpreter waits."""
        threading.Thread(target=threading.Event().wait).start()
        return "the result"
'''


def test_what_a_tool_prints_goes_to_stderr(tmp_path: Path) -> None:
    done = toolrun("call", "loud", cwd=write_project(tmp_path, loud=LOUD))
    assert (done.returncode, done.stdout) == (0, "the result\n")
    assert done.stderr.splitlines() == ["while loading", "print", "write", "child", "original"]


@pytest.mark.parametrize("command", [["list"], ["describe", "loud"], ["doctor"]])
def test_what_a_file_prints_while_it_loads_goes_to_stderr(command: list[str], tmp_path: Path) -> None:
    done = toolrun(*command, cwd=write_project(tmp_path, loud=LOUD))
    assert (done.returncode, done.stderr) == (0, "while loading\n")
    assert "while loading" not in done.stdout


def test_escapes_reach_a_pipe_and_not_a_terminal(tmp_path: Path) -> None:
    source = '@tool\ndef red() -> str:\n    "Red."\n    return "\\x1b[31mred\\tand\\nblue"\n'
    write_project(tmp_path, red=source)
    assert toolrun("call", "red", cwd=tmp_path).stdout == "\x1b[31mred\tand\nblue\n"
    _, written = on_terminal(str(TOOLRUN), "call", "red", cwd=tmp_path)
    assert "\x1b" not in written
    # The terminal may have made spaces of the tab.
    assert re.fullmatch(r"\\x1b\[31mred\s+and\nblue\n", written)


def test_escapes_in_an_error_do_not_reach_a_terminal(tmp_path: Path) -> None:
    source = '@tool\ndef red() -> str:\n    "Red."\n    raise RuntimeError("\\x1b[2Jgone")\n'
    _, written = on_terminal(str(TOOLRUN), "call", "red", cwd=write_project(tmp_path, red=source))
    assert "\x1b[2J" not in written
    assert r"red failed: \x1b[2Jgone" in written


@pytest.mark.parametrize("tool", ["in_a_thread", "on_the_loop", "stubborn", "in_the_pool", "blocking"])
def test_ctrl_c_ends_a_call_whatever_the_tool_does(tool: str, tmp_path: Path) -> None:
    with started("call", tool, cwd=write_project(tmp_path, endless=ENDLESS)) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.strip().startswith("toolrun: interrupted")


def test_ctrl_c_names_the_call_that_it_leaves_in_doubt(tmp_path: Path) -> None:
    project = write_project(tmp_path, endless=ENDLESS)
    toolrun("call", "in_a_thread", "--timeout", "0.1", cwd=project)  # a doubt from before
    with started("call", "in_a_thread", cwd=project) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LIMIT)
    before, call = (it["id"] for it in json.loads(toolrun("effects", "--json", cwd=project).stdout))
    assert before != call
    settle = f"toolrun effects settle {call} --done (or --not-done)"
    lines = stderr.splitlines()
    assert lines[-2:] == [
        "toolrun: interrupted",
        f"Call {call} of 'in_a_thread' may have acted. Find out, then run: {settle}",
    ]


def test_ctrl_c_ends_the_loading_of_a_file_that_hangs(tmp_path: Path) -> None:
    source = 'import sys, time\nprint("started", file=sys.stderr, flush=True)\nwhile True:\n    time.sleep(0.05)\n'
    with started("list", cwd=write_project(tmp_path, hanging=source)) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.strip() == "toolrun: interrupted"


@pytest.mark.parametrize("tool", ["in_a_thread", "on_the_loop", "stubborn", "in_the_pool"])
def test_the_process_ends_after_a_deadline_whatever_the_tool_does(tool: str, tmp_path: Path) -> None:
    done = toolrun("call", tool, "--timeout", "2", cwd=write_project(tmp_path, endless=ENDLESS))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"toolrun: Tool '{tool}' timed out after 2 s" in done.stderr


def test_the_process_ends_although_a_thread_is_left(tmp_path: Path) -> None:
    done = toolrun("call", "leaves_a_thread", cwd=write_project(tmp_path, endless=ENDLESS))
    assert (done.returncode, done.stdout) == (0, "the result\n")


def test_exit_handlers_run_when_nothing_is_left(tmp_path: Path) -> None:
    source = """
        import asyncio, atexit

        @tool
        async def tidy() -> str:
            "Uses the pool, and tidies up."
            atexit.register(print, "tidied up")
            return await asyncio.to_thread(str, "the result")
    """
    done = toolrun("call", "tidy", cwd=write_project(tmp_path, tidy=source))
    assert (done.returncode, done.stdout, done.stderr) == (0, "the result\n", "tidied up\n")


@pytest.mark.parametrize(
    "command",
    [["list"], ["call", "add", "a=1", "b=2"], ["doctor"], [], ["--help"], ["--version"], ["call", "--help"]],
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_no_reason_to_complain(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [TOOLRUN, *command],
            cwd=QUICKSTART,
            env=environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=LIMIT,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_reason_to_fail(closed: str) -> None:
    command = f'"{TOOLRUN}" call add a=2 b=3 {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=QUICKSTART, env=environment(), capture_output=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (b"5\n" if closed == "2>&-" else b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_the_unexpected_is_one_line_and_a_traceback_only_on_request() -> None:
    for option, has_traceback in (("-v", False), ("-vv", True)):
        command = f'"{TOOLRUN}" {option} list >/dev/full'
        done = subprocess.run(
            ["sh", "-c", command], cwd=QUICKSTART, env=environment(), capture_output=True, text=True, timeout=LIMIT
        )
        assert done.returncode == 70
        assert "toolrun: unexpected OSError: [Errno 28]" in done.stderr
        assert ("Traceback" in done.stderr) == has_traceback
        assert ("-vv shows the traceback" in done.stderr) != has_traceback
