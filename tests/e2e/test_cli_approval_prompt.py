"""The prompt of `chat`, `ask` and `call` for calls that need approval, and what is said where nobody can be asked."""

from __future__ import annotations

import getpass
import json
import re
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.console import LIMIT, ROOT, TOOLRUN, toolrun, write_project
from support.terminal import CTRL_C, CTRL_D, Terminal, terminal

TOOLS = '''
    import asyncio
    from pathlib import Path

    DONE = Path(__file__).with_name("done.txt")

    @tool(approval="ask")
    def pay(to: str, amount: int = 1, note: str = "", password: str = "") -> str:
        """Pay somebody.

        With real money."""
        with DONE.open("a") as file:
            file.write(f"{to} {amount}\\n")
        return f"paid {to} {amount}"

    @tool
    async def stroll() -> str:
        """Walk around."""
        await asyncio.sleep(0)
        DONE.with_name("strolled").touch()
        return "strolled"
'''
QUESTION = "(reason): "
ME = getpass.getuser()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, tools=TOOLS)


def paid(project: Path) -> list[str]:
    """What really happened."""
    path = project / "tools/done.txt"
    return path.read_text().splitlines() if path.exists() else []


def wait_for_file(path: Path) -> None:
    end = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < end, f"{path} was never written"
        time.sleep(0.01)


def write_script(project: Path, *calls: dict[str, Any], text: str = "It is {result}.") -> str:
    """A --model that makes these calls at each question, all at once, and then says something."""
    answers = [{"calls": [{"name": call.pop("tool", "pay"), "arguments": call} for call in calls]}, {"text": text}]
    (project / "script.json").write_text(json.dumps({"repeat": True, "answer": answers}), encoding="utf-8")
    return "scripted:script.json"


@contextmanager
def chatting(
    project: Path, model: str, *options: str, env: dict[str, str] | None = None, said: str = "Pay"
) -> Iterator[Terminal]:
    """A chat in which something was said."""
    variables = {"VISUAL": "", "EDITOR": "", **(env or {})}
    with terminal(str(TOOLRUN), "chat", "--model", model, *options, cwd=project, env=variables) as shown:
        if said:
            shown.expect("> ")
            shown.type(said)
        yield shown


def open_approvals(project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(toolrun("approvals", "--json", cwd=project).stdout)
    return found


def last_call(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(toolrun("log", "-n", "1", "--json", cwd=project).stdout)
    return found


def test_the_prompt_says_what_would_happen_and_one_yes_is_for_one_call(project: Path) -> None:
    with chatting(project, write_script(project, {"to": "ann", "amount": 3})) as shown:
        block = shown.expect(QUESTION)
        assert block.splitlines()[-8:] == [
            '  pay {"to": "ann", "amount": 3}',
            "Request 1: pay (tools/tools.py)",
            "  Pay somebody.",
            "  You are asked because: its author requires it",
            "  It would get:",
            "    to: ann",
            "    amount: 3",
            "Allow? [y]es once, [c]onversation, [a]lways, [e]dit, [n]o (reason): ",
        ]
        assert paid(project) == []
        shown.type("y")
        shown.expect("It is paid ann 3.\n")
        shown.expect("> ")
        shown.type("Again")
        shown.expect("Request 2: pay")
        shown.expect(QUESTION)
        shown.type("Yes")
        shown.expect("It is paid ann 3.\n")
        shown.expect("> ")
        shown.press(CTRL_D)
        assert shown.ends() == 0
    assert paid(project) == ["ann 3", "ann 3"]
    approval = last_call(project)["approval"]
    assert (approval["state"], approval["scope"], approval["answered_by"]) == ("used", "once", f"person:{ME}")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["\n"], "the call was not approved"),
        ([CTRL_D], "the call was not approved"),
        (["n too dear\n"], "the call was not approved: too dear"),
        (["no\n", "not today\n"], "the call was not approved: not today"),
        (["n\n", "\n"], "the call was not approved"),
        (["y please\n", "sure\n", "\n"], "the call was not approved"),
    ],
)
def test_whatever_is_not_a_yes_is_a_no_and_the_model_goes_on_with_the_reason(
    project: Path, typed: list[str], told: str
) -> None:
    with chatting(project, write_script(project, {"to": "ann"})) as shown:
        for keys in typed:
            shown.expect("): ")
            shown.press(keys)
        shown.expect(f"  pay was not run: {told}\n")
        shown.expect(f"It is Error: Tool 'pay' was not run: {told}\n")
        shown.expect("> ")
    assert paid(project) == []
    assert last_call(project)["error_kind"] == "not_approved"


