"""S3.16.2 with a real Qwen: it can describe the tools that it is offered, and calls them by the right names.

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
PARAMETERS = {tool.name: tool.schema["properties"].keys() for tool in TOOLS}
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


DESCRIPTIONS = [
    "Do not call a tool now. List the name of every function that you can call, and what each is for.",
    "Which tools do you have, and what for? Answer in one sentence, call none.",
    "Do not call a function. In plain words, without JSON: what can you do for me with your functions?",
    "Without calling anything: explain to a new user, one line for each of your functions, what it does.",
]
PURPOSES = [
    ("control_zwave_device", "device"),
    ("set_volume", "volume"),
    ("search_web", "web"),
    ("get_weather", "weather"),
]


async def test_it_can_describe_the_tools_that_it_is_offered(qwen: str, executor: ToolExecutor) -> None:
    """The figure counts every question, also those that it answers by repeating the definitions."""
    client = client_of(qwen, executor)
    told = own_words = 0
    for question in DESCRIPTIONS:
        reply = await client.query(question)
        print(f"\n{question} → {reply.text} {[it.call for it in reply.calls]}")
        is_told = all(any(word in reply.text.lower() for word in words) for words in PURPOSES)
        told += is_told
        own_words += is_told and '"parameters"' not in reply.text
    print(f"\nall tools described: {told} of {len(DESCRIPTIONS)} questions, in its own words: {own_words}")
    assert told >= 3
    assert own_words >= 2


async def test_it_calls_the_tools_with_the_right_names_and_arguments(qwen: str, executor: ToolExecutor) -> None:
    client = client_of(qwen, executor)
    named = right = 0
    for question, name, arguments in CALLS:
        reply = await client.query(question)
        made: list[Any] = [(it.call.name, it.call.arguments, it.result.success) for it in reply.calls]
        named += bool(made) and all(it[0] == name and it[1].keys() <= PARAMETERS[name] and it[2] for it in made)
        right += made == [(name, arguments, True)]
        assert reply.ended in (Ended.ROUNDS, Ended.ANSWER)
        print(f"\n{question} → {made or reply.text!r}")
    print(f"\nright tool and parameter names: {named} of {len(CALLS)}; all arguments as expected: {right}")
    assert named >= 8
    assert right >= 7
