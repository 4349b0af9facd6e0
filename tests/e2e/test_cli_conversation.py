"""`toolrun chat --continue` and `toolrun ask --conversation`: conversations that go on in another process."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from providers.base import Asked, Step
from providers.ollama import OllamaServer
from support.console import LIMIT, TOOLRUN, environment, toolrun, write_project
from support.raw_mcp import gateway
from toolrun.journal.history import open_history

TOOLS = '''
    import os, signal
    from pathlib import Path

    @tool
    async def pay(who: str) -> str:
        """Pay somebody."""
        with open("effects.txt", "a") as file:
            file.write(who + "\\n")
        if Path("die").exists():
            Path("die").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid " + who
'''
HINT = re.compile(r"To continue this conversation: toolrun chat --continue (\S+)\n")


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as server:
        yield server
    assert server.violations == []


@pytest.fixture
def project(tmp_path: Path, server: OllamaServer) -> Path:
    write_project(tmp_path, tools=TOOLS)
    configure(tmp_path, server)
    return tmp_path


def configure(project: Path, server: OllamaServer, more: str = "") -> None:
    text = f'[model]\nuse = "ollama:qwen3:0.6b"\nbase_url = "{server.url}"\n{more}'
    (project / "toolrun.toml").write_text(text, encoding="utf-8")


def pays(who: str) -> Step:
    return Step(calls=[Asked("pay", {"who": who})])


def said(server: OllamaServer) -> list[tuple[str, str]]:
    """What the model was sent last."""
    return [(it["role"], it.get("content", "")) for it in server.bodies[-1]["messages"]]


def chat(project: Path, *lines: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return toolrun("chat", *options, cwd=project, stdin="".join(f"{line}\n" for line in lines))


@contextmanager
def chatting(project: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    command = [str(TOOLRUN), "chat", *options]
    with subprocess.Popen(
        command, cwd=project, env=environment(), text=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def consumers(project: Path) -> set[Any]:
    with open_history(project / ".toolrun/journal.db") as history:
        return {(call.tool, call.consumer) for call in history.calls()}


def test_a_chat_says_how_to_go_on_with_it_and_does(project: Path, server: OllamaServer) -> None:
    server.play(pays("ann"), Step(text="Ann is paid."), Step(text="It was Ann."), Step(text="Yes."))
    first = chat(project, "Pay ann")
    [id] = HINT.findall(first.stderr)
    second = chat(project, "Who was it?", options=("--continue",))
    assert (second.stdout, second.returncode) == ("It was Ann.\n", 0)
    assert f"Conversation {id}, with 1 question so far." in second.stderr
    assert HINT.findall(second.stderr) == [id]
    expected = [("user", "Pay ann"), ("assistant", ""), ("tool", "paid ann"), ("assistant", "Ann is paid.")]
    assert said(server) == [*expected, ("user", "Who was it?")]
    third = chat(project, "Sure?", options=("--continue", id))
    assert third.stdout == "Yes.\n"
    assert said(server)[-1] == ("user", "Sure?")
    assert consumers(project) == {("pay", "chat")}


def test_a_chat_that_was_killed_is_finished_and_the_call_in_doubt_is_named(project: Path, server: OllamaServer) -> None:
    server.play(pays("ann"), Step(text="I do not know whether Ann is paid."))
    (project / "die").touch()
    assert chat(project, "Pay ann").returncode == -signal.SIGKILL
    found = chat(project, options=("--continue",))
    assert found.stdout == "I do not know whether Ann is paid.\n"
    assert "Its last answer was cut off. Finishing it now." in found.stderr
    assert "run: toolrun effects settle 1-1 --done (or --not-done)" in found.stderr
    assert "toolrun effects settle 1-1 --done" in said(server)[-1][1]
    assert (project / "effects.txt").read_text() == "ann\n"
    assert "1-1" in toolrun("effects", cwd=project).stdout


def test_calls_of_an_mcp_client_say_that_serve_made_them(project: Path) -> None:
    with gateway("stdio", project, "legacy") as ask:
        ask("tools/call", name="pay", arguments={"who": "ann"})
    assert consumers(project) == {("pay", "serve")}


def test_a_new_conversation_is_another_one(project: Path, server: OllamaServer) -> None:
    server.play(*[Step(text="Hi.")] * 3)
    first, second = HINT.findall(chat(project, "Hello", "/new", "Hello again").stderr)
    assert first != second
    chat(project, "And?", options=("--continue", first))
    assert [text for _, text in said(server)] == ["Hello", "Hi.", "And?"]


def test_a_chat_in_which_nothing_was_said_is_not_kept(project: Path) -> None:
    assert chat(project).stderr == ""
    found = chat(project, options=("--continue",))
    assert (found.stderr, found.returncode) == ("toolrun: There is no conversation to continue.\n", 2)


def test_an_unknown_conversation_is_an_error(project: Path, server: OllamaServer) -> None:
    server.play(Step(text="Hi."))
    [id] = HINT.findall(chat(project, "Hello").stderr)
    found = chat(project, "Hello", options=("--continue", "nope"))
    assert f"There is no conversation 'nope' in the journal; the newest is '{id}'." in found.stderr
    assert found.returncode == 2


def test_one_process_at_a_time_has_a_conversation(project: Path, server: OllamaServer) -> None:
    hold = threading.Event()
    server.play(Step(text="Hi."), Step(text="Slow.", hold=hold), Step(text="Free."))
    [id] = HINT.findall(chat(project, "Hello").stderr)
    with chatting(project, "--continue", id) as other:
        assert other.stdin is not None
        other.stdin.write("And?\n")
        other.stdin.flush()
        assert server.held.wait(LIMIT)
        found = chat(project, "Mine!", options=("--continue", id))
        assert f"Conversation '{id}' is in use by process {other.pid} (toolrun chat)." in found.stderr
        assert found.returncode == 2
        nothing = chat(project, "Mine!", options=("--continue",))
        assert f"There is no conversation to continue: {id} is in use by process {other.pid}." in nothing.stderr
        hold.set()
        assert other.stdout is not None
        assert other.stdout.readline() == "Slow.\n"
        os.kill(other.pid, signal.SIGKILL)
        other.wait(LIMIT)
    after = chat(project, "Mine!", options=("--continue", id))
    assert after.stdout == "Free.\n"
    assert [text for _, text in said(server)] == ["Hello", "Hi.", "And?", "Slow.", "Mine!"]


def test_a_conversation_goes_on_with_its_own_model_or_with_one_that_is_named(project: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        script = {"repeat": True, "answer": [{"text": f"I am {name}."}]}
        (project / f"{name}.json").write_text(json.dumps(script))
    chat(project, "Hello", options=("--model", "scripted:one.json"))
    assert chat(project, "Hello", options=("--continue",)).stdout == "I am one.\n"
    switched = ("--continue", "--model", "scripted:two.json")
    assert chat(project, "Hello", options=switched).stdout == "I am two.\n"
    assert chat(project, "Hello", options=("--continue",)).stdout == "I am two.\n"


def test_ask_keeps_a_conversation_by_name(project: Path, server: OllamaServer) -> None:
    server.play(pays("ann"), Step(text="Ann is paid."), Step(text="Ann."))
    toolrun("ask", "Pay ann", "--conversation", "order-17", cwd=project)
    found = toolrun("ask", "Who?", "--conversation", "order-17", "--json", cwd=project)
    assert json.loads(found.stdout)["conversation"] == "order-17"
    assert said(server)[-1] == ("user", "Who?")
    assert said(server)[0] == ("user", "Pay ann")
    assert consumers(project) == {("pay", "ask")}


def test_ask_without_a_question_finishes_the_answer(project: Path, server: OllamaServer) -> None:
    server.play(pays("ann"), Step(text="I do not know."))
    (project / "die").touch()
    toolrun("ask", "Pay ann", "--conversation", "order-17", cwd=project)
    found = toolrun("ask", "--conversation", "order-17", cwd=project)
    assert (found.stdout, found.returncode) == ("I do not know.\n", 0)
    assert (project / "effects.txt").read_text() == "ann\n"
    assert toolrun("ask", "--conversation", "order-17", cwd=project).stdout == "I do not know.\n"
    unknown = toolrun("ask", "--conversation", "order-18", cwd=project)
    assert "did you mean 'order-17'?" in unknown.stderr
    assert unknown.returncode == 2
    assert "missing argument 'QUESTION'" in toolrun("ask", cwd=project).stderr


@pytest.mark.parametrize("more", ["[journal]\nenabled = false\n", "[journal]\nconversations = false\n"])
def test_a_project_that_keeps_no_conversations_says_so(project: Path, server: OllamaServer, more: str) -> None:
    configure(project, server, more)
    server.play(Step(text="Hi."))
    found = chat(project, "Hello")
    assert (found.stdout, found.stderr) == ("Hi.\n", "")
    for arguments in (("chat", "--continue"), ("ask", "Hello", "--conversation", "x")):
        refused = toolrun(*arguments, cwd=project)
        assert "Conversations are kept in the journal of a project, and" in refused.stderr
        assert refused.returncode == 2


def test_without_a_project_there_is_nothing_to_continue(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"answer": [{"text": "Hi."}]}))
    found = chat(tmp_path, "Hello", options=("--model", "scripted:script.json"))
    assert (found.stdout, found.stderr) == ("Hi.\n", "")
    refused = chat(tmp_path, options=("--continue",))
    assert "there is no toolrun.toml here" in refused.stderr


def test_a_file_of_another_program_is_refused_and_left_alone(project: Path, server: OllamaServer) -> None:
    configure(project, server, '[journal]\npath = "other.db"\n')
    with closing(sqlite3.connect(project / "other.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.commit()
    before = (project / "other.db").read_bytes()
    found = chat(project, "Hello", options=("--continue",))
    assert "is a database of another program" in found.stderr
    assert found.returncode != 0
    assert (project / "other.db").read_bytes() == before


def test_a_file_that_is_cut_off_is_refused(project: Path, server: OllamaServer) -> None:
    server.play(Step(text="Hi."))
    chat(project, "Hello")
    path = project / ".toolrun/journal.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(path.read_bytes()[:5000])
    found = chat(project, "Hello", options=("--continue",))
    assert "journal" in found.stderr
    assert "Traceback" not in found.stderr
    assert found.returncode != 0
    assert path.stat().st_size == 5000
