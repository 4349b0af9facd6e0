"""Signals to `toolrun call` while its tool runs: it ends, its worker ends, and others do not notice."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import console
from faults.bench import LIMIT, Project, orphan, tagged, until


def call(code: str, *options: str) -> tuple[str, ...]:
    return "call", *options, "subject", json.dumps({"code": code})


def endless(path: Path) -> str:
    """Code that goes on after every signal that can be caught, and leaves an orphan."""
    return f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{orphan(path)}\nwhile True: time.sleep(60)"


async def test_an_interrupt_ends_the_call_and_its_worker(project: Project) -> None:
    project.configure()
    path = project.root / "grandchild"
    with console.started(*call(endless(path)), cwd=project.root) as process:
        await until(path.exists, "the start of the tool")
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130
        await until(lambda: not tagged(project.tag), "the end of the worker")


async def test_a_second_interrupt_ends_them_at_once(project: Project) -> None:
    project.configure(grace=600.0)
    path = project.root / "grandchild"
    with console.started(*call(endless(path)), cwd=project.root) as process:
        await until(path.exists, "the start of the tool")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130
        await until(lambda: not tagged(project.tag), "the end of the worker")


async def test_a_termination_under_load_harms_nobody_else(project: Project) -> None:
    project.configure()
    gate, started = project.root / "gate", project.root / "started"
    started.mkdir()
    with ExitStack() as stack:

        def start(code: str) -> subprocess.Popen[str]:
            return stack.enter_context(console.started(*call(code), cwd=project.root))

        waiting = f"while not Path({str(gate)!r}).exists(): time.sleep(0.005)"
        others = [
            start(f"Path('{started}/{number}').touch()\n{waiting}\nanswer = 'done {number}'") for number in range(3)
        ]
        victim = start(endless(started / "victim"))
        await until(lambda: len(list(started.glob("[!.]*"))) == 4, "the start of all tools")
        victim.terminate()
        assert victim.wait(LIMIT) in (-signal.SIGTERM, 143)
        gate.touch()
        for number, process in enumerate(others):
            output, errors = process.communicate(timeout=LIMIT)
            assert (output, process.returncode) == (f"done {number}\n", 0), errors


async def test_a_call_that_times_out_does_not_claim_that_the_tool_still_runs(project: Project) -> None:
    project.configure()
    with console.started(*call("time.sleep(60)", "--timeout", "2.5"), cwd=project.root) as process:
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert "timed out after 2.5 s" in errors
    assert "may have acted" in errors
    assert "still" not in errors
