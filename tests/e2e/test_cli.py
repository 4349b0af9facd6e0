"""The commands, as somebody in a shell sees them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support.console import QUICKSTART, TOOLRUN, on_terminal, run, toolrun, write_project
from toolrun.cli.program import COMMANDS
from toolrun.version import __version__

HEAVY = {"asyncio", "dataclasses", "json", "jsonschema_rs", "logging", "orjson", "pydantic", "rich", "toolrun.errors"}
OK = '@tool\ndef ok() -> str:\n    "Ok."\n    return "ok"\n'
BAD = "import nothing_of_that_name\n"
WHY_BAD = (
    "tools/bad.py: cannot be imported: ModuleNotFoundError: No module named 'nothing_of_that_name' (line 2). Install "
    "the package where toolrun runs, or make the file a script, which has packages of its own: begin it with the three "
    "lines '# /// script', '# dependencies = [\"nothing_of_that_name\"]' and '# ///', and remove @tool, since every "
    "public function of a script is a tool"
)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["--version"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    code = f"import sys; from toolrun.cli import main; main({arguments}); print(*sys.modules, file=sys.stderr)"
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert done.returncode == 0
    loaded = done.stderr.split()
    assert not HEAVY & set(loaded)
    own = {name for name in loaded if name.startswith("toolrun")}
    light = ("column_width", "exit", "held_output", "options", "output", "program", "wrapped_line")
    assert own == {"toolrun", "toolrun._lazy", "toolrun.version", "toolrun.cli", *(f"toolrun.cli.{it}" for it in light)}


def test_help_names_every_command(tmp_path: Path) -> None:
    done = toolrun("--help", cwd=tmp_path)
    assert done.returncode == 0
    for name, entry in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(entry.help)}$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_page_of_its_own(name: str, tmp_path: Path) -> None:
    done = toolrun(name, "-h", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: toolrun {name} [OPTIONS]")


def test_version(tmp_path: Path) -> None:
    assert toolrun("--version", cwd=tmp_path).stdout == f"toolrun {__version__}\n"


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    def module(*arguments: str) -> tuple[int, str, str]:
        done = run(sys.executable, "-m", "toolrun", *arguments, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    assert module("--version") == (0, f"toolrun {__version__}\n", "")
    assert module("lst") == (2, "", toolrun("lst", cwd=tmp_path).stderr)
    assert module("--help")[1] == toolrun("--help", cwd=tmp_path).stdout


def test_as_a_module_it_imports_nothing_from_the_current_directory(tmp_path: Path) -> None:
    """There, a script may have left a module of any name."""
    for name in ("argparse", "json", "pathlib", "tomllib", "orjson", "ctypes", "logging", "inspect"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} was shadowed')")
    done = run(sys.executable, "-m", "toolrun", "list", cwd=tmp_path)
    assert (done.returncode, "shadowed" in done.stdout + done.stderr) == (
        toolrun("list", cwd=tmp_path).returncode,
        False,
    )


def test_an_unknown_command_gets_a_suggestion(tmp_path: Path) -> None:
    done = toolrun("lst", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toolrun: there is no command 'lst'; did you mean 'list'?\nTry 'toolrun --help'.\n"


def test_list_in_a_pipe_is_plain_and_does_not_import_rich() -> None:
    code = "import sys; from toolrun.cli import main; main(['list']); sys.exit('rich' in sys.modules)"
    done = run(sys.executable, "-c", code, cwd=QUICKSTART)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    first = done.stdout.splitlines()[0]
    assert first.split(maxsplit=2) == ["add", "tools/home.py", "Add two whole numbers."]


def test_list_on_a_terminal_has_a_head_and_colours() -> None:
    code, written = on_terminal(str(TOOLRUN), "list", cwd=QUICKSTART)
    assert code == 0
    assert "TOOL" in written.splitlines()[0]
    assert "\x1b[1;36madd" in written


def test_no_color_is_honoured() -> None:
    for command in ("list", "lst"):
        _, written = on_terminal(str(TOOLRUN), command, cwd=QUICKSTART, env={"NO_COLOR": "1"})
        assert not re.search(r"\x1b\[(\d+;)*[349]\d", written)


def test_list_as_json() -> None:
    tools = json.loads(toolrun("list", "--json", cwd=QUICKSTART).stdout)
    assert tools[0] == {"name": "add", "description": "Add two whole numbers.", "source": "tools/home.py"}


def test_list_without_tools_says_how_to_get_one(tmp_path: Path) -> None:
    done = toolrun("list", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "toolrun new NAME" in done.stderr


def test_describe_shows_parameters_with_type_need_default_and_meaning() -> None:
    done = toolrun("describe", "set_light", cwd=QUICKSTART)
    assert done.returncode == 0
    assert '  room ("kitchen" | "office" | "bedroom", required): Where the lamp is.' in done.stdout
    assert "  brightness (integer, default 100): In percent; 0 is off." in done.stdout


def test_describe_shows_the_timeout_that_holds() -> None:
    assert json.loads(toolrun("describe", "add", "--json", cwd=QUICKSTART).stdout)["timeout"] == 10
    assert json.loads(toolrun("describe", "wait_for_parcel", "--json", cwd=QUICKSTART).stdout)["timeout"] == 1


def test_describe_as_json_has_the_schema() -> None:
    found = json.loads(toolrun("describe", "get_weather", "--json", cwd=QUICKSTART).stdout)
    assert found["schema"]["properties"]["unit"]["enum"] == ["celsius", "fahrenheit"]


def test_describe_on_a_terminal_shows_the_same() -> None:
    _, written = on_terminal(str(TOOLRUN), "describe", "set_light", cwd=QUICKSTART)
    plain = re.sub(r"\x1b\[[\d;]*m", "", written)
    assert '  room ("kitchen" | "office" | "bedroom", required): Where the lamp is.' in plain


def test_describe_of_an_unknown_tool_suggests_one() -> None:
    done = toolrun("describe", "ad", cwd=QUICKSTART)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toolrun: Tool 'ad' not found; did you mean 'add'?\n"
    done = toolrun("describe", "elephant", cwd=QUICKSTART)
    assert done.stderr == "toolrun: Tool 'elephant' not found; `toolrun list` shows all tools\n"


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["a=2", "b=3"], ""),
        (["a:=2", "b=3"], ""),
        (['{"a": 2, "b": 3}'], ""),
        (["-"], '{"a": 2, "b": 3}'),
    ],
)
def test_arguments_come_as_pairs_as_json_or_from_stdin(arguments: list[str], stdin: str) -> None:
    done = toolrun("call", "add", *arguments, cwd=QUICKSTART, stdin=stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


def test_a_value_may_contain_every_sign(tmp_path: Path) -> None:
    write_project(tmp_path, text='@tool\ndef same(text: str) -> str:\n    "Same."\n    return text\n')
    for value in ("a=b", "x:=1", "", "{", "5", "two\nlines", "ü"):
        assert toolrun("call", "same", f"text={value}", cwd=tmp_path).stdout == f"{value or '(no output)'}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "'a' is neither NAME=VALUE nor a JSON object"),
        (["a=1", "a=2"], "'a' is given twice"),
        (["a:=x"], "a:= needs JSON"),
        (["--timeout", "0"], "0.0 is not a number of seconds > 0"),
        (["--timeout", "nan"], "nan is not a number of seconds > 0"),
        (["--tmeout", "3"], "no such option '--tmeout'"),
    ],
)
def test_wrong_usage_is_exit_code_2_with_a_hint(arguments: list[str], message: str) -> None:
    done = toolrun("call", "add", *arguments, cwd=QUICKSTART)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.endswith("Try 'toolrun call --help'.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["water_plants", "litres=2"], 1, "water_plants failed: the tank is empty, 2 litres are missing"),
        (["wait_for_parcel"], 1, "Tool 'wait_for_parcel' timed out after 1 s"),
        (["wait_for_parcel", "--timeout", "2"], 1, "Tool 'wait_for_parcel' timed out after 2 s"),
        (["ad"], 2, "Tool 'ad' not found\nDid you mean add?"),
        (["add", "a=1"], 2, "Invalid parameters: missing 'b'\nParameters of add:"),
        (["add", "a=1", "b=2", "colour=red"], 2, "Invalid parameters: unknown parameter 'colour'"),
        (["add", "not", "-"], 2, "'not' is neither"),
        (["add", "{"], 2, "Invalid parameters: the arguments are not valid JSON"),
    ],
)
def test_a_failed_call_says_why_on_stderr(arguments: list[str], code: int, message: str) -> None:
    done = toolrun("call", *arguments, cwd=QUICKSTART)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"toolrun: {message}")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["add", "a=2", "b=3"], 0, None),
        (["water_plants", "litres=2"], 1, "the tank is empty, 2 litres are missing"),
        (["add", "a=2"], 2, "Invalid parameters: missing 'b'"),
        (["ad"], 2, "Tool 'ad' not found"),
    ],
)
def test_the_envelope_goes_to_stdout_however_the_call_ended(arguments: list[str], code: int, error: str | None) -> None:
    done = toolrun("call", *arguments, "--json", cwd=QUICKSTART)
    envelope = json.loads(done.stdout)
    assert done.returncode == code
    assert envelope["tool_name"] == arguments[0]
    assert (envelope["success"], envelope.get("error")) == (error is None, error)
    assert envelope.keys() > {"error_kind", "side_effects", "repairs", "dropped", "call_id", "key", "replayed"}
    assert (envelope["error_kind"] is None, envelope["side_effects"] is None) == (error is None, error is None)
    assert bool(done.stderr) == (code != 0)


def test_a_long_result_is_printed_whole(tmp_path: Path) -> None:
    write_project(tmp_path, text='@tool\ndef long() -> str:\n    "Long."\n    return "x" * 300_000\n')
    assert len(toolrun("call", "long", cwd=tmp_path).stdout) == 300_001


def test_a_config_error_is_one_message_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").write_text("[executor]\ntimout = 3\n")
    done = toolrun("list", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("toolrun: unknown key 'timout' in [executor]")


@pytest.mark.parametrize("arguments", [["--config", "{}", "list"], ["list", "--config", "{}"]])
def test_the_config_option_stands_before_or_after_the_command(arguments: list[str], tmp_path: Path) -> None:
    done = toolrun(*(each.format(QUICKSTART / "toolrun.toml") for each in arguments), cwd=tmp_path)
    assert done.stdout.startswith("add ")


def test_the_config_may_come_from_the_environment(tmp_path: Path) -> None:
    done = toolrun("list", cwd=tmp_path, env={"TOOLRUN_CONFIG": str(QUICKSTART / "toolrun.toml")})
    assert done.stdout.startswith("add ")


def test_a_tool_file_with_a_mistake_is_one_warning_and_the_others_work(tmp_path: Path) -> None:
    write_project(tmp_path, bad=BAD, good=OK)
    for command, told in (
        (["list"], f"warning: {tmp_path}/{WHY_BAD}\n"),
        (["describe", "ok"], ""),  # what uses one tool tells no other file's problems
        (["call", "ok"], ""),
    ):
        done = toolrun(*command, cwd=tmp_path)
        assert done.returncode == 0
        assert done.stdout
        assert done.stderr == told


def test_the_call_is_logged_with_v_and_its_traceback_with_vv() -> None:
    arguments = ("call", "water_plants", "litres=2")
    assert "toolrun.call" not in toolrun(*arguments, cwd=QUICKSTART).stderr
    once = toolrun(*arguments, "-v", cwd=QUICKSTART).stderr
    assert "error toolrun.call: water_plants tool_error" in once
    assert "Traceback" not in once
    twice = toolrun("-v", *arguments, "-v", cwd=QUICKSTART).stderr
    assert "Traceback" in twice
    assert "RuntimeError: the tank is empty" in twice


def test_the_json_log_is_one_object_a_line() -> None:
    done = toolrun(
        "call", "add", "a=1", "b=2", cwd=QUICKSTART, env={"TOOLRUN_LOG_FORMAT": "json", "TOOLRUN_LOG_LEVEL": "info"}
    )
    line = json.loads(done.stderr)
    assert (line["level"], line["logger"]) == ("info", "toolrun.call")
    assert (line["call"]["tool"], line["call"]["outcome"]) == ("add", "ok")


def test_new_writes_a_tool_that_works(tmp_path: Path) -> None:
    done = toolrun("new", "greet", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert {each.name for each in tmp_path.rglob("*.*")} == {"greet.py", "toolrun.toml"}
    commands = re.findall(r"^  toolrun (.*)$", done.stdout, re.MULTILINE)
    assert commands
    for command in commands:
        again = toolrun(*command.split(), cwd=tmp_path)
        assert (again.returncode, again.stderr) == (0, "")


def test_new_goes_to_the_project_that_it_is_in(tmp_path: Path) -> None:
    write_project(tmp_path)
    below = tmp_path / "below"
    below.mkdir()
    assert toolrun("new", "greet", cwd=below).returncode == 0
    assert (tmp_path / "tools" / "greet.py").exists()
    assert not list(below.iterdir())
    assert (tmp_path / "toolrun.toml").read_text() == ""


def test_new_does_not_overwrite(tmp_path: Path) -> None:
    write_project(tmp_path, greet="# mine\n")
    before = (tmp_path / "tools" / "greet.py").read_text()
    done = toolrun("new", "greet", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "tools/greet.py already exists" in done.stderr
    assert (tmp_path / "tools" / "greet.py").read_text() == before


@pytest.mark.parametrize("name", ["my-tool", "class", "2nd", "_hidden", "../up", "größe", "x" * 65, ""])
def test_new_refuses_a_name_that_cannot_be_used(name: str, tmp_path: Path) -> None:
    done = toolrun("new", "--", name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be the name of a tool" in done.stderr
    assert not list(tmp_path.iterdir())


def test_new_says_when_the_configuration_does_not_load_the_file(tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").write_text('[tools]\npython = ["other/*.py"]\n')
    done = toolrun("new", "greet", cwd=tmp_path)
    assert done.returncode == 0
    assert '"tools/*.py"' in done.stderr


def test_doctor_is_content_with_the_quickstart() -> None:
    done = toolrun("doctor", cwd=QUICKSTART)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.startswith("ok ") for line in done.stdout.splitlines()[:-2])
    assert done.stdout.endswith("\nall is well\n")
    subjects = [line.split()[1] for line in done.stdout.splitlines()[:-2]]
    installed = ["python", "toolrun", "jsonschema-rs", "orjson", "pydantic", "uv"]
    assert subjects == [*installed, "configuration", "tools", "script", "sandbox", "sandbox", "journal"]


def test_doctor_names_every_problem_and_what_to_do(tmp_path: Path) -> None:
    write_project(tmp_path, bad=BAD, good=OK)
    (tmp_path / "toolrun.toml").write_text(
        '[secrets]\nKEY = {env = "NO_SUCH_VARIABLE"}\nSPARE = {env = "NO_SUCH_VARIABLE"}\n'
        '[tool.ok]\nsecrets = ["KEY"]\nverify = "okay"\n[tool.okk]\ntimeout = 1\n'
    )
    done = toolrun("doctor", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr, report["ok"]) == (1, "", False)
    found = [(each["status"], each["subject"], each["message"]) for each in report["checks"] if each["status"] != "ok"]
    assert found == [
        ("problem", "tools", f"{tmp_path}/{WHY_BAD}"),
        ("warning", "settings", "[tool.ok] verify: there is no tool 'okay'; did you mean 'ok'?"),
        ("warning", "settings", "[tool.okk] matches no tool; did you mean 'ok'?"),
        ("problem", "secret", "KEY: the variable NO_SUCH_VARIABLE is not set; needed by ok"),
        ("warning", "secret", "SPARE: the variable NO_SUCH_VARIABLE is not set; no tool needs it"),
    ]
    assert all(each["advice"] for each in report["checks"] if each["status"] == "problem")


def test_doctor_goes_on_when_the_configuration_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").write_text("[executor\n")
    done = toolrun("doctor", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "ok       python" in done.stdout
    assert re.search(r"^problem  configuration  .*toolrun.toml: line 1", done.stdout, re.MULTILINE)


def test_doctor_warns_of_a_name_that_is_taken_twice(tmp_path: Path) -> None:
    done = toolrun("doctor", cwd=write_project(tmp_path, one=OK, two=OK))
    assert done.returncode == 0
    assert "warning  tools          tool 'ok' was registered before" in done.stdout
    assert done.stdout.endswith("\n1 warning\n")
