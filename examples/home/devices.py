# /// script
# requires-python = ">=3.11"
# dependencies = ["aiomqtt>=2.5,<3", "toolrun"]
# [tool.uv.sources]
# toolrun = { path = "../..", editable = true }
# ///
"""Simulated Z-Wave devices, with the MQTT topics that zwave-js-ui would give them (zwave_topics).

    uv run examples/home/devices.py --mqtt mqtt://localhost:1883

They keep their state, obey `…/set`, report, and answer the gateway's functions getNodes and pingNode. Each can be made
to misbehave, from Python by `Simulation.misbehave`, or by a message:

    simulation/Kitchen/Switch_One/set   {"behaviour": "slow", "delay": 3}     obeys and reports after so many seconds
                                        {"behaviour": "dead"}                 does nothing; the gateway calls it dead
                                        {"behaviour": "silent"}               obeys and does not report
                                        {"behaviour": "wrong"}                reports what it was not told
                                        {"behaviour": "normal"}
    simulation/Hall/Hall_Sensor/set     {"values": {"Air temperature": 25}}   measures something else

The location may be left out of these topics. Unlike the real gateway, the simulation publishes all its values again
when the broker comes back, because the broker of the demo forgets them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, get_args

import aiomqtt
from zwave_topics import (
    BATTERY,
    BINARY_SWITCH,
    CLIENTS,
    GATEWAY_NAME,
    JSON,
    MULTILEVEL_SENSOR,
    MULTILEVEL_SWITCH,
    NOTIFICATION,
    Layout,
    ValueAddress,
    clean,
    node_path,
    parse_json,
    parse_value_topic,
)

from toolrun.voice import BrokerAddress

Kind = Literal["normal", "slow", "dead", "silent", "wrong"]

CONTROL = "simulation"
SWITCH_LABELS = {"currentValue": "Current value", "targetValue": "Target value"}
LAST_LEVEL = 255


@dataclass
class Value:
    """One value of a device."""

    command_class: int
    name: str
    value: JSON
    label: str
    key: str | int | None = None
    unit: str | None = None
    states: dict[int, str] = field(default_factory=dict)
    time: float = field(default_factory=time.time)

    @property
    def path(self) -> str:
        return clean(self.name) if self.key is None else f"{clean(self.name)}/{clean(str(self.key))}"

    def to_json(self, node_id: int) -> dict[str, JSON]:
        """As the gateway's list of nodes has it."""
        facts: dict[str, JSON] = {
            "nodeId": node_id,
            "commandClass": self.command_class,
            "endpoint": 0,
            "property": self.name,
            "propertyName": self.name,
            "label": self.label,
            "value": self.value,
            "lastUpdate": int(self.time * 1000),
            "writeable": self.name == "targetValue",
        }
        if self.key is not None:
            facts["propertyKey"] = self.key
        if self.unit is not None:
            facts["unit"] = self.unit
        if self.states:
            facts["states"] = [{"value": value, "text": text} for value, text in self.states.items()]
        return facts


@dataclass
class Device:
    """A node of the simulated network."""

    node_id: int
    name: str
    location: str
    values: list[Value]
    behaviour: Kind = "normal"
    delay: float = 0.0
    last_level: int = 99

    @property
    def path(self) -> str:
        return node_path(self.name, self.location)

    @property
    def is_dead(self) -> bool:
        return self.behaviour == "dead"

    @property
    def state(self) -> JSON:
        """What the switch really is, whatever it reports."""
        return self._value("currentValue").value

    def find(self, text: str) -> Value | None:
        """The value with that label or path."""
        return next((it for it in self.values if text in (it.label, it.path)), None)

    def _value(self, path: str) -> Value:
        return next(it for it in self.values if it.path == path)

    def apply(self, wanted: JSON) -> None:
        """Carry out a command."""
        for path in SWITCH_LABELS:
            value = self._value(path)
            value.value, value.time = wanted, time.time()
        if isinstance(wanted, int) and wanted > 0:
            self.last_level = wanted

    def understand(self, payload: bytes) -> JSON:
        """The state that a message asks for; None if it is nonsense."""
        parsed = parse_json(payload)
        wanted = parsed.get("value") if isinstance(parsed, dict) else parsed
        if self.find("currentValue") is None or not isinstance(wanted, (bool, int)):
            return None
        if self._value("currentValue").command_class == BINARY_SWITCH:
            return bool(wanted)
        level = self.last_level if wanted == LAST_LEVEL else int(wanted)
        return level if 0 <= level <= 99 else None


