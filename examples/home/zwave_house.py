"""The house as the messages describe it: devices, their values, who is meant by a name.

Knows what zwave-js-ui publishes (zwave_topics) and keeps the last of it; knows nothing of brokers, MCP or time.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from zwave_topics import (
    BATTERY,
    BINARY_SENSOR,
    BINARY_SWITCH,
    CLIENTS,
    GATEWAY_NAME,
    JSON,
    METER,
    MULTILEVEL_SENSOR,
    MULTILEVEL_SWITCH,
    NOTIFICATION,
    Layout,
    Reading,
    ValueAddress,
    clean,
    node_path,
    parse_json,
    parse_reading,
    parse_value_topic,
)

Kind = Literal["dimmer", "switch", "sensor", "other"]

CURRENT_VALUE, TARGET_VALUE = "currentValue", "targetValue"

MEASUREMENTS = {
    BINARY_SENSOR: re.compile(r".+"),
    MULTILEVEL_SENSOR: re.compile(r".+"),
    METER: re.compile(r"value(/.*)?"),
    NOTIFICATION: re.compile(r".+/.+"),  # without a key it is the raw alarm type and level
    BATTERY: re.compile(r"level"),
}
"""Which values of a command class are worth telling: the paths."""

NUMBER_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


class HomeError(Exception):
    """What was asked cannot be done. The message is for the model and the person who asked."""


@dataclass(frozen=True)
class Description:
    """What the gateway's list of nodes says of a value, and its topic does not."""

    label: str
    unit: str | None
    states: dict[str, str]


@dataclass(frozen=True)
class Node:
    """A node in the gateway's list of nodes."""

    id: int
    name: str
    location: str
    is_controller: bool
    descriptions: dict[tuple[int, int, str], Description]

    def paths(self) -> set[str]:
        """How its topics may begin, depending on the gateway's settings."""
        name = self.name or f"nodeID_{self.id}"
        own = {name, str(self.id)}
        return {node_path(it, location) for it in own for location in {self.location, ""}}


@dataclass(frozen=True)
class Status:
    """What the gateway says of a node: whether it answers."""

    is_available: bool
    text: str
    """`Alive`, `Awake`, `Asleep`, `Dead` or `Unknown`."""
    node_id: int | None


@dataclass(frozen=True)
class Measurement:
    """A value of a sensor, ready to be told."""

    label: str
    value: JSON
    unit: str | None
    time: float | None


@dataclass(frozen=True)
class Change:
    """A value that was reported, also when it is what it was before."""

    address: ValueAddress
    reading: Reading


@dataclass
class Device:
    """What is known of one node."""

    path: str
    values: dict[ValueAddress, Reading] = field(default_factory=dict)
    layout: Layout = Layout.VALUE_ID
    status: Status | None = None
    node: Node | None = None

    @property
    def name(self) -> str:
        if self.node is not None and self.node.name:
            return self.node.name
        return self.path.rpartition("/")[2].replace("_", " ")

    @property
    def location(self) -> str:
        if self.node is not None:
            return self.node.location
        return self.path.rpartition("/")[0].replace("_", " ")

    @property
    def title(self) -> str:
        """The name, with the location that tells it from others of that name."""
        return f"{self.name} ({self.location})" if self.location else self.name

    @property
    def kind(self) -> Kind:
        classes = {address.command_class for address in self.values if address.path == CURRENT_VALUE}
        if MULTILEVEL_SWITCH in classes:
            return "dimmer"
        if BINARY_SWITCH in classes:
            return "switch"
        return "sensor" if self.measurements() else "other"

    @property
    def is_dead(self) -> bool:
        return self.status is not None and not self.status.is_available

    def switch(self) -> ValueAddress:
        """Where the device reports whether it is on. Raises HomeError if it is no switch, or several."""
        command_class = {"dimmer": MULTILEVEL_SWITCH, "switch": BINARY_SWITCH}.get(self.kind)
        found = sorted(
            (it for it in self.values if (it.command_class, it.path) == (command_class, CURRENT_VALUE)),
            key=lambda it: it.endpoint,
        )
        if not found:
            raise HomeError(f"{self.name} is a {self.kind} and cannot be switched. Use get_device_sensor_data for it.")
        if len(found) > 1 and found[0].endpoint != 0:
            endpoints = ", ".join(str(it.endpoint) for it in found)
            raise HomeError(
                f"{self.name} has several switches (endpoints {endpoints}): which one is meant is not clear."
            )
        return found[0]

    def state(self) -> JSON:
        """The last report of the switch: true or false, or a level from 0 to 99; None if there is none."""
        if self.kind not in ("dimmer", "switch"):
            return None
        return self.values[self.switch()].value

    def measurements(self) -> list[Measurement]:
        found = []
        for address, reading in self.values.items():
            pattern = MEASUREMENTS.get(address.command_class)
            if pattern is not None and pattern.fullmatch(address.path) and reading.value is not None:
                found.append(self._measurement(address, reading))
        return sorted(found, key=lambda it: it.label)

    def _measurement(self, address: ValueAddress, reading: Reading) -> Measurement:
        key = (address.command_class, address.endpoint, address.path)
        known = self.node.descriptions.get(key) if self.node is not None else None
        if known is None:
            label = address.path.rpartition("/")[2].replace("_", " ")
            if address.command_class == BATTERY:
                return Measurement("Battery level", reading.value, reading.unit or "%", reading.time)
            return Measurement(label, reading.value, reading.unit, reading.time)
        value = known.states.get(str(reading.value), reading.value)
        return Measurement(known.label, value, reading.unit or known.unit, reading.time)


