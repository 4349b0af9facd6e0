"""One round of the demo without a person: what is said, and what must have happened then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from demo_broker import DemoBroker
from devices import Simulation
from house_screen import Screen

from toolrun.clients import ToolFinished
from toolrun.voice import Answered, Heard, Outcome, ToolActivity, VoiceEvent

PATIENCE = 120.0
"""Seconds for one step. A model on a small machine may need most of it."""


@dataclass
class Conversation:
    """A listener that remembers the last utterance, and can be waited for."""

    catch_up: Callable[[], Awaitable[None]]
    """Waits for whatever else an answer brings with it."""
    heard: int = 0
    answered: int = 0
    text: str = ""
    finished: list[ToolFinished] = field(default_factory=list)
    answer: Answered | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, event: VoiceEvent) -> None:
        match event:
            case Heard(utterance):
                self.heard += 1
                self.text, self.answer, self.finished = utterance.text, None, []
            case ToolActivity(_, ToolFinished() as finished):
                self.finished.append(finished)
            case Answered():
                self.answered += 1
                self.answer = event
        self._news.set()

    async def quiet(self, heard: int = 0) -> None:
        """Wait until at least so many utterances were heard, and all of them are answered."""
        while self.heard < heard or self.answered < self.heard:
            self._news.clear()
            await self._news.wait()
        await self.catch_up()


@dataclass(frozen=True)
class Scene:
    """What those who speak have around them."""

    screen: Screen
    broker: DemoBroker
    house: Simulation
    talk: Conversation


@dataclass(frozen=True)
class Step:
    """Something that is said, and what must come of it."""

    title: str
    text: str
    tool: str
    is_met: Callable[[Simulation], bool] = lambda house: True
    """What must be true of the devices themselves, whatever was answered."""
    fails: bool = False
    """Whether the tool has to fail. That is answered too."""
    breaks: str = ""
    """A device that is dead during this step."""
    source: Literal["typed", "audio", "mqtt"] = "typed"

    def is_met_by(self, talk: Conversation, house: Simulation) -> bool:
        calls = [it for it in talk.finished if it.call.name == self.tool]
        is_answered = talk.answer is not None and talk.answer.outcome is Outcome.ANSWERED and bool(talk.answer.speech)
        has_worked = any(it.result.success for it in calls)
        return is_answered and bool(calls) and has_worked is not self.fails and self.is_met(house)


STEPS = [
    Step(
        "A recording is heard, and a device turns on",
        "turn on Switch One",
        "control_zwave_device",
        lambda house: house["Switch One"].state is True,
        source="audio",
    ),
    Step(
        "A dimmer",
        "set the desk lamp to 40 percent",
        "control_zwave_device",
        lambda house: house["Desk Lamp"].state == 40,
    ),
    Step("A sensor", "what is the temperature of the hall sensor", "get_device_sensor_data"),
    Step("A script in a process of its own", "when does the sun set", "sun_times"),
    Step("A local tool", "what time is it", "get_current_datetime"),
    Step(
        "A device that is dead: said in words",
        "turn on switch two",
        "control_zwave_device",
        lambda house: house["Switch Two"].state is False,
        fails=True,
        breaks="Switch Two",
    ),
    Step(
        "The same device, alive again",
        "turn on switch two",
        "control_zwave_device",
        lambda house: house["Switch Two"].state is True,
    ),
    Step(
        "Somebody else says something, by MQTT",
        "turn off switch one",
        "control_zwave_device",
        lambda house: house["Switch One"].state is False,
        source="mqtt",
    ),
]


@dataclass
class Check:
    """The steps one after the other, as lines for the gateway."""

    scene: Scene
    failed: list[str] = field(default_factory=list)

    async def lines(self) -> AsyncIterator[str]:
        """What is to be said next. The first step is the recording, which the gateway has heard before it asks."""
        screen, house = self.scene.screen, self.scene.house
        for number, step in enumerate(STEPS, 1):
            heard = self.scene.talk.heard
            if step.source != "audio":
                screen.heading(f"{number}  {step.title}: “{step.text}”")
            if step.breaks:
                await house.misbehave(step.breaks, "dead")
            if step.source == "typed":
                yield step.text
            elif step.source == "mqtt":
                await self._publish(step.text)
            await self._judge(step, heard + (step.source == "mqtt"))
            if step.breaks:
                await house.misbehave(step.breaks, "normal")

    async def _publish(self, text: str) -> None:
        async with self.scene.broker.address.client() as client:
            await client.publish(f"{self.scene.broker.voice}/utterance", text, qos=1)

    async def _judge(self, step: Step, heard: int) -> None:
        screen, talk = self.scene.screen, self.scene.talk
        try:
            async with asyncio.timeout(PATIENCE):
                await talk.quiet(heard)
        except TimeoutError:
            screen.fact("", f"no answer within {PATIENCE:g} s", "bold red")
        if not step.is_met_by(talk, self.scene.house):
            self.failed.append(f"{step.title} (“{step.text}”)")
            screen.fact("", "this is not what was expected", "bold red")
