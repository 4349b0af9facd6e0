"""Conversations whose process is killed, at every point, and that others go on with: each effect happens once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.anthropic import AnthropicServer
from providers.base import Asked, Body, Server, Step
from providers.ollama import OllamaServer
from support.console import environment, toolrun, write_project
from toolrun.journal.history import open_history

HOST = Path(__file__).parents[1] / "support" / "talk_host.py"
TOOLS = '''
    import asyncio, os, signal, sqlite3
    from contextlib import closing
    from pathlib import Path
    from toolrun import ToolError

    async def die(when, who):
        """If a file says so, once the journal has so many calls that ended."""
        gate = Path(f"die-{when}-{who}")
        if gate.exists():
            with closing(sqlite3.connect("file:.toolrun/journal.db?mode=ro", uri=True)) as journal:
                count = "SELECT count(*) FROM call WHERE state IN ('done', 'failed')"
                while journal.execute(count).fetchone()[0] < int(gate.read_text()):
                    await asyncio.sleep(0.005)
            gate.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    @tool
    async def pay(who: str) -> str:
        """Pay somebody."""
        await die("before", who)
        with open("effects.txt", "a") as file:
            file.write(who + "\\n")
        await die("after", who)
        return "paid " + who

    @tool
    async def refuse() -> str:
        """Always fails."""
        with open("effects.txt", "a") as file:
            file.write("refuse\\n")
        raise ToolError("no money")
'''
FIRST = Step(
    thinking="Who is to be paid?",
    calls=[Asked("pay", {"who": "ann"}), Asked("pay", {"who": "bob"}), Asked("refuse", {})],
)
SECOND = Step(calls=[Asked("pay", {"who": "cyd"})])
MOST_WRITES = 40


def answer(body: Body) -> Step:
    """What the model says depends on the results that it has, so it may be asked twice."""
    text = json.dumps(body["messages"])
    results = text.count('"tool_result"') + text.count('"role": "tool"')
    return FIRST if results == 0 else SECOND if results == 3 else Step(text="All are paid.")


class House:
    """A project, a provider, and processes that talk with it."""

    def __init__(self, root: Path, provider: str, server: Server, host: subprocess.Popen[str]) -> None:
        self.provider = provider
        self.server = server
        self._root = root
        self._host = host
        self.trials = 0
        self.project = root

    def begin(self) -> None:
        """A new project."""
        self.trials += 1
        self.project = self._root / str(self.trials)
        self.project.mkdir()
        write_project(self.project, tools=TOOLS)
        self.server.forget()
        self.server.play(*[answer] * 10)

    def talk(self, question: str | None, die: tuple[str, int] | None = None) -> dict[str, Any]:
        order = {"project": str(self.project), "provider": self.provider, "url": self.server.url}
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        self._host.stdin.write(json.dumps({**order, "question": question, "die": die}) + "\n")
        self._host.stdin.flush()
        said: dict[str, Any] = json.loads(self._host.stdout.readline())
        return said

    def finish(self) -> dict[str, Any]:
        """Resume the conversation; if not even the question was kept, ask it again."""
        said = self.talk(None)
        return self.talk("Pay them") if "There is no" in said.get("error", "") else said

    def let_die(self, when: str, who: str, *, ended: int) -> None:
        """The next process that pays somebody dies of it, when so many calls have ended."""
        (self.project / f"die-{when}-{who}").write_text(str(ended))

    def effects(self) -> Counter[str]:
        path = self.project / "effects.txt"
        return Counter(path.read_text().split() if path.exists() else [])

    def doubts(self) -> dict[str, str]:
        """Who may have been paid, and the call."""
        with open_history(self.project / ".toolrun/journal.db") as history:
            return {json.loads(call.arguments or "{}").get("who"): call.shown_id for call in history.in_doubt()}


@pytest.fixture(params=["ollama", "anthropic"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    kind = OllamaServer if request.param == "ollama" else AnthropicServer
    pipe = subprocess.PIPE
    command = [sys.executable, str(HOST)]
    with kind() as server, subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, env=environment()) as host:
        house = House(tmp_path, request.param, server, host)
        try:
            yield house
        finally:
            host.kill()
    assert server.violations == []


@pytest.mark.timeout(600)  # dozens of processes, one after the other
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_at_any_write_leaves_a_conversation_that_goes_on(house: House, when: str) -> None:
    for number in range(1, MOST_WRITES):
        house.begin()
        first = house.talk("Pay them", (when, number))
        if "signal" not in first:
            break
        reply = house.finish()
        assert reply.get("text") == "All are paid.", (number, reply)
        effects, doubts = house.effects(), house.doubts()
        for who in ("ann", "bob", "cyd"):
            assert effects[who] == 1 or (effects[who] == 0 and who in doubts), (number, effects, doubts)
    assert house.trials > 6, "it was killed at several points"
    assert first["text"] == "All are paid."
    assert house.effects() == {"ann": 1, "bob": 1, "cyd": 1, "refuse": 1}


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_call_in_doubt_is_told_by_name_and_the_others_are_done_once(house: House, when: str) -> None:
    house.begin()
    house.let_die(when, "bob", ended=2)
    assert house.talk("Pay them") == {"signal": 9}
    reply = house.talk(None)
    assert reply["text"] == "All are paid."
    assert house.effects()["bob"] == (when == "after")
    assert house.effects()["ann"] == house.effects()["cyd"] == 1
    [(who, call)] = house.doubts().items()
    assert who == "bob"
    told = next(text for text, kind in reply["calls"].values() if kind == "in_doubt")
    assert f"effects settle {call} --done" in told
    sent = json.dumps(house.server.bodies[-1])
    assert f"Call {call} of 'pay'" in sent
    assert "paid ann" in sent
    assert "no money" in sent


def test_calls_that_failed_are_not_made_again(house: House) -> None:
    house.begin()
    house.let_die("before", "cyd", ended=3)
    house.talk("Pay them")
    assert house.talk(None)["text"] == "All are paid."
    assert house.effects() == {"ann": 1, "bob": 1, "refuse": 1}


def test_another_question_after_a_crash_runs_nothing_that_had_not_begun(house: House) -> None:
    house.begin()
    house.let_die("before", "ann", ended=2)
    house.talk("Pay them")
    done = house.effects()
    house.server.forget()
    house.server.play(Step(text="I stopped."))
    assert house.talk("Stop!")["text"] == "I stopped."
    assert house.effects() == done
    sent = json.dumps(house.server.bodies[-1])
    assert f"Call {house.doubts()['ann']} of 'pay'" in sent
    assert sent.index("Pay them") < sent.index("of 'pay'") < sent.index("Stop!")


def test_a_process_that_dies_while_it_goes_on_leaves_a_conversation_that_goes_on(house: House) -> None:
    house.begin()
    house.let_die("after", "ann", ended=2)
    assert house.talk("Pay them") == {"signal": 9}
    house.let_die("after", "cyd", ended=2)
    assert house.talk(None) == {"signal": 9}
    assert house.talk(None)["text"] == "All are paid."
    assert house.effects() == {"ann": 1, "bob": 1, "cyd": 1, "refuse": 1}
    assert set(house.doubts()) == {"ann", "cyd"}


def test_a_turn_that_has_its_reply_is_not_asked_again(house: House) -> None:
    house.begin()
    house.talk("Pay them")
    asked = len(house.server.requests)
    assert house.talk(None)["text"] == "All are paid."
    assert len(house.server.requests) == asked


def test_the_calls_of_a_conversation_can_be_listed(house: House) -> None:
    house.begin()
    house.talk("Pay them")
    lines = toolrun("log", "--conversation", "talk", "--json", cwd=house.project).stdout.splitlines()
    assert sorted(json.loads(line)["tool"] for line in lines) == ["pay", "pay", "pay", "refuse"]
    assert {json.loads(line)["consumer"] for line in lines} == {"test"}
    assert {json.loads(line)["conversation"] for line in lines} == {"talk"}
    unknown = toolrun("log", "--conversation", "tall", cwd=house.project)
    assert "There is no conversation 'tall' in the journal; did you mean 'talk'?" in unknown.stderr
    assert unknown.returncode == 2
