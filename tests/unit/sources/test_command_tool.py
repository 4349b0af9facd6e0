"""Tools that run a program, with real ones."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from toolrun import Allow, ApprovalRequest, ErrorKind, Runtime, SideEffects, ToolResult

pytestmark = pytest.mark.xdist_group("commands")

PROGRAM = """#!{python}
import json, os, subprocess, sys, time
what, *rest = sys.argv[1:]
if what == "show":
    environ = {{"token": os.environ.get("TOKEN"), "host": os.environ.get("HOST_SECRET")}}
    print(json.dumps({{"argv": rest, "cwd": os.getcwd(), "stdin": sys.stdin.read(), **environ}}))
elif what == "fail":
    print("partly done")
    for number in range(30):
        print(f"line {{number}}", file=sys.stderr)
    sys.exit(int(rest[0]))
elif what == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open("pids", "w").write(f"{{os.getpid()}} {{child.pid}}")
    time.sleep(600)
elif what == "detach":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    open("pids", "w").write(str(child.pid))
    print("started")
elif what == "flood":
    while True:
        sys.stdout.write("x" * 65536)
elif what == "die":
    os.kill(os.getpid(), 11)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    program = tmp_path / "tool"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "tools").mkdir()
    (tmp_path / "toolrun.toml").write_text(
        '[journal]\nenabled = false\n[secrets]\ntoken = "s3cret-value"\n[tool.show]\nsecrets = ["token"]\n'
    )
    return tmp_path


def declare(project: Path, name: str, command: list[Any], *, sandbox: str = "off", **more: Any) -> None:
    entry = {
        "name": name,
        "description": "Run it.",
        "parameters": {"properties": {"a": {"type": "string"}, "n": {"type": "integer"}}},
        "implementation": {"type": "command", "command": command, **more},
    }
    (project / "tools" / f"{name}.json").write_text(json.dumps(entry))
    config = project / "toolrun.toml"
    config.write_text(f'{config.read_text()}\n[workers]\nsandbox = "{sandbox}"\n')


async def call(project: Path, name: str, timeout: float | None = None, **arguments: Any) -> ToolResult:
    async with Runtime.open(project / "toolrun.toml") as runtime:
        assert runtime.problems == []
        return await runtime.executor.execute(name, arguments, timeout=timeout)