def switch(node_id: int, name: str, location: str, *, is_on: bool = False) -> Device:
    return Device(
        node_id, name, location, [Value(BINARY_SWITCH, it, is_on, label) for it, label in SWITCH_LABELS.items()]
    )


def dimmer(node_id: int, name: str, location: str, *, level: int = 0) -> Device:
    return Device(
        node_id, name, location, [Value(MULTILEVEL_SWITCH, it, level, label) for it, label in SWITCH_LABELS.items()]
    )


def sensor(node_id: int, name: str, location: str, *, temperature: float = 21.5) -> Device:
    motion = {0: "idle", 8: "Motion detection"}
    return Device(
        node_id,
        name,
        location,
        [
            Value(MULTILEVEL_SENSOR, "Air temperature", temperature, "Air temperature", unit="°C"),
            Value(MULTILEVEL_SENSOR, "Humidity", 46, "Humidity", unit="%"),
            Value(NOTIFICATION, "Home Security", 0, "Motion sensor status", key="Motion sensor status", states=motion),
            Value(BATTERY, "level", 87, "Battery level", unit="%"),
        ],
    )


def demo_house() -> list[Device]:
    """The devices of the demo."""
    return [
        switch(2, "Switch One", "Kitchen"),
        switch(3, "Switch Two", "Living Room"),
        dimmer(4, "Desk Lamp", "Office"),
        sensor(5, "Hall Sensor", "Hall"),
    ]


