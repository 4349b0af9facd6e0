"""`toolrun chat`: questions of several lines, files, what a turn has taken, and the list of conversations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from providers.base import Step
from providers.ollama import OllamaServer
from support.console import TOOLRUN, toolrun, write_project
from support.terminal import CTRL_D, terminal


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path)


def test_lines_and_files_reach_the_model_and_the_turn_is_counted(project: Path) -> None:
    (project / "notes.txt").write_text("milk\n")
    with OllamaServer() as server:
        server.play(Step(text="Milk."))
        command = [str(TOOLRUN), "chat", "--model", "ollama:qwen3:0.6b"]
        with terminal(*command, cwd=project, env={"OLLAMA_HOST": server.url}) as shown:
            shown.expect("0 tools. /help")
            shown.expect("> ")
            shown.type("What do I need\\")
            shown.expect("... ")
            shown.type("from @notes.txt?")
            shown.expect("@notes.txt? cannot be read")
            shown.expect("> ")
            shown.type("What do I need\\")
            shown.expect("... ")
            shown.type("from @notes.txt ?")
            shown.expect("Milk.\n")
            counted = shown.expect("> ")
            assert re.search(r"  \(\d+\.\d s, \d+ tokens? in, \d+ out\)\n", counted), counted
            shown.press(CTRL_D)
            assert shown.ends() == 0
    asked = server.bodies[0]["messages"][-1]["content"]
    assert asked == 'What do I need\nfrom @notes.txt ?\n\n<file name="notes.txt">\nmilk\n</file>'
    assert len(server.bodies) == 1


def test_conversations_are_listed_with_their_first_question(project: Path) -> None:
    (project / "script.json").write_text(json.dumps({"repeat": True, "answer": [{"text": "Yes."}]}))
    command = ("chat", "--model", "scripted:script.json")
    assert toolrun(*command, cwd=project, stdin="First  one?\nAnother?\n/new\nSecond?\n").returncode == 0
    kept = json.loads(toolrun("chat", "--list", "--json", cwd=project).stdout)
    assert [(it["questions"], it["first_question"], it["consumer"]) for it in kept] == [
        (1, "Second?", "chat"),
        (2, "First one?", "chat"),
    ]
    listed = toolrun("chat", "--list", cwd=project)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [it["conversation"] for it in kept]
    assert "toolrun chat --continue CONVERSATION" in listed.stderr


def test_json_is_for_the_list_only(project: Path) -> None:
    refused = toolrun("chat", "--json", cwd=project)
    assert (refused.returncode, "--json is for --list only" in refused.stderr) == (2, True)