@pytest.mark.parametrize("sandbox", ["off", "standard"])
async def test_a_program_gets_its_arguments_unread_by_any_shell_and_only_the_variables_that_it_was_granted(
    project: Path, monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    monkeypatch.setenv("HOST_SECRET", "not for it")
    declare(
        project,
        "show",
        ["./tool", "show", "--", "{a}", ["-n", "{n}"]],
        secrets={"TOKEN": "token"},
        output="json",
        sandbox=sandbox,
    )
    hostile = "--x; echo $HOME `id` $(id) > out | cat & *\n'\""
    result = await call(project, "show", a=hostile, n="5")
    assert result.error is None, result.text
    shown: Any = result.result
    assert shown["argv"] == ["--", hostile, "-n", "5"]
    assert (shown["token"], shown["host"], shown["stdin"]) == ("s3cret-value", None, "")
    assert shown["cwd"] == str(project)
    assert "s3cret-value" not in result.text
    assert not (project / "out").exists()


async def test_whoever_allowed_a_call_for_always_is_asked_again_when_the_command_is_another(project: Path) -> None:
    asked: list[str] = []

    def decide(request: ApprovalRequest) -> Allow:
        asked.append(request.definition)
        return Allow("always")

    for command in (["/bin/echo", "{a}"], ["/bin/echo", "{a}"], ["/bin/echo", "-n", "{a}"]):
        declare(project, "say", command)
        (project / "toolrun.toml").write_text('[workers]\nsandbox = "off"\n[approval]\ndefault = "ask"\n')
        async with Runtime.open(project / "toolrun.toml", on_approval=decide) as runtime:
            assert (await runtime.executor.execute("say", {"a": "x"})).result == "x"
    assert len(asked) == len(set(asked)) == 2


async def test_a_value_that_starts_with_a_dash_is_no_option(project: Path) -> None:
    declare(project, "show", ["./tool", "show", "{a}"], output="json")
    result = await call(project, "show", a="--exec=/bin/sh")
    assert result.error == "Invalid parameters: 'a' must not start with '-', got \"--exec=/bin/sh\""
    assert (result.error_kind, result.side_effects) == (ErrorKind.INVALID_ARGUMENTS, SideEffects.NOT_STARTED)


async def test_an_exit_code_is_a_failure_with_the_last_lines_of_stderr(project: Path) -> None:
    declare(project, "fail", ["./tool", "fail", "3"])
    result = await call(project, "fail")
    assert result.error == "'./tool' ended with exit code 3"
    assert result.side_effects is SideEffects.FAILED
    assert "[10 lines left out]" in result.text
    assert "line 29\npartly done" in result.text
    assert "line 9\n" not in result.text


async def test_exit_codes_may_be_declared_as_success(project: Path) -> None:
    declare(project, "fail", ["./tool", "fail", "1"], exit_codes=[0, 1])
    assert (await call(project, "fail")).result == "partly done"


async def test_a_program_that_dies_may_have_acted(project: Path) -> None:
    declare(project, "die", ["./tool", "die"])
    result = await call(project, "die")
    assert result.error == "'./tool' was killed by SIGSEGV"
    assert result.side_effects is SideEffects.UNKNOWN


@pytest.mark.parametrize("sandbox", ["off", "standard"])
async def test_a_program_that_hangs_is_killed_with_what_it_started(project: Path, sandbox: str) -> None:
    declare(project, "hang", ["./tool", "hang"], sandbox=sandbox)
    async with Runtime.open(project / "toolrun.toml") as runtime:
        running = asyncio.ensure_future(runtime.executor.execute("hang", timeout=120))
        while not (project / "pids").exists() or " " not in (project / "pids").read_text():  # noqa: ASYNC110  a file
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        result = await runtime.executor.execute("hang", timeout=0.3)
        assert result.error_kind is ErrorKind.TIMEOUT
    if sandbox == "off":  # else the numbers are those of a namespace
        assert [pid for pid in (project / "pids").read_text().split() if _lives(pid)] == []


async def test_what_a_program_leaves_behind_ends_with_it(project: Path) -> None:
    declare(project, "detach", ["./tool", "detach"])
    assert (await call(project, "detach")).result == "started"
    assert not _lives((project / "pids").read_text())


async def test_a_flood_of_output_ends_the_program(project: Path) -> None:
    declare(project, "flood", ["./tool", "flood"], max_output=200_000)
    result = await call(project, "flood")
    assert result.error == "'./tool' wrote more than 200,000 bytes, so it was killed"
    assert result.side_effects is SideEffects.UNKNOWN


async def test_output_that_is_not_the_json_it_should_be_is_a_failure(project: Path) -> None:
    declare(project, "fail", ["./tool", "fail", "0"], output="json")
    result = await call(project, "fail")
    assert result.error is not None
    assert result.error.startswith("'./tool' did not write JSON")


async def test_a_program_that_is_not_there_and_a_secret_that_is_not_granted_say_what_to_do(project: Path) -> None:
    declare(project, "gone", ["no-such-program"])
    result = await call(project, "gone")
    assert result.error == "The program 'no-such-program' was not found on the PATH; install it, or correct 'command'"
    assert (result.error_kind, result.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)
    (project / "tools" / "gone.json").unlink()
    (project / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    declare(project, "other", ["./tool", "show"], secrets={"TOKEN": "token"})
    result = await call(project, "other")
    assert result.error == (
        "Its variable TOKEN needs the secret 'token', which is not granted: secrets = [\"token\"] in [tool.other]"
    )


async def test_a_sandbox_keeps_a_command_from_the_home_directory(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "private").write_text("nobody's business")
    monkeypatch.setenv("HOME", str(home))
    declare(project, "read", ["cat", "--", "{a}"], sandbox="standard")
    result = await call(project, "read", a=str(home / "private"))
    assert result.error == "'cat' ended with exit code 1"
    assert "nobody" not in result.text


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        return sys.platform != "linux"


@pytest.mark.parametrize(
    ("implementation", "message"),
    [
        ({"command": "ls"}, "'command' must be a list"),
        ({"command": ["ls"], "output": "xml"}, "'output' must be 'text' or 'json'"),
        ({"command": ["ls"], "max_output": 0}, "'max_output' must be a number of bytes"),
        ({"command": ["ls"], "exit_codes": [300]}, "'exit_codes' must be"),
        ({"command": ["ls"], "secrets": ["token"]}, "'secrets' must name variables and secrets"),
        ({"command": ["ls"], "cwd": 5}, "'cwd' must be a directory"),
        ({"command": ["ls"], "handler": "echo"}, "'handler' does not apply to the type 'command'"),
        ({"comand": ["ls"]}, "unknown key 'comand' in 'implementation'; did you mean 'command'"),
    ],
)
async def test_a_declaration_that_is_wrong_is_a_problem_that_says_what(
    project: Path, implementation: dict[str, Any], message: str
) -> None:
    entry = {"name": "x", "description": "X.", "implementation": {"type": "command", **implementation}}
    (project / "tools" / "x.json").write_text(json.dumps(entry))
    async with Runtime.open(project / "toolrun.toml") as runtime:
        assert message in "\n".join(map(str, runtime.problems))
        assert "x" not in runtime.manager
