"""The commands around scripts: environments made ahead, workers seen from outside, and what a user is told."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from support.console import LIMIT, TOOLRUN, on_terminal, run, started, toolrun
from support.environments import header

GREET = '''
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}!"
'''
HANG = '''
import subprocess, sys

def hang() -> str:
    """Hang, together with a program."""
    print("started", file=sys.stderr, flush=True)
    subprocess.run(["sleep", "600"])
'''

SLOW = '''
import threading

def meet(mode: str) -> None:
    """Wait at a named pipe for whoever opens it the other way."""
    open("pipe", mode).close()

def hang() -> None:
    """Wait for ever."""
    threading.Event().wait()
'''
OWN = '''
import threading

from toolrun import tool

@tool(isolated=True)
def block() -> None:
    """Wait for ever."""
    threading.Event().wait()
'''
PROGRAM = """
import asyncio, os, sys

import own
from toolrun import Runtime

async def main():
    async with Runtime.open("toolrun.toml") as runtime, asyncio.TaskGroup() as group:
        runtime.manager.add(own.block)
        call = runtime.executor.execute
        await asyncio.gather(*(call("slow.meet", {"mode": mode}) for mode in "rw"))  # so there are two workers
        group.create_task(call("slow.hang", timeout=600))
        group.create_task(call("block", timeout=600))
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(call("slow.meet", {"mode": mode}) for mode in "rw"))

