"""S3.16.2 with a real Qwen: it knows the tools that it is offered, can describe them, and calls them by the right names.

Not a part of the normal run: `script/test -m real_model tests/real_model -s` (a gigabyte the first time, then minutes).
"""

from __future__ import annotations

from typing import Any

import pytest

from providers.offered import ServerTool
from toolrun import ToolExecutor
from toolrun.clients import Ended, OllamaClient, TurnLimits

NAME = "qwen2.5-coder:1.5b"

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(1800)]


def tool_of(name: str, description: str, properties: dict[str, Any], *required: str) -> ServerTool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ServerTool(name, description, schema)


TOOLS = [
    tool_of(
        "control_zwave_device",
        "Switch a device in the house on or off.",
        {
            "deviceName": {"type": "string", "description": "The name of the device."},
            "action": {"type": "string", "enum": ["on", "off"]},
        },
        "deviceName",
        "action",
    ),
    tool_of(
        "set_volume",
        "Set the volume of the loudspeaker.",
        {"level": {"type": "integer", "minimum": 0, "maximum": 100, "description": "In percent."}},
        "level",
    ),
    tool_of(
        "search_web",
        "Search the web for a text.",
        {"query": {"type": "string"}, "limit": {"type": "integer", "description": "How many results."}},
        "query",
    ),
    tool_of(
        "get_weather",
        "Get the weather of a city.",
        {"city": {"type": "string"}, "day": {"type": "string", "enum": ["today", "tomorrow"]}},
        "city",
    ),
]
CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("Turn on Switch One.", "control_zwave_device", {"deviceName": "Switch One", "action": "on"}),
    ("Turn off the Lamp.", "control_zwave_device", {"deviceName": "Lamp", "action": "off"}),
    ("Please switch the Heater on.", "control_zwave_device", {"deviceName": "Heater", "action": "on"}),
    ("Set the volume to 30 percent.", "set_volume", {"level": 30}),
    ("Make the loudspeaker full volume: 100.", "set_volume", {"level": 100}),
    ("Mute it: volume 0.", "set_volume", {"level": 0}),
    ("Search the web for 'python asyncio'.", "search_web", {"query": "python asyncio"}),
    ("Find 3 results on the web for 'json schema'.", "search_web", {"query": "json schema", "limit": 3}),
    ("What is the weather in Oslo today?", "get_weather", {"city": "Oslo", "day": "today"}),
    ("Will it rain in Rome tomorrow?", "get_weather", {"city": "Rome", "day": "tomorrow"}),
]


def client_of(url: str, executor: ToolExecutor) -> OllamaClient:
    for tool in TOOLS:
        executor.manager.add(tool)
    limits = TurnLimits(rounds=1, answer_time=600)
    return OllamaClient(executor, NAME, url, temperature=0, limits=limits)


async def test_it_can_describe_the_tools_that_it_is_offered(qwen: str, executor: ToolExecutor) -> None:
    question = "Do not call a tool now. List the name of every function that you can call, and what each is for."
    reply = await client_of(qwen, executor).query(question)
    print(f"\n{reply.text}")
    assert reply.calls == ()
    missing = [tool.name for tool in TOOLS if tool.name not in reply.text]
    assert missing == []


async def test_it_calls_the_tools_with_the_right_names_and_arguments(qwen: str, executor: ToolExecutor) -> None:
    client = client_of(qwen, executor)
    named = right = 0
    for question, name, arguments in CALLS:
        reply = await client.query(question)
        made = [(it.call.name, it.call.arguments, it.result.success) for it in reply.calls]
        known = {tool.name: set(tool.schema["properties"]) for tool in TOOLS}
        named += bool(made) and all(it[0] == name and set(it[1]) <= known[name] and it[2] for it in made)
        right += made == [(name, arguments, True)]
        assert reply.ended in (Ended.ROUNDS, Ended.ANSWER)
        print(f"\n{question} → {made or reply.text!r}")
    print(f"\nright tool and parameter names: {named} of {len(CALLS)}; all arguments as expected: {right}")
    assert named >= 8
    assert right >= 7
