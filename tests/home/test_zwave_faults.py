"""The Z-Wave server when something is broken: the broker, the gateway, a device. It says so, and pretends nothing."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiomqtt
import pytest
from devices import Simulation
from mcp import MCPError

from support.brokers import HOME, BrokerProcess
from support.zwave_process import SERVER, Zwave, eventually, open_zwave


def test_without_a_broker_it_ends_and_says_why(tmp_path: Path) -> None:
    broker = BrokerProcess("amqtt", tmp_path)
    done = subprocess.run(
        [sys.executable, SERVER], stdin=subprocess.PIPE, capture_output=True, text=True, env={"MQTT_URL": broker.url}
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"zwave: Cannot reach the MQTT broker at {broker.url}: ")
    assert done.stderr.endswith("Connection refused. Check that the broker runs and that MQTT_URL is right.\n")


def test_a_broker_that_accepts_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mqtt://127.0.0.1:{silent.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, SERVER], stdin=subprocess.PIPE, capture_output=True, text=True, env={"MQTT_URL": url}
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"zwave: Cannot reach the MQTT broker at {url}: Operation timed out. ")


async def test_a_later_attempt_succeeds_once_the_broker_is_there(tmp_path: Path) -> None:
    broker = BrokerProcess("amqtt", tmp_path)
    with pytest.RaisesGroup(MCPError, flatten_subgroups=True):
        async with open_zwave(broker.url, tmp_path / "log"):
            pytest.fail("it has connected to nothing")
    assert "Cannot reach the MQTT broker" in (tmp_path / "log").read_text()
    broker.start()
    try:
        async with open_zwave(broker.url, tmp_path / "log") as zwave:
            assert await zwave.call("list_zwave_devices") == "No Z-Wave device is known."
    finally:
        broker.kill()


async def test_a_broker_that_is_killed_makes_every_call_an_error_until_it_is_back(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    async with Simulation.open(broker.url) as house, open_zwave(broker.url, tmp_path / "log") as zwave:
        await zwave.call("control_zwave_device", deviceName="Switch One", action="on")
        broker.kill()

        async def is_noticed() -> bool:
            result = await zwave.client.call_tool("list_zwave_devices", {})
            return bool(result.is_error)

        await eventually(is_noticed, "the loss is noticed")
        for tool, arguments in [
            ("control_zwave_device", {"deviceName": "Switch One", "action": "off"}),
            ("get_device_sensor_data", {"deviceName": "Hall Sensor"}),
            ("check_zwave_health", {}),
        ]:
            text = await zwave.fail(tool, **arguments)
            assert text.startswith(f"The MQTT broker at {broker.url} cannot be reached (")
            assert "nothing was sent" in text

        broker.start()

        async def is_back() -> bool:
            result = await zwave.client.call_tool("check_zwave_health", {})
            return not result.is_error and result.structured_content["isHealthy"]

        await eventually(is_back, "broker, gateway and server have found each other again")
        assert house["Switch One"].state is True, "the command of the time without a broker must not come late"
        assert (
            await zwave.call("control_zwave_device", deviceName="Switch One", action="off") == "Switch One is now off."
        )
        assert house["Switch One"].state is False


async def test_a_broker_that_is_killed_during_a_command_leaves_the_outcome_open(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    async with Simulation.open(broker.url) as house, open_zwave(broker.url, tmp_path / "log") as zwave:
        await house.misbehave("Switch One", "silent")
        command = asyncio.create_task(zwave.fail("control_zwave_device", deviceName="Switch One", action="on"))

        async def has_acted() -> bool:
            return house["Switch One"].state is True

        await eventually(has_acted, "the command has arrived")
        broker.kill()
        assert await command == (
            "The MQTT broker was lost after the command for Switch One was sent: "
            "it is not known whether it was carried out."
        )


@pytest.mark.parametrize(
    ("behaviour", "text", "state"),
    [
        (
            "dead",
            "Switch One was told to turn on, but did not report its state within 2 s. "
            "The gateway counts it as dead: check its power. It is not known whether it did.",
            False,
        ),
        (
            "silent",
            "Switch One was told to turn on, but did not report its state within 2 s. It is not known whether it did.",
            True,
        ),
        ("wrong", "Switch One was told to turn on, but reports that it is off.", False),
    ],
)
async def test_a_device_that_misbehaves_is_an_error_and_the_others_are_well(
    quick_broker: BrokerProcess, tmp_path: Path, behaviour: str, text: str, state: bool
) -> None:
    async with (
        Simulation.open(quick_broker.url) as house,
        open_zwave(quick_broker.url, tmp_path / "log", ZWAVE_REPORT_TIMEOUT="2") as zwave,
    ):
        await house.misbehave("Switch One", behaviour)  # type: ignore[arg-type]
        assert await zwave.fail("control_zwave_device", deviceName="Switch One", action="on") == text
        assert house["Switch One"].state is state
        await house.misbehave("Switch One", "normal")
        assert await zwave.call("control_zwave_device", deviceName="Switch One", action="on") == "Switch One is now on."


async def test_a_slow_device_is_waited_for(quick_broker: BrokerProcess, tmp_path: Path) -> None:
    async with Simulation.open(quick_broker.url) as house, open_zwave(quick_broker.url, tmp_path / "log") as zwave:
        await house.misbehave("Desk Lamp", "slow", delay=0.5)
        text = await zwave.call("control_zwave_device", deviceName="Desk Lamp", action="dim", level=30)
        assert text == "Desk Lamp is now on at 30 %."


async def test_only_the_wanted_state_ends_the_wait_which_holds_up_nobody(
    quick_broker: BrokerProcess, tmp_path: Path
) -> None:
    """A lamp on its way reports levels in between."""
    async with Simulation.open(quick_broker.url) as house, open_zwave(quick_broker.url, tmp_path / "log") as zwave:
        await house.misbehave("Desk Lamp", "silent")
        dimming = asyncio.create_task(
            zwave.call("control_zwave_device", deviceName="Desk Lamp", action="dim", level=80)
        )

        async def has_arrived() -> bool:
            return house["Desk Lamp"].state == 80

        await eventually(has_arrived, "the command has arrived")
        await house.measure("Desk Lamp", "Current value", 20)
        assert await zwave.call("control_zwave_device", deviceName="Switch One", action="on") == "Switch One is now on."
        assert "- Desk Lamp (Office): dimmer, on at 20 %" in await zwave.call("list_zwave_devices")
        assert not dimming.done()
        await house.measure("Desk Lamp", "Current value", 80)
        assert await dimming == "Desk Lamp is now on at 80 %."


@asynccontextmanager
async def gateway_process(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The simulated devices as a process, once they have reported."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, HOME / "devices.py", "--mqtt", url, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"zwave/Kitchen/Switch_One\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def health(zwave: Zwave) -> dict[str, object]:
    return await zwave.data("check_zwave_health")


async def test_a_gateway_that_dies_is_noticed_and_nothing_is_sent_until_it_is_back(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    async with open_zwave(broker.url, tmp_path / "log") as zwave:
        async with gateway_process(broker.url) as gateway:

            async def is_healthy() -> bool:
                return (await health(zwave))["isHealthy"] is True

            await eventually(is_healthy, "the gateway that came late is known")
            gateway.kill()

            async def is_gone() -> bool:
                return (await health(zwave))["isGatewayConnected"] is False

            await eventually(is_gone, "its last will is heard")
        text = await zwave.fail("control_zwave_device", deviceName="Switch One", action="on")
        assert text == (
            "The Z-Wave gateway is not connected to the broker, so nothing was sent. Check that zwave-js-ui runs."
        )
        assert "the gateway is not connected" in await zwave.call("check_zwave_health")
        assert "nothing was sent" in await zwave.fail("check_zwave_health", deviceName="Switch One")
        assert "- Switch One (Kitchen): switch, off" in await zwave.call("list_zwave_devices")
        async with gateway_process(broker.url):
            await eventually(is_healthy, "the gateway is back")
            assert await zwave.call("control_zwave_device", deviceName="Switch One", action="on") == (
                "Switch One is now on."
            )


async def test_nonsense_on_the_topics_does_no_harm(quick_broker: BrokerProcess, tmp_path: Path) -> None:
    async with Simulation.open(quick_broker.url), open_zwave(quick_broker.url, tmp_path / "log") as zwave:
        async with aiomqtt.Client("127.0.0.1", quick_broker.port) as other:
            for topic, payload in [
                ("zwave/Kitchen/Switch_One/37/0/currentValue", b"\xff\xfe"),
                ("zwave/Kitchen/Switch_One/status", b"[1, 2]"),
                ("zwave/_CLIENTS/ZWAVE_GATEWAY-simulation/api/getNodes", b'{"result": [7, {"id": 2, "values": [1]}]}'),
                ("zwave/_CLIENTS/x", b"{"),
                ("zwave/driver/status", b""),
                ("zwave", b"1"),
                ("zwave/a/38/0/currentValue", b"[" * 10_000),
            ]:
                await other.publish(topic, payload, qos=1)
        assert "a: dimmer, state unknown" in await zwave.call("list_zwave_devices")
        assert await zwave.call("control_zwave_device", deviceName="Switch One", action="on") == "Switch One is now on."
