"""Topics and payloads of zwave-js-ui."""

from __future__ import annotations

import pytest
from zwave_topics import Layout, Reading, ValueAddress, clean, node_path, parse_reading, parse_value_topic


@pytest.mark.parametrize(
    ("topic", "address", "layout"),
    [
        ("Switch_One/37/0/currentValue", ValueAddress("Switch_One", 37, 0, "currentValue"), Layout.VALUE_ID),
        ("Kitchen/Lamp/38/2/currentValue", ValueAddress("Kitchen/Lamp", 38, 2, "currentValue"), Layout.VALUE_ID),
        ("5/37/0/currentValue", ValueAddress("5", 37, 0, "currentValue"), Layout.VALUE_ID),
        ("Attic/37/38/0/currentValue", ValueAddress("Attic/37", 38, 0, "currentValue"), Layout.VALUE_ID),
        ("5/50/0/value/66049", ValueAddress("5", 50, 0, "value/66049"), Layout.VALUE_ID),
        ("a/b/c/113/0/Home_Security/Motion", ValueAddress("a/b/c", 113, 0, "Home_Security/Motion"), Layout.VALUE_ID),
        (
            "Hall/Sensor/sensor_multilevel/endpoint_1/Air_temperature",
            ValueAddress("Hall/Sensor", 49, 1, "Air_temperature"),
            Layout.NAMED,
        ),
    ],
)
def test_the_topic_of_a_value_is_understood_and_written_back(topic: str, address: ValueAddress, layout: Layout) -> None:
    assert parse_value_topic(topic) == (address, layout)
    assert address.topic(layout) == topic


@pytest.mark.parametrize(
    "topic",
    [
        "Switch_One/status",
        "driver/status",
        "37/0/currentValue",
        "Switch_One/112/0/3",
        "Switch_One/37/endpoint_0/currentValue",
        "Switch_One/switch_binary/0/currentValue",
        "_CLIENTS/ZWAVE_GATEWAY-x/api/getNodes",
    ],
)
def test_other_topics_are_no_values(topic: str) -> None:
    assert parse_value_topic(topic) is None


def test_names_are_cleaned_as_the_gateway_does() -> None:
    assert clean("Café: Lamp #2") == "Café_Lamp_2"
    assert node_path("Switch One", "Living Room") == "Living_Room/Switch_One"
    assert node_path("Switch One") == "Switch_One"


@pytest.mark.parametrize(
    ("payload", "reading"),
    [
        (b'{"time": 1548683523859, "value": 10}', Reading(10, 1548683523.859)),
        (b'{"value": 21.5, "lastUpdate": 1000, "unit": "\\u00b0C", "id": "5-49-0"}', Reading(21.5, 1.0, "°C")),
        (b"true", Reading(True)),
        (b"idle", Reading("idle")),
        (b'{"value": null}', Reading(None)),
        (b"\xff", Reading("�")),
        (b"[" * 100_000, Reading("[" * 100_000)),
    ],
)
def test_every_kind_of_payload_is_read(payload: bytes, reading: Reading) -> None:
    assert parse_reading(payload) == reading
