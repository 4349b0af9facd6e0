"""`toolrun effects` and `toolrun replay`, on calls that real processes made and did not survive."""

from __future__ import annotations

import asyncio
import getpass
import json
import shlex
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.console import LIMIT, TOOLRUN, on_terminal, started, toolrun, write_project
from toolrun import ErrorKind, Runtime, tool
from toolrun.journal.database import open_reader

TOOLS = '''
import os, time
from pathlib import Path
from toolrun import Done, NotDone, ToolError

WORLD = Path(__file__).with_name("world")


def act(text):
    with WORLD.open("a") as file:
        file.write(text + "\\n")


def was_sent(key, arguments):
    """Asks the world, if it answers."""
    asked = Path(__file__).with_name("asked")
    asked.write_text(f"{key} {arguments}")
    if os.environ.get("BROKEN"):
        raise OSError("the world does not answer")
    sent = WORLD.exists() and arguments["to"] in WORLD.read_text()
    return Done({"sent": arguments["to"]}) if sent else NotDone


@tool(effects="once", verify=was_sent)
def send(to: str, how: str = "well") -> dict:
    """Send a mail."""
    if how == "dies before":
        os._exit(9)
    act(to)
    if how == "dies":
        os._exit(9)
    if how == "breaks":
        raise KeyError("the answer")
    return {"sent": to}


@tool
def pay(to: str, token: str = "") -> str:
    """Pay."""
    act(to)
    os._exit(9)


@tool
def note(to: str) -> None:
    """Note something."""
    act(to)


@tool(effects="once")
def hold() -> str:
    """Wait until somebody says go on."""
    Path(__file__).with_name("held").touch()
    while not Path(__file__).with_name("go on").exists():
        time.sleep(0.01)
    return "let go"


@tool(effects="none")
def look() -> list:
    """Look at the world."""
    return WORLD.read_text().split() if WORLD.exists() else []


@tool(effects="none")
def measure(text: str, password: str = "") -> int:
    """Measure a text."""
    return len(text) + len(password)
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, mail=TOOLS)


def world(project: Path) -> list[str]:
    file = project / "tools" / "world"
    return file.read_text().split() if file.exists() else []


def crash(project: Path, *arguments: str) -> str:
    """Make a call that its process does not survive, and return its id."""
    done = toolrun("call", *arguments, cwd=project)
    assert done.returncode == 9, done.stderr
    return str(doubts(project)[-1]["id"])


def doubts(project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(toolrun("effects", "--json", cwd=project).stdout)
    return found


def settle(project: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return toolrun("effects", "settle", *arguments, cwd=project, env=env)


def show(project: Path, call: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(toolrun("show", call, "--json", cwd=project).stdout)
    return found


def test_a_doubt_is_listed_with_what_may_have_happened(project: Path) -> None:
    crash(project, "send", "to=ann", "how=dies")
    toolrun("call", "send", "to=bob", "how=breaks", cwd=project)
    listed = toolrun("effects", cwd=project)
    first, second = listed.stdout.splitlines()
    assert "send" in first
    assert "the program that ran it died" in first
    assert '{"to":"ann","how":"dies"}' in first
    assert "it failed and may have acted: KeyError: 'the answer'" in second
    assert "toolrun effects settle CALL" in listed.stderr
    assert [it["may_act"] for it in doubts(project)] == [False, False]


def test_the_commands_that_are_printed_have_the_configuration_that_was_given(project: Path) -> None:
    config = project / "our house.toml"
    config.write_text('[journal]\npath = "its journal.db"\n')
    given = ("--config", str(config))
    settle = f"toolrun --config '{config}' effects settle"

    said = toolrun("call", *given, "send", "to=bob", "how=breaks", cwd=project.parent).stderr
    assert f"{settle} 1-1 --done (or --not-done, or --verify to ask the tool)" in said
    key = ("--key", "k")
    said = toolrun("call", *given, "send", "to=bob", "how=breaks", *key, cwd=project.parent).stderr
    assert f"toolrun --config '{config}' call send to=bob how=breaks --key k" in said
    broken = {"BROKEN": "1"}
    said = toolrun("call", *given, "send", "to=bob", "how=breaks", *key, cwd=project.parent, env=broken).stderr
    assert f"{settle} 2-1 --done (or --not-done)" in said
    assert f"{settle} CALL --done" in toolrun("effects", *given, cwd=project.parent).stderr
    assert f"{settle} 1-1 --done (or --not-done)" in toolrun("show", *given, "1-1", cwd=project.parent).stdout
    for command in ("show", "replay"):
        assert f"'toolrun --config '{config}' log' lists" in toolrun(command, *given, "9-9", cwd=project.parent).stderr

    words = shlex.split(f"{settle} 1-1 --done")
    assert toolrun(*words[1:], cwd=project.parent).returncode == 0


def test_outside_a_project_there_is_no_log(tmp_path: Path) -> None:
    done = toolrun("log", cwd=tmp_path)
    assert (done.returncode, "There is no toolrun.toml here" in done.stderr) == (2, True), done


def test_a_person_settles_a_doubt_as_done_with_the_result(project: Path) -> None:
    call = crash(project, "send", "to=ann", "how=dies", "--key", "k")
    again = toolrun("call", "send", "to=ann", "how=dies", "--key", "k", cwd=project, env={"BROKEN": "1"})
    assert again.returncode == 1
    assert f"toolrun effects settle {call}" in again.stderr
    done = settle(project, call, "--done", "--result", '{"sent": "yes"}')
    assert (done.returncode, done.stdout) == (0, "")
    assert f"{call} (send) is settled: it happened." in done.stderr
    found = show(project, call)
    assert (found["settled_as"], found["settled_by"]) == ("done", f"person:{getpass.getuser()}")
    assert found["settled_at"] > found["at"]
    assert f"settled as done by {getpass.getuser()}" in toolrun("show", call, cwd=project).stdout
    assert doubts(project) == []
    again = toolrun("call", "send", "to=ann", "how=dies", "--key", "k", "--json", cwd=project)
    answer = json.loads(again.stdout)
    assert (answer["result"], answer["replayed"], answer["recorded_as"]) == ({"sent": "yes"}, True, call)
    assert (answer["key"], world(project)) == ("k", ["ann"])


def test_a_person_settles_a_doubt_as_not_done_and_the_key_runs_again(project: Path) -> None:
    call = crash(project, "send", "to=ann", "how=dies before", "--key", "k")
    assert settle(project, call, "--not-done").returncode == 0
    assert show(project, call)["settled_as"] == "not_done"
    again = toolrun("call", "send", "to=ann", "how=dies before", "--key", "k", cwd=project)
    assert again.returncode == 9, "it ran again"


async def test_nobody_is_believed_that_a_call_which_may_still_act_will_not(project: Path) -> None:
    go_on = threading.Event()

    @tool(effects="once", timeout=1.0)
    def hang() -> None:
        """Hang."""
        go_on.wait(LIMIT)
        raise KeyError("it proves nothing")

    async with Runtime.open(project / "toolrun.toml") as runtime:
        runtime.manager.add(hang)
        await asyncio.gather(*(runtime.executor.execute("hang") for _ in range(2)))
        assert runtime.journal is not None
        await runtime.journal.drain()
        first, second = await asyncio.to_thread(doubts, project)
        assert (first["may_act"], second["may_act"]) == (True, True)
        assert "and it may still act" in (await asyncio.to_thread(toolrun, "effects", cwd=project)).stdout
        refused = await asyncio.to_thread(settle, project, first["id"], "--not-done")
        assert (refused.returncode, "may still be running" in refused.stderr) == (1, True)
        forced = await asyncio.to_thread(settle, project, first["id"], "--not-done", "--force")
        assert forced.returncode == 0, forced.stderr
        go_on.set()
        async with asyncio.timeout(LIMIT):
            while runtime.executor.health().abandoned:
                await asyncio.to_thread(threading.Event().wait, 0.001)
        await asyncio.sleep(0)  # the loop is told in its next turn
        await runtime.journal.drain()
        (left,) = await asyncio.to_thread(doubts, project)
        assert (left["id"], left["may_act"]) == (second["id"], False)
        assert (await asyncio.to_thread(settle, project, left["id"], "--not-done")).returncode == 0


@pytest.mark.parametrize(
    ("how", "settled", "words"),
    [("dies", "done", "it happened, with the result"), ("dies before", "not_done", "it did not happen")],
)
def test_the_tool_is_asked_what_happened(project: Path, how: str, settled: str, words: str) -> None:
    call = crash(project, "send", "to=ann", f"how={how}", "--key", "k")
    done = settle(project, call, "--verify")
    assert done.returncode == 0, done.stderr
    assert words in done.stderr
    found = show(project, call)
    assert (found["settled_as"], found["settled_by"]) == (settled, "verify")
    key, arguments = (project / "tools" / "asked").read_text().split(" ", 1)
    assert (len(key), arguments) == (32, f"{{'to': 'ann', 'how': '{how}'}}")


def test_a_doubt_about_which_nobody_can_be_asked_stays(project: Path) -> None:
    call = crash(project, "send", "to=ann", "how=dies")
    done = settle(project, call, "--verify", BROKEN="1")
    assert (done.returncode, doubts(project)[0]["id"]) == (1, call)
    assert "stays in doubt" in done.stderr
    assert "the world does not answer" in done.stderr
    other = crash(project, "pay", "to=bob")
    done = settle(project, other, "--verify")
    assert done.returncode == 1
    assert "'pay' has no 'verify'" in done.stderr


def test_what_cannot_be_settled_is_said(project: Path) -> None:
    toolrun("call", "look", cwd=project)
    call = crash(project, "send", "to=ann", "how=dies")
    for arguments, code, words in [
        (("nonsense", "--done"), 2, "'nonsense' is not the id of a call"),
        (("99-1", "--done"), 2, "there is no call 99-1"),
        ((call,), 2, "exactly one of --done, --not-done and --verify"),
        ((call, "--done", "--not-done"), 2, "exactly one of"),
        ((call, "--not-done", "--result", "1"), 2, "--result"),
        ((call, "--done", "--result", "{"), 2, "is not JSON"),
        ((call, "--done", "--set", "a=b"), 2, "--set"),
        (("1-1", "--done"), 1, "call 1-1 is not in doubt: it is done"),
        (("1-1", "--verify"), 1, "call 1-1 is not in doubt: it is done"),
    ]:
        done = settle(project, *arguments)
        assert (done.returncode, words in done.stderr) == (code, True), (arguments, done.stderr)
    assert settle(project, call, "--done").returncode == 0
    for way in ("--done", "--not-done", "--verify"):
        done = settle(project, call, way)
        assert (done.returncode, "was settled before, as done" in done.stderr) == (1, True), done.stderr
    assert getpass.getuser() in settle(project, call, "--not-done").stderr


def test_a_call_that_runs_in_another_process_cannot_be_settled_even_by_force(project: Path) -> None:
    with started("call", "hold", "--key", "k", cwd=project) as holder:
        wait_for(project / "tools" / "held")
        [call] = [json.loads(line) for line in toolrun("log", "--json", cwd=project).stdout.splitlines()]
        assert (call["state"], doubts(project)) == ("started", [])
        for way in (["--done"], ["--not-done"], ["--not-done", "--force"], ["--verify"]):
            refused = settle(project, call["id"], *way)
            assert (refused.returncode, "is still running" in refused.stderr) == (1, True), refused.stderr
        (project / "tools" / "go on").touch()
        assert (holder.wait(60), show(project, call["id"])["state"]) == (0, "done")


@pytest.mark.parametrize("force", [False, True])
async def test_a_thread_of_a_living_program_may_act_after_its_deadline(project: Path, force: bool) -> None:
    async with Runtime.open(project / "toolrun.toml") as runtime:
        await runtime.ready("hold")
        first = await runtime.executor.execute("hold", key="k", timeout=1.0)
        assert first.error_kind is ErrorKind.TIMEOUT
        [doubt] = await asyncio.to_thread(doubts, project)
        assert doubt["may_act"] is True
        ways = ["--not-done", "--force"] if force else ["--not-done"]
        done = await asyncio.to_thread(settle, project, doubt["id"], *ways)
        assert done.returncode == (0 if force else 1), done.stderr
        found = await asyncio.to_thread(show, project, doubt["id"])
        assert found["settled_as"] == ("not_done" if force else None)
        assert ("use --force" in done.stderr) is not force
        (project / "tools" / "go on").touch()


def wait_for(file: Path) -> None:
    end = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < end


def test_of_many_who_settle_at_once_one_does(project: Path) -> None:
    call = crash(project, "send", "to=ann", "how=dies")
    ways = ["--done", "--not-done", "--done", "--not-done"]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda way: settle(project, call, way), ways))
    codes = [result.returncode for result in results]
    assert sorted(codes) == [0, 1, 1, 1], [result.stderr for result in results]
    winner = ways[codes.index(0)].removeprefix("--").replace("-", "_")
    assert show(project, call)["settled_as"] == winner
    others = [result.stderr for result in results if result.returncode]
    assert all("was settled before" in words for words in others), others


def test_a_call_that_was_repeated_under_its_key_is_in_doubt_no_more(project: Path) -> None:
    (project / "toolrun.toml").write_text('[tool.pay]\neffects = "keyed"\n')
    call = crash(project, "pay", "to=ann", "--key", "k")
    second = toolrun("call", "pay", "to=ann", "--key", "k", cwd=project)
    assert (second.returncode, world(project)) == (9, ["ann", "ann"])
    assert [it["id"] != call for it in doubts(project)] == [True]
    assert (show(project, call)["settled_as"], show(project, call)["settled_by"]) == ("repeated", "retry")


def test_a_call_with_a_secret_is_verified_with_the_secret_from_the_user(project: Path) -> None:
    config = '[tool.pay]\neffects = "once"\nverify = "was_paid"\n'
    (project / "toolrun.toml").write_text(config)
    (project / "tools" / "paid.py").write_text(
        "from toolrun import Done, NotDone, tool\n\n\n@tool(effects='none')\n"
        "def was_paid(key: str, arguments: dict) -> dict:\n"
        '    """Whether it was paid."""\n'
        "    return Done(1) if arguments == {'to': 'ann', 'token': 'sesame'} else NotDone()\n"
    )
    call = crash(project, "pay", "to=ann", "token=sesame")
    refused = settle(project, call, "--verify")
    assert refused.returncode == 2
    assert "token" in refused.stderr
    assert "--set" in refused.stderr
    assert settle(project, call, "--verify", "--set", "token=sesame").returncode == 0
    assert show(project, call)["settled_as"] == "done"


def test_a_call_is_made_again_and_compared(project: Path) -> None:
    toolrun("call", "look", cwd=project)
    toolrun("call", "look", cwd=project)
    same = toolrun("replay", "1-1", cwd=project)
    assert (same.returncode, "result: the same" in same.stdout) == (0, True), same.stderr
    assert "ok, as before" in same.stdout
    (project / "tools" / "world").write_text("ann")
    other = toolrun("replay", "2-1", cwd=project)
    assert other.returncode == 1
    assert '+  "ann"' in other.stdout.replace("    ", "", 1).replace("\n    ", "\n")
    data = json.loads(toolrun("replay", "2-1", "--json", cwd=project).stdout)
    assert (data["same"], data["before"]["result"], data["after"]["result"]) == (False, [], ["ann"])
    assert data["before"]["id"] == "2-1"
    assert show(project, data["after"]["id"])["result"] == ["ann"]


def test_a_tool_that_may_act_is_not_called_again_unasked(project: Path) -> None:
    toolrun("call", "send", "to=ann", cwd=project)
    refused = toolrun("replay", "1-1", cwd=project)
    assert (refused.returncode, world(project)) == (2, ["ann"])
    assert "--yes" in refused.stderr
    assert "once" in refused.stderr
    again = toolrun("replay", "1-1", "--yes", cwd=project)
    assert (again.returncode, world(project)) == (0, ["ann", "ann"]), again.stderr
    other = toolrun("replay", "1-1", "--yes", "--set", "to=bob", cwd=project)
    assert (other.returncode, world(project)) == (1, ["ann", "ann", "bob"])
    assert '"to": "bob"' in other.stdout


@pytest.mark.parametrize("effects", ["", "idempotent", "keyed"])
def test_only_a_tool_that_is_declared_to_have_no_effects_is_called_again_unasked(project: Path, effects: str) -> None:
    (project / "toolrun.toml").write_text(f'[tool.note]\neffects = "{effects}"\n' if effects else "")
    toolrun("call", "note", "to=ann", cwd=project)
    refused = toolrun("replay", "1-1", cwd=project)
    assert (refused.returncode, world(project)) == (2, ["ann"])
    assert f"its effects are {effects or 'not declared'}" in refused.stderr


@pytest.mark.parametrize(("answer", "acts"), [("y", True), ("n", False), ("", False)])
def test_a_person_at_a_terminal_is_asked(project: Path, answer: str, acts: bool) -> None:
    toolrun("call", "send", "to=ann", cwd=project)
    code, shown = on_terminal(str(TOOLRUN), "replay", "1-1", cwd=project, typed=f"{answer}\n")
    assert "'send' may act again" in shown
    assert '{"to": "ann"}' in shown.replace("\r\n", "")
    assert (world(project) == ["ann", "ann"], code) == (acts, 0 if acts else 2)


def test_who_is_asked_is_told_that_the_call_may_have_acted_already(project: Path) -> None:
    call = crash(project, "send", "to=ann", "how=dies")
    words = f"call {call} may have acted already, and nobody knows whether it did"
    assert words in toolrun("replay", call, cwd=project).stderr
    settle(project, call, "--not-done")
    assert "may have acted already" not in toolrun("replay", call, cwd=project).stderr


def test_hidden_and_cut_arguments_must_be_given_again(project: Path) -> None:
    toolrun("call", "measure", "text=abc", "password=sesame", cwd=project)
    refused = toolrun("replay", "1-1", cwd=project)
    assert refused.returncode == 2
    assert "password" in refused.stderr
    assert "text" not in refused.stderr.replace("password", "")
    again = toolrun("replay", "1-1", "--set", "password=sesame", cwd=project)
    assert (again.returncode, "arguments: the same, apart from hidden ones" in again.stdout) == (0, True), again.stdout
    toolrun("call", "measure", f"text={'x' * 40_000}", "password=sesame", cwd=project)
    last = json.loads(toolrun("log", "-n", "1", "--json", cwd=project).stdout)["id"]
    cut = toolrun("replay", last, cwd=project)
    assert (cut.returncode, "cut in the journal: text, password. " in cut.stderr) == (2, True), cut.stderr
    whole = ("--set", f"text={'x' * 40_000}")
    rest = toolrun("replay", last, *whole, cwd=project)
    assert (rest.returncode, "cut in the journal: password. " in rest.stderr) == (2, True), rest.stderr
    assert toolrun("replay", last, *whole, "--set", "password=sesame", cwd=project).returncode == 0


def test_a_call_that_cannot_be_made_again_is_said(project: Path) -> None:
    toolrun("call", "look", cwd=project)
    for call, words in (("nonsense", "is not the id"), ("9-9", "there is no call 9-9")):
        done = toolrun("replay", call, cwd=project)
        assert (done.returncode, words in done.stderr) == (2, True)
    (project / "tools" / "mail.py").unlink()
    done = toolrun("replay", "1-1", cwd=project)
    assert (done.returncode, "cannot be made again" in done.stderr) == (2, True), done.stderr


def test_the_journal_keeps_no_secret_of_what_was_settled(project: Path) -> None:
    call = crash(project, "send", "to=ann", "how=dies", "--key", "k")
    settle(project, call, "--done", "--result", '{"password": "sesame"}')
    connection = open_reader(project / ".toolrun" / "journal.db")
    rows = str(connection.execute("SELECT * FROM call").fetchall()) + str(
        connection.execute("SELECT * FROM answer").fetchall()
    )
    connection.close()
    assert "sesame" not in str(rows)
    again = toolrun("call", "send", "to=ann", "how=dies", "--key", "k", cwd=project)
    assert "its answer was not kept" in again.stderr


def test_what_nobody_has_written_down_yet_is_found_as_a_doubt_and_shown_with_what_to_do(project: Path) -> None:
    call = crash(project, "send", "to=ann", "how=dies")
    found = toolrun("log", "--outcome", "in_doubt", "--json", cwd=project).stdout.splitlines()
    assert [json.loads(it)["id"] for it in found] == [call]
    assert "in doubt (host_lost)" in toolrun("log", cwd=project).stdout
    toolrun("call", "note", "to=bob", cwd=project)  # writes it down
    assert f"toolrun effects settle {call} --done" in toolrun("show", call, cwd=project).stdout
    assert "--verify" in toolrun("effects", cwd=project).stderr
    assert toolrun("log", "--outcome", "ok", "--json", cwd=project).stdout.count('"note"') == 1
    lost = toolrun("log", "--outcome", "host_lost", "--json", cwd=project).stdout
    assert json.loads(lost)["id"] == call
    settle(project, call, "--done")
    shown = toolrun("show", call, cwd=project).stdout
    timeline = shown[shown.index("Timeline") :]
    assert timeline.count("settled as done") == 1
    assert "toolrun effects settle" not in shown


def test_a_refused_repeat_reads_as_one_and_names_the_call_in_doubt(project: Path) -> None:
    command = [str(TOOLRUN), "call", "pay", "to=ann", "--key", "k"]
    assert subprocess.run(command, cwd=project, capture_output=True, timeout=LIMIT, check=False).returncode == 9
    assert toolrun("call", "pay", "to=ann", "--key", "k", cwd=project).returncode == 1
    assert "refused: 1-1 is in doubt" in toolrun("log", cwd=project).stdout
