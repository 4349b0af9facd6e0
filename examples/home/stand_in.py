"""What the demo uses when there is no model: rules that know the demo's sentences. It understands nothing else.

It stands where a model would stand: it is told of the tools, asks for calls, reads the results and words the answer, so
everything around it is real. Like many models it says `device_name` and `command` where the server says `deviceName`
and `action`, and writes numbers as text; toolrun corrects both.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from toolrun import ToolCall
from toolrun.testing import Said, ScriptedModel

NAME = "rule-based stand-in"
SENTENCES = [
    "turn on switch one",
    "switch the desk lamp off",
    "set the desk lamp to 40 percent",
    "turn off everything",
    "how warm is it in the hall",
    "is switch two on",
    "list the devices",
    "is the smart home working",
    "when does the sun set",
    "what time is it",
    "how much is 17 * 23",
    "turn the volume up",
    "search the web for Z-Wave",
]
"""One of each kind that it knows."""
AT_A_LOSS = (
    "I am only a stand-in for a model, made of a few rules, and none of them fits that sentence. "
    "The command help lists what I know."
)
CONTROL, SENSOR, LIST = "control_zwave_device", "get_device_sensor_data", "list_zwave_devices"

Arguments = dict[str, Any]
Rule = tuple[str, str, Callable[[re.Match[str]], Arguments]]


def make_stand_in() -> ScriptedModel:
    return ScriptedModel([respond], repeat=True, model=NAME)


def respond(messages: Sequence[BaseMessage]) -> Said:
    """The next thing that it says: calls for a sentence, then an answer made of their results."""
    start = max(index for index, it in enumerate(messages) if isinstance(it, HumanMessage))
    sentence = plain(str(messages[start].text))
    results = list(takewhile(lambda it: isinstance(it, ToolMessage), reversed(messages)))[::-1]
    everything = re.fullmatch(r"(?:turn|switch) (on|off) (?:everything|all devices)", sentence)
    if everything and not results:
        return Said(calls=[ToolCall("", LIST, {})])
    if everything and all(it.name == LIST for it in results):
        devices = re.findall(r"^- (.+?)(?: \(.*\))?: (?:switch|dimmer)", str(results[-1].text), re.MULTILINE)
        if devices:
            return Said(calls=[_control(device, everything[1]) for device in devices])
    if results:
        return Said(" ".join(word(it.name or "", str(it.text), sentence) for it in results))
    call = understand(sentence)
    return Said(AT_A_LOSS) if call is None else Said(calls=[call])


def understand(sentence: str) -> ToolCall | None:
    """The call that a sentence asks for; None if no rule fits."""
    for pattern, tool, arguments in RULES:
        if found := re.fullmatch(pattern, sentence):
            return ToolCall("", tool, arguments(found))
    return None


def plain(text: str) -> str:
    """A sentence without what people add to it."""
    text = re.sub(r"[?!]|[.,](?!\d)", " ", text.casefold())
    return " ".join(re.sub(r"\b(?:please|hey|can you|could you)\b", " ", text).split())


def _control(device: str, command: str) -> ToolCall:
    return ToolCall("", CONTROL, {"device_name": device, "command": command})


def _nothing(_: re.Match[str]) -> Arguments:
    return {}


def _switch(found: re.Match[str]) -> Arguments:
    return {"device_name": found["device"], "command": found["state"]}


def _device(found: re.Match[str]) -> Arguments:
    return {"device_name": found["device"]}


def _volume(found: re.Match[str]) -> Arguments:
    return {"action": found["action"]}


# The first that fits counts.
RULES: list[Rule] = [
    (
        r"set the volume to (?P<level>\d+) ?(?:percent|%)",
        "control_speaker_volume",
        lambda found: {"action": "set", "level": found["level"]},
    ),
    (r"(?:turn|make) the volume (?P<action>up|down)", "control_speaker_volume", _volume),
    (r"(?P<action>mute|unmute) the (?:speaker|sound)", "control_speaker_volume", _volume),
    (r"(?:turn|switch) (?P<state>on|off) (?:the )?(?P<device>.+)", CONTROL, _switch),
    (r"(?:turn|switch) (?:the )?(?P<device>.+) (?P<state>on|off)", CONTROL, _switch),
    (
        r"(?:set|dim) (?:the )?(?P<device>.+) to (?P<level>\d+) ?(?:percent|%)?",
        CONTROL,
        lambda found: {"device_name": found["device"], "command": "dim", "level": found["level"]},
    ),
    (r"is the (?:smart home|network) working", "check_zwave_health", _nothing),
    (r"is (?:the )?(?P<device>.+) (?:on|off)", SENSOR, _device),
    (r"what does (?:the )?(?P<device>.+) say", SENSOR, _device),
    (r"what is the (?:status|state|temperature|humidity|power) of (?:the )?(?P<device>.+)", SENSOR, _device),
    (r"how (?:warm|cold) is it(?: in the hall)?", SENSOR, lambda _: {"device_name": "hall sensor"}),
    (r"(?:list|which are|what are) (?:all )?(?:the )?devices", LIST, _nothing),
    (r"what (?:time|day|date) is it", "get_current_datetime", _nothing),
    (r"when (?:does|will) the sun (?:rise|set)|when is (?:sunrise|sunset)", "sun_times", _nothing),
    (
        r"(?:search the web|search) for (?P<query>.+)",
        "search_web",
        lambda found: {"query": found["query"], "max_results": "3"},
    ),
    (r"(?:how much|what) is (?P<expression>[\d(].*)", "math_eval", lambda found: {"expression": found["expression"]}),
]


def word(tool: str, text: str, sentence: str) -> str:
    """The result of a tool in words. The failure of one that is not written for people is left to the gateway."""
    if text.startswith("Error: "):
        return text.removeprefix("Error: ").partition("\n")[0] if "device" in tool or "zwave" in tool else ""
    if tool == SENSOR:
        return _readings(text, sentence)
    return WORDS[tool](json.loads(text)) if tool in WORDS else text


def _readings(text: str, sentence: str) -> str:
    """What a device reports: the value that was asked for, or all of them."""
    title, *lines = text.splitlines()
    readings = [re.sub(r"^- | \(.* ago\)$| \(just now\)$", "", line) for line in lines]
    subject = "temperature" if sentence.startswith("how") else sentence.removeprefix("what is the ").split()[0]
    asked = [it for it in readings if subject in it.partition(":")[0].casefold()]
    return f"{title.partition(' (')[0]}: {', '.join(asked or readings)}."


def _time_in_words(content: Arguments) -> str:
    now = datetime.datetime.fromisoformat(str(content["datetime"]))
    return f"It is {now:%H:%M} on {now:%A}, {now.day} {now:%B %Y}."


def _first_find(content: Arguments) -> str:
    results = content.get("results")
    if not isinstance(results, list) or not results or not isinstance(results[0], dict):
        return "The web has nothing about that."
    return f"The web says: {results[0].get('title')}."


WORDS: dict[str, Callable[[Arguments], str]] = {
    "get_current_datetime": _time_in_words,
    "sun_times": lambda it: f"The sun rises at {it['sunrise']} and sets at {it['sunset']}.",
    "math_eval": lambda it: f"That is {it['result']}.",
    "control_speaker_volume": lambda it: f"The volume is {it['volume']} %{', muted' if it['muted'] else ''}.",
    "search_web": _first_find,
}
"""What is made of results that are data. Those of the house are sentences already."""
