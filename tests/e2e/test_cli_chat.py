"""`toolrun chat` on a terminal and in a pipe, with scripted models and provider servers."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from providers.base import Asked, Step
from providers.ollama import OllamaServer
from support.console import TOOLRUN, toolrun, without_status, write_project
from support.terminal import CTRL_C, CTRL_D, Terminal, terminal

TOOLS = '''
    import asyncio, sys, threading, time

    @tool
    def add(a: int, b: int) -> int:
        """Add two whole numbers.

        Slowly."""
        return a + b

    @tool
    async def hang() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    @tool
    def hang_in_thread() -> None:
        """Never ends, in a thread."""
        threading.Event().wait()

    @tool
    async def block() -> None:
        """Blocks the event loop."""
        print("blocking", file=sys.stderr, flush=True)
        while True:
            time.sleep(0.05)

    @tool
    def escape() -> str:
        """Tries to move the cursor."""
        return "\\x1b[2J"
'''
ADDS = [
    {"text": "One moment.", "calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]},
    {"text": "It is {result}."},
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, tools=TOOLS)


def write_script(project: Path, *answers: object, name: str = "script.json") -> str:
    """The --model that plays these answers, again and again."""
    (project / name).write_text(json.dumps({"repeat": True, "answer": answers}), encoding="utf-8")
    return f"scripted:{name}"


def calls(name: str, then: str = "Done.") -> list[object]:
    return [{"calls": [{"name": name}]}, {"text": then}]


def chat(project: Path, model: str) -> list[str]:
    return [str(TOOLRUN), "chat", "--model", model]


def begin(shown: Terminal) -> None:
    shown.expect("Ctrl-D ends.")
    shown.expect("> ")


def test_a_question_a_call_an_answer_and_the_end(project: Path) -> None:
    with terminal(*chat(project, write_script(project, *ADDS)), cwd=project) as shown:
        begin(shown)
        shown.type("What is 2 + 3?")
        turn = shown.expect("> ")
        assert turn.splitlines()[1:-1] == [
            "One moment.",
            '  add {"a": 2, "b": 3}',
            *[line for line in turn.splitlines() if line.startswith("  add → 5 (")],
            "It is 5.",
            *[line for line in turn.splitlines() if re.fullmatch(r"  \(\d+\.\d s, \d+ tokens in, \d+ out\)", line)],
        ]
        assert turn.splitlines()[-2].endswith(" out)")
        shown.press(CTRL_D)
        assert shown.ends() == 0


@pytest.mark.parametrize("tool", ["hang", "hang_in_thread"])
def test_ctrl_c_interrupts_the_turn_and_the_conversation_goes_on(tool: str, project: Path) -> None:
    with OllamaServer() as server:
        server.play(Step(calls=[Asked(tool)]), Step(text="I was interrupted."))
        with terminal(*chat(project, "ollama:qwen3:0.6b"), cwd=project, env={"OLLAMA_HOST": server.url}) as shown:
            begin(shown)
            shown.type("Wait for it")
            shown.expect(f"  {tool} {{}}")
            shown.press(CTRL_C)
            shown.expect("Interrupted.")
            shown.expect("> ")
            shown.type("What happened?")
            shown.expect("I was interrupted.\n")
            shown.expect("> ")
            shown.press(CTRL_D)
            assert shown.ends() == 0
    messages = server.bodies[1]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert "effects are unknown" in messages[2]["content"]
    assert server.violations == []


def test_ctrl_c_interrupts_a_model_that_does_not_answer(project: Path) -> None:
    hold = threading.Event()
    with OllamaServer() as server:
        server.play(Step(text="too late", hold=hold), Step(text="Here I am."))
        with terminal(*chat(project, "ollama:qwen3:0.6b"), cwd=project, env={"OLLAMA_HOST": server.url}) as shown:
            begin(shown)
            shown.type("Hello")
            assert server.held.wait(30)
            shown.press(CTRL_C)
            shown.expect("Interrupted.")
            hold.set()
            shown.expect("> ")
            shown.type("Hello?")
            shown.expect("Here I am.\n")
    assert "too late" not in shown.text


def test_a_tool_that_blocks_everything_is_ended_by_a_second_ctrl_c(project: Path) -> None:
    with terminal(*chat(project, write_script(project, *calls("block"))), cwd=project) as shown:
        begin(shown)
        shown.type("Block")
        shown.expect("blocking")
        shown.press(CTRL_C)
        shown.expect("press Ctrl-C again to end toolrun")
        shown.press(CTRL_C)
        assert shown.ends() == 130


def test_ctrl_c_at_the_prompt_drops_the_line_and_twice_ends(project: Path) -> None:
    with terminal(*chat(project, write_script(project, {"text": "You said: {question}"})), cwd=project) as shown:
        begin(shown)
        shown.press("never sent")
        shown.expect("never sent")
        shown.interrupt_prompt()
        shown.expect("Press Ctrl-C again or Ctrl-D to end the chat.")
        shown.expect("> ")
        shown.type("sent")
        shown.expect("You said: sent\n")
        shown.expect("> ")
        shown.interrupt_prompt()
        shown.expect("to end the chat.")
        shown.expect("> ")
        shown.interrupt_prompt()
        assert shown.ends() == 0


def test_the_arrow_key_brings_back_the_last_line(project: Path) -> None:
    pytest.importorskip("readline")
    with terminal(*chat(project, write_script(project, {"text": "You said: {question}"})), cwd=project) as shown:
        begin(shown)
        shown.type("first")
        shown.expect("You said: first\n")
        shown.expect("> ")
        shown.type("\x1b[A again")
        shown.expect("You said: first again\n")


def test_nothing_that_model_or_tool_say_moves_the_cursor(project: Path) -> None:
    answers = [
        {"calls": [{"name": "escape"}, {"name": "no\x1b[Htool", "arguments": {"x": "\x1b[2K"}}]},
        {"text": "\x1b[31mred\r\x07\r\nand more"},
    ]
    with terminal(*chat(project, write_script(project, *answers)), cwd=project) as shown:
        begin(shown)
        shown.type("Hello")
        shown.expect(r"\x1b[31mred\r\x07" + "\nand more\n")
        shown.expect("> ")
    written = without_status(shown.raw)
    assert not any(code in written for code in ("\x1b[2J", "\x1b[H", "\x1b[2K", "\x1b[31mred", "\x07"))


def test_errors_of_the_model_are_one_line_and_the_conversation_goes_on(project: Path) -> None:
    with OllamaServer() as server:
        server.play(Step(status=400, error="what is this?"), Step(text="Better."))
        with terminal(*chat(project, "ollama:qwen3:0.6b"), cwd=project, env={"OLLAMA_HOST": server.url}) as shown:
            begin(shown)
            shown.type("One")
            shown.expect("toolrun: Ollama refused the request (status 400): what is this?.\n")
            shown.expect("> ")
            shown.type("Two")
            shown.expect("Better.\n")


def test_commands(project: Path) -> None:
    model = write_script(project, {"text": "You said: {question}"})
    other = write_script(project, {"text": "I am another one."}, name="other.json")
    lines = [
        "/tools",
        "/model",
        "/help",
        "one",
        f"/model {other}",
        "two",
        "/new",
        "/nonsense",
        " /a path",
        "/quit",
        "x",
    ]
    done = toolrun("chat", "--model", model, cwd=project, stdin="\n".join(lines))
    assert done.returncode == 0
    assert "add             Add two whole numbers.\n" in done.stdout
    assert f"scripted:{project / 'script.json'} (--model)\n" in done.stdout
    assert "/quit   End the chat." in done.stdout
    assert done.stdout.endswith("You said: one\nI am another one.\nI am another one.\n")
    assert f"Switched to scripted:{project / 'other.json'}." in done.stderr
    assert "New conversation." in done.stderr
    assert "there is no command '/nonsense'" in done.stderr


def test_the_conversation_is_remembered_until_a_new_one(project: Path) -> None:
    with OllamaServer(("qwen3:0.6b", "other")) as server:
        server.play(*[Step(text=f"Answer {number}.") for number in range(4)])
        lines = "one\ntwo\n/model other\nthree\n/new\nfour\n"
        done = toolrun(
            "chat", "--model", "ollama:qwen3:0.6b", cwd=project, stdin=lines, env={"OLLAMA_HOST": server.url}
        )
    assert done.returncode == 0
    assert done.stdout == "Answer 0.\nAnswer 1.\nAnswer 2.\nAnswer 3.\n"
    assert [len(body["messages"]) for body in server.bodies] == [1, 3, 5, 1]
    assert [body["model"] for body in server.bodies] == ["qwen3:0.6b", "qwen3:0.6b", "other", "other"]


def test_a_model_that_is_not_there_does_not_end_the_chat(project: Path) -> None:
    model = write_script(project, {"text": "You said: {question}"})
    done = toolrun("chat", "--model", model, cwd=project, stdin="/model scripted:nothing\n/model a:b\nhello\n")
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert "nothing cannot be read" in done.stderr
    assert f"The model is still scripted:{project / 'script.json'}." in done.stderr


def test_a_script_that_is_over_is_told_and_the_chat_goes_on(project: Path) -> None:
    (project / "once.toml").write_text('[[answer]]\ntext = "Once."\n')
    done = toolrun("chat", "--model", "scripted:once.toml", cwd=project, stdin="one\ntwo\nthree\n")
    assert (done.returncode, done.stdout) == (0, "Once.\n")
    assert done.stderr.count("The script has 1 answers") == 2


def test_without_a_model_it_says_how_to_get_one(project: Path) -> None:
    done = toolrun("chat", cwd=project, env={"OLLAMA_HOST": "127.0.0.1:9", "ANTHROPIC_API_KEY": ""})
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no model (Ollama does not run at http://127.0.0.1:9)." in done.stderr
    assert "ollama pull" in done.stderr
    assert "ANTHROPIC_API_KEY" in done.stderr


def test_a_server_that_does_not_come_up_delays_nothing_but_the_first_answer(project: Path) -> None:
    config = """
        [mcp]
        delays = [0]
        [servers.broken]
        command = "false"
    """
    (project / "toolrun.toml").write_text(dedent(config))
    done = toolrun("chat", "--model", write_script(project, {"text": "Hello."}), cwd=project, stdin="hello\n")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert "broken" in done.stderr


def test_files_that_are_new_edited_or_gone_count_from_the_next_question_on(project: Path) -> None:
    model = write_script(project, *calls("late", then="It says {result}."))
    late = project / "tools" / "late.py"
    code = "from toolrun import tool\n\n@tool\ndef late() -> str:\n    'Come late.'\n    return {!r}\n"
    with terminal(*chat(project, model), cwd=project) as shown:
        begin(shown)
        late.write_text(code.format("one"))
        shown.type("What does it say?")
        shown.expect("tools/late.py is new: 1 tool")
        shown.expect("It says one.")
        shown.expect("> ")
        late.write_text(code.format("another"))
        shown.type("And now?")
        shown.expect("tools/late.py was edited: 1 tool")
        shown.expect("It says another.")
        shown.expect("> ")
        late.unlink()
        shown.type("/tools")
        shown.expect("tools/late.py is gone")
        shown.expect("> ")
        shown.press(CTRL_D)
        assert shown.ends() == 0
