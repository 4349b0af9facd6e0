"""What happens on the broker, for people to see: commands on their way to devices, and what the devices report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import aiomqtt
from zwave_house import Device, House
from zwave_topics import CLIENTS, parse_value_topic
from zwave_words import describe_measurement, describe_state

from toolrun.voice import BrokerAddress

Tell = Callable[[str, str], None]
"""Gets `command` or `report`, and a line of text."""
MARK = "watch"
PATIENCE = 5.0


class Watch:
    """Somebody who looks at the broker. Made by `watch`."""

    def __init__(self, client: aiomqtt.Client, prefix: str, tell: Tell) -> None:
        self._client = client
        self._prefix = prefix
        self._tell = tell
        self._house = House()
        self._mark = 0
        self._has_come = asyncio.Event()

    async def catch_up(self) -> None:
        """Wait until everything that has been published by now is told: messages arrive in their order."""
        self._mark += 1
        self._has_come.clear()
        with suppress(aiomqtt.MqttError, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._client.publish(f"{self._prefix}/{MARK}", str(self._mark), qos=1)
                await self._has_come.wait()

    async def run(self) -> None:
        with suppress(aiomqtt.MqttError):  # without the broker nothing happens
            async for message in self._client.messages:
                topic = message.topic.value
                below = topic.removeprefix(f"{self._prefix}/")
                if below != topic:  # amqtt sends more than was subscribed to
                    self._receive(below, bytes(message.payload), is_news=not message.retain)

    def _receive(self, topic: str, payload: bytes, *, is_news: bool) -> None:
        if topic == MARK:
            if payload == str(self._mark).encode():
                self._has_come.set()
        elif topic.endswith("/set"):
            if parse_value_topic(topic.removesuffix("/set")) is not None:
                self._tell("command", f"{self._prefix}/{topic} {payload.decode(errors='replace')}")
        else:
            before = _facts(self._house)
            self._house.receive(topic, payload)
            if is_news and not topic.startswith(CLIENTS):  # names and units are no news
                for title, facts in _facts(self._house).items():
                    if title in before and facts != before[title]:
                        self._tell("report", f"{title}: {before[title]} → {facts}")


@asynccontextmanager
async def watch(address: BrokerAddress, prefix: str, tell: Tell) -> AsyncIterator[Watch]:
    """Tell what happens below the prefix, until the block ends."""
    async with address.client() as client:
        await client.subscribe(f"{prefix}/#", qos=1)
        made = Watch(client, prefix, tell)
        watching = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            watching.cancel()
            await asyncio.wait({watching})


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
