"""The worker keeps the contract in the docstring of `worker/__main__.py`, whatever script it is given. Real processes.

What a worker is asked is in `test_worker_calls.py`, how calls overlap in `test_worker_concurrency.py`.
"""

from __future__ import annotations

import ast
import hashlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.worker_process import (
    LIMIT,
    PYTHON,
    STANDARD_LIBRARY_ONLY,
    WEATHER,
    WORKER,
    WorkerProcess,
    worker_of,
    write_script,
)


@pytest.fixture(params=[(), STANDARD_LIBRARY_ONLY], ids=["with orjson", "standard library"])
def worker(request: pytest.FixtureRequest) -> Iterator[WorkerProcess]:
    with worker_of(WEATHER, python=request.param) as worker:
        yield worker


def test_the_first_message_says_who_is_ready_and_for_what() -> None:
    process = WorkerProcess(WEATHER)
    try:
        ready = process.receive()["ready"]
    finally:
        process.close()
    assert ready["pid"] == process.process.pid
    version = subprocess.run([PYTHON, "--version"], capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    assert f"Python {ready['python']}" == version.strip()
    assert ready["sha256"] == hashlib.sha256(WEATHER.read_bytes()).hexdigest()
    assert ready["functions"][:4] == ["add", "echo", "move", "double"]
    assert not {"Colour", "Path", "sibling"} & set(ready["functions"])


def test_with_describe_it_tells_all_and_ends() -> None:
    process = WorkerProcess(WEATHER, "--describe", python=STANDARD_LIBRARY_ONLY)
    try:
        ready = process.receive()["ready"]
        assert process.end()[0] == 0
    finally:
        process.close()
    described = {function["name"]: function for function in ready["functions"]}
    assert described["add"] == {
        "name": "add",
        "description": "Add two numbers.",
        "schema": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first."},
                "b": {"type": "integer", "default": 2},
            },
            "additionalProperties": False,
            "required": ["a"],
        },
        "async": False,
    }
    assert described["double"]["async"] is True
    assert (ready["skipped"], ready["warnings"]) == ([], [])


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def f(:\n", r"SyntaxError: "),
        ("import sys\n\n1 / 0\n", "ZeroDivisionError: division by zero (line 3)"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module' (line 1)"),
        ("import sys\nsys.exit(4)\n", "SystemExit: 4 (line 2)"),
    ],
)
def test_a_script_that_cannot_be_loaded_is_reported_with_the_reason(tmp_path: Path, source: str, error: str) -> None:
    process = WorkerProcess(write_script(tmp_path, source))
    try:
        ready = process.receive()
        code, log = process.end()
    finally:
        process.close()
    assert ready["ready"]["error"].startswith(error)
    assert code == 1
    assert "weather.py" in log
    assert "toolrun/worker" not in log, "frames of ours are nobody's business"


def test_a_script_that_is_not_there_is_reported(tmp_path: Path) -> None:
    process = WorkerProcess(tmp_path / "gone.py")
    try:
        assert process.receive()["ready"]["error"].startswith("FileNotFoundError: ")
    finally:
        process.close()


def test_async_functions_run_on_one_event_loop(tmp_path: Path) -> None:
    source = """
        import asyncio
        async def where():
            return id(asyncio.get_running_loop())
        def indirect():
            return where()
        async def exits():
            async def inner():
                raise SystemExit(3)
            await asyncio.create_task(inner())
    """
    with worker_of(write_script(tmp_path, source)) as worker:
        assert worker.call("where") == worker.call("indirect")
        worker.request(2, "exits")
        assert worker.failure() == (["builtins.SystemExit"], "3")
        assert worker.call("where") == worker.call("where")


def test_a_loop_that_the_tool_stops_goes_on(worker: WorkerProcess) -> None:
    assert worker.call("stop_loop_and_return") == "went on"
    assert worker.call("double", n=2) == 4.0


def test_nothing_that_is_printed_gets_into_the_protocol(worker: WorkerProcess) -> None:
    assert worker.call("noisy") == ""
    assert worker.call("add", a=1) == 3
    code, log = worker.end()
    assert code == 0
    for text in ("printed", "half a line", "written", "from a child"):
        assert text in log


def test_the_script_is_a_module_of_its_own_with_its_directory_on_the_path(worker: WorkerProcess) -> None:
    assert worker.call("borrowed") == "from next door"
    assert worker.call("module") == ["weather", str(WEATHER), True, [str(WEATHER)]]


