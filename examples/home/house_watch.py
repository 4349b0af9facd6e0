"""What happens on the broker, for people to see: commands on their way to devices, and what the devices report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import aiomqtt
from mqtt_url import BrokerAddress
from zwave_house import Device, House
from zwave_topics import CLIENTS, parse_value_topic
from zwave_words import describe_measurement, describe_state

Tell = Callable[[str, str], None]
"""Gets `command` or `report`, and a line of text."""


@asynccontextmanager
async def watch(address: BrokerAddress, prefix: str, tell: Tell) -> AsyncIterator[None]:
    """Tell what happens below the prefix, until the block ends. What is retained from before is not news."""
    house = House()
    async with address.client() as client:
        await client.subscribe(f"{prefix}/#", qos=1)
        watching = asyncio.create_task(_listen(client, prefix, house, tell))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})


async def _listen(client: aiomqtt.Client, prefix: str, house: House, tell: Tell) -> None:
    with suppress(aiomqtt.MqttError):  # without the broker nothing happens
        async for message in client.messages:
            topic, payload = message.topic.value, bytes(message.payload)
            below = topic.removeprefix(f"{prefix}/")
            if below == topic:
                continue  # amqtt sends more than was subscribed to
            if below.endswith("/set"):
                if parse_value_topic(below.removesuffix("/set")) is not None:
                    tell("command", f"{topic} {payload.decode(errors='replace')}")
                continue
            before = _facts(house)
            house.receive(below, payload)
            if message.retain or below.startswith(CLIENTS):  # names and units are no news
                continue
            for title, facts in _facts(house).items():
                if title in before and facts != before[title]:
                    tell("report", f"{title}: {before[title]} → {facts}")


def _facts(house: House) -> dict[str, str]:
    return {device.title: _state(device) for device in house.devices()}


def _state(device: Device) -> str:
    if device.is_dead:
        return "dead"
    if device.kind in ("dimmer", "switch"):
        return describe_state(device)
    return ", ".join(describe_measurement(it) for it in device.measurements())


async def sweep(address: BrokerAddress, prefix: str, more: list[str]) -> None:
    """Delete the retained messages below the prefix, and those of the other topics."""
    async with address.client() as client:
        await client.subscribe(f"{prefix}/#", qos=1)
        found = set(more)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):  # nothing says when the last retained message has come
                async for message in client.messages:
                    found.add(message.topic.value)
        for topic in found:
            await client.publish(topic, b"", qos=1, retain=True)