class Simulation:
    """A gateway with its devices, connected to a broker. Made by `open`."""

    def __init__(self, devices: Sequence[Device], prefix: str, layout: Layout) -> None:
        self.devices = list(devices)
        self.prefix = prefix
        self.layout = layout
        self._gateway = f"{prefix}/{CLIENTS}/{GATEWAY_NAME}simulation"
        self._client: aiomqtt.Client | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        devices: Sequence[Device] | None = None,
        *,
        prefix: str = "zwave",
        layout: Layout = Layout.VALUE_ID,
    ) -> AsyncIterator[Simulation]:
        """Run the devices until the block ends, which begins once they have reported themselves to the broker.

        They wait for a broker that is not there, and look for one that is lost.
        """
        simulation = cls(demo_house() if devices is None else devices, prefix, layout)
        started = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                keeper = group.create_task(simulation._keep(BrokerAddress.parse(url), started))
                await started.wait()
                yield simulation
                with suppress(aiomqtt.MqttError):
                    await simulation._publish(f"{simulation._gateway}/status", {"value": False})
                keeper.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # that of the block, most likely

    def __getitem__(self, name: str) -> Device:
        """The device of that name, path, or path without the location."""
        for device in self.devices:
            if name in (device.name, device.path, clean(device.name)):
                return device
        raise KeyError(
            f"no simulated device is called {name!r}; there are: {', '.join(it.name for it in self.devices)}"
        )

    async def misbehave(self, name: str, behaviour: Kind, delay: float = 0.0) -> None:
        """Make a device slow, dead, silent, wrong, or normal again."""
        device = self[name]
        device.behaviour, device.delay = behaviour, delay
        await self._publish_status(device)
        await self._publish(f"{CONTROL}/{device.path}", {"behaviour": behaviour, "delay": delay})

    async def measure(self, name: str, label: str, value: JSON) -> None:
        """Let a sensor report a new value."""
        found = self[name].find(label)
        if found is None:
            raise KeyError(f"{name} has no value {label!r}")
        found.value, found.time = value, time.time()
        await self._report(self[name], found)

    async def _keep(self, address: BrokerAddress, started: asyncio.Event) -> None:
        will = aiomqtt.Will(f"{self._gateway}/status", json.dumps({"value": False}), qos=1, retain=True)
        async with asyncio.TaskGroup() as group:
            while True:
                with suppress(aiomqtt.MqttError):
                    async with address.client(will=will) as client:
                        await self._introduce(client)
                        started.set()
                        async for message in client.messages:
                            group.create_task(self._obey(message))
                self._client = None
                await asyncio.sleep(0.5)

    async def _introduce(self, client: aiomqtt.Client) -> None:
        self._client = client
        await client.subscribe([(f"{self.prefix}/#", 1), (f"{CONTROL}/#", 1)])
        for device in self.devices:
            for value in device.values:
                await self._report(device, value)
            await self._publish_status(device)
        await self._publish(f"{self.prefix}/driver/status", True)
        await self._publish(f"{self._gateway}/status", {"value": True, "time": _now()})

    async def _obey(self, message: aiomqtt.Message) -> None:
        topic, payload = message.topic.value, bytes(message.payload)
        if not topic.endswith("/set"):
            return
        topic = topic.removesuffix("/set")
        with suppress(aiomqtt.MqttError):  # without the broker nobody hears it
            if topic.startswith(f"{self._gateway}/api/"):
                await self._answer(topic, parse_json(payload))
            elif topic.startswith(f"{CONTROL}/"):
                await self._be_controlled(topic.removeprefix(f"{CONTROL}/"), parse_json(payload))
            elif (found := parse_value_topic(topic.removeprefix(f"{self.prefix}/"))) is not None:
                await self._write(found[0], payload)

    async def _write(self, address: ValueAddress, payload: bytes) -> None:
        device = next((it for it in self.devices if it.path == address.node), None)
        wanted = device.understand(payload) if device is not None and address.path in SWITCH_LABELS else None
        if device is None or wanted is None or device.is_dead:
            return
        if device.behaviour == "slow":
            await asyncio.sleep(device.delay)
        if device.behaviour == "wrong":
            wanted = not wanted if isinstance(wanted, bool) else 0 if wanted else 99
        device.apply(wanted)
        if device.behaviour != "silent":
            for value in device.values:
                if value.path in SWITCH_LABELS:
                    await self._report(device, value)

    async def _answer(self, topic: str, question: JSON) -> None:
        args = question.get("args") if isinstance(question, dict) else None
        function = topic.rpartition("/")[2]
        result: JSON = None
        if function == "getNodes":
            controller: dict[str, JSON] = {"id": 1, "name": "Controller", "loc": "", "isControllerNode": True}
            result = [controller, *(self._node(it) for it in self.devices)]
        elif function == "pingNode" and isinstance(args, list):
            result = any(it.node_id in args and not it.is_dead for it in self.devices)
        is_known = result is not None
        answer: dict[str, JSON] = {"success": is_known, "message": "Success" if is_known else "Unknown function"}
        await self._publish(topic, {**answer, "result": result, "origin": question}, retain=False)

    async def _be_controlled(self, name: str, order: JSON) -> None:
        try:
            device = self[name]
        except KeyError as error:
            sys.stderr.write(f"devices: {error.args[0]}\n")
            return
        if not isinstance(order, dict):
            sys.stderr.write(f"devices: {CONTROL}/{name}/set needs a JSON object\n")
            return
        behaviour, delay, values = order.get("behaviour"), order.get("delay", 0), order.get("values")
        for kind in get_args(Kind):
            if kind == behaviour and isinstance(delay, (int, float)):
                await self.misbehave(device.path, kind, float(delay))
        for label, value in values.items() if isinstance(values, dict) else ():
            if device.find(label) is not None:
                await self.measure(device.path, label, value)

    def _node(self, device: Device) -> dict[str, JSON]:
        return {
            "id": device.node_id,
            "name": device.name,
            "loc": device.location,
            "available": not device.is_dead,
            "status": "Dead" if device.is_dead else "Alive",
            "ready": True,
            "values": {f"{it.command_class}-0-{it.path}": it.to_json(device.node_id) for it in device.values},
        }

    async def _report(self, device: Device, value: Value) -> None:
        address = ValueAddress(device.path, value.command_class, 0, value.path)
        payload: dict[str, JSON] = {"time": int(value.time * 1000), "value": value.value}
        await self._publish(f"{self.prefix}/{address.topic(self.layout)}", payload)

    async def _publish_status(self, device: Device) -> None:
        status: dict[str, JSON] = {
            "time": _now(),
            "value": not device.is_dead,
            "status": "Dead" if device.is_dead else "Alive",
            "nodeId": device.node_id,
        }
        await self._publish(f"{self.prefix}/{device.path}/status", status)

    async def _publish(self, topic: str, payload: JSON, *, retain: bool = True) -> None:
        if self._client is not None:
            await self._client.publish(topic, json.dumps(payload), qos=1, retain=retain)


def _now() -> int:
    return int(time.time() * 1000)


async def serve(url: str, prefix: str, layout: Layout) -> None:
    sys.stderr.write(f"devices: looking for the broker at {BrokerAddress.parse(url)}\n")
    async with Simulation.open(url, prefix=prefix, layout=layout) as simulation:
        for device in simulation.devices:
            sys.stdout.write(f"{prefix}/{device.path}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulated Z-Wave devices on an MQTT broker.")
    parser.add_argument("--mqtt", metavar="URL", default="mqtt://localhost:1883", help="the broker")
    parser.add_argument("--prefix", default="zwave", help="the beginning of all topics (zwave)")
    parser.add_argument("--layout", default="value-id", choices=[it.value for it in Layout], help="form of the topics")
    options = parser.parse_args()
    try:
        asyncio.run(serve(options.mqtt, options.prefix, Layout(options.layout)))
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