def test_modules_of_the_worker_are_not_in_the_way_of_the_scripts(tmp_path: Path) -> None:
    for name in ("describe", "hint", "serve", "script", "worker", "value"):
        (tmp_path / f"{name}.py").write_text(f"NAME = {name!r}\n")
    source = """
        import describe, hint, script, serve, value, worker
        def names(when: int = 1):
            return [describe.NAME, hint.NAME, script.NAME, serve.NAME, value.NAME, worker.NAME]
    """
    with worker_of(write_script(tmp_path, source)) as worker:
        assert worker.call("names", when=2) == ["describe", "hint", "script", "serve", "value", "worker"]


def test_a_script_may_have_the_name_of_a_built_in_module(tmp_path: Path) -> None:
    path = tmp_path / "time.py"
    path.write_text("import time\ndef now(): return [__name__, time.time() > 0]\n")
    with worker_of(path) as worker:
        assert worker.call("now") == ["toolrun_script_time", True]


def test_the_end_of_the_input_ends_the_process_after_its_handlers(tmp_path: Path) -> None:
    source = """
        import atexit
        atexit.register(print, "cleaned up", end="")
        def add(a): return a
    """
    with worker_of(write_script(tmp_path, source)) as worker:
        assert worker.call("add", a=1) == 1
        assert worker.end() == (0, "cleaned up")


def test_handlers_that_hang_do_not_keep_the_process(tmp_path: Path) -> None:
    source = """
        import atexit, threading
        atexit.register(threading.Event().wait)
        def add(a): return a
    """
    with worker_of(write_script(tmp_path, source)) as worker:
        assert worker.end()[0] == -signal.SIGALRM


def test_a_tool_can_end_the_process(worker: WorkerProcess) -> None:
    worker.request(1, "end", kwargs={"code": 3})
    assert worker.process.wait(LIMIT) == 3


def test_an_interrupt_does_not_disturb_a_worker(worker: WorkerProcess) -> None:
    assert worker.call("add", a=1) == 3
    worker.process.send_signal(signal.SIGINT)
    assert worker.call("add", a=1) == 3


def test_children_do_not_get_the_protocols_descriptors(tmp_path: Path) -> None:
    source = """
        import json, subprocess, sys
        PROGRAM = "import json, os; print(json.dumps([os.fstat(n).st_ino for n in range(64) if is_open(n)]))"
        IS_OPEN = '''
        import os
        def is_open(number):
            try:
                os.fstat(number)
            except OSError:
                return False
            return True
        '''
        def files():
            import textwrap
            command = [sys.executable, "-c", textwrap.dedent(IS_OPEN) + PROGRAM]
            return json.loads(subprocess.run(command, stdout=subprocess.PIPE, close_fds=False).stdout)
    """
    with worker_of(write_script(tmp_path, source)) as worker:
        assert worker.process.stdout
        protocol = {os.fstat(stream.fileno()).st_ino for stream in (worker.stdin, worker.process.stdout)}
        inherited = worker.call("files")
        assert len(inherited) >= 3
        assert not protocol & set(inherited)


@pytest.mark.parametrize("options", [(), ("--concurrency", "2")])
def test_a_process_that_a_tool_forks_does_not_answer_too(tmp_path: Path, options: tuple[str, ...]) -> None:
    source = """
        import os
        def fork():
            pid = os.fork()
            if pid == 0:
                return "child"
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    """
    with worker_of(write_script(tmp_path, source), *options) as worker:
        assert worker.call("fork") == 0
        assert worker.call("fork") == 0


HOST = """
import subprocess, sys, threading
worker = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
worker.stdout.readline()
worker.stdin.write(b'{"id":1,"function":"hang"}\\n')
worker.stdin.flush()
worker.stdout.readline()
print(worker.pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux kills a process with its parent")
def test_a_worker_that_hangs_does_not_survive_its_host(tmp_path: Path) -> None:
    source = """
        import threading
        from toolrun_sdk import progress
        def hang():
            progress(0)
            threading.Event().wait()
    """
    command = [PYTHON, str(WORKER / "__main__.py"), str(write_script(tmp_path, source))]
    with subprocess.Popen([sys.executable, "-c", HOST, *command], stdout=subprocess.PIPE) as host:
        assert host.stdout
        worker = os.pidfd_open(int(host.stdout.readline()))
        try:
            host.kill()
            assert select.select([worker], [], [], LIMIT)[0], "the worker is still there"
        finally:
            os.close(worker)


@pytest.mark.parametrize("path", sorted(WORKER.rglob("*.py")), ids=lambda path: path.name)
def test_what_runs_inside_is_python_3_9_and_imports_nothing_of_ours(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    optional = {"orjson", "pydantic", "pydantic_core", "typing_extensions", "annotationlib"}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(it.module) for it in ast.walk(tree) if isinstance(it, ast.ImportFrom) and it.level == 0}
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names | optional