@dataclass
class House:
    """Everything that the gateway has said."""

    _devices: dict[str, Device] = field(default_factory=dict)
    _nodes: list[Node] = field(default_factory=list)
    gateways: dict[str, bool] = field(default_factory=dict)
    """The gateways by their id, and whether they are connected."""
    is_driver_ready: bool | None = None

    def receive(self, topic: str, payload: bytes) -> Change | None:
        """Take in a message from a topic below the prefix. Gives the value that it reports, if it does."""
        parts = topic.split("/")
        if parts[-1] == "set":
            return None
        if parts[0] == CLIENTS:
            self._receive_from_gateway(parts[1:], payload)
        elif topic == "driver/status":
            self.is_driver_ready = parse_json(payload) is True
        elif (found := parse_value_topic(topic)) is not None:
            return self._receive_value(*found, payload)
        elif parts[-1] == "status" and len(parts) > 1:
            self._receive_status("/".join(parts[:-1]), payload)
        return None

    def _receive_from_gateway(self, parts: list[str], payload: bytes) -> None:
        if len(parts) == 2 and parts[0].startswith(GATEWAY_NAME) and parts[1] == "status":
            self.gateways[parts[0]] = parse_reading(payload).value is True
        elif parts[1:] == ["api", "getNodes"]:
            answer = parse_json(payload)
            result = answer.get("result") if isinstance(answer, dict) else None
            if isinstance(result, list):
                self._nodes = _parse_nodes(result)
                for device in self._devices.values():
                    device.node = self._node_of(device)

    def _receive_value(self, address: ValueAddress, layout: Layout, payload: bytes) -> Change | None:
        device = self._device(address.node)
        if payload:
            device.layout = layout
            device.values[address] = parse_reading(payload)
            return Change(address, device.values[address])
        device.values.pop(address, None)  # the node is gone, or has another name
        if not device.values:
            del self._devices[device.path]
        return None

    def _receive_status(self, path: str, payload: bytes) -> None:
        parsed = parse_json(payload)
        if parsed == "":
            return
        device = self._device(path)
        if isinstance(parsed, dict):
            node_id, text = parsed.get("nodeId"), parsed.get("status")
            device.status = Status(
                is_available=parsed.get("value") is True,
                text=text if isinstance(text, str) else "Unknown",
                node_id=node_id if isinstance(node_id, int) else None,
            )
        else:
            device.status = Status(parsed is True, "Alive" if parsed is True else "Dead", None)
        device.node = self._node_of(device)

    def _device(self, path: str) -> Device:
        if path not in self._devices:
            device = self._devices[path] = Device(path)
            device.node = self._node_of(device)
        return self._devices[path]

    def _node_of(self, device: Device) -> Node | None:
        if device.status is not None and device.status.node_id is not None:
            return next((node for node in self._nodes if node.id == device.status.node_id), None)
        fitting = [node for node in self._nodes if device.path in node.paths()]
        return fitting[0] if len(fitting) == 1 else None

    def devices(self) -> list[Device]:
        """The devices that a person would call so: the controller and empty nodes are left out."""
        shown = [it for it in self._devices.values() if it.values and not (it.node and it.node.is_controller)]
        return sorted(shown, key=lambda it: it.title.casefold())

    def find(self, name: str) -> Device:
        """The device of that name. Raises HomeError, with suggestions, if there is none or more than one."""
        devices = self.devices()
        wanted = _spellings(name)
        found = [it for it in devices if wanted & _spellings(it.name)]
        if len(found) != 1:
            exact = [it for it in devices if wanted & _spellings(f"{it.location} {it.name}", it.title, it.path)]
            found = exact or found
        if len(found) == 1:
            return found[0]
        if found:
            raise HomeError(f"Several devices are called {name!r}: {_listed(found)}. Say which, with its location.")
        if not devices:
            raise HomeError("No Z-Wave device is known. Check that the gateway publishes its values to this broker.")
        close = _similar(name, devices)
        if close:
            raise HomeError(f"There is no device called {name!r}. Did you mean: {_listed(close)}?")
        raise HomeError(f"There is no device called {name!r}. Known devices: {_listed(devices)}.")


