# /// script
# requires-python = ">=3.11"
# dependencies = ["mcp>=2.3,<3", "aiomqtt>=2.5,<3", "toolrun"]
# [tool.uv.sources]
# toolrun = { path = "../..", editable = true }
# ///
"""An MCP server on stdio for the Z-Wave devices of a house, through the MQTT topics of zwave-js-ui.

    uv run examples/home/zwave_mcp_server.py

Settings are environment variables: MQTT_URL (mqtt://localhost:1883), ZWAVE_PREFIX (zwave), ZWAVE_REPORT_TIMEOUT (5
seconds), ZWAVE_LOG_LEVEL (info). stdout belongs to the protocol; everything for people goes to stderr.

Without a broker at the start it says so and ends with exit code 1, so that its host knows and can try again. Parameter
names are camelCase because that is what many MCP servers have: toolrun maps `device_name` and `command` to them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema
from zwave_house import Device, HomeError
from zwave_link import Link
from zwave_topics import JSON
from zwave_words import FULL_LEVEL, describe_age, describe_measurement, describe_state, to_json

from toolrun.voice import BrokerAddress

log = logging.getLogger("zwave")

LAST_LEVEL = 255
"""As a target: on, at the level that it had when it was last on."""


@dataclass(frozen=True)
class Settings:
    """What the environment says."""

    broker: BrokerAddress
    prefix: str
    report_timeout: float
    log_level: str

    @classmethod
    def parse(cls, environment: Mapping[str, str]) -> Settings:
        """Raises ValueError with the name of the variable that is wrong."""
        try:
            broker = BrokerAddress.parse(environment.get("MQTT_URL", "mqtt://localhost:1883"))
        except ValueError as error:
            raise ValueError(f"MQTT_URL: {error}") from None
        prefix = environment.get("ZWAVE_PREFIX", "zwave").strip("/")
        if not prefix or set("#+") & set(prefix):
            raise ValueError("ZWAVE_PREFIX: the prefix of zwave-js-ui's topics is text without '#' and '+', like zwave")
        text = environment.get("ZWAVE_REPORT_TIMEOUT", "5")
        if not text.replace(".", "", 1).isdecimal() or float(text) == 0:
            raise ValueError(f"ZWAVE_REPORT_TIMEOUT: a number of seconds above 0 is needed, like 5; got {text!r}")
        level = environment.get("ZWAVE_LOG_LEVEL", "info").upper()
        if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            raise ValueError(f"ZWAVE_LOG_LEVEL: one of debug, info, warning, error is needed; got {level!r}")
        return cls(broker, prefix, float(text), level)


class NoArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DeviceArguments(NoArguments):
    deviceName: Annotated[str, Field(min_length=1, description="Name of the device, as list_zwave_devices gives it.")]


class HealthArguments(NoArguments):
    deviceName: Annotated[
        str | SkipJsonSchema[None],
        Field(description="A device to ask for a sign of life. Leave out to check the whole network."),
    ] = None


class ControlArguments(DeviceArguments):
    action: Annotated[Literal["on", "off", "dim"], Field(description="'dim' needs a level, and a dimmer.")]
    level: Annotated[
        Annotated[int, Field(ge=0, le=100, strict=True)] | SkipJsonSchema[None],
        Field(description="Brightness in percent, for dimmers only: with 'dim', or with 'on'."),
    ] = None


@dataclass(frozen=True)
class Answer:
    """What a tool gives: words for the model, data for a program."""

    text: str
    data: dict[str, JSON]


async def list_devices(link: Link, arguments: NoArguments) -> Answer:
    devices = (await link.ready()).devices()
    lines = [f"{len(devices)} Z-Wave devices:" if devices else "No Z-Wave device is known."]
    for device in devices:
        facts: list[str] = [device.kind]
        if device.kind in ("dimmer", "switch"):
            facts.append(describe_state(device))
        facts += [describe_measurement(it) for it in device.measurements()]
        if device.is_dead:
            facts.append("dead, does not answer")
        lines.append(f"- {device.title}: {', '.join(facts)}")
    return Answer("\n".join(lines), {"devices": [to_json(device) for device in devices]})


async def control_device(link: Link, arguments: ControlArguments) -> Answer:
    device = (await link.ready()).find(arguments.deviceName)
    address = device.switch()
    value, is_wanted, wish = plan(device, arguments)
    report = await link.command(device, address, value, is_wanted)
    if report.is_as_wanted:
        return Answer(f"{device.name} is now {describe_state(device)}.", to_json(device))
    if report.reading is not None:
        raise HomeError(f"{device.name} was told to {wish}, but reports that it is {describe_state(device)}.")
    cause = "The gateway counts it as dead: check its power. " if device.is_dead else ""
    raise HomeError(
        f"{device.name} was told to {wish}, but did not report its state within {link.report_timeout:g} s. "
        f"{cause}It is not known whether it did."
    )


def plan(device: Device, arguments: ControlArguments) -> tuple[JSON, Callable[[JSON], bool], str]:
    """The value to send, how to know that it was reached, and the wish in words."""
    action, level = arguments.action, arguments.level
    if action == "dim" and level is None:
        raise HomeError("'dim' needs 'level', the brightness in percent from 0 to 100.")
    if action != "off" and level is not None and device.kind != "dimmer":
        raise HomeError(f"{device.name} is a {device.kind} and cannot be dimmed: use 'on' or 'off' without a level.")
    if action == "on" and level == 0:
        raise HomeError("'on' with level 0 contradicts itself: use 'off', or a level from 1 to 100.")
    if device.kind == "switch":
        is_on = action == "on"
        return is_on, lambda state: state is is_on, f"turn {action}"
    if action == "off":
        return 0, lambda state: state == 0, "turn off"
    if level is None:
        return LAST_LEVEL, lambda state: isinstance(state, (int, float)) and state > 0, "turn on"
    target = min(level, FULL_LEVEL)
    # A dimmer may round, but not to off.
    return (
        target,
        lambda state: isinstance(state, (int, float)) and abs(state - target) <= 1 and (state > 0) == (target > 0),
        f"go to {level} %",
    )


async def get_sensor_data(link: Link, arguments: DeviceArguments) -> Answer:
    device = (await link.ready()).find(arguments.deviceName)
    found = device.measurements()
    lines = [f"{device.title}, {device.kind}"]
    if device.kind in ("dimmer", "switch"):
        lines.append(f"- State: {describe_state(device)}")
    for it in found:
        age = "" if it.time is None else f" ({describe_age(time.time() - it.time)})"
        lines.append(f"- {describe_measurement(it)}{age}")
    if len(lines) == 1:
        raise HomeError(f"{device.name} has not reported any value yet.")
    if device.is_dead:
        lines.append("It is dead: it does not answer, so these values are old.")
    return Answer("\n".join(lines), to_json(device))


async def check_health(link: Link, arguments: HealthArguments) -> Answer:
    house = await link.ready()
    if arguments.deviceName is not None:
        return await check_device(link, house.find(arguments.deviceName))
    devices = house.devices()
    dead = [it.title for it in devices if it.is_dead]
    is_connected = any(house.gateways.values()) if house.gateways else None
    problems = []
    if is_connected is None:
        problems.append("no gateway has announced itself")
    elif not is_connected:
        problems.append("the gateway is not connected to the broker, what is known may be old")
    if house.is_driver_ready is False:
        problems.append("the gateway's Z-Wave driver is not ready")
    if dead:
        problems.append(f"{len(dead)} of {len(devices)} devices do not answer: {', '.join(dead)}")
    if not devices:
        problems.append("no device is known")
    verdict = (
        "The Z-Wave network has problems." if problems else f"The Z-Wave network is healthy: {len(devices)} devices."
    )
    return Answer(
        "\n".join([verdict, *(f"- {it}" for it in problems)]),
        {
            "isHealthy": not problems,
            "broker": str(link.address),
            "isGatewayConnected": is_connected,
            "isDriverReady": house.is_driver_ready,
            "devices": len(devices),
            "dead": list[JSON](dead),
            "problems": list[JSON](problems),
        },
    )


async def check_device(link: Link, device: Device) -> Answer:
    link.check_gateway()
    if device.status is None or device.status.node_id is None:
        raise HomeError(f"The gateway has not told the node id of {device.name}, so it cannot be asked.")
    answer = await link.ask("pingNode", device.status.node_id)
    if answer is None:
        raise HomeError(f"The gateway did not say within {link.report_timeout:g} s whether {device.name} answers.")
    text = f"{device.name} answers." if answer is True else f"{device.name} does not answer."
    return Answer(text, {**to_json(device), "answers": answer is True})


@dataclass(frozen=True)
class Offer:
    """A tool: what a model reads of it, and what does it."""

    description: str
    arguments: type[NoArguments]
    run: Callable[[Link, Any], Awaitable[Answer]]
    is_read_only: bool = True

    def to_tool(self, name: str) -> Tool:
        schema = self.arguments.model_json_schema()
        for parameter in schema.get("properties", {}).values():
            parameter.pop("title", None)
            if parameter.get("default", ...) is None:
                del parameter["default"]
        schema.pop("title", None)
        hints = ToolAnnotations(
            read_only_hint=self.is_read_only, destructive_hint=False, idempotent_hint=True, open_world_hint=True
        )
        return Tool(name=name, description=self.description, input_schema=schema, annotations=hints)


OFFERS = {
    "list_zwave_devices": Offer(
        "List the Z-Wave devices of the house: names, locations, kinds, and what they have last reported.",
        NoArguments,
        list_devices,
    ),
    "control_zwave_device": Offer(
        "Turn a Z-Wave switch or dimmer on or off, or set the brightness of a dimmer. "
        "Answers once the device has reported its new state.",
        ControlArguments,
        control_device,
        is_read_only=False,
    ),
    "get_device_sensor_data": Offer(
        "Read what a Z-Wave device has last measured and reported: temperature, motion, power, battery, on or off.",
        DeviceArguments,
        get_sensor_data,
    ),
    "check_zwave_health": Offer(
        "Check the Z-Wave network: gateway, driver, devices that do not answer. "
        "With a device: ask it for a sign of life.",
        HealthArguments,
        check_health,
    ),
}


def explain(error: ValidationError) -> str:
    """What is wrong with the arguments, in one line."""
    problems: dict[str, str] = {}
    for it in error.errors(include_url=False):
        name = repr(it["loc"][0]) if it["loc"] else "arguments"
        if it["type"] == "missing":
            problem = f"missing {name}"
        elif it["type"] == "extra_forbidden":
            problem = f"unknown {name}"
        else:
            problem = f"{name}: {it['msg'][0].lower()}{it['msg'][1:]}, got {it['input']!r}"
        problems.setdefault(name, problem)  # of the alternatives of a type, the first
    return f"Invalid arguments: {'; '.join(problems.values())}"


async def call(link: Link, name: str, arguments: dict[str, Any]) -> CallToolResult:
    offer = OFFERS.get(name)
    try:
        if offer is None:
            raise HomeError(f"There is no tool {name!r}. Tools: {', '.join(OFFERS)}")
        answer = await offer.run(link, offer.arguments.model_validate(arguments))
    except ValidationError as error:
        return failure(name, explain(error))
    except HomeError as error:
        return failure(name, str(error))
    log.info("%s %s: %s", name, arguments, answer.text.partition("\n")[0])
    return CallToolResult(content=[TextContent(text=answer.text)], structured_content=answer.data)


def failure(name: str, text: str) -> CallToolResult:
    log.warning("%s failed: %s", name, text)
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


async def serve(settings: Settings) -> None:
    async with Link.open(settings.broker, settings.prefix, settings.report_timeout) as link:

        async def on_list_tools(context: Any, params: Any) -> ListToolsResult:
            return ListToolsResult(tools=[offer.to_tool(name) for name, offer in OFFERS.items()])

        async def on_call_tool(context: Any, params: Any) -> CallToolResult:
            return await call(link, params.name, params.arguments or {})

        server = Server("zwave", version="1.0", on_list_tools=on_list_tools, on_call_tool=on_call_tool)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


def main() -> int:
    try:
        settings = Settings.parse(os.environ)
    except ValueError as error:
        sys.stderr.write(f"zwave: {error}\n")
        return 2
    logging.basicConfig(
        stream=sys.stderr, level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        asyncio.run(serve(settings))
    except HomeError as error:
        sys.stderr.write(f"zwave: {error}. Check that the broker runs and that MQTT_URL is right.\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
