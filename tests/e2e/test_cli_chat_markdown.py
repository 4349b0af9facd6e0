"""`toolrun chat` on a terminal renders Markdown while it arrives; a pipe gets the text of the model."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

from providers.base import Step
from providers.ollama import OllamaServer
from support.console import TOOLRUN, toolrun, without_status, write_project
from support.terminal import CTRL_C, terminal

ANSWER = "# Milk\n\nBuy **two** bottles:\n\n- one\n- two\n\n[Shop](https://shop.example/milk) &#8238;&#13;\x1b[2J<b>\n"
RENDERED = "Milk\n\nBuy two bottles:\n\n • one\n • two\n\nShop (https://shop.example/milk) \\u202e\\x1b[2J<b>\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = write_project(tmp_path)
    (root / "script.json").write_text(json.dumps({"repeat": True, "answer": [{"text": ANSWER}]}))
    return root


def test_blocks_are_rendered_and_nothing_in_them_moves_the_cursor(project: Path) -> None:
    with terminal(str(TOOLRUN), "chat", "--model", "scripted:script.json", cwd=project) as shown:
        shown.expect("> ")
        shown.type("What do I need?")
        assert shown.expect("<b>\n").partition("\n")[2] == RENDERED
    written = without_status(shown.raw)
    assert re.search(r"\x1b\[[0-9;]*1[0-9;]*mtwo\x1b\[0m bottles", written)
    assert not any(code in written for code in ("\x1b[2J", "\u202e", "\x1b]8"))


@pytest.mark.parametrize("where", ["a pipe", "a terminal without styles"])
def test_elsewhere_the_text_is_as_the_model_wrote_it(where: str, project: Path) -> None:
    if where == "a pipe":
        done = toolrun("chat", "--model", "scripted:script.json", cwd=project, stdin="What?\n")
        assert (done.returncode, done.stdout) == (0, ANSWER)
        return
    with terminal(str(TOOLRUN), "chat", "--model", "scripted:script.json", cwd=project, env={"TERM": "dumb"}) as shown:
        shown.expect("> ")
        shown.type("What do I need?")
        shown.expect(ANSWER.replace("\x1b", "\\x1b"))


def test_a_finished_block_is_shown_while_the_next_one_arrives_and_that_one_is_in_the_status_line(project: Path) -> None:
    hold = threading.Event()
    with OllamaServer() as server:
        server.play(Step(text="The **first** one.\n\nA second on its way", hold=hold, hold_after=4))
        command = [str(TOOLRUN), "chat", "--model", "ollama:qwen3:0.6b"]
        with terminal(*command, cwd=project, env={"OLLAMA_HOST": server.url}) as shown:
            shown.expect("> ")
            shown.type("Hello")
            shown.expect("The first one.\n")
            shown.expect_status("A second on")
            assert "A second" not in shown.text
            hold.set()
            shown.expect("\nA second on its way\n")
    assert "**first**" not in shown.text


def test_what_has_arrived_is_shown_when_the_answer_is_interrupted(project: Path) -> None:
    hold = threading.Event()
    with OllamaServer() as server:
        server.play(Step(text="Only a **part** of it, not all", hold=hold, hold_after=2))
        command = [str(TOOLRUN), "chat", "--model", "ollama:qwen3:0.6b"]
        with terminal(*command, cwd=project, env={"OLLAMA_HOST": server.url}) as shown:
            shown.expect("> ")
            shown.type("Hello")
            shown.expect_status("Only a **part** of it")
            shown.press(CTRL_C)
            shown.expect("Only a part of it")
            shown.expect("Interrupted.")
            hold.set()
