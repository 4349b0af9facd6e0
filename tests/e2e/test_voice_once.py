"""An utterance that comes with an id over MQTT is answered once: a real broker, `toolrun voice`, effects in a file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from providers.base import Asked, Body, Step
from providers.ollama import OllamaServer
from support.brokers import LIMIT, BrokerProcess
from support.console import write_project
from support.gateway_process import Visitor, open_gateway, visit
from toolrun.journal.history import open_history

MOST_WRITES = 40

TOOLS = '''
    import os, signal
    from contextlib import suppress
    from pathlib import Path
    from toolrun.journal.writer import Writer

    def die(when):
        """Once, if a file says so."""
        with suppress(FileNotFoundError):
            Path(f"die-{when}").unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    write, count = Writer._write, Path("die-after-writes")

    def count_down(self, batch):
        write(self, batch)
        if count.exists():
            left = int(count.read_text()) - 1
            count.write_text(str(left)) if left else die("after-writes")

    Writer._write = count_down

    @tool
    def switch(light: str) -> str:
        """Switch a light."""
        die("before")
        with open("effects.txt", "a") as file:
            file.write(light + "\\n")
        die("after")
        return "switched " + light
'''


class House:
    """A project with a light switch, its provider and its broker."""

    def __init__(self, root: Path, server: OllamaServer, broker: BrokerProcess) -> None:
        self.root = write_project(root, tools=TOOLS)
        self.server = server
        self.broker = broker
        self.configure()
        server.play(*[obey] * 100)

    def configure(self, more: str = "") -> None:
        model = f'[model]\nuse = "ollama:qwen3:0.6b"\nbase_url = "{self.server.url}"\n'
        (self.root / "toolrun.toml").write_text(f'{model}[voice]\nmqtt = "{self.broker.url}"\nqueue = 20\n{more}')

    def effects(self) -> dict[str, int]:
        path = self.root / "effects.txt"
        return dict(Counter(path.read_text().split() if path.exists() else []))


def obey(body: Body) -> Step:
    """Switch the light that the last question names; then say so."""
    if body["messages"][-1]["role"] == "tool":
        return Step(text="Done.")
    return Step(calls=[Asked("switch", {"light": body["messages"][-1]["content"]})])


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    (tmp_path / "broker").mkdir()
    broker = BrokerProcess("mosquitto", tmp_path / "broker")
    broker.start()
    try:
        with OllamaServer() as server:
            yield House(tmp_path, server, broker)
    finally:
        broker.kill()


def answers(visitor: Visitor) -> list[str]:
    return [content["id"] for topic, content in visitor.messages if topic == "answer"]


@pytest.mark.parametrize("journal", ["", "[journal]\nenabled = false\n"])
async def test_the_same_id_is_answered_once(house: House, journal: str) -> None:
    house.configure(journal)
    async with visit(house.broker) as visitor, open_gateway(house.root):
        await visitor.is_online()
        for light, id in (("hall", "1"), ("hall", "1"), ("attic", "1"), ("hall", "2")):
            await visitor.say(light, id)
        await visitor.answer("2")
    assert answers(visitor) == ["1", "2"]
    assert house.effects() == {"hall": 2}, "equal words are not the same utterance"


async def test_an_utterance_that_comes_again_while_it_is_being_answered_is_answered_once(house: House) -> None:
    hold = threading.Event()
    house.server.forget()
    house.server.play(lambda body: Step(calls=obey(body).calls, hold=hold), *[obey] * 10)
    async with visit(house.broker) as visitor, open_gateway(house.root):
        await visitor.is_online()
        await visitor.say("hall", "1")
        await visitor.until(lambda topic, content: topic == "transcript")
        await visitor.say("hall", "1")
        await visitor.say("attic", "2")
        await visitor.until(lambda topic, content: topic == "transcript")
        hold.set()
        await visitor.answer("2")
    assert answers(visitor) == ["1", "2"]
    assert house.effects() == {"hall": 1, "attic": 1}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_gateway_remembers_what_it_has_answered_after_a_restart(house: House, how: signal.Signals) -> None:
    async with visit(house.broker) as visitor:
        async with open_gateway(house.root) as gateway:
            await visitor.is_online()
            await visitor.say("hall", "1")
            await visitor.answer("1")
            await gateway.end(how)
        async with open_gateway(house.root):
            await visitor.is_online()
            await visitor.say("hall", "1")
            await visitor.say("attic", "2")
            await visitor.answer("2")
    assert answers(visitor) == ["1", "2"]
    assert house.effects() == {"hall": 1, "attic": 1}


async def test_of_two_gateways_with_one_journal_one_answers(house: House) -> None:
    lights = [f"light-{number}" for number in range(8)]
    async with visit(house.broker) as visitor, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(open_gateway(house.root))
        await visitor.is_online()
        await visitor.is_online()
        for light in lights:
            await visitor.say(light, f"id of {light}")
        await visitor.until(lambda topic, content: len(answers(visitor)) == len(lights))
    assert sorted(answers(visitor)) == [f"id of {light}" for light in lights]
    assert house.effects() == dict.fromkeys(lights, 1)


async def test_utterances_without_an_id_are_all_answered(house: House) -> None:
    async with visit(house.broker) as visitor, open_gateway(house.root):
        await visitor.is_online()
        for _ in range(2):
            await visitor._client.publish("voice/utterance", json.dumps({"text": "hall"}), qos=1)
        await visitor.until(lambda topic, content: len(answers(visitor)) == 2)
    assert house.effects() == {"hall": 2}


async def test_calls_for_utterances_say_that_voice_made_them(house: House) -> None:
    async with visit(house.broker) as visitor, open_gateway(house.root):
        await visitor.is_online()
        await visitor.say("hall", "1")
        await visitor.answer("1")
    with open_history(house.root / ".toolrun/journal.db") as history:
        calls: list[Any] = history.calls()
    assert [(call.tool, call.consumer) for call in calls] == [("switch", "voice")]


# A gateway that is killed before it has answered.


def say_what_happened(body: Body) -> Step:
    """Like `obey`, but says what the tool said."""
    last = body["messages"][-1]
    return Step(text=last["content"]) if last["role"] == "tool" else obey(body)


def doubts(house: House) -> dict[str, str]:
    """The lights that may have been switched, and the calls."""
    with open_history(house.root / ".toolrun/journal.db") as history:
        return {json.loads(call.arguments or "{}")["light"]: call.shown_id for call in history.in_doubt()}


def stored(house: House, statement: str) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{house.root}/.toolrun/journal.db?mode=ro", uri=True)) as connection:
        return int(connection.execute(statement).fetchone()[0])


@pytest.mark.parametrize("request_number", [1, 2])
async def test_an_utterance_goes_on_when_it_comes_again_after_the_gateway_was_killed(
    house: House, request_number: int
) -> None:
    hold = threading.Event()
    house.server.forget()
    steps: list[Any] = [say_what_happened] * 10
    steps[request_number - 1] = lambda body: replace(say_what_happened(body), hold=hold)
    house.server.play(*steps)
    async with visit(house.broker) as visitor:
        async with open_gateway(house.root) as gateway:
            await visitor.is_online()
            await visitor.say("hall", "1")
            assert await asyncio.to_thread(house.server.held.wait, LIMIT)
            await gateway.end(signal.SIGKILL)
        hold.set()
        assert house.effects() == ({"hall": 1} if request_number == 2 else {})
        async with open_gateway(house.root):
            await visitor.is_online()
            for id in ("1", "1"):
                await visitor.say("hall", id)
            assert (await visitor.answer("1"))["text"] == "switched hall"
            for light, id in (("hall", "1"), ("attic", "2")):
                await visitor.say(light, id)
            await visitor.answer("2")
    assert answers(visitor) == ["1", "2"]
    assert house.effects() == {"hall": 1, "attic": 1}
    assert stored(house, "SELECT count(*) FROM message") == 0, "what was said is kept until it is answered"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_call_of_a_killed_gateway_is_told_by_name_and_not_made_again(house: House, when: str) -> None:
    house.server.forget()
    house.server.play(*[say_what_happened] * 10)
    (house.root / f"die-{when}").touch()
    async with visit(house.broker) as visitor:
        async with open_gateway(house.root) as gateway:
            await visitor.is_online()
            await visitor.say("hall", "1")
            assert await gateway.ended() == -signal.SIGKILL
        async with open_gateway(house.root):
            await visitor.is_online()
            await visitor.say("hall", "1")
            answer = await visitor.answer("1")
    call = doubts(house)["hall"]
    assert f"toolrun effects settle {call} --done" in answer["text"]
    assert answers(visitor) == ["1"]
    assert house.effects() == ({"hall": 1} if when == "after" else {})


async def test_an_utterance_that_waited_in_a_killed_gateway_is_answered_when_it_comes_again(house: House) -> None:
    hold = threading.Event()
    house.server.forget()
    house.server.play(lambda body: replace(obey(body), hold=hold), *[obey] * 10)
    async with visit(house.broker) as visitor:
        async with open_gateway(house.root) as gateway:
            await visitor.is_online()
            for light in ("hall", "attic"):
                await visitor.say(light, light)
                await visitor.until(lambda topic, content: topic == "transcript")
            assert await asyncio.to_thread(house.server.held.wait, LIMIT)
            await gateway.end(signal.SIGKILL)
        hold.set()
        async with open_gateway(house.root):
            await visitor.is_online()
            for light in ("attic", "hall", "attic"):
                await visitor.say(light, light)
            await visitor.answer("hall")
    assert answers(visitor) == ["attic", "hall"]
    assert house.effects() == {"hall": 1, "attic": 1}


async def test_a_gateway_that_was_there_all_the_time_goes_on_for_one_that_was_killed(house: House) -> None:
    (house.root / "die-after").touch()
    async with visit(house.broker) as visitor, AsyncExitStack() as stack:
        gateways = [await stack.enter_async_context(open_gateway(house.root)) for _ in range(2)]
        await visitor.is_online()
        await visitor.is_online()
        await visitor.say("hall", "1")
        await visitor.until(lambda topic, content: (topic, content) == ("status", "offline"))
        await asyncio.wait([asyncio.ensure_future(it.ended()) for it in gateways], return_when=asyncio.FIRST_COMPLETED)
        await visitor.say("hall", "1")
        await visitor.answer("1")
    assert answers(visitor) == ["1"]
    assert house.effects() == {"hall": 1}


async def test_an_answer_that_the_broker_did_not_get_is_given_without_the_model_when_the_utterance_comes_again(
    house: House,
) -> None:
    hold = threading.Event()
    house.server.forget()
    house.server.play(obey, Step(text="Done.", hold=hold))
    async with open_gateway(house.root) as gateway:
        async with visit(house.broker) as visitor:
            await visitor.is_online()
            await visitor.say("hall", "1")
            assert await asyncio.to_thread(house.server.held.wait, LIMIT)
        house.broker.kill()
        await gateway.has_said("the connection to the MQTT broker")
        hold.set()
        async with asyncio.timeout(LIMIT):
            ended = "SELECT count(*) FROM message WHERE role = 'end'"
            while not stored(house, ended):  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.01)
        await gateway.end(signal.SIGKILL)
    house.broker.start()
    async with visit(house.broker) as visitor, open_gateway(house.root):
        await visitor.is_online()
        await visitor.say("hall", "1")
        assert (await visitor.answer("1"))["text"] == "Done."
    assert (len(house.server.requests), house.effects()) == (2, {"hall": 1})


async def test_where_no_conversations_are_kept_nothing_is_done_again(house: House) -> None:
    house.configure("[journal]\nconversations = false\n")
    (house.root / "die-after").touch()
    async with visit(house.broker) as visitor:
        async with open_gateway(house.root) as gateway:
            await visitor.is_online()
            await visitor.say("hall", "1")
            assert await gateway.ended() == -signal.SIGKILL
        async with open_gateway(house.root):
            await visitor.is_online()
            await visitor.say("hall", "1")
            await visitor.say("attic", "2")
            await visitor.answer("2")
    assert answers(visitor) == ["2"]
    assert house.effects() == {"hall": 1, "attic": 1}


async def test_an_utterance_is_answered_at_most_once_wherever_the_gateway_is_killed(house: House) -> None:
    count, lost = house.root / "die-after-writes", []
    async with visit(house.broker) as visitor:
        for number in range(1, MOST_WRITES):
            async with open_gateway(house.root) as gateway:
                await visitor.is_online()
                if number > 1:  # the one before was killed
                    light, known = f"light-{number - 1}", doubts(house)
                    await visitor.say(light, light)
                    await visitor.say("fence", f"fence {number}")
                    await visitor.answer(f"fence {number}")
                    assert house.effects().get(light, 0) == 1 or light in known, number
                    assert answers(visitor).count(light) <= 1, number
                    lost += [] if light in answers(visitor) else [light]
                light = f"light-{number}"
                count.write_text(str(number))
                await visitor.say(light, light)
                ending, answer = asyncio.create_task(gateway.ended()), asyncio.create_task(visitor.answer(light))
                await asyncio.wait([ending, answer], return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
                answer.cancel()
                await asyncio.wait([ending, answer])
            if count.exists():  # it has lived to see the answer
                break
    assert number > 6, "it was killed at several points"
    assert len(lost) <= 1, "between the note that it is answered and the answer"
