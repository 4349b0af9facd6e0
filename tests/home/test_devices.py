"""The simulated devices, as somebody with an MQTT client sees them; and the embedded broker as a command."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiomqtt
import pytest
from broker import open_broker
from devices import Simulation, sensor, switch
from zwave_topics import Layout

from support.brokers import HOME, LIMIT, BrokerProcess


@dataclass
class Listener:
    """A client that hears everything, and keeps the last message of each topic."""

    client: aiomqtt.Client
    seen: dict[str, object] = field(default_factory=dict)

    async def hear(self, topic: str) -> object:
        """The next message on the topic."""
        async with asyncio.timeout(LIMIT):
            async for message in self.client.messages:
                self.seen[message.topic.value] = json.loads(bytes(message.payload))
                if message.topic.value == topic:
                    break
        return self.seen[topic]

    async def say(self, topic: str, payload: object) -> None:
        await self.client.publish(topic, json.dumps(payload), qos=1)


@asynccontextmanager
async def listen(broker: BrokerProcess) -> AsyncIterator[Listener]:
    async with aiomqtt.Client("127.0.0.1", broker.port) as client:
        await client.subscribe("#", qos=1)
        yield Listener(client)


GATEWAY = "zwave/_CLIENTS/ZWAVE_GATEWAY-simulation"


async def test_who_comes_later_learns_everything_that_was_reported(broker: BrokerProcess) -> None:
    async with Simulation.open(broker.url, [switch(2, "Switch One", "Kitchen"), sensor(5, "Hall Sensor", "")]):
        async with listen(broker) as listener:
            await listener.hear(f"{GATEWAY}/status")
        values = {topic: said["value"] for topic, said in listener.seen.items() if isinstance(said, dict)}
        assert values == {
            "zwave/Kitchen/Switch_One/37/0/currentValue": False,
            "zwave/Kitchen/Switch_One/37/0/targetValue": False,
            "zwave/Kitchen/Switch_One/status": True,
            "zwave/Hall_Sensor/49/0/Air_temperature": 21.5,
            "zwave/Hall_Sensor/49/0/Humidity": 46,
            "zwave/Hall_Sensor/113/0/Home_Security/Motion_sensor_status": 0,
            "zwave/Hall_Sensor/128/0/level": 87,
            "zwave/Hall_Sensor/status": True,
            f"{GATEWAY}/status": True,
        }
        assert listener.seen["zwave/driver/status"] is True
        status = listener.seen["zwave/Kitchen/Switch_One/status"]
        assert isinstance(status, dict)
        assert (status["status"], status["nodeId"]) == ("Alive", 2)


@pytest.mark.parametrize("payload", [True, {"value": True}, 1])
async def test_a_switch_obeys_and_reports(quick_broker: BrokerProcess, payload: object) -> None:
    async with Simulation.open(quick_broker.url, layout=Layout.NAMED) as house, listen(quick_broker) as listener:
        topic = "zwave/Kitchen/Switch_One/switch_binary/endpoint_0/currentValue"
        await listener.hear(f"{GATEWAY}/status")
        await listener.say(f"{topic}/set", payload)
        await listener.hear(f"{topic}/set")
        reported = await listener.hear(topic)
        assert isinstance(reported, dict)
        assert reported["value"] is True
        assert house["Switch One"].state is True


async def test_devices_are_made_to_misbehave_by_message(broker: BrokerProcess) -> None:
    async with Simulation.open(broker.url) as house, listen(broker) as listener:
        await listener.say("simulation/Switch_One/set", {"behaviour": "dead"})
        assert await listener.hear("simulation/Kitchen/Switch_One") == {"behaviour": "dead", "delay": 0.0}
        status = listener.seen["zwave/Kitchen/Switch_One/status"]
        assert isinstance(status, dict)
        assert (status["value"], status["status"]) == (False, "Dead")
        await listener.say(f"{GATEWAY}/api/pingNode/set", {"args": [2]})
        answer = await listener.hear(f"{GATEWAY}/api/pingNode")
        assert answer == {"success": True, "message": "Success", "result": False, "origin": {"args": [2]}}

        await listener.say("simulation/Kitchen/Switch_One/set", {"behaviour": "slow", "delay": 0.1})
        assert await listener.hear("simulation/Kitchen/Switch_One") == {"behaviour": "slow", "delay": 0.1}
        assert (house["Switch One"].behaviour, house["Switch One"].delay) == ("slow", 0.1)

        topic = "zwave/Hall/Hall_Sensor/49/0/Air_temperature"
        await listener.say("simulation/Hall_Sensor/set", {"values": {"Air temperature": 25, "Unknown": 1}})
        reported = await listener.hear("simulation/Hall_Sensor/set") and await listener.hear(topic)
        assert isinstance(reported, dict)
        assert reported["value"] == 25


async def test_orders_that_are_nonsense_change_nothing(
    quick_broker: BrokerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    async with Simulation.open(quick_broker.url) as house, listen(quick_broker) as listener:
        for topic, payload in [
            ("simulation/Toaster/set", {"behaviour": "dead"}),
            ("simulation/Switch_One/set", "dead"),
            ("simulation/Switch_One/set", {"behaviour": "angry"}),
            ("zwave/Kitchen/Switch_One/37/0/targetValue/set", "on"),
            ("zwave/Office/Desk_Lamp/38/0/targetValue/set", 150),
            ("zwave/Hall/Hall_Sensor/49/0/Air_temperature/set", 5),
        ]:
            await listener.say(topic, payload)
        await listener.say("simulation/Switch_Two/set", {"behaviour": "wrong"})
        await listener.hear("simulation/Living_Room/Switch_Two")
        assert [device.behaviour for device in house.devices] == ["normal", "wrong", "normal", "normal"]
        assert (house["Switch One"].state, house["Desk Lamp"].state) == (False, 0)
    said = capfd.readouterr().err
    assert "no simulated device is called 'Toaster'; there are: Switch One, Switch Two, Desk Lamp, Hall Sensor" in said
    assert "simulation/Switch_One/set needs a JSON object" in said


async def test_the_simulation_waits_for_a_broker(quick_broker: BrokerProcess) -> None:
    quick_broker.kill()

    async def run() -> object:
        async with Simulation.open(quick_broker.url), listen(quick_broker) as listener:
            return await listener.hear("zwave/driver/status")

    waiting = asyncio.create_task(run())
    quick_broker.start()
    assert await waiting is True


async def test_the_broker_runs_in_this_process_too() -> None:
    async with open_broker() as url, Simulation.open(url) as house:
        assert house["Switch One"].state is False


def test_the_broker_says_where_it_is_and_ends_when_asked() -> None:
    command = [sys.executable, str(HOME / "broker.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("mqtt://127.0.0.1:")
        process.terminate()
        assert process.wait(LIMIT) == 0
        assert process.stderr.read() == ""


def test_a_port_that_is_taken_is_named(quick_broker: BrokerProcess) -> None:
    command = [sys.executable, str(HOME / "broker.py"), "--port", str(quick_broker.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(quick_broker.port) in done.stderr
    assert done.stderr.endswith("Choose another port with --port.\n")


def test_devices_refuse_an_address_that_is_none() -> None:
    command = [sys.executable, str(HOME / "devices.py"), "--mqtt", "localhost"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2
    assert "write mqtt://HOST:1883" in done.stderr
