"""`toolrun chat`: questions of several lines, files, pictures, what a turn has taken, and the list of conversations."""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path

import pytest

from providers.base import Step
from providers.ollama import OllamaServer
from support.console import TOOLRUN, toolrun, write_project
from support.terminal import CTRL_D, terminal

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


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


def test_nothing_of_langchain_is_imported_before_the_first_question(project: Path) -> None:
    program = """if True:
        import builtins, sys
        from toolrun.cli import main

        ask = builtins.input

        def input(prompt):
            packages = {name.partition(".")[0] for name in sys.modules}
            print("loaded:", *sorted(it for it in packages if it.startswith(("lang", "ollama"))), "end")
            return ask(prompt)

        builtins.input = input
        main(["chat", "--model", "ollama:qwen3:0.6b"])
    """
    with OllamaServer() as server:
        server.play(Step(text="Hello."))
        with terminal(sys.executable, "-c", program, cwd=project, env={"OLLAMA_HOST": server.url}) as shown:
            shown.expect("loaded: end\n")
            shown.expect("> ")
            shown.type("Hello?")
            shown.expect("Hello.\n")
            assert "langchain_ollama" in shown.expect("end\n")


def test_a_model_that_cannot_be_opened_is_told_at_the_first_question_and_the_chat_goes_on(project: Path) -> None:
    (project / "script.json").write_text(json.dumps({"repeat": True, "answer": [{"text": "Yes."}]}))
    with terminal(str(TOOLRUN), "chat", "--model", "scripted:missing.json", cwd=project) as shown:
        shown.expect("> ")
        shown.type("Hello?")
        shown.expect("missing.json cannot be read")
        shown.expect("> ")
        shown.type("/model scripted:script.json")
        shown.expect("> ")
        shown.type("Hello?")
        shown.expect("Yes.\n")
    piped = toolrun("chat", "--model", "scripted:missing.json", cwd=project, stdin="Hello?\n")
    assert (piped.returncode, "missing.json cannot be read" in piped.stderr) == (2, True)


def test_a_picture_reaches_a_model_that_takes_pictures(project: Path) -> None:
    (project / "dot.png").write_bytes(DOT)
    with OllamaServer(sees=True) as server:
        server.play(Step(text="A dot."), Step(text="Still a dot."))
        done = toolrun(
            "chat",
            "--model",
            "ollama:qwen3:0.6b",
            cwd=project,
            stdin="What is @dot.png ?\nAnd now?\n",
            env={"OLLAMA_HOST": server.url},
        )
    assert (done.returncode, done.stdout) == (0, "A dot.\nStill a dot.\n")
    for body in server.bodies:
        asked = body["messages"][0]
        assert asked["content"].strip() == "What is @dot.png ?"
        assert asked["images"] == [base64.b64encode(DOT).decode()]
    assert server.violations == []
    [kept] = json.loads(toolrun("chat", "--list", "--json", cwd=project).stdout)
    assert kept["first_question"] == "What is @dot.png ?"


def test_a_picture_is_refused_for_a_model_that_takes_none(project: Path) -> None:
    (project / "dot.png").write_bytes(DOT)
    (project / "paper.pdf").write_bytes(b"%PDF-1.7\x00")
    with OllamaServer() as server:
        server.play(Step(text="Hello."))
        lines = "What is @dot.png ?\nWhat is @paper.pdf ?\nHello\n"
        done = toolrun(
            "chat", "--model", "ollama:qwen3:0.6b", cwd=project, stdin=lines, env={"OLLAMA_HOST": server.url}
        )
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert "ollama:qwen3:0.6b does not accept pictures: leave out @dot.png, or switch" in done.stderr
    assert "@paper.pdf is neither a text file in UTF-8 nor a picture" in done.stderr
    assert len(server.bodies) == 1
