"""What a shell offers at Tab: asked as the scripts of `toolrun completion` ask, and through real shells."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from support.console import TOOLRUN, run, toolrun, write_project
from support.terminal import terminal

TOOLS = '''
    import sys
    from pathlib import Path
    from typing import Literal
    from toolrun import ToolContext

    Path("imported").touch()
    print("noise")
    print("noise", file=sys.stderr)

    @tool
    def set_light(context: ToolContext, room: Literal["kitchen", "office"], on: bool = True, level: int = 3) -> str:
        """Switch a light."""
        return room

    @tool(name="play")
    async def start_music(volume: Literal[1, 2]) -> str:
        """Play music."""
        return "la"

    def helper(x: int) -> int:
        return x
'''
SCRIPT = '''# /// script
# dependencies = ["nowhere-to-be-found"]
# ///
def one(path: str) -> str:
    """Does one thing."""
    return path

def two() -> str:
    """Does another."""
    return ""
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path, lights=TOOLS)
    (tmp_path / "tools" / "photos.py").write_text(SCRIPT)
    (tmp_path / "toolrun.toml").write_text(
        f'[servers.never]\ncommand = "{sys.executable}"\nargs = ["-c", "open(\'started\', \'w\')"]\n'
    )
    return tmp_path


def offered(line: str, project: Path) -> list[str]:
    """The texts; nothing may be written but completions."""
    env = {"_TOOLRUN_LINE": line, "TOOLRUN_WORKERS_CACHE": str(project / "cache")}
    done = run(str(TOOLRUN), cwd=project, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(it.count("\t") == 2 for it in done.stdout.splitlines())
    return [it.split("\t")[1] for it in done.stdout.splitlines()]


def test_tools_parameters_and_values_are_known_from_the_text_of_files(project: Path) -> None:
    assert offered("toolrun call ", project) == ["photos.one", "photos.two", "play", "set_light"]
    assert offered("toolrun call set_light on=true ", project) == ["room=", "level="]
    assert offered("toolrun call set_light room=", project) == ["room=kitchen", "room=office"]
    assert offered("toolrun call play volume:=", project) == ["volume:=1", "volume:=2"]
    assert not (project / "imported").exists()
    assert not (project / "started").exists()
    assert not (project / "cache" / "environments").exists()


def test_what_a_command_has_loaded_is_known_until_its_file_changes(tmp_path: Path) -> None:
    project = write_project(
        tmp_path,
        made='''
            from enum import Enum
            Room = Enum("Room", {"HALL": "hall", "BATH": "bath"})

            @tool(name="".join(["la", "mp"]))
            def whatever(room: Room | None = None) -> str:
                """Switch a lamp."""
                return "on"
        ''',
    )
    env = {"TOOLRUN_WORKERS_CACHE": str(project / "cache")}
    assert offered("toolrun describe ", project) == ["whatever"]  # as far as the text says
    assert run(str(TOOLRUN), "list", cwd=project, env=env).returncode == 0
    assert offered("toolrun describe ", project) == ["lamp"]
    assert offered("toolrun call lamp room=", project) == ["room=hall", "room=bath"]
    (project / "tools" / "made.py").write_text("from toolrun import tool\n@tool\ndef other() -> str:\n    return ''\n")
    assert offered("toolrun call ", project) == ["other"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("toolrun comp", ["completion"]),
        ("toolrun completion ", ["bash", "zsh", "fish"]),
        ("toolrun call nothing ", []),
        ("toolrun nonsense ", []),
        ('toolrun call "unclosed ', []),
        ("", None),
    ],
)
def test_other_words(line: str, found: list[str] | None, project: Path) -> None:
    shown = offered(line, project)
    assert shown == found if found is not None else "call" in shown


@pytest.mark.parametrize("broken", ["[tools\n", "[tools]\npython = 7\n", '[workers]\ncache = "/dev/null/x"\n'])
def test_a_broken_project_says_nothing_into_the_shell(broken: str, project: Path) -> None:
    (project / "toolrun.toml").write_text(broken)
    (project / "tools" / "lights.py").write_text("def (:\n")
    env = {"_TOOLRUN_LINE": "toolrun call "}
    done = run(str(TOOLRUN), cwd=project, env=env)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("typed", "offers"),
    [
        ("toolrun call set_light ro", ["room="]),
        ("toolrun call set_light room=k", ["kitchen"]),
        ("toolrun call photos.o", ["photos.one"]),
        ("toolrun call play volume:=", ["1", "2"]),
    ],
)
def test_bash_gets_words_without_what_it_keeps_itself(typed: str, offers: list[str], project: Path) -> None:
    program = f"""
        eval "$({TOOLRUN} completion bash)"
        COMP_LINE="$1" COMP_POINT=${{#1}}
        _toolrun_completion {TOOLRUN}
        printf '%s|' "${{COMPREPLY[@]}}"
    """
    done = run("/bin/bash", "-c", program, "bash", typed, cwd=project)
    assert (done.stdout.split("|")[:-1], done.stderr) == (offers, "")


SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], 'eval "$(toolrun completion bash)"'),
    "zsh": (["-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(toolrun completion zsh)"'),
    "fish": (["--no-config", "-i"], "toolrun completion fish | source"),
}
LINES = {
    "toolrun desc\t": "toolrun describe",
    "FOO=1 toolrun call set_l\t": "FOO=1 toolrun call set_light",
    "toolrun call set_light ro\tk\tle\t2": "toolrun call set_light room=kitchen level=2",
    "toolrun call play volume:=1\t": "toolrun call play volume:=1",
    'toolrun call set_light room="ki\t': "toolrun call set_light room=kitchen",
    "toolrun call 'photos.o\t": "toolrun call photos.one",
    "toolrun log --outcome inv\t": "toolrun log --outcome invalid_arguments",
    "toolrun log --outcome=inv\t": "toolrun log --outcome=invalid_arguments",
    "toolrun list --config my\t": "toolrun list --config my_file.toml",
    "toolrun list --config=my\t": "toolrun list --config=my_file.toml",
    'toolrun list --config "my\t': "toolrun list --config my_file.toml",
    "toolrun list --config su\tin\t": "toolrun list --config sub_dir/inner.toml",
    "toolrun init su\tx": "toolrun init sub_dir/x",
    "toolrun nothing\t": "toolrun nothing",
}
"""What is typed, and the words that the shell then has, in which _ stands for a blank of a file name."""


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_completes_what_is_typed(shell: str, project: Path) -> None:
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")  # CI has bash only
    (project / "my file.toml").touch()
    (project / "sub dir").mkdir()
    (project / "sub dir" / "inner.toml").touch()
    options, setup = SHELLS[shell]
    with terminal(program, *options, cwd=project, columns=200, env={"HOME": str(project)}) as shown:
        shown.type(f'{setup}; echo is rea""dy')
        shown.expect("is ready\n")
        for typed, line in LINES.items():
            shown.press(typed)
            shown.press(" end")
            shown.press("\x01")  # to the beginning of the line
            shown.type("printf '<%s>' ")
            words = [word.replace("my_", "my ").replace("sub_", "sub ") for word in line.split()]
            shown.expect("".join(f"<{word}>" for word in (*words, "end")))


def test_a_shell_without_toolrun_shows_nothing_and_completes_nothing(project: Path) -> None:
    script = toolrun("completion", "bash", cwd=project).stdout
    program = (
        'eval "$1"; COMP_LINE="toolrun ca" COMP_POINT=10; _toolrun_completion /nowhere/toolrun; echo "${#COMPREPLY[@]}"'
    )
    done = run("/bin/bash", "-c", program, "bash", script, cwd=project)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script_and_can_read_it(shell: str, tmp_path: Path) -> None:
    """zsh and fish read it where they are installed; CI has bash only."""
    script = toolrun("completion", shell, cwd=tmp_path)
    assert script.stdout.startswith(f"# Completion of toolrun for {shell}.")
    assert "_TOOLRUN_LINE" in script.stdout
    if (program := shutil.which(shell)) is not None:
        (tmp_path / "script").write_text(script.stdout)
        assert run(program, "-n", "script", cwd=tmp_path).stderr == ""
