"""The whole home, as processes: an utterance on a topic, a model over the wire, a device that turns on, an answer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from devices import Simulation

from providers.base import Step
from providers.ollama import OllamaServer
from support.brokers import BrokerProcess
from support.console import TOOLRUN, run
from support.gateway_process import add, open_gateway, repeat_result, switch_on, visit, write_project
from support.zwave_process import eventually
from toolrun.voice.phrases import Phrases

PHRASES = Phrases.load()
CONNECTED = "All servers are connected"


@pytest.fixture
def model() -> Iterator[OllamaServer]:
    with OllamaServer() as server:
        yield server
    assert server.violations == []
    assert server.remaining == 0, "the gateway did not ask for all answers of the script"


async def is_on(house: Simulation, name: str) -> bool:
    return house[name].state is True


async def test_what_is_said_on_a_topic_turns_a_device_on_and_is_answered(
    broker: BrokerProcess, model: OllamaServer, tmp_path: Path
) -> None:
    write_project(tmp_path, model.url, broker.url)
    model.play(switch_on(), Step(text="**Switch One** is on now."))
    async with Simulation.open(broker.url) as house, visit(broker) as visitor:
        async with open_gateway(tmp_path, "--mqtt", broker.url) as gateway:
            await visitor.is_online()
            await gateway.has_said(CONNECTED)
            await visitor.say("turn on switch one", "u1")
            answer = await visitor.answer("u1")
            assert house["Switch One"].state is True
            assert house["Switch Two"].state is False
            assert answer["speech"] == "Switch One is on now."
            assert (answer["text"], answer["outcome"]) == ("**Switch One** is on now.", "answered")
            assert await gateway.end(signal.SIGTERM) == 0
        await visitor.until(lambda topic, content: (topic, content) == ("status", "offline"))
    transcript, started, finished = [content for topic, content in visitor.messages if topic in ("transcript", "tool")]
    assert (transcript["text"], transcript["source"]) == ("turn on switch one", "mqtt")
    assert (started["event"], started["tool"]) == ("started", "control_zwave_device")
    assert (finished["event"], finished["success"]) == ("finished", True)
    assert started["call_id"] == finished["call_id"]
    assert {it["id"] for it in (transcript, started, finished)} == {"u1"}
    assert transcript["time"] <= started["time"] <= finished["time"] <= answer["time"]
    asked, told = model.bodies
    assert asked["messages"][-1]["content"] == "turn on switch one"
    assert [it["content"] for it in told["messages"] if it["role"] == "tool"] == ["Switch One is now on."]


async def test_without_a_broker_local_tools_work_and_everything_does_once_it_is_there(
    broker: BrokerProcess, model: OllamaServer, tmp_path: Path
) -> None:
    broker.kill()
    write_project(tmp_path, model.url, broker.url)
    async with open_gateway(tmp_path, "--stdin", "--mqtt", broker.url) as gateway:
        await gateway.has_said(
            f"the MQTT broker at {broker.url} cannot be reached",
            "MCP connection failed after 3 attempts",
            "Is the MQTT broker running?",
            "Degraded mode: the tools of 'zwave' are missing",
            "Missing: zwave",
        )
        model.play(add(2, 3), repeat_result)
        assert await gateway.ask("what is two and three?") == "5."
        offered = [tool["function"]["name"] for tool in model.bodies[0]["tools"]]
        assert offered == ["add"]
        await asyncio.to_thread(broker.start)
        async with Simulation.open(broker.url) as house, visit(broker) as visitor:
            await gateway.has_said("connected to the MQTT broker", "MCP connection succeeded on attempt")
            model.play(switch_on(), repeat_result)
            await visitor.say("turn on switch one", "u1")
            assert (await visitor.answer("u1"))["speech"] == "Switch One is now on."
            assert house["Switch One"].state is True
        assert await gateway.end() == 0


async def test_a_broker_that_is_killed_in_the_middle_comes_back_and_all_goes_on(
    broker: BrokerProcess, model: OllamaServer, tmp_path: Path
) -> None:
    write_project(tmp_path, model.url, broker.url)
    async with (
        Simulation.open(broker.url) as house,
        open_gateway(tmp_path, "--stdin", "--mqtt", broker.url) as gateway,
    ):
        async with visit(broker) as visitor:
            await visitor.is_online()
            await gateway.has_said(CONNECTED)
            await house.misbehave("Switch One", "silent")
            model.play(switch_on(), repeat_result)
            await visitor.say("turn on switch one", "u1")
            await eventually(
                partial(is_on, house, "Switch One"), "the command has arrived, and its report is waited for"
            )
            broker.kill()
            assert "is not known whether" in await gateway.next_answer()
        await gateway.has_said(f"the MQTT broker at {broker.url} is lost")
        model.play(add(2, 3), repeat_result)
        assert await gateway.ask("what is two and three?") == "5."
        await asyncio.to_thread(broker.start)
        async with visit(broker) as visitor:
            await gateway.has_said("connected to the MQTT broker")
            for number in range(100):  # the devices and the server look for the broker in their own time
                model.play(switch_on("Switch Two"), repeat_result)
                await visitor.say("turn on switch two", f"try {number}")
                answer = await visitor.answer(f"try {number}")
                if answer["speech"] == "Switch Two is now on.":
                    break
            assert house["Switch Two"].state is True


async def test_a_dead_device_is_told_as_it_is(quick_broker: BrokerProcess, model: OllamaServer, tmp_path: Path) -> None:
    write_project(tmp_path, model.url, quick_broker.url, report_timeout=1)
    model.play(switch_on(), repeat_result)
    async with (
        Simulation.open(quick_broker.url) as house,
        visit(quick_broker) as visitor,
        open_gateway(tmp_path, "--mqtt", quick_broker.url) as gateway,
    ):
        await house.misbehave("Switch One", "dead")
        await visitor.is_online()
        await gateway.has_said(CONNECTED)
        await visitor.say("turn on switch one", "u1")
        finished = await visitor.tool("finished")
        answer = await visitor.answer("u1")
    assert (finished["success"], finished["error_kind"]) == (False, "tool_error")
    assert finished["speech"] == PHRASES.tool["tool_error"]
    assert "Switch One was told to turn on, but did not report" in answer["speech"]
    assert house["Switch One"].state is False


async def test_a_zwave_server_that_is_killed_in_the_middle_is_started_again(
    quick_broker: BrokerProcess, model: OllamaServer, tmp_path: Path
) -> None:
    write_project(tmp_path, model.url, quick_broker.url)
    async with (
        Simulation.open(quick_broker.url) as house,
        visit(quick_broker) as visitor,
        open_gateway(tmp_path, "--mqtt", quick_broker.url) as gateway,
    ):
        await visitor.is_online()
        await gateway.has_said(CONNECTED)
        await house.misbehave("Switch One", "silent")
        first = gateway.zwave_server()
        model.play(switch_on(), repeat_result)
        await visitor.say("turn on switch one", "u1")
        await eventually(partial(is_on, house, "Switch One"), "the command has arrived, and its report is waited for")
        os.kill(first, signal.SIGKILL)
        finished = await visitor.tool("finished")
        assert finished["success"] is False
        assert finished["error_kind"] in ("unavailable", "worker_lost")
        assert finished["speech"] == PHRASES.tool[finished["error_kind"]].format(system="The smart home system")
        await visitor.answer("u1")
        await gateway.has_said("the connection was lost")
        model.play(switch_on("Switch Two"), repeat_result)
        await visitor.say("turn on switch two", "u2")
        assert (await visitor.answer("u2"))["speech"] == "Switch Two is now on."
        assert gateway.zwave_server() != first


async def test_two_utterances_at_once_are_both_answered_in_order(
    quick_broker: BrokerProcess, model: OllamaServer, tmp_path: Path
) -> None:
    write_project(tmp_path, model.url, quick_broker.url)
    model.play(switch_on(), repeat_result, switch_on("Switch Two"), repeat_result)
    async with (
        Simulation.open(quick_broker.url) as house,
        visit(quick_broker) as visitor,
        open_gateway(tmp_path, "--mqtt", quick_broker.url) as gateway,
    ):
        await visitor.is_online()
        await gateway.has_said(CONNECTED)
        await asyncio.gather(visitor.say("turn on switch one", "u1"), visitor.say("turn on switch two", "u2"))
        assert (await visitor.answer("u1"))["speech"] == "Switch One is now on."
        assert (await visitor.answer("u2"))["speech"] == "Switch Two is now on."
    assert (house["Switch One"].state, house["Switch Two"].state) == (True, True)


async def test_barging_in_cancels_what_is_running_and_the_new_one_is_answered(
    quick_broker: BrokerProcess, model: OllamaServer, tmp_path: Path
) -> None:
    write_project(tmp_path, model.url, quick_broker.url, voice='mode = "barge_in"\n')
    model.play(switch_on(), switch_on("Switch Two"), repeat_result)
    async with (
        Simulation.open(quick_broker.url) as house,
        visit(quick_broker) as visitor,
        open_gateway(tmp_path, "--mqtt", quick_broker.url) as gateway,
    ):
        await visitor.is_online()
        await gateway.has_said(CONNECTED)
        await house.misbehave("Switch One", "slow", delay=60)
        await visitor.say("turn on switch one", "u1")
        await visitor.tool("started")
        await visitor.say("no, switch two", "u2")
        assert (await visitor.tool("finished"))["error_kind"] == "cancelled"
        answer = await visitor.answer("u1")
        assert (answer["speech"], answer["outcome"]) == ("", "interrupted")
        assert (await visitor.answer("u2"))["speech"] == "Switch Two is now on."
        assert house["Switch Two"].state is True
    roles = [message["role"] for message in model.bodies[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]


async def test_a_model_that_is_down_is_said_and_when_it_is_back_all_is_well(
    quick_broker: BrokerProcess, model: OllamaServer, tmp_path: Path
) -> None:
    write_project(tmp_path, model.url, quick_broker.url)
    attempts = [Step(refuse=True)] * 3
    model.play(*attempts, add(2, 3), repeat_result)
    async with visit(quick_broker) as visitor, open_gateway(tmp_path, "--mqtt", quick_broker.url) as gateway:
        await visitor.is_online()
        await visitor.say("what is two and three?", "u1")
        answer = await visitor.answer("u1")
        assert (answer["speech"], answer["outcome"]) == (PHRASES.model["unavailable"], "failed")
        await visitor.say("what is two and three?", "u2")
        assert (await visitor.answer("u2"))["speech"] == "5."
        await gateway.has_said("no answer to 'what is two and three?'")


@pytest.mark.parametrize(
    "server",
    [
        'command = "no-such-program"',
        'command = "sh"\nargs = ["-c", "echo no broker >&2; exit 1"]',
        'command = "sleep"\nargs = ["3600"]\nstart_timeout = 3600',
    ],
    ids=["missing", "fails", "hangs"],
)
async def test_a_dead_server_does_not_keep_local_tools_waiting(
    model: OllamaServer, tmp_path: Path, server: str
) -> None:
    """The second attempt to reach it would come after an hour: what is answered is answered before it."""
    write_project(tmp_path, model.url, "mqtt://127.0.0.1:1", 20, **{"servers.other": f"{server}\n"})
    config = tmp_path / "toolrun.toml"
    config.write_text(config.read_text().replace("delays = [0, 0.2, 0.4]", "delays = [0, 3600]"))
    model.play(add(2, 3), repeat_result)
    async with open_gateway(tmp_path, "--stdin") as gateway:
        assert await gateway.ask("what is two and three?") == "5."
        assert "attempt 2" not in gateway.log
        assert "Missing" not in gateway.log, "nobody has waited until that was known"
        assert await gateway.end() == 0


async def test_the_end_of_its_input_is_the_end_after_the_last_answer(model: OllamaServer, tmp_path: Path) -> None:
    write_project(tmp_path, model.url, "mqtt://127.0.0.1:1")
    (tmp_path / "said.txt").write_text("what is 1 and 1?\n\nwhat is 2 and 2?\n")
    model.play(add(1, 1), repeat_result, add(2, 2), repeat_result)
    done = await asyncio.to_thread(
        run, "bash", "-c", f"{TOOLRUN} voice --stdin < said.txt", cwd=tmp_path, env={"TOOLRUN_LOG_LEVEL": "error"}
    )
    assert (done.returncode, done.stdout) == (0, "2.\n4.\n")
    assert "Listening to stdin; 1 tool; model ollama:qwen3:0.6b ([model] use)" in done.stderr
    assert "Connecting to zwave" in done.stderr
    assert 'add {"a": 1, "b": 1}' in done.stderr


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_ends_it_in_the_middle_of_a_call_and_nothing_is_left(
    quick_broker: BrokerProcess, model: OllamaServer, tmp_path: Path, how: signal.Signals, code: int
) -> None:
    write_project(tmp_path, model.url, quick_broker.url)
    model.play(switch_on())
    async with Simulation.open(quick_broker.url) as house, visit(quick_broker) as visitor:
        async with open_gateway(tmp_path, "--mqtt", quick_broker.url) as gateway:
            await visitor.is_online()
            await gateway.has_said(CONNECTED)
            await house.misbehave("Switch One", "slow", delay=60)
            await visitor.say("turn on switch one", "u1")
            await visitor.tool("started")
            server = gateway.zwave_server()
            assert await gateway.end(how) == code
        assert (await visitor.answer("u1"))["outcome"] == "interrupted"
        await visitor.until(lambda topic, content: (topic, content) == ("status", "offline"))
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
    assert "Traceback" not in gateway.log


async def test_a_gateway_that_is_killed_is_offline(
    quick_broker: BrokerProcess, model: OllamaServer, tmp_path: Path
) -> None:
    write_project(tmp_path, model.url, quick_broker.url)
    async with visit(quick_broker) as visitor, open_gateway(tmp_path, "--mqtt", quick_broker.url) as gateway:
        await visitor.is_online()
        await gateway.end(signal.SIGKILL)
        await visitor.until(lambda topic, content: (topic, content) == ("status", "offline"))