os.mkfifo("pipe")
asyncio.run(main())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project with a cache of its own."""
    (tmp_path / "toolrun.toml").write_text('[workers]\ncache = "cache"\n')
    (tmp_path / "tools").mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def cache_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.console.CACHE", "")  # an empty variable counts as unset, so the file decides


def write_script(project: Path, name: str, body: str, *lines: str) -> Path:
    path = project / "tools" / f"{name}.py"
    path.write_text(header(*lines or ("dependencies = []",)) + dedent(body), encoding="utf-8")
    return path


def missing_wheel(project: Path) -> str:
    """A dependency that uv cannot install, without asking anybody."""
    return f'dependencies = ["gone @ file://{project}/gone-1.0-py3-none-any.whl"]'


def test_sync_makes_the_environment_of_each_script_and_names_its_tools(project: Path) -> None:
    write_script(project, "greet", GREET)
    write_script(project, "two", GREET + GREET.replace("greet", "welcome"))
    done = toolrun("sync", cwd=project)
    assert done.returncode == 0
    assert done.stdout == "tools/greet.py  ready  greet\ntools/two.py    ready  two.greet, two.welcome\n"
    assert "greet: creating its environment (no packages)\n" in done.stderr
    again = toolrun("sync", cwd=project)
    assert (again.returncode, again.stdout, again.stderr) == (0, done.stdout, "")


def test_sync_makes_an_environment_that_is_gone(project: Path) -> None:
    write_script(project, "greet", GREET)
    [before] = json.loads(toolrun("sync", "--json", cwd=project).stdout)
    shutil.rmtree(project / "cache" / "environments")
    done = toolrun("sync", "--json", cwd=project)
    assert "greet: creating its environment" in done.stderr
    [after] = json.loads(done.stdout)
    assert Path(after.pop("environment")).exists()
    assert after == {"script": "tools/greet.py", "tools": ["greet"], "error": None}
    assert not Path(before["environment"]).exists()


def test_sync_says_in_the_words_of_uv_what_failed_and_makes_the_others(project: Path) -> None:
    write_script(project, "greet", GREET)
    write_script(project, "lacking", GREET, missing_wheel(project))
    write_script(project, "malformed", GREET, "dependencies = [")
    done = toolrun("sync", cwd=project)
    assert done.returncode == 1
    states = [line.split()[:2] for line in done.stdout.splitlines()]
    assert states == [["tools/greet.py", "ready"], ["tools/lacking.py", "failed"], ["tools/malformed.py", "failed"]]
    assert re.search(
        r"^toolrun: tools/lacking.py: Cannot create the environment .*\nuv says: .*gone", done.stderr, re.M
    )
    assert "toolrun: tools/malformed.py: has a header that is not valid (PEP 723), so it is not run" in done.stderr
    assert done.stderr.count("Cannot create the environment") == 1


def test_sync_names_a_function_that_is_no_tool(project: Path) -> None:
    write_script(project, "two", GREET + "\ndef silent() -> str:\n    return ''\n")
    done = toolrun("sync", cwd=project)
    assert (done.returncode, done.stdout) == (0, "tools/two.py  ready  two.greet\n")
    assert "'two.silent' has no description" in done.stderr


def test_sync_without_scripts_says_how_to_get_one(project: Path) -> None:
    done = toolrun("sync", cwd=project)
    assert (done.returncode, done.stdout) == (0, "")
    assert "toolrun new NAME --script" in done.stderr


def test_new_writes_a_script_that_works_without_a_network(project: Path) -> None:
    done = toolrun("new", "greet", "--script", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    commands = re.findall(r"^  toolrun (.*)$", done.stdout, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        again = toolrun(*command.split(), cwd=project, env={"UV_OFFLINE": "1", "UV_CACHE_DIR": str(project / "uv")})
        assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == "hello hello\n"
    logged = toolrun("-v", *commands[1].split(), cwd=project).stderr
    assert "info toolrun.worker: greet: repeating times=2" in logged


def test_list_and_describe_tell_the_file_of_a_script(project: Path) -> None:
    write_script(project, "greet", GREET)
    assert toolrun("list", cwd=project).stdout == "greet  tools/greet.py  Greet somebody.\n"
    assert "Source: tools/greet.py\n" in toolrun("describe", "greet", cwd=project).stdout


def test_an_unchanged_script_is_listed_without_its_environment(project: Path) -> None:
    write_script(project, "greet", GREET)
    first = toolrun("list", cwd=project)
    shutil.rmtree(project / "cache" / "environments")
    again = toolrun("-v", "list", cwd=project)
    assert again.stdout == first.stdout
    assert "making" not in again.stderr
    assert not (project / "cache" / "environments").exists()


@pytest.mark.parametrize("command", [["list"], ["call", "greet", "name=Ada"]])
def test_the_making_of_an_environment_is_shown_on_a_terminal(command: list[str], project: Path) -> None:
    write_script(project, "greet", GREET)
    _, written = on_terminal(str(TOOLRUN), *command, cwd=project)
    assert "greet: creating its environment (no packages)" in written.splitlines()[0]
    _, written = on_terminal(str(TOOLRUN), *command, cwd=project)
    assert "making" not in written


def test_the_making_of_an_environment_is_logged_in_a_pipe(project: Path) -> None:
    write_script(project, "greet", GREET)
    logged = toolrun("-v", "call", "greet", "name=Ada", cwd=project)
    assert "info toolrun: greet: creating its environment (no packages)\n" in logged.stderr
    shutil.rmtree(project / "cache")
    silent = toolrun("call", "greet", "name=Ada", cwd=project)
    assert (silent.stdout, silent.stderr) == ("Hello Ada!\n", "")


def test_a_function_that_cannot_be_a_tool_is_a_warning(project: Path) -> None:
    write_script(project, "two", GREET + '\ndef numbers():\n    "Numbers."\n    yield 1\n')
    for _ in range(2):  # the second time from the cache
        done = toolrun("list", cwd=project)
        assert done.stdout == "two.greet  tools/two.py  Greet somebody.\n"
        assert "tools/two.py: 'numbers' is not a tool: it is a generator" in done.stderr


def test_workers_shows_the_process_of_a_call_and_none_after_its_deadline(project: Path) -> None:
    script = write_script(project, "hang", HANG)
    with started("call", "hang", "--timeout", "600", "-v", cwd=project) as process:
        assert process.stderr is not None
        assert any("hang: started" in line for line in process.stderr)
        shown = toolrun("workers", "--json", cwd=project)
        [worker] = [it for it in json.loads(shown.stdout) if it["host"] == process.pid]
        assert worker["script"] == str(script)
        assert (worker["state"], worker["calls"], worker["running_calls"]) == ("busy", 0, 1)
        assert worker["activity"] in ("running", "waiting")
        assert worker["memory"] > 1_000_000
        assert worker["age"] >= 0
        table = toolrun("workers", cwd=project).stdout
        row = rf"^tools/hang.py +pid {worker['pid']} \+1 +busy +0 done, 1 running .* host {process.pid}$"
        assert re.search(row, table, re.MULTILINE)
        _, written = on_terminal(str(TOOLRUN), "workers", cwd=project, env={"NO_COLOR": "1", "COLUMNS": "200"})
        assert "SCRIPT" in written
        process.kill()
        process.communicate(timeout=LIMIT)
    done = toolrun("call", "hang", "--timeout", "5", cwd=project)  # its worker starts meanwhile
    assert done.returncode == 1
    assert "It may have acted. Its process is gone. Find out" in done.stderr
    left = json.loads(toolrun("workers", "--json", cwd=project).stdout)
    assert not [it for it in left if it["script"] == str(script) and it["pid"] != worker["pid"]]


def workers_of(project: Path) -> dict[int, dict[str, Any]]:
    """Those that run something of the project, by their process."""
    shown = json.loads(toolrun("workers", "--json", cwd=project).stdout)
    return {it["pid"]: it for it in shown if it["script"].startswith(str(project))}


def eventually(project: Path, *expected: tuple[str, str, int, int]) -> dict[int, dict[str, Any]]:
    """The workers of the project, as soon as their scripts, states and calls are these."""
    until, found = time.monotonic() + LIMIT, []
    while time.monotonic() < until:
        workers = workers_of(project)
        found = [(Path(it["script"]).name, it["state"], it["calls"], it["running_calls"]) for it in workers.values()]
        if Counter(found) == Counter(expected):  # not sorted: a worker that was started just now has no state yet
            return workers
    raise AssertionError(f"there are {found}")


def test_workers_tells_states_and_calls_until_the_program_is_killed(project: Path) -> None:
    script = write_script(project, "slow", SLOW)
    (project / "own.py").write_text(OWN)
    (project / "program.py").write_text(PROGRAM)
    block = ("own.py:block", "busy", 0, 1)
    with subprocess.Popen([sys.executable, "program.py"], cwd=project, stdin=subprocess.PIPE) as program:
        try:
            eventually(project, ("slow.py", "busy", 1, 1), ("slow.py", "ready", 1, 0), block)
            script.write_text(script.read_text() + "# edited\n")
            assert program.stdin is not None
            program.stdin.write(b"go on\n")
            program.stdin.flush()
            new = ("slow.py", "ready", 1, 0)
            workers = eventually(project, ("slow.py", "draining", 1, 1), new, new, block)
            [draining] = [pid for pid, it in workers.items() if it["state"] == "draining"]
            os.kill(draining, signal.SIGSTOP)
            table = toolrun("workers", cwd=project).stdout
            assert re.search(rf" pid {draining} +draining, stopped +1 done, 1 running ", table)
        finally:
            program.kill()
    eventually(project)


def test_workers_says_when_there_are_none(project: Path) -> None:
    proc = project / "proc"
    proc.mkdir()
    (proc / "uptime").write_text("100.0 1.0\n")
    (proc / "self").mkdir()
    (proc / "self" / "environ").touch()
    code = f"""
        from pathlib import Path
        from toolrun.cli import main
        from toolrun.processes import process_table
        process_table.PROC = Path({str(proc)!r})
        raise SystemExit(main(["workers"]))
    """
    done = run(sys.executable, "-c", dedent(code), cwd=project)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("toolrun: no worker is running")


def test_workers_says_when_the_system_cannot_tell(project: Path) -> None:
    code = """
        import sys
        from toolrun.cli import main
        from toolrun.cli.commands import workers
        sys.platform = "darwin"
        raise SystemExit(main(["workers"]))
    """
    done = run(sys.executable, "-c", dedent(code), cwd=project)
    assert (done.returncode, done.stdout) == (1, "")
    assert "on Linux only" in done.stderr


def test_doctor_tells_the_state_of_each_script(project: Path) -> None:
    write_script(project, "greet", GREET)
    write_script(project, "lacking", GREET, missing_wheel(project))
    write_script(project, "malformed", GREET, "dependencies = [")
    write_script(project, "broken", "import nothing_of_that_name\n")
    done = toolrun("doctor", "--json", cwd=project)
    assert done.returncode == 1
    every = json.loads(done.stdout)["checks"]
    checks = [it for it in every if it["subject"] == "script"]
    found = {re.search(r"tools/(\w+)\.py", it["message"])[1]: it for it in checks}  # type: ignore[index]
    assert {name: it["status"] for name, it in found.items()} == {
        "broken": "problem",
        "greet": "ok",
        "lacking": "problem",
        "malformed": "problem",
    }
    assert "uv says:" in found["lacking"]["message"]
    assert "its block is not valid TOML" in found["malformed"]["message"]
    assert "No module named 'nothing_of_that_name'" in found["broken"]["message"]
    assert all("toolrun sync" in it["advice"] for it in checks if it["status"] == "problem")
    named = {name: [it for it in every if f"tools/{name}.py: " in it["message"]] for name in found}
    assert {name: [it["subject"] for it in about if it["status"] != "ok"] for name, about in named.items()} == {
        "broken": ["script"],
        "greet": [],
        "lacking": ["script"],
        "malformed": ["script"],
    }, "each failure is listed once"


def test_doctor_says_when_an_environment_is_not_made(project: Path) -> None:
    write_script(project, "greet", GREET)
    toolrun("list", cwd=project)
    shutil.rmtree(project / "cache" / "environments")
    done = toolrun("doctor", cwd=project)
    assert done.returncode == 0
    assert "warning  script         tools/greet.py: its environment does not exist yet\n" in done.stdout
    assert "→ toolrun sync creates it now" in done.stdout


def test_doctor_compares_the_secrets_of_a_script_with_what_it_is_granted(project: Path) -> None:
    write_script(project, "greet", GREET, "dependencies = []", "[tool.toolrun]", 'secrets = ["ASKED", "BOTH"]')
    config = 'cache = "cache"\n[secrets]\nASKED = "x"\nBOTH = "x"\nGRANTED = "x"\n'
    (project / "toolrun.toml").write_text(f'[workers]\n{config}[tool.greet]\nsecrets = ["BOTH", "GRANTED"]\n')
    checks = json.loads(toolrun("doctor", "--json", cwd=project).stdout)["checks"]
    warnings = [it["message"] for it in checks if it["status"] == "warning"]
    assert warnings == [
        "ASKED: tools/greet.py requests it, but none of its tools is granted it",
        "GRANTED: greet is granted it, but tools/greet.py does not request it",
    ]


def test_a_script_whose_environment_cannot_be_made_answers_with_the_reason(project: Path) -> None:
    write_script(project, "lacking", GREET, missing_wheel(project))
    done = toolrun("call", "lacking", "name=Ada", "--json", cwd=project)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["success"] is False
    reason = "Cannot create the environment of a script that needs gone"
    assert answer["error"].startswith(f"Tool 'lacking' is not available: tools/lacking.py: {reason}")
    assert "uv says:" in answer["error"]
    assert done.stderr == f"toolrun: {answer['error']}\n", "it is said once"
    described = toolrun("describe", "lacking", cwd=project)
    assert described.returncode == 2
    assert described.stderr.startswith(f"toolrun: Tool 'lacking' is not available: tools/lacking.py: {reason}")


@pytest.mark.parametrize("command", [["call", "greet", "name=Ada"], ["describe", "greet"]])
def test_the_use_of_one_tool_makes_no_other_environment_and_tells_no_other_problem(
    project: Path, command: list[str]
) -> None:
    write_script(project, "greet", GREET, 'requires-python = ">=3.9"')
    write_script(project, "greeting", GREET, 'requires-python = ">=3.8"')
    write_script(project, "lacking", GREET, missing_wheel(project))
    write_script(project, "malformed", GREET, "dependencies = [")
    write_script(project, "two", GREET + '\ndef numbers():\n    "Numbers."\n    yield 1\n')
    (project / "tools" / "broken.py").write_text("import nothing_of_that_name\n")
    (project / "tools" / "broken.json").write_text("[")
    done = toolrun(*command, cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((project / "cache" / "environments").iterdir())) == 1
    unknown = toolrun("call", "gret", cwd=project)
    assert unknown.returncode == 2
    assert "Did you mean greet" in unknown.stderr
    assert "nothing_of_that_name" not in unknown.stderr
    assert "broken" not in unknown.stderr, "the tool cannot be in these files"
    assert len(list((project / "cache" / "environments").iterdir())) == 1


def test_a_tool_of_a_script_that_cannot_be_loaded_answers_with_the_reason(project: Path) -> None:
    write_script(project, "crashing", "raise ValueError('not today')\n")
    write_script(project, "malformed", GREET, "dependencies = [")
    for name in ("crashing", "crashing.greet"):
        done = toolrun("call", name, cwd=project)
        assert done.returncode == 1
        assert done.stderr.startswith(f"toolrun: Tool '{name}' is not available: tools/crashing.py: ")
        assert "ValueError: not today" in done.stderr
    for name in ("malformed", "malformed.greet"):
        done = toolrun("call", name, cwd=project)
        assert done.returncode == 1
        assert done.stderr.startswith(f"toolrun: Tool '{name}' is not available: tools/malformed.py: ")
        assert "its block is not valid TOML" in done.stderr


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("lamps.py", "def lights() -> int:\n    return (\n", "lights"),
        ("lamps.py", "import nothing_of_that_name\n\n@tool(name='all-lights')\nasync def f(): ...\n", "all-lights"),
        ("lamps.py", "def lights(:\n", "lamps"),
        ("lamps.json", '[{"name": "lights",', "lights"),
        ("lamps.json", '[{"name": "lights", "description": "x", "implementation": {"type": "moon"}}]', "lights"),
    ],
    ids=["syntax", "import", "stem", "cut JSON", "entry"],
)
def test_a_tool_of_a_file_that_cannot_be_read_is_told_from_one_that_does_not_exist(
    project: Path, file: str, text: str, name: str
) -> None:
    (project / "tools" / file).write_text(text)
    (project / "tools" / "other.py").write_text("import some_other_module\n")
    (project / "toolrun.toml").write_text(
        '[workers]\ncache = "cache"\n[secrets]\nKEY = { env = "NOT_SET_ANYWHERE" }\n[tool.other]\nsecrets = ["KEY"]\n'
    )
    for command in ("call", "describe"):
        done = toolrun(command, name, cwd=project)
        assert f"Tool '{name}' is not available: tools/{file}: " in done.stderr
        nothing = toolrun(command, "unheard_of", cwd=project)
        assert "not found" in nothing.stderr
        for each in (done, nothing):
            assert "some_other_module" not in each.stderr
            assert "NOT_SET_ANYWHERE" not in each.stderr
        assert file not in nothing.stderr


def test_a_tool_that_is_called_by_a_tool_is_loaded_then(project: Path) -> None:
    write_script(project, "greet", GREET)
    code = """
        from toolrun import ToolContext, tool

        @tool
        async def host(context: ToolContext) -> str:
            "Greet through the other tool."
            return (await context.call_tool("greet", {"name": "Ada"})).text
    """
    (project / "tools" / "host.py").write_text(dedent(code))
    done = toolrun("call", "host", cwd=project)
    assert (done.returncode, done.stdout) == (0, "Hello Ada!\n")


def test_a_secret_that_is_granted_and_not_set_is_named_before_the_tool_starts(project: Path) -> None:
    body = "from pathlib import Path\n" + GREET.replace("    return", '    Path("acted").touch()\n    return')
    write_script(project, "greet", body, "dependencies = []", "[tool.toolrun]", 'secrets = ["GREETING_KEY"]')
    (project / "toolrun.toml").write_text(
        '[workers]\ncache = "cache"\n[secrets]\nGREETING_KEY = { env = "NOT_SET_ANYWHERE" }\n'
        '[tool.greet]\nsecrets = ["GREETING_KEY"]\n'
    )
    done = toolrun("call", "greet", "name=Ada", cwd=project)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "toolrun: Tool 'greet' needs the secret 'GREETING_KEY', which is not set: "
        "the variable NOT_SET_ANYWHERE is not set\n"
        "Set it as [secrets] in toolrun.toml says, or remove 'GREETING_KEY' from the secrets of [tool.greet].\n"
    )
    assert not (project / "acted").exists()
    assert toolrun("call", "greet", "name=Ada", cwd=project, env={"NOT_SET_ANYWHERE": "x"}).stdout == "Hello Ada!\n"


def test_doctor_finds_handlers_that_do_not_exist(project: Path) -> None:
    entry: dict[str, Any] = {"description": "A tool.", "parameters": {}}
    tools = [
        {**entry, "name": "a", "implementation": {"type": "builtin", "handler": "echoo"}},
        {**entry, "name": "b", "implementation": {"type": "internal", "handler": "lamp"}},
        {**entry, "name": "c", "implementation": {"type": "builtin", "handler": "echo"}},
        {**entry, "name": "d", "implementation": {"type": "mock", "mock_response": 1}},
    ]
    (project / "tools" / "catalog.json").write_text(json.dumps(tools))
    done = toolrun("doctor", "--json", cwd=project)
    assert done.returncode == 1
    found = [it for it in json.loads(done.stdout)["checks"] if it["status"] != "ok"]
    assert found == [
        {
            "status": "problem",
            "subject": "tools",
            "message": "tools/catalog.json: tool 'a': there is no builtin handler 'echoo'",
            "advice": "correct the file: did you mean 'echo'?",
        },
        {
            "status": "warning",
            "subject": "tools",
            "message": "tools/catalog.json: tool 'b': there is no internal handler 'lamp'",
            "advice": "your program has to register it: runtime.register_internal('lamp', …)",
        },
    ]


def test_the_end_of_the_program_ends_its_workers(project: Path) -> None:
    write_script(
        project, "pid", 'import os\n\ndef pid() -> int:\n    """Tell the process."""\n    return os.getpid()\n'
    )
    assert toolrun("call", "pid", cwd=project).returncode == 0
    # In its own namespace a worker has another number; the journal has the one of this machine.
    worker = int(json.loads(toolrun("log", "--json", cwd=project).stdout)["worker"].split()[1].rstrip(","))
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
