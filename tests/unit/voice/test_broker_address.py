"""The address of an MQTT broker."""

from __future__ import annotations

import pytest

from toolrun.errors import ConfigError
from toolrun.voice.broker_address import BrokerAddress


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://broker", BrokerAddress("broker", 1883)),
        ("mqtt://10.0.0.1:1900", BrokerAddress("10.0.0.1", 1900)),
        ("mqtts://me:p%40ss@broker", BrokerAddress("broker", 8883, True, "me", "p@ss")),
        ("mqtt://[::1]:1884", BrokerAddress("::1", 1884)),
        ("mqtt://me:p%40ss@[::1]:1884", BrokerAddress("::1", 1884, False, "me", "p@ss")),
        ("mqtts://h", BrokerAddress("h", 8883, is_encrypted=True)),
        ("tcp://h", BrokerAddress("h", 1883)),
        ("tls://h:1", BrokerAddress("h", 1, is_encrypted=True)),
    ],
)
def test_an_address_is_a_url(url: str, expected: BrokerAddress) -> None:
    assert BrokerAddress.parse(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "broker",
        "localhost:1883",
        "http://hunter2@broker",
        "mqtt://",
        "mqtt://h:99999",
        "mqtt://me:hunter2@broker:x",
        "mqtt://[",
    ],
)
def test_another_address_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="write mqtt://HOST:1883") as refused:
        BrokerAddress.parse(url)
    assert "hunter2" not in str(refused.value)


def test_an_address_is_shown_without_user_and_password() -> None:
    address = BrokerAddress.parse("mqtts://me:hunter2@[::1]:1")
    assert str(address) == "mqtts://[::1]:1"
    assert "hunter2" not in repr(address)
