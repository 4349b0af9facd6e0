"""Topics and payloads of zwave-js-ui's MQTT gateway. Pure: text in, values out; knows no broker and no device.

A value of a node has a topic under the prefix (`zwave`), in one of two layouts that the gateway's settings choose:

    value-id   [<location>/]<name or node id>/<class number>/<endpoint>/<property>[/<key>]     the default
    named      [<location>/]<name>/<class name>/endpoint_<endpoint>/<property>[/<key>]

    zwave/Kitchen/Switch_One/37/0/currentValue                            {"time": 1760000000000, "value": false}
    zwave/Kitchen/Switch_One/37/0/targetValue/set                         {"value": true}            a command
    zwave/Kitchen/Switch_One/status       {"time": …, "value": true, "status": "Alive", "nodeId": 2}
    zwave/_CLIENTS/ZWAVE_GATEWAY-<id>/status                              {"time": …, "value": true}
    zwave/_CLIENTS/ZWAVE_GATEWAY-<id>/api/<function>/set                  {"args": […]}              a question
    zwave/_CLIENTS/ZWAVE_GATEWAY-<id>/api/<function>                      {"success": true, "result": …}
    zwave/driver/status                                                   true

Names are cleaned for topics: a space becomes `_`, and what is neither letter, digit, `-`, `_` nor `/` is left out.
https://zwave-js.github.io/zwave-js-ui/#/usage/setup?id=gateway
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

BINARY_SWITCH = 0x25
MULTILEVEL_SWITCH = 0x26
BINARY_SENSOR = 0x30
MULTILEVEL_SENSOR = 0x31
METER = 0x32
NOTIFICATION = 0x71
BATTERY = 0x80

CLASS_NAMES = {
    BINARY_SWITCH: "switch_binary",
    MULTILEVEL_SWITCH: "switch_multilevel",
    BINARY_SENSOR: "sensor_binary",
    MULTILEVEL_SENSOR: "sensor_multilevel",
    METER: "meter",
    NOTIFICATION: "notification",
    BATTERY: "battery",
}
"""The command classes that this example understands. Values of others are passed over."""

CLASS_NUMBERS = {name: number for number, name in CLASS_NAMES.items()}

CLIENTS = "_CLIENTS"
GATEWAY_NAME = "ZWAVE_GATEWAY-"


class Layout(Enum):
    """How the gateway names the topics of values."""

    VALUE_ID = "value-id"
    NAMED = "named"


@dataclass(frozen=True)
class ValueAddress:
    """One value of one node. `node` is the beginning of its topics: `Kitchen/Switch_One`."""

    node: str
    command_class: int
    endpoint: int
    path: str
    """The property, and its key after a slash where it has one: `Home_Security/Motion_sensor_status`."""

    def topic(self, layout: Layout) -> str:
        """The topic below the prefix."""
        if layout is Layout.NAMED:
            return f"{self.node}/{CLASS_NAMES[self.command_class]}/endpoint_{self.endpoint}/{self.path}"
        return f"{self.node}/{self.command_class}/{self.endpoint}/{self.path}"


@dataclass(frozen=True)
class Reading:
    """What a message said that a value is."""

    value: JSON
    time: float | None = None
    """When the gateway learned it, in seconds since 1970."""
    unit: str | None = None


def clean(name: str) -> str:
    """A name as it stands in a topic."""
    return re.sub(r"[^A-Za-z0-9\-_À-ÖØ-öø-ÿ/]", "", re.sub(r"\s", "_", name))


def node_path(name: str, location: str = "") -> str:
    """The beginning of the topics of a node."""
    return clean(f"{location}/{name}" if location else name)


def parse_value_topic(topic: str) -> tuple[ValueAddress, Layout] | None:
    """The value that a topic below the prefix belongs to; None if it is no value of a known command class.

    Location and name may have slashes and may be numbers, so the class is looked for from the right.
    """
    parts = topic.split("/")
    for i in range(len(parts) - 3, 0, -1):
        here, endpoint, path = parts[i], parts[i + 1], "/".join(parts[i + 2 :])
        node = "/".join(parts[:i])
        if here in CLASS_NUMBERS and (match := re.fullmatch(r"endpoint_([0-9]{1,3})", endpoint)):
            return ValueAddress(node, CLASS_NUMBERS[here], int(match[1]), path), Layout.NAMED
        if re.fullmatch(r"[0-9]{1,3}", here) and int(here) in CLASS_NAMES and re.fullmatch(r"[0-9]{1,3}", endpoint):
            return ValueAddress(node, int(here), int(endpoint), path), Layout.VALUE_ID
    return None


def parse_json(payload: bytes) -> JSON:
    """The payload as JSON; text that is none is passed on as text."""
    text = payload.decode("utf-8", errors="replace")
    try:
        parsed: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed


def parse_reading(payload: bytes) -> Reading:
    """A payload of any of the gateway's three kinds: time and value, the whole value, or the bare value."""
    parsed = parse_json(payload)
    if not isinstance(parsed, dict) or "value" not in parsed:
        return Reading(parsed)
    milliseconds = parsed.get("time", parsed.get("lastUpdate"))
    unit = parsed.get("unit")
    return Reading(
        value=parsed["value"],
        time=milliseconds / 1000 if isinstance(milliseconds, (int, float)) else None,
        unit=unit if isinstance(unit, str) else None,
    )
