"""Where the relative paths of a tool begin: the same place for a function of this process and for one of a script."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.console import TOOLRUN, toolrun
from support.environments import header
from support.raw_mcp import on_stdio
from toolrun import Runtime
from toolrun.processes.sandbox.system_support import (
    BUBBLEWRAP,
    LANDLOCK,
    NAMESPACES,
    SystemSupport,
    landlock_abi,
    probe,
    remember_support,
)

READ = '''
def {name}(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()
'''
KINDS = ["plain", "script"]
MODEL = """
[[answer]]
calls = [{{ name = "{kind}", arguments = {{ path = "note" }} }}]
[[answer]]
text = "{{result}}"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The file `note` is in the project, in a directory inside of it, and in one outside."""
    root = tmp_path / "project"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "plain.py").write_text("from toolrun import tool\n\n@tool" + READ.format(name="plain"))
    (root / "tools" / "script.py").write_text(header("dependencies = []") + READ.format(name="script"))
    (root / "toolrun.toml").touch()
    for place in (root, root / "inner", tmp_path / "outside"):
        place.mkdir(exist_ok=True)
        (place / "note").write_text(f"in {place.name}")
    return root


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["project", "inner"])
def test_a_call_on_the_command_line_begins_where_the_caller_is(project: Path, kind: str, place: str) -> None:
    done = toolrun("call", kind, "path=note", cwd=project if place == "project" else project / place)
    assert (done.stdout, done.returncode) == (f"in {place}\n", 0), done.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["ask", "chat"])
def test_a_model_on_the_command_line_begins_where_the_caller_is(project: Path, kind: str, command: str) -> None:
    (project / "inner" / "model.toml").write_text(MODEL.format(kind=kind))
    asked = ("ask", "Read it.") if command == "ask" else ("chat",)
    done = toolrun(*asked, "--model", "scripted:model.toml", cwd=project / "inner", stdin="Read it.\n")
    assert "in inner" in done.stdout, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_through_a_server_begins_in_the_project(project: Path, kind: str) -> None:
    command = [str(TOOLRUN), "serve", "--config", "../project/toolrun.toml"]
    with on_stdio(command, project.parent / "outside", "modern") as ask:
        found = ask("tools/call", name=kind, arguments={"path": "note"})["result"]
        assert found["content"][0]["text"] == "in project", found


@pytest.mark.parametrize("kind", KINDS)
def test_the_voice_gateway_begins_in_the_project_and_its_options_where_it_was_started(project: Path, kind: str) -> None:
    (project.parent / "outside" / "model.toml").write_text(MODEL.format(kind=kind))
    config = ("--config", "../project/toolrun.toml", "--model", "scripted:model.toml")
    recorded = ("record", "calls.jsonl", "voice", *config)
    done = toolrun(*recorded, cwd=project.parent / "outside", stdin="read it\n")
    assert done.stdout == "in project.\n", done.stderr
    assert (project.parent / "outside" / "calls.jsonl").exists()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_program_has_one_place_for_all_tools(project: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "inner")
    async with Runtime.open(project / "toolrun.toml") as runtime:
        assert (await runtime.executor.execute(kind, {"path": "note"})).result == "in inner"


def test_without_a_sandbox_a_script_reads_what_the_caller_may_read(project: Path) -> None:
    (project / "toolrun.toml").write_text('[workers]\nsandbox = "off"\n')
    assert outside(project, "script").stdout == "in outside\n"


def outside(project: Path, kind: str) -> subprocess.CompletedProcess[str]:
    config = ("--config", str(project / "toolrun.toml"))
    return toolrun("call", *config, kind, "path=note", cwd=project.parent / "outside")


@pytest.mark.skipif(sys.platform != "linux" or not landlock_abi(), reason="needs Landlock")
@pytest.mark.parametrize("is_in_home", [True, False])
@pytest.mark.parametrize("rung", [NAMESPACES, BUBBLEWRAP, LANDLOCK])
def test_a_sandboxed_script_is_where_the_caller_is_and_sees_nothing_there_until_it_may(
    project: Path, rung: str, is_in_home: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's directory may be anything, also a home: that somebody is there is no permission."""
    if rung not in {probe().rung, LANDLOCK} and not shutil.which("bwrap"):
        pytest.skip(f"this system has no {rung}")
    if is_in_home:
        monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("support.console.CACHE", "")
    cache = tmp_path / "cache"
    settings = f"[workers]\ncache = {json.dumps(str(cache))}\n"
    (project / "toolrun.toml").write_text(settings)
    cache.mkdir()
    remember_support(cache, SystemSupport(rung, landlock_abi()))
    refused = outside(project, "script")
    assert (refused.returncode, refused.stdout) == (1, "")
    lines = [f'read = ["{place}' for place in (tmp_path / "outside", "~/outside")]
    assert any(line in refused.stderr for line in lines), refused.stderr
    grant = f"[tool.script.permissions]\nread = [{json.dumps(str(tmp_path / 'outside'))}]\n"
    (project / "toolrun.toml").write_text(settings + grant)
    assert outside(project, "script").stdout == "in outside\n"
