"""The stand-in for a model: the sentences that it knows, and what it makes of results."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from stand_in import AT_A_LOSS, SENTENCES, respond
from zwave_mcp_server import OFFERS

from toolrun.result import ToolCall
from toolrun.voice.speech.grammar import default_commands

LOCAL = {"sun_times", "get_current_datetime", "control_speaker_volume", "search_web", "math_eval"}


def first_call(sentence: str) -> ToolCall:
    [call] = respond([HumanMessage(content=sentence)]).calls
    return call


def answer(sentence: str, *results: tuple[str, str]) -> str:
    calls: list[BaseMessage] = [ToolMessage(content=text, tool_call_id="1", name=name) for name, text in results]
    return respond([HumanMessage(content=sentence), AIMessage(content=""), *calls]).text


def spoken(phrase: str) -> Iterator[str]:
    """Every way to say a command of the grammar."""
    phrase = phrase.replace("{device}", "Switch One").replace("{number}", "40")
    parts = re.split(r"(\([^)]*\)|\[[^]]*\])", phrase)
    options = [
        part[1:-1].split("|") if part[:1] == "(" else [part[1:-1], ""] if part[:1] == "[" else [part] for part in parts
    ]
    for chosen in itertools.product(*options):
        yield " ".join("".join(chosen).split())


@pytest.mark.parametrize("sentence", [*SENTENCES, *(it for phrase in default_commands() for it in spoken(phrase))])
def test_every_command_of_the_help_and_of_the_grammar_becomes_a_call(sentence: str) -> None:
    assert first_call(sentence).name in {*OFFERS, *LOCAL}


@pytest.mark.parametrize(
    ("sentence", "tool", "arguments"),
    [
        ("Turn on Switch One.", "control_zwave_device", {"device_name": "switch one", "command": "on"}),
        ("please switch the desk lamp off!", "control_zwave_device", {"device_name": "desk lamp", "command": "off"}),
        (
            "dim the desk lamp to 40%",
            "control_zwave_device",
            {"device_name": "desk lamp", "command": "dim", "level": "40"},
        ),
        ("set the volume to 30 percent", "control_speaker_volume", {"action": "set", "level": "30"}),
        ("how much is 1.5 * 2?", "math_eval", {"expression": "1.5 * 2"}),
    ],
)
def test_a_sentence_becomes_the_call_that_it_means(sentence: str, tool: str, arguments: dict[str, str]) -> None:
    assert first_call(sentence) == ToolCall("", tool, arguments)


def test_everything_is_looked_up_first_and_then_switched() -> None:
    assert first_call("turn off everything").name == "list_zwave_devices"
    listed = "3 Z-Wave devices:\n- Desk Lamp (Office): dimmer, off\n- Fan: switch, on\n- Hall Sensor (Hall): sensor"
    messages = [
        HumanMessage(content="turn off everything"),
        AIMessage(content=""),
        ToolMessage(content=listed, tool_call_id="1", name="list_zwave_devices"),
    ]
    calls = respond(messages).calls
    assert [call.arguments for call in calls] == [
        {"device_name": "Desk Lamp", "command": "off"},
        {"device_name": "Fan", "command": "off"},
    ]
    done = [ToolMessage(content="Fan is now off.", tool_call_id="2", name="control_zwave_device")]
    assert respond([*messages, AIMessage(content=""), *done]).text == "Fan is now off."


@pytest.mark.parametrize(
    ("sentence", "tool", "result", "words"),
    [
        ("what time is it", "get_current_datetime", '{"datetime": "2026-11-16T09:05:00+01:00"}', "09:05 on Monday"),
        ("when is sunset", "sun_times", '{"sunrise": "07:30", "sunset": "16:11"}', "sets at 16:11"),
        ("turn the volume up", "control_speaker_volume", '{"volume": 40, "muted": false}', "The volume is 40 %."),
        ("how warm is it", "get_device_sensor_data", "Hall (H), sensor\n- Air temperature: 21 °C\n- Hum: 4", "21 °C."),
        ("turn on x", "control_zwave_device", "Error: x was told to turn on.\nmore", "x was told to turn on."),
    ],
)
def test_a_result_becomes_words(sentence: str, tool: str, result: str, words: str) -> None:
    assert words in answer(sentence, (tool, result))


def test_a_failure_that_is_not_for_people_is_left_to_the_gateway() -> None:
    assert answer("search for x", ("search_web", "Error: The service behind 'search_web' is unavailable")) == ""


def test_what_it_does_not_know_it_says_so() -> None:
    said = respond([HumanMessage(content="tell me a joke")])
    assert (said.text, list(said.calls)) == (AT_A_LOSS, [])