def _plain(text: str) -> str:
    return "".join(it for it in text.casefold() if it.isalnum())


def _spellings(*names: str) -> set[str]:
    """The forms in which a name counts as the same: without case, spaces and signs, numbers in words or in figures."""
    forms = set()
    for name in names:
        words = re.findall(r"[^\W_]+", name.casefold())
        forms |= {_plain(name), "".join(str(NUMBER_WORDS.index(it)) if it in NUMBER_WORDS else it for it in words)}
    return forms - {""}


def _similar(name: str, devices: list[Device]) -> list[Device]:
    """Devices that share a word with the name or are written nearly so, the likeliest first."""
    words = set(re.findall(r"[^\W_]+", name.casefold()))

    def score(device: Device) -> float:
        theirs = set(re.findall(r"[^\W_]+", device.title.casefold()))
        likeness = difflib.SequenceMatcher(None, _plain(name), _plain(device.name)).ratio()
        return likeness + len(words & theirs)

    return [it for it in sorted(devices, key=score, reverse=True) if score(it) >= 0.6][:3]


def _listed(devices: list[Device]) -> str:
    return ", ".join(it.title for it in devices)


def _parse_nodes(found: list[Any]) -> list[Node]:
    nodes = []
    for entry in found:
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), int):
            continue
        values = entry.get("values")
        descriptions: dict[tuple[int, int, str], Description] = {}
        for value in values.values() if isinstance(values, dict) else ():
            if isinstance(value, dict) and isinstance(value.get("commandClass"), int):
                descriptions |= _parse_description(value)
        nodes.append(
            Node(
                id=entry["id"],
                name=str(entry.get("name") or ""),
                location=str(entry.get("loc") or ""),
                is_controller=entry.get("isControllerNode") is True,
                descriptions=descriptions,
            )
        )
    return nodes


def _parse_description(value: dict[str, Any]) -> dict[tuple[int, int, str], Description]:
    """The description under both paths that the value may have: by property (value-id) and by its name (named)."""
    states = {str(it.get("value")): str(it.get("text")) for it in value.get("states") or () if isinstance(it, dict)}
    label = str(value.get("label") or value.get("propertyName") or value.get("property"))
    description = Description(label, value.get("unit"), states)
    key = value.get("propertyKey")
    tail = [] if key is None else [str(key)]
    paths = {
        "/".join(clean(part.replace("/", "-")) for part in [str(value.get(name)), *tail])
        for name in ("property", "propertyName")
    }
    return {(value["commandClass"], value.get("endpoint") or 0, path): description for path in paths}