def test_a_yes_for_the_conversation_holds_until_a_new_one(project: Path) -> None:
    with chatting(project, write_script(project, {"to": "ann"})) as shown:
        shown.expect(QUESTION)
        shown.type("c")
        shown.expect("It is paid ann 1.\n")
        shown.expect("> ")
        shown.type("Again")
        assert QUESTION not in shown.expect("It is paid ann 1.\n")
        shown.expect("> ")
        shown.type("/new")
        shown.expect("New conversation.")
        shown.type("Again")
        shown.expect("Request 2: pay")
    assert paid(project) == ["ann 1", "ann 1"]


def test_always_holds_for_others_with_the_same_arguments_only(project: Path) -> None:
    with chatting(project, write_script(project, {"to": "ann"})) as shown:
        shown.expect(QUESTION)
        shown.type("a")
        shown.expect("It is paid ann 1.\n")
    done = toolrun("ask", "Pay", "--model", "scripted:script.json", cwd=project)
    assert done.stdout == "It is paid ann 1.\n"
    done = toolrun("ask", "Pay", "--model", write_script(project, {"to": "bob"}), cwd=project)
    assert "it needs a person's approval" in done.stdout
    assert paid(project) == ["ann 1", "ann 1"]


def test_without_a_journal_the_conversation_is_not_offered(project: Path) -> None:
    (project / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    with chatting(project, write_script(project, {"to": "ann"})) as shown:
        block = shown.expect(QUESTION)
        assert "Allow? [y]es once, [a]lways, [e]dit, [n]o (reason): " in block
        assert "\npay (tools/tools.py)\n" in block, "nobody else can answer, so it has no number"
        shown.type("c")
        shown.expect("Please answer y, a, e, n.")
        shown.expect(QUESTION)
        shown.type("y")
        shown.expect("It is paid ann 1.\n")


def test_arguments_are_edited_in_one_line_if_there_is_no_editor(project: Path) -> None:
    with chatting(project, write_script(project, {"to": "ann", "amount": 3})) as shown:
        for line, complaint in [
            ("colour=red", "unknown parameter 'colour'"),
            ("amount=many", "'amount' must be"),
            ("what", "'what' is neither NAME=VALUE nor a JSON object"),
            ("note='", "No closing quotation"),
            ("{nonsense", "this is not JSON"),
            ('note=\'my "password": "x"\'', "there is a secret in it"),
            ("", "Nothing is changed."),
        ]:
            shown.expect(QUESTION)
            shown.type("e")
            shown.expect("would open an editor: ")
            shown.type(line)
            shown.expect(complaint)
        shown.expect(QUESTION)
        shown.type("e")
        shown.expect("would open an editor: ")
        shown.type("amount=2 note='for lunch'")
        assert shown.expect(QUESTION).splitlines()[1:4] == [
            "    - amount: 3",
            "    + amount: 2",
            "    + note: for lunch",
        ]
        shown.type("y")
        shown.expect("It is paid ann 2\nNote: the person who approved this call changed its arguments to")
        shown.expect('{"to":"ann","amount":2,"note":"for lunch"}')
    assert paid(project) == ["ann 2"]
    call = last_call(project)
    assert call["original"] == {"to": "ann", "amount": 3}
    assert call["approval"]["edited"] == {"to": "ann", "amount": 2, "note": "for lunch"}
    page = toolrun("show", call["id"], cwd=project).stdout
    assert f"allowed with changed arguments by {ME} (request 1)" in page
    assert "Arguments as changed by whoever approved them" in page


def test_arguments_are_edited_in_the_editor(project: Path) -> None:
    editor = project / "editor"
    editor.write_text('#!/bin/sh\n[ -e broken ] && { rm broken; echo "{" > "$2"; exit; }\nsed -i s/ann/bob/ "$2"\n')
    editor.chmod(0o755)
    (project / "broken").touch()
    with chatting(project, write_script(project, {"to": "ann"}), env={"EDITOR": f"{editor} --wait"}) as shown:
        shown.expect(QUESTION)
        shown.type("e")
        shown.expect("this is not JSON")
        shown.expect(QUESTION)
        shown.type("e")
        assert "    - to: ann\n    + to: bob\n" in shown.expect(QUESTION)
        shown.type("y")
        shown.expect("It is paid bob 1\n")
    assert paid(project) == ["bob 1"]


def test_ctrl_c_at_the_prompt_interrupts_the_turn_and_the_chat_goes_on(project: Path) -> None:
    with chatting(project, write_script(project, {"to": "ann"})) as shown:
        shown.expect(QUESTION)
        shown.press("y")
        shown.press(CTRL_C)
        shown.expect("Interrupted.")
        shown.expect("> ")
        assert open_approvals(project) == []
        shown.type("/help")
        shown.expect("Start a new conversation.")
        shown.expect("> ")
        shown.press(CTRL_D)
        assert shown.ends() == 0
    assert paid(project) == []


def test_ctrl_c_at_the_prompt_of_ask_ends_it(project: Path) -> None:
    model = write_script(project, {"to": "ann"})
    with terminal(str(TOOLRUN), "ask", "Pay", "--model", model, cwd=project) as shown:
        block = shown.expect(QUESTION)
        assert "[c]onversation" not in block, "this one is not kept"
        shown.press(CTRL_C)
        assert shown.ends() == 130
    assert (paid(project), open_approvals(project)) == ([], [])


def test_a_question_that_is_answered_elsewhere_goes_away_and_takes_no_line_with_it(project: Path) -> None:
    with chatting(project, write_script(project, {"to": "ann"})) as shown:
        shown.expect(QUESTION)
        shown.press("n too")  # and no Enter
        shown.expect("n too")
        assert toolrun("approvals", "allow", "1", cwd=project).returncode == 0
        shown.expect(f"  Allowed elsewhere by {ME}.\n")
        shown.expect("It is paid ann 1.\n")
        shown.expect("> ")
        shown.type("/help")
        shown.expect("Start a new conversation.")
        assert "there is no command" not in shown.text
        shown.expect("> ")
        shown.type("Again")
        shown.expect(QUESTION)
        assert toolrun("approvals", "deny", "2", "--reason", "enough", cwd=project).returncode == 0
        shown.expect(f"  Denied elsewhere by {ME}.\n")
        shown.expect("not approved: enough\n")
    assert paid(project) == ["ann 1"]


def test_an_editor_is_ended_when_somebody_answers_elsewhere(project: Path) -> None:
    editor = "echo edit''ing; stty -echo; exec sleep 1000;"
    with chatting(project, write_script(project, {"to": "ann"}), env={"VISUAL": editor}) as shown:
        shown.expect(QUESTION)
        shown.type("e")
        shown.expect("editing")
        assert toolrun("approvals", "allow", "1", cwd=project).returncode == 0
        shown.expect("Allowed elsewhere")
        shown.expect("> ")
        shown.type("visible")  # the terminal echoes again
        shown.expect("visible")


def test_what_was_typed_before_the_question_is_no_answer_to_it(project: Path) -> None:
    with chatting(project, write_script(project, {"to": "ann"}), said="") as shown:
        shown.expect("> ")
        shown.press("Pay\ny\ny\n")
        shown.expect(QUESTION)
        shown.type("n no")
        shown.expect("not approved: no\n")
    assert paid(project) == []


def test_questions_come_one_after_the_other_and_the_output_of_other_calls_waits(project: Path) -> None:
    calls = [{"to": "ann"}, {"tool": "stroll"}, {"to": "bob"}]
    with chatting(project, write_script(project, *calls, text="Done.")) as shown:
        first = shown.expect(QUESTION)
        assert "Request 1: pay" in first
        assert "Request 2" not in first
        wait_for_file(project / "tools/strolled")
        shown.type("y")
        between = shown.expect("Request 2: pay")
        assert "\n  stroll → strolled" in between, "it was held back while the question stood"
        shown.expect(QUESTION)
        shown.type("n")
        shown.expect("for nothing): ")
        shown.type("")
        shown.expect("Done.\n")
    assert paid(project) == ["ann 1"]


def test_hidden_characters_are_shown_secrets_are_not_and_long_values_are_cut(project: Path) -> None:
    note = "\x1b[2Jno\u202ete\u200b\U000e0041 " + "x" * 500 + " the end"
    model = write_script(project, {"to": "7", "note": note, "password": "hunter2"})
    with chatting(project, model) as shown:
        block = shown.expect(QUESTION)
        assert '    to: "7"\n' in block, "it is a text, and no number"
        assert r'    note: "\u001b[2Jno\u202ete\u200b\U000e0041 xxx' in block
        assert "x… (" in block
        assert "    password: ***\n" in block
        assert "[e]dit" not in block, "the journal would keep it"
        assert "[s]how all, [n]o" in block
        shown.type("s")
        assert "the end" in shown.expect(QUESTION)
        shown.press(CTRL_D)
        shown.expect("> ")
    assert "hunter2" not in shown.raw
    assert not any(hidden in shown.raw for hidden in ("\x1b[2J", "\u202e", "\u200b", "\U000e0041"))


def test_a_chat_that_is_killed_at_the_prompt_asks_again_under_the_same_number(project: Path) -> None:
    model = write_script(project, {"to": "ann"})
    with chatting(project, model) as shown:
        shown.expect("Request 1: pay")
        shown.expect(QUESTION)
        shown.process.send_signal(signal.SIGKILL)
        shown.process.wait(LIMIT)
    (project / "then.json").write_text('{"answer": [{"text": "It is {result}."}]}')  # what the model says next
    model = "scripted:then.json"
    with chatting(project, model, "--continue", said="") as shown:
        shown.expect("Its last answer was cut off")
        shown.expect("Request 1: pay")
        shown.expect(QUESTION)
        shown.process.send_signal(signal.SIGKILL)
        shown.process.wait(LIMIT)
    assert toolrun("approvals", "allow", "1", "--set", "amount=5", cwd=project).returncode == 0
    with chatting(project, model, "--continue", said="") as shown:
        assert QUESTION not in shown.expect("It is paid ann 5\nNote: the person who approved this call")
        shown.expect("> ")
        shown.press(CTRL_D)
        assert shown.ends() == 0
    assert paid(project) == ["ann 5"]


def test_where_nobody_can_be_asked_the_call_is_refused_in_words(project: Path) -> None:
    model = write_script(project, {"to": "ann"})
    words = (
        "It is Error: Tool 'pay' was not run: it needs a person's approval (its author requires it), and nobody can be "
        "asked here\nA person can allow it with 'toolrun approvals allow 1'; then the same call can be made again."
    )
    done = toolrun("ask", "Pay", "--model", model, cwd=project)
    assert (done.returncode, done.stdout.startswith(words)) == (0, True), done.stdout
    done = toolrun("chat", "--model", model, cwd=project, stdin="Pay\n")
    assert "nobody can be asked here" in done.stdout
    done = toolrun("voice", "--stdin", "--model", model, cwd=project, stdin="Pay\n")
    assert done.returncode == 0
    assert "it needs a person's approval" in done.stdout
    done = toolrun("call", "pay", "to=bob", cwd=project)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nobody can be asked here\nA person can allow it with 'toolrun approvals allow " in done.stderr
    assert paid(project) == []


def test_the_one_who_calls_is_asked_where_a_rule_says_so(project: Path) -> None:
    with terminal(str(TOOLRUN), "call", "pay", "to=ann", cwd=project) as shown:
        shown.expect("You are asked because: its author requires it")
        shown.expect(QUESTION)
        shown.type("y")
        shown.expect("paid ann 1\n")
        assert shown.ends() == 0
    done = toolrun("call", "pay", "to=ann", "--yes", cwd=project)
    assert (done.returncode, done.stdout) == (0, "paid ann 1\n")
    assert last_call(project)["approval"]["answered_by"] == f"person:{ME}"
    (project / "toolrun.toml").write_text('[tool.pay]\napproval = "deny"\n')
    done = toolrun("call", "pay", "to=ann", "--yes", cwd=project)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the call was not approved: [tool.pay] approval" in done.stderr
    assert paid(project) == ["ann 1", "ann 1"]


def test_a_call_that_is_made_again_is_asked_about_like_any_other(project: Path) -> None:
    assert toolrun("call", "pay", "to=ann", "--yes", cwd=project).returncode == 0
    call = last_call(project)["id"]
    assert toolrun("replay", call, "--yes", cwd=project).returncode == 0
    with terminal(str(TOOLRUN), "replay", call, cwd=project) as shown:
        shown.expect("[y/N]: ")
        shown.type("y")
        shown.expect("You are asked because: its author requires it")
        shown.expect(QUESTION)
        shown.type("y")
        shown.expect("result: the same")
        assert shown.ends() == 0
    assert paid(project) == ["ann 1"] * 3


def test_the_question_looks_as_in_the_guide(tmp_path: Path) -> None:
    page = (ROOT / "docs/guides/approvals.md").read_text()
    blocks = re.findall(r"^```\w+[^\n]*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "tools").mkdir()
    for block in blocks[:3]:
        (tmp_path / block.split()[1]).write_text(block)
    command, _, expected = blocks[3].removeprefix("$ ").partition("\n")
    before, question, after = expected.partition(QUESTION)
    answer, _, after = after.partition("\n")
    with terminal(*shlex.split(command.replace("toolrun", str(TOOLRUN), 1)), cwd=tmp_path) as shown:
        assert shown.expect(QUESTION) == before + question
        shown.type(answer)
        assert shown.expect(after) == f"{answer}\n{after}"
        assert shown.ends() == 0


def test_a_question_that_nobody_answers_in_time_goes_away(project: Path) -> None:
    (project / "toolrun.toml").write_text("[approval]\nexpires = 0.5\n")
    with chatting(project, write_script(project, {"to": "ann"})) as shown:
        shown.expect(QUESTION)
        shown.expect("pay was not run: nobody answered the request for approval in time\n")
        shown.expect("> ")
        shown.type("/help")
        shown.expect("Start a new conversation.")
    assert (paid(project), open_approvals(project)) == ([], [])
