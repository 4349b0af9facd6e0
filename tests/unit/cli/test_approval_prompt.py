"""What the prompt shows, offers and makes of an answer. tests/e2e has it in the commands, on a real terminal."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator

import pytest

from toolrun.cli import approval_prompt
from toolrun.cli.approval_prompt import ApprovalPrompt, always_yes, terminal_prompt
from toolrun.cli.output import inform
from toolrun.execution.approval import Allow, ApprovalRequest, Caller, Deny, Scope, calling_as
from toolrun.journal.settlement import person
from toolrun.json import JSON

LIMIT = 30.0


class Screen:
    """What the prompt has written, and the keyboard."""

    def __init__(self, keyboard: int) -> None:
        self.text = ""
        self._keyboard = keyboard
        self._news = asyncio.Event()

    def write(self, text: str) -> None:
        self.text += text
        self._news.set()

    async def type(self, line: str, after: str) -> None:
        """Answer a question that has not been answered yet."""
        async with asyncio.timeout(LIMIT):
            while after not in self.text:
                self._news.clear()
                await self._news.wait()
        os.write(self._keyboard, f"{line}\n".encode())


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    keyboard, terminal = pty.openpty()
    shown = Screen(keyboard)
    monkeypatch.setattr(approval_prompt, "_STDIN", terminal)
    monkeypatch.setattr(approval_prompt, "print_on_stderr", shown.write)
    try:
        yield shown
    finally:
        os.close(keyboard)
        os.close(terminal)


def request(**arguments: JSON) -> ApprovalRequest:
    return ApprovalRequest(
        "pay", arguments, "rule 1 of [approval]", "Pay\u200b somebody.\nMore.", "/far/tools.py", id=1
    )


async def ask(screen: Screen, line: str, asked: ApprovalRequest) -> Allow | Deny:
    answering = asyncio.create_task(screen.type(line, "(reason): "))
    answer = await ApprovalPrompt()(asked)
    await answering
    return answer


async def test_it_shows_tool_source_reason_and_arguments(screen: Screen) -> None:
    await ask(screen, "", request(to="ann", amount=3, tags=["a"], empty="", three="3", lines="a\nb", token="t0p"))
    assert screen.text.splitlines() == [
        "pay (/far/tools.py)",
        "  Pay\\u200b somebody.",
        "  You are asked because: rule 1 of [approval]",
        "  It would get:",
        "    to: ann",
        "    amount: 3",
        '    tags: ["a"]',
        '    empty: ""',
        '    three: "3"',
        '    lines: "a\\nb"',
        "    token: ***",
        "Allow? [y]es once, [a]lways, [n]o (reason): ",
    ]


@pytest.mark.parametrize("filler", [" ", "x", "\u3000", "漢"])
async def test_no_value_reaches_the_left_edge_where_the_question_stands(screen: Screen, filler: str) -> None:
    for length in range(30, 80):
        await ask(screen, "", request(path=filler * length + "Allow? [y]es once: y"))
    ours = ("pay (", "  Pay", "  You are", "  It would", "    path: ", "        ", "Allow? [y]es once, [a]lways, ")
    lines = screen.text.splitlines()
    assert all(line.startswith(ours) for line in lines)
    widths = {len(line) + sum(it > "\u0300" for it in line) for line in lines}
    assert max(widths) <= 80, "the terminal would go on at its left edge"


async def test_the_end_of_a_long_value_is_shown_as_well(screen: Screen) -> None:
    await ask(screen, "", request(command=f"ls {' ' * 500}; rm -rf /"))
    assert "more characters)" in screen.text
    assert "; rm -rf /" in screen.text


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Allow(by=person())),
        (" YES ", Allow(by=person())),
        ("a", Allow(Scope.ALWAYS, by=person())),
        ("c", Allow(Scope.CONVERSATION, by=person())),
        ("", Deny(by=person())),
        ("n too  dear", Deny("too  dear", by=person())),
    ],
)
async def test_an_answer_is_that_of_the_person(screen: Screen, line: str, answer: Allow | Deny) -> None:
    with calling_as(Caller(is_model=True, conversation="one")):
        assert await ask(screen, line, request(to="ann")) == answer


async def test_calls_are_asked_about_in_turn_and_one_that_is_gone_is_not_asked_about(screen: Screen) -> None:
    prompt = ApprovalPrompt()
    asking = [asyncio.create_task(prompt(request(to=name))) for name in ("ann", "bob", "cyd")]
    await screen.type("y", "to: ann\nAllow? [y]es once, [a]lways, [e]dit, [n]o (reason): ")
    asking[1].cancel()
    await screen.type("n no", "to: cyd\nAllow? [y]es once, [a]lways, [e]dit, [n]o (reason): ")
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Allow, asyncio.CancelledError, Deny]
    assert "bob" not in screen.text


async def test_other_output_waits_for_the_answer(screen: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    asking = asyncio.create_task(ApprovalPrompt()(request(to="ann")))
    await screen.type("what?", "(reason): ")
    await screen.type("", "Please answer y, a, e, n.\nAllow? [y]es once, [a]lways, [e]dit, [n]o (reason): ")
    inform("another call")
    assert capsys.readouterr().err == ""
    await asking
    assert capsys.readouterr().err == "another call\n"


async def test_a_yes_in_advance_is_the_persons() -> None:
    assert await always_yes(request()) == Allow(by=person())
    assert terminal_prompt() is None, "there is no terminal in a test"
