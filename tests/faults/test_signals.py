"""Signals to `toolrun call` while its tool runs: it ends, its worker ends, and others do not notice."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

from faults.bench import LIMIT, Project, orphan, until
from support import console


def call(code: str, *options: str) -> tuple[str, ...]:
    return "call", *options, "subject", json.dumps({"code": code})


def endless(path: Path) -> str:
    """Code that goes on after every signal that can be caught, and leaves an orphan."""
    return f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{orphan(path)}\nwhile True: time.sleep(60)"


async def test_an_interrupt_ends_the_call_and_its_worker(project: Project) -> None:
    path = project.root / "grandchild"
    async with project.elsewhere():
        with console.started(*call(endless(path)), cwd=project.root) as process:
            await until(path.exists, "the start of the tool")
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=LIMIT)
        assert (output, process.returncode) == ("", 130)
        assert errors.count("interrupted") == 1


async def test_a_second_interrupt_ends_them_at_once(project: Project) -> None:
    path = project.root / "grandchild"
    async with project.elsewhere():
        project.configure(grace=600.0)
        with console.started(*call(endless(path)), cwd=project.root) as process:
            await until(path.exists, "the start of the tool")
            process.send_signal(signal.SIGINT)
            await until(lambda: not is_pending(process.pid, signal.SIGINT), "the first interrupt")
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=LIMIT)
        assert output == ""
        assert process.returncode in (130, -signal.SIGINT)  # Python's own end, if the second comes very late


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a process has not taken notice of a signal yet: until then a second is the same as the first."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has ended
        return False
    [pending] = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("ShdPnd:")]
    return bool(pending >> (number - 1) & 1)


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
        assert victim.communicate(timeout=LIMIT)[0] == ""
        assert victim.returncode in (-signal.SIGTERM, 143)
        gate.touch()
        for number, process in enumerate(others):
            output, errors = process.communicate(timeout=LIMIT)
            assert (output, process.returncode) == (f"done {number}\n", 0), errors


async def test_a_call_that_times_out_does_not_claim_that_the_tool_still_runs(project: Project) -> None:
    begun = project.root / "begun"
    code = f"Path({str(begun)!r}).touch(); time.sleep(60)"
    async with project.elsewhere():
        for timeout in ("2.5", "25"):
            with console.started(*call(code, "--timeout", timeout), cwd=project.root) as process:
                output, errors = process.communicate(timeout=LIMIT)
            if begun.exists():
                break
    assert (output, process.returncode) == ("", 1)
    assert f"timed out after {timeout} s" in errors
    assert "may have acted" in errors
    assert "still" not in errors
