"""What somebody meets who tries toolrun for the first time: a new project, and hints where they stumble."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.console import TOOLRUN, toolrun, write_project
from support.terminal import terminal


def test_init_makes_a_project_whose_tool_can_be_called(tmp_path: Path) -> None:
    made = toolrun("init", "home", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.splitlines()[:5] == [
        "Wrote home/toolrun.toml",
        "Wrote home/tools/hello.py",
        "Added .toolrun/ and .env to home/.gitignore",
        "",
        "Next:",
    ]
    commands = [line[2:].partition("  ")[0] for line in made.stdout.splitlines()[5:]]
    assert commands[:2] == ["cd home", "toolrun call hello name=Ann"]
    called = toolrun(*commands[1].split()[1:], cwd=tmp_path / "home")
    assert (called.stdout, called.stderr) == ("Hello, Ann!\n", "")


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").write_text("# mine\n")
    refused = toolrun("init", cwd=tmp_path)
    assert refused.returncode == 2
    assert "toolrun.toml already exists: this is a project" in refused.stderr
    assert [it.name for it in tmp_path.iterdir()] == ["toolrun.toml"]
    assert (tmp_path / "toolrun.toml").read_text() == "# mine\n"


def test_init_keeps_tools_and_ignored_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "mine.py").write_text("from toolrun import tool\n")
    (tmp_path / ".gitignore").write_text("/.toolrun\nbuild/")
    made = json.loads(toolrun("init", "--json", cwd=tmp_path).stdout)
    assert made == {"directory": str(tmp_path), "wrote": [str(tmp_path / "toolrun.toml")], "ignored": [".env"]}
    assert (tmp_path / ".gitignore").read_text() == "/.toolrun\nbuild/\n.env\n"


def test_init_names_what_is_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "file is not a directory; name another one" in toolrun("init", "file", cwd=tmp_path).stderr


def test_a_file_without_tool_is_explained(tmp_path: Path) -> None:
    project = write_project(tmp_path, plain="def add(a: int, b: int) -> int:\n    return a + b\n")
    said = toolrun("call", "add", "a=1", "b=2", cwd=project)
    assert said.returncode == 1
    assert "plain.py: has 1 function but no @tool (add): write '@tool' above those that are tools" in said.stderr


def test_a_module_that_tools_share_needs_no_tool(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "shared.py").write_text("def twice(x: int) -> int:\n    return 2 * x\n")
    project = write_project(
        tmp_path,
        main="""
            from tools.shared import twice

            @tool
            def double(x: int) -> int:
                "Double it."
                return twice(x)
        """,
        constants="LIMIT = 7\n",
    )
    listed = toolrun("list", cwd=project)
    assert (listed.stdout.split()[0], listed.stderr) == ("double", "")


def test_a_missing_package_leads_to_the_header_of_a_script(tmp_path: Path) -> None:
    project = write_project(tmp_path, sizes="import nowhere_to_be_found.deep\n")
    said = toolrun("list", cwd=project).stderr
    assert "No module named 'nowhere_to_be_found'" in said
    assert """'# /// script', '# dependencies = ["nowhere_to_be_found"]' and '# ///'""" in said


@pytest.mark.parametrize("module", ["tools.missing", "toolrun.missing"])
def test_a_missing_module_of_the_project_is_no_package(module: str, tmp_path: Path) -> None:
    said = toolrun("list", cwd=write_project(tmp_path, sizes=f"import {module}\n")).stderr
    assert f"No module named '{module}'" in said
    assert "script" not in said


def test_a_name_that_two_files_use_is_reported_with_both(tmp_path: Path) -> None:
    tool = '@tool\ndef add() -> int:\n    "Add."\n    return 1\n'
    said = toolrun("list", cwd=write_project(tmp_path, first=tool, second=tool)).stderr
    first, second = tmp_path / "tools" / "first.py", tmp_path / "tools" / "second.py"
    assert f"tool 'add' was registered before, in {first}; the one in {second} replaces it: rename one of them" in said


ADD = '@tool\ndef add(a: int, b: int, c: int = 0) -> int:\n    "Add."\n    return a + 10 * b + 100 * c\n'


@pytest.mark.parametrize(
    ("words", "stdin", "result"),
    [
        (['{"a": 1}', "b=2", "c:=3"], "", "321"),
        (["b=2", '{"a": 1}', '{"c": 3}'], "", "321"),
        (["-", "b=2"], '{"a": 1}', "21"),
        (["a=1", "-", '{"c": 3}'], '{"b": 2}', "321"),
    ],
)
def test_json_and_pairs_may_be_mixed(words: list[str], stdin: str, result: str, tmp_path: Path) -> None:
    called = toolrun("call", "add", *words, cwd=write_project(tmp_path, add=ADD), stdin=stdin)
    assert (called.stdout, called.stderr) == (f"{result}\n", "")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (['{"a": 1}', "a=2"], "'a' is given twice"),
        (['{"a": 1', "b=2"], "is not JSON"),
        (["-", "-", "b=2"], "- can be given only once"),
        (["b=2", "plain"], "'plain' is neither NAME=VALUE nor a JSON object"),
    ],
)
def test_a_mix_that_makes_no_sense_is_refused(words: list[str], error: str, tmp_path: Path) -> None:
    called = toolrun("call", "add", *words, cwd=write_project(tmp_path, add=ADD), stdin="[1]")
    assert called.returncode == 2
    assert error in called.stderr


def test_a_narrow_terminal_cuts_no_name(tmp_path: Path) -> None:
    name = "a_name_of_a_tool_that_is_longer_than_forty_columns"
    project = write_project(tmp_path, long=f'@tool\ndef {name}() -> int:\n    "Say something useful."\n    return 1\n')
    with terminal(str(TOOLRUN), "list", cwd=project, columns=40) as shown:
        assert shown.ends() == 0
        lines = shown.text.splitlines()
        assert all(len(line) <= 40 for line in lines)
        column = lines[0].index("SOURCE")
        assert "".join(line[:column].strip() for line in lines[1:]) == name


@pytest.mark.parametrize("command", [["list"], ["call", "add"]])
def test_where_there_are_no_tools_it_says_how_to_get_one(command: list[str], tmp_path: Path) -> None:
    said = toolrun(*command, cwd=tmp_path).stderr
    assert "here are no tools" in said
    assert "rite one with 'toolrun new NAME', or go to the directory of your project" in said
    assert "none" not in said


def test_the_function_of_a_script_is_found_under_the_name_of_its_tool(tmp_path: Path) -> None:
    project = write_project(tmp_path, other=ADD)
    header = "# /// script\n# dependencies = []\n# ///\n"
    (project / "tools" / "photos.py").write_text(f'{header}def measure() -> str:\n    "Measure."\n    return "big"\n')
    said = toolrun("call", "measure", cwd=project)
    assert (said.returncode, said.stderr) == (2, "toolrun: Tool 'measure' not found\nDid you mean photos.measure?\n")
