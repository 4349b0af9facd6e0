"""`toolrun approvals`, and what `show` and `log` tell of approvals."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from support.console import TOOLRUN, on_terminal, toolrun, write_project
from support.waiting import until
from toolrun import Allow, Deny, ErrorKind, Runtime, ToolResult
from toolrun.execution.approval import Caller, calling_as

TOOLS = '''
    @tool(approval="ask")
    def pay(to: str, amount: int = 1, token: str = "") -> str:
        """Pay somebody."""
        return f"paid {to} {amount}"
'''
ME = getpass.getuser()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path, tools=TOOLS)
    (tmp_path / "toolrun.toml").write_text('[secrets]\nkey = { env = "KEY_OF_THE_TEST" }\n')
    return tmp_path


async def pay(project: Path, conversation: str = "", **arguments: Any) -> ToolResult:
    """A call where nobody can be asked."""
    async with Runtime.open(project / "toolrun.toml", consumer="test") as runtime:
        with calling_as(Caller(is_model=True, conversation=conversation)):
            return await runtime.executor.execute("pay", arguments)


def approvals(project: Path, *arguments: str, code: int = 0) -> str:
    """What `toolrun approvals` says."""
    done = toolrun("approvals", *arguments, cwd=project)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


async def test_a_request_is_listed_answered_and_used_by_one_call(project: Path) -> None:
    assert approvals(project) == "toolrun: no call is waiting for approval, and no answer is stored\n"
    assert approvals(project, "--json") == "[]\n"
    refused = await pay(project, to="ann\u200b", amount=3)
    assert refused.error_kind is ErrorKind.NOT_APPROVED
    listed = approvals(project)
    assert "pay  waits until " in listed
    assert 'test  its author requires it  {"to":"ann\\u200b","amount":3}' in listed
    assert listed.endswith("Answer with: toolrun approvals allow ID, or toolrun approvals deny ID.\n")
    [row] = json.loads(approvals(project, "--json"))
    assert (row["id"], row["state"], row["arguments"]) == (1, "pending", {"to": "ann\u200b", "amount": 3})
    assert approvals(project, "allow", "1") == f"Request 1 (pay) is allowed by {ME}.\n"
    assert f"pay  allowed by {ME}  test" in approvals(project)
    assert f"toolrun: request 1 was allowed by {ME} at " in approvals(project, "deny", "1", code=1)
    assert (await pay(project, to="ann\u200b", amount=3)).result == "paid ann\u200b 3"
    assert "; its answer was used" in approvals(project, "allow", "1", code=1)
    assert "; its answer was used" in approvals(project, "revoke", "1", code=1)
    call = json.loads(toolrun("log", "-n", "1", "--json", cwd=project).stdout)
    assert (call["approval"]["id"], call["approval"]["answered_by"]) == (1, f"person:{ME}")
    page = toolrun("show", call["id"], cwd=project).stdout
    assert f"  allowed by {ME} (request 1)\n" in page
    shown = json.loads(toolrun("show", call["id"], "--json", cwd=project).stdout)
    assert shown["approval"] == call["approval"]


async def test_a_request_is_shown_with_all_of_its_arguments(project: Path) -> None:
    await pay(project, to=f"ann {'x' * 500}\nstate: allowed", amount=3)
    assert "see all of them with: toolrun approvals show ID" in approvals(project)
    page = approvals(project, "show", "1").splitlines()
    assert page[:2] == ["request: 1", "tool: pay"]
    assert page[-1] == f'arguments: {{"to":"ann {"x" * 500}\\nstate: allowed","amount":3}}'
    assert [line for line in page if line.startswith("state: waits until ")], page
    approvals(project, "allow", "1", "--set", "to=bob")
    page = approvals(project, "show", "1").splitlines()
    assert page[-1] == 'changed to: {"to":"bob","amount":3}'
    assert f"state: allowed with changed arguments by {ME}" in page
    assert json.loads(approvals(project, "show", "1", "--json"))["edited"] == {"to": "bob", "amount": 3}
    assert "there is no request 2" in approvals(project, "show", "2", code=2)


async def test_a_denial_tells_the_model_why(project: Path) -> None:
    await pay(project, to="ann")
    assert approvals(project, "deny", "1", "--reason", "too dear") == f"Request 1 (pay) is denied by {ME}: too dear.\n"
    assert (await pay(project, to="ann")).error == "Tool 'pay' was not run: the call was not approved: too dear"
    call = json.loads(toolrun("log", "-n", "1", "--json", cwd=project).stdout)
    assert f"denied by {ME}: too dear (request 1)" in toolrun("show", call["id"], cwd=project).stdout


async def test_whoever_answers_adds_no_line_to_what_others_read(project: Path) -> None:
    for answer in (
        Allow("always", by="ann\n2  allowed\x1b[31m\u202e"),
        Deny("no\n3  allowed\u200b", "always", by="ann"),
    ):
        await pay(project, to="ann")
        async with Runtime.open(project / "toolrun.toml") as runtime:
            assert runtime.approvals is not None
            (row,) = await runtime.approvals.open()
            await runtime.approvals.answer(row.id, answer)
        (listed,) = approvals(project).splitlines()
        assert r"\n" in listed
        id = str(row.id)
        for shown in (listed, approvals(project, "show", id), approvals(project, "allow", id, code=1)):
            assert not any(it in shown for it in ("\n2", "\n3", "\x1b", "\u202e", "\u200b"))
        (revoked,) = approvals(project, "revoke", id).splitlines()
        assert r"\n" in revoked


async def test_an_answer_for_always_holds_until_it_is_revoked(project: Path) -> None:
    await pay(project, to="ann")
    assert approvals(project, "revoke", "1", code=1).startswith("toolrun: request 1 is not answered yet; deny it with")
    approvals(project, "allow", "1", "--always")
    assert [(await pay(project, to="ann")).success for _ in range(2)] == [True, True]
    assert f"allowed always by {ME}" in approvals(project)
    assert approvals(project, "revoke", "1") == f"Request 1 (pay) is revoked; it was allowed always by {ME}.\n"
    assert (await pay(project, to="ann")).error_kind is ErrorKind.NOT_APPROVED
    assert "; it was revoked" in approvals(project, "allow", "1", code=1)
    approvals(project, "deny", "2", "--always")
    assert [(await pay(project, to="ann")).error_kind for _ in range(2)] == [ErrorKind.NOT_APPROVED] * 2
    assert f"denied always by {ME}" in approvals(project)


async def test_an_answer_for_a_conversation_needs_one(project: Path) -> None:
    await pay(project, to="ann")
    assert "was not asked in a conversation" in approvals(project, "allow", "1", "--conversation", code=1)
    await pay(project, "one", to="ann")
    approvals(project, "allow", "2", "--conversation")
    assert [(await pay(project, "one", to="ann")).success for _ in range(2)] == [True, True]
    assert not (await pay(project, "two", to="ann")).success
    approvals(project, "deny", "3", "--conversation", "--reason", "not him")
    assert ["not him" in (await pay(project, "two", to="ann")).text for _ in range(2)] == [True, True]
    assert not (await pay(project, "three", to="ann")).success
    assert len(json.loads(approvals(project, "--json"))) == 4, "the third conversation is asked about"


async def test_arguments_are_changed_with_set(project: Path) -> None:
    await pay(project, to="ann", amount=3)
    assert "with changed arguments by" in approvals(project, "allow", "1", "--set", "amount=2")
    assert (await pay(project, to="ann", amount=3)).result == "paid ann 2"
    await pay(project, to="ann", token="hunter2")
    assert "have a secret in them, so they cannot be changed here" in approvals(
        project, "allow", "2", "--set", "to=bob", code=2
    )
    await pay(project, to="bob")
    assert "have a secret in them" in approvals(project, "allow", "3", "--set", "token=hunter2", code=2)
    assert len(json.loads(approvals(project, "--json"))) == 2, "nothing was answered"


async def test_a_request_that_is_over_is_not_answered(project: Path) -> None:
    with (project / "toolrun.toml").open("a") as file:
        file.write("[approval]\nexpires = 5\n")  # long enough for a busy machine to write it down
    assert "approvals allow 1" in (await pay(project, to="ann")).text
    await until(lambda: "no call is waiting" in approvals(project))
    assert "request 1 has expired: nobody answered in time" in approvals(project, "allow", "1", code=1)


def test_what_is_not_there_is_said_in_one_line(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    words = "toolrun: there is no request 7 in the journal; 'toolrun approvals' lists what can be answered\n"
    for action in ("allow", "deny", "revoke"):
        assert approvals(project, action, "7", code=2) == words
    for action in ("allow", "deny"):
        assert "exclude each other" in approvals(project, action, "1", "--always", "--conversation", code=2)
    (project / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    for arguments in ((), ("allow", "1"), ("revoke", "1")):
        assert "switches off ([journal] enabled)" in approvals(project, *arguments, code=2)
    nowhere = tmp_path_factory.mktemp("nowhere")
    assert "There is no toolrun.toml here" in approvals(nowhere, code=2)
    assert "There is no toolrun.toml here" in approvals(nowhere, "allow", "1", code=2)


async def test_a_terminal_gets_a_table(project: Path) -> None:
    await pay(project, to="ann")
    code, shown = on_terminal(str(TOOLRUN), "approvals", cwd=project, env={"NO_COLOR": "1", "COLUMNS": "160"})
    assert code == 0
    titles = ["ID", "ASKED", "TOOL", "STATE", "WHO ASKS", "WHY", "ARGUMENTS"]
    assert [title for title in titles if title in shown.splitlines()[0]] == titles
