"""Where the parts of the demo meet: a broker of its own, or one that runs already."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aiomqtt import MqttError
from amqtt.errors import BrokerError
from broker import open_broker
from devices import CONTROL, demo_house
from house_watch import sweep

from toolrun.voice import BrokerAddress


class DemoError(Exception):
    """The demo cannot start. The message says what to do."""


@dataclass(frozen=True)
class DemoBroker:
    """A broker, and the beginnings of the topics there."""

    url: str
    address: BrokerAddress
    is_ours: bool
    zwave: str = "zwave"
    voice: str = "voice"


@asynccontextmanager
async def open_demo_broker(port: int | None, environ: Mapping[str, str]) -> AsyncIterator[DemoBroker]:
    """The broker that MQTT_URL names, or, with a port or without that variable, one of our own. Raises DemoError.

    A broker that is not ours may belong to a real house: there all topics are our own, and nothing stays on it.
    """
    url = environ.get("MQTT_URL", "") if port is None else ""
    if not url:
        try:
            async with open_broker(port or 0) as url:
                yield DemoBroker(url, BrokerAddress.parse(url), is_ours=True)
        except BrokerError as error:
            raise DemoError(
                f"The demo's broker does not start: {error}. Choose another --port, or name a broker in MQTT_URL."
            ) from None
        return
    address = await _reach(url)
    own = f"toolrun-demo-{os.getpid()}"
    try:
        yield DemoBroker(url, address, is_ours=False, zwave=f"{own}/zwave", voice=f"{own}/voice")
    finally:
        with suppress(MqttError):
            await sweep(address, own, [f"{CONTROL}/{device.path}" for device in demo_house()])


async def _reach(url: str) -> BrokerAddress:
    try:
        address = BrokerAddress.parse(url)
    except ValueError as error:
        raise DemoError(f"MQTT_URL: {error}") from None
    try:
        async with address.client():
            return address
    except MqttError as error:
        raise DemoError(
            f"The MQTT broker at {address}, which MQTT_URL names, cannot be reached: {error}. "
            "Start it, or unset MQTT_URL: then the demo brings its own."
        ) from None
