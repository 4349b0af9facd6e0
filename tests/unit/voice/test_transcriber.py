"""The transcriber: every utterance is answered once, whatever models and tools do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from support.journal_world import World
from toolrun import ErrorKind, ToolError, ToolExecutor, tool
from toolrun.clients import (
    ModelClient,
    ModelContextError,
    ModelError,
    ModelOverloadedError,
    ModelTimeoutError,
    ModelUnavailableError,
    ToolFinished,
    ToolStarted,
)
from toolrun.config.model import VoiceSettings
from toolrun.errors import UsageError
from toolrun.result import ToolCall
from toolrun.testing import Said, ScriptedModel
from toolrun.voice.phrases import Phrases
from toolrun.voice.transcriber import BackgroundTranscriber
from toolrun.voice.voice_event import Answered, Heard, Outcome, ToolActivity, Utterance, VoiceEvent

LIMIT = 20.0
PHRASES = Phrases.load()


@dataclass
class Bench:
    """A transcriber over a scripted model, and what it tells."""

    executor: ToolExecutor
    script: Sequence[Any]
    settings: VoiceSettings = field(default_factory=VoiceSettings)
    time: float = 0.0
    events: list[VoiceEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(self.script)
        self.client = ModelClient(self.model, self.executor)
        self._news = asyncio.Event()
        self.transcriber = BackgroundTranscriber(
            self.client, settings=self.settings, listeners=[self._listen], clock=lambda: self.time
        )

    def _listen(self, event: VoiceEvent) -> None:
        self.events.append(event)
        self._news.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    @property
    def answers(self) -> list[Answered]:
        return [event for event in self.events if isinstance(event, Answered)]

    @property
    def told(self) -> list[tuple[str, Outcome]]:
        return [(answer.speech, answer.outcome) for answer in self.answers]

    @property
    def finished(self) -> list[ToolFinished]:
        events = [event.event for event in self.events if isinstance(event, ToolActivity)]
        return [event for event in events if isinstance(event, ToolFinished)]

    def asked(self, request: int) -> list[str]:
        """The texts of the messages of a request."""
        return [str(message.text) for message in self.model.requests[request]]

    async def say(self, text: str, conversation: str = "") -> Answered:
        """Say something, and wait for its answer."""
        id = self.transcriber.hear(text, conversation=conversation)
        await self.until(lambda: any(answer.utterance.id == id for answer in self.answers))
        return self.answers[-1]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.transcriber.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("", name, arguments)


async def lines(*texts: str) -> AsyncIterator[str]:
    for text in texts:
        yield text


class Stuck:
    """A tool that waits for ever, and notices its cancellation."""

    def __init__(self, executor: ToolExecutor) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait."""
            self.started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "never"

        executor.manager.add(wait)


@pytest.fixture
def switched(executor: ToolExecutor) -> list[str]:
    """The devices that the tool `switch` has switched on; it fails for those that begin with x."""
    done: list[str] = []

    @tool
    async def switch(device: str) -> str:
        """Switch a device on."""
        if device.startswith("x"):
            raise ToolError(f"there is no {device}")
        done.append(device)
        return f"{device} is on"

    executor.manager.add(switch)
    return done


async def test_an_utterance_becomes_a_turn_with_tools_and_an_answer_that_can_be_spoken(
    executor: ToolExecutor, switched: list[str]
) -> None:
    bench = Bench(executor, [call("switch", device="lamp"), "The **lamp** is `on`."])
    async with bench.running():
        id = bench.transcriber.hear("  turn on\nthe lamp ", source="test")
        await bench.until(lambda: bool(bench.answers))
    heard, started, finished, answered = bench.events
    utterance = Utterance(id, "turn on the lamp", "test")
    assert heard == Heard(utterance)
    assert isinstance(started, ToolActivity)
    assert isinstance(started.event, ToolStarted)
    assert (started.event.call.name, started.event.call.arguments) == ("switch", {"device": "lamp"})
    assert isinstance(finished, ToolActivity)
    assert isinstance(finished.event, ToolFinished)
    assert (finished.event.result.result, finished.speech) == ("lamp is on", "")
    assert answered == Answered(utterance, "The **lamp** is `on`.", "The lamp is on.")
    assert switched == ["lamp"]


async def test_utterances_of_an_iterator_are_answered_in_order_and_none_is_refused(executor: ToolExecutor) -> None:
    bench = Bench(executor, ["one", "two", "three", "four"], VoiceSettings(queue=1))
    async with asyncio.timeout(LIMIT):
        await bench.transcriber.run(lines("a", "b", "c", "d"))
    assert bench.told == [(f"{word}.", Outcome.ANSWERED) for word in ("one", "two", "three", "four")]


async def test_two_utterances_at_once_are_answered_one_after_the_other(
    executor: ToolExecutor, switched: list[str]
) -> None:
    bench = Bench(executor, [call("switch", device="a"), "{result}", call("switch", device="b"), "{result}"])
    async with bench.running():
        first, second = bench.transcriber.hear("a on"), bench.transcriber.hear("b on")
        await bench.until(lambda: len(bench.answers) == 2)
    assert [(it.utterance.id, it.speech) for it in bench.answers] == [(first, "a is on."), (second, "b is on.")]
    assert [it.event.type for it in bench.events if isinstance(it, ToolActivity)] == [
        "tool_started",
        "tool_finished",
    ] * 2
    assert bench.asked(2)[-3:] == ["a is on", "a is on", "b on"]


async def test_beyond_the_queue_an_utterance_is_refused_in_words(executor: ToolExecutor) -> None:
    stuck = Stuck(executor)
    bench = Bench(executor, [call("wait")], VoiceSettings(queue=2))
    async with bench.running():
        bench.transcriber.hear("one")
        await stuck.started.wait()
        for text in ("two", "three"):
            bench.transcriber.hear(text)
        assert bench.answers == []
        bench.transcriber.hear("four")
        assert bench.told == [(PHRASES.busy, Outcome.REFUSED)]
        assert bench.answers[0].utterance.text == "four"


async def test_barging_in_cancels_the_turn_and_its_calls_are_answered_and_remembered(executor: ToolExecutor) -> None:
    stuck = Stuck(executor)
    bench = Bench(executor, [call("wait"), "I have stopped."], VoiceSettings(mode="barge_in"))
    async with bench.running():
        first = bench.transcriber.hear("wait for ever")
        await stuck.started.wait()
        second = bench.transcriber.hear("stop")
        await bench.until(lambda: len(bench.answers) == 2)
    assert stuck.cancelled.is_set()
    [finished] = bench.finished
    assert finished.result.error_kind is ErrorKind.CANCELLED
    assert [(it.utterance.id, it.speech, it.outcome) for it in bench.answers] == [
        (first, "", Outcome.INTERRUPTED),
        (second, "I have stopped.", Outcome.ANSWERED),
    ]
    assert [message.type for message in bench.model.requests[1]] == ["human", "ai", "tool", "human"]
    assert bench.asked(1)[0] == "wait for ever"
    assert "interrupted while it ran" in bench.asked(1)[2]
    assert bench.asked(1)[3] == "stop"


async def test_of_many_that_barge_in_only_the_last_is_answered(executor: ToolExecutor) -> None:
    bench = Bench(executor, ["done"], VoiceSettings(mode="barge_in"))
    for text in ("one", "two", "three"):
        bench.transcriber.hear(text)
    async with bench.running():
        await bench.until(lambda: len(bench.answers) == 3)
    assert [(it.utterance.text, it.outcome) for it in bench.answers] == [
        ("one", Outcome.INTERRUPTED),
        ("two", Outcome.INTERRUPTED),
        ("three", Outcome.ANSWERED),
    ]
    assert bench.asked(0) == ["three"]


async def test_a_turn_that_was_interrupted_before_it_began_is_part_of_the_conversation(executor: ToolExecutor) -> None:
    bench = Bench(executor, ["done"], VoiceSettings(mode="barge_in"))
    async with bench.running():
        bench.transcriber.hear("turn on the lamp")
        while bench.transcriber._turn is None:  # noqa: ASYNC110  an event would come a step of the loop too late
            await asyncio.sleep(0)
        bench.transcriber.hear("the red one")
        await bench.until(lambda: len(bench.answers) == 2)
    assert bench.asked(0) == ["turn on the lamp", "the red one"]


async def test_noise_interrupts_nobody(executor: ToolExecutor) -> None:
    stuck = Stuck(executor)
    bench = Bench(executor, [call("wait")], VoiceSettings(mode="barge_in"))
    async with bench.running():
        bench.transcriber.hear("wait")
        await stuck.started.wait()
        bench.transcriber.hear(" ")
        assert bench.told == [(PHRASES.not_understood, Outcome.NOT_UNDERSTOOD)]
        assert not bench.transcriber.is_idle
        assert not stuck.cancelled.is_set()


async def test_the_conversation_goes_on_until_its_time_is_over(executor: ToolExecutor) -> None:
    bench = Bench(executor, ["Hello Ada.", "You are Ada.", "Who?"], VoiceSettings(memory=60))
    async with bench.running():
        await bench.say("I am Ada")
        bench.time += 59
        await bench.say("Who am I?")
        assert bench.asked(1) == ["I am Ada", "Hello Ada.", "Who am I?"]
        bench.time += 60
        await bench.say("And now?")
        assert bench.asked(2) == ["And now?"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelUnavailableError("down"), "unavailable"),
        (ModelTimeoutError("slow"), "timeout"),
        (ModelOverloadedError("busy"), "overloaded"),
        (ConnectionRefusedError("nobody there"), "unavailable"),
    ],
)
async def test_a_model_that_is_down_is_said_in_words_and_when_it_is_back_all_is_well(
    executor: ToolExecutor, error: Exception, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(executor, [error, error, "Here I am."])
    async with bench.running():
        for _ in range(2):
            answer = await bench.say("turn on the lamp")
            assert (answer.speech, answer.outcome) == (PHRASES.model[kind], Outcome.FAILED)
        assert (await bench.say("hello")).speech == "Here I am."
    assert bench.asked(2) == ["hello"], "what was asked meanwhile is not carried out later"
    assert "turn on the lamp" in caplog.text


async def test_what_tools_did_before_the_model_failed_is_remembered(
    executor: ToolExecutor, switched: list[str]
) -> None:
    bench = Bench(executor, [call("switch", device="lamp"), ModelUnavailableError("down"), "It is on."])
    async with bench.running():
        assert (await bench.say("lamp on")).outcome is Outcome.FAILED
        await bench.say("is it on?")
    assert [message.type for message in bench.model.requests[2]] == ["human", "ai", "tool", "ai", "human"]
    assert bench.asked(2)[2:] == ["lamp is on", PHRASES.model["unavailable"], "is it on?"]


async def test_a_conversation_that_is_too_long_is_forgotten_and_the_question_asked_again(
    executor: ToolExecutor,
) -> None:
    bench = Bench(executor, ["one", ModelContextError("too long"), "two", ModelContextError("too long")])
    async with bench.running():
        await bench.say("first")
        assert (await bench.say("second")).speech == "two."
        assert bench.asked(2) == ["second"]
        bench.time += 1000
        assert (await bench.say("third")).speech == PHRASES.model["context"], "there is nothing left to forget"


# An utterance with a stored conversation of its own.


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "journal.db")

    async def switch(device: str) -> str:
        """Switch a device on."""
        world.ran.append(device)
        return f"{device} is on"

    world.add(switch)
    yield world
    await world.executor.close()
    world.journal.close()


async def roles(world: World) -> list[str]:
    found = world.journal.run(lambda it: it.execute("SELECT role FROM message ORDER BY conversation, seq").fetchall())
    return [role for (role,) in await asyncio.wrap_future(found)]


async def test_an_utterance_with_a_conversation_is_on_record_and_goes_on_where_it_was_cut_off(world: World) -> None:
    first = Bench(world.executor, [call("switch", device="lamp"), ModelUnavailableError("gone")])
    async with first.running():
        assert (await first.say("lamp on", conversation="u1")).outcome is Outcome.FAILED
    assert await roles(world) == ["question", "ai", "tool"]
    second = Bench(world.executor, ["{result}."])
    async with second.running():
        assert (await second.say("what was this?", conversation="u1")).speech == "lamp is on."
        assert (await second.say("what was this?", conversation="u1")).speech == "lamp is on."
    assert second.asked(0) == ["lamp on", "", "lamp is on"]
    assert (len(second.model.requests), world.ran) == (1, ["lamp"])


async def test_a_conversation_begins_with_what_was_said_before(world: World) -> None:
    bench = Bench(world.executor, ["one", "two", "three"])
    async with bench.running():
        for number in (1, 2, 3):
            await bench.say(f"question {number}", conversation=f"u{number}")
    assert bench.asked(2) == ["question 1", "one", "question 2", "two", "question 3"]
    assert await roles(world) == [
        *["question", "ai", "end"],
        *["human", "ai", "question", "ai", "end"],
        *["human", "ai", "human", "ai", "question", "ai", "end"],
    ]


async def test_a_conversation_that_is_too_long_begins_anew_on_record_too(world: World) -> None:
    script = ["one", ModelContextError("too long"), call("switch", device="lamp"), "two"]
    bench = Bench(world.executor, script)
    async with bench.running():
        await bench.say("first")
        assert (await bench.say("lamp on", conversation="u1")).speech == "two."
    assert await roles(world) == ["question", "ai", "tool", "ai", "end"]
    again = Bench(world.executor, [])
    async with again.running():
        assert (await again.say("lamp on", conversation="u1")).speech == "two."
    assert world.ran == ["lamp"]
    assert [call.state for call in await world.calls() if call.has_key] == ["done"]


async def test_an_utterance_is_answered_although_its_conversation_cannot_be_kept(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.journal.close()
    bench = Bench(world.executor, ["Good day."])
    async with bench.running():
        assert (await bench.say("hello", conversation="u1")).speech == "Good day."
    assert "will not be continued after a crash" in caplog.text


async def test_an_error_of_ours_is_said_in_words_too(executor: ToolExecutor) -> None:
    bench = Bench(executor, [UsageError("a mistake"), "well"])
    async with bench.running():
        assert (await bench.say("hello")).speech == PHRASES.unexpected
        assert (await bench.say("hello")).speech == "well."


async def test_a_failed_call_has_words_and_they_are_the_answer_if_the_model_has_none(
    executor: ToolExecutor, switched: list[str]
) -> None:
    @tool(timeout=0.05)
    async def slow() -> None:
        """Take too long."""
        await asyncio.Event().wait()

    executor.manager.add(slow)
    bench = Bench(executor, [call("slow"), " ", " ", call("switch", device="x"), "\n", "", " ", ""])
    async with bench.running():
        assert (await bench.say("slow")).speech == "The smart home system is taking too long to respond."
        assert (await bench.say("x on")).speech == PHRASES.tool["tool_error"]
        assert (await bench.say("hm")).speech == PHRASES.no_answer
    words = [event.speech for event in bench.events if isinstance(event, ToolActivity)]
    assert words == ["", "The smart home system is taking too long to respond.", "", PHRASES.tool["tool_error"]]


async def test_stopping_cancels_the_turn_answers_everything_and_leaves_nothing(executor: ToolExecutor) -> None:
    stuck = Stuck(executor)
    bench = Bench(executor, [call("wait")])
    async with bench.running():
        for text in ("one", "two"):
            bench.transcriber.hear(text)
        await stuck.started.wait()
    assert stuck.cancelled.is_set()
    assert [(it.utterance.text, it.outcome) for it in bench.answers] == [
        ("one", Outcome.INTERRUPTED),
        ("two", Outcome.INTERRUPTED),
    ]
    assert bench.transcriber.is_idle
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_after_a_stop_it_can_run_again_but_not_twice_at_once(executor: ToolExecutor) -> None:
    bench = Bench(executor, ["one", "two"])
    await bench.transcriber.run(lines("a"))
    async with bench.running():
        await bench.say("b")
        with pytest.raises(UsageError, match="already running"):
            await bench.transcriber.run()
    assert [speech for speech, _ in bench.told] == ["one.", "two."]


async def test_what_a_listener_or_an_iterator_raises_is_raised_and_nothing_is_left(executor: ToolExecutor) -> None:
    bench = Bench(executor, ["one", "two"])

    async def breaking() -> AsyncIterator[str]:
        yield "a"
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        await bench.transcriber.run(breaking())

    def gone(event: VoiceEvent) -> None:
        if isinstance(event, Answered):
            raise BrokenPipeError("nobody reads")

    bench.transcriber.listeners.append(gone)
    with pytest.raises(BrokenPipeError):
        await bench.transcriber.run(lines("b"))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_event_loop_goes_on_while_a_model_or_a_blocking_tool_takes_its_time(executor: ToolExecutor) -> None:
    import threading

    gate = threading.Event()

    @tool
    def block() -> str:
        """Block a thread."""
        assert gate.wait(LIMIT)
        return "unblocked"

    executor.manager.add(block)
    bench = Bench(executor, [call("block"), "{result}", "second"])
    async with bench.running():
        bench.transcriber.hear("one")
        await bench.until(lambda: len(bench.events) == 2)
        bench.transcriber.hear("two")  # only a loop that goes on comes here, to open the gate
        gate.set()
        await bench.until(lambda: len(bench.answers) == 2)
    assert [speech for speech, _ in bench.told] == ["unblocked.", "second."]


async def test_cancelled_at_any_moment_every_utterance_has_one_answer(
    executor: ToolExecutor, switched: list[str]
) -> None:
    """The second utterance comes after so many turns of the loop, wherever the first may be by then."""
    for steps in range(60):
        script = [call("switch", device="a"), Said("a"), call("switch", device="b"), Said("b"), Said("c"), Said("d")]
        bench = Bench(executor, script, VoiceSettings(mode="barge_in"))
        async with bench.running():
            bench.transcriber.hear("one")
            for _ in range(steps):
                await asyncio.sleep(0)
            bench.transcriber.hear("two")
            await bench.until(lambda bench=bench: len(bench.answers) == 2)  # type: ignore[misc]
        assert [it.utterance.text for it in bench.answers] == ["one", "two"], steps
        assert bench.answers[1].outcome is Outcome.ANSWERED, steps
        for request in bench.model.requests:
            check_pairs(request)


def check_pairs(messages: Sequence[BaseMessage]) -> None:
    """Each call has exactly one result."""
    calls = [it["id"] for message in messages if message.type == "ai" for it in message.tool_calls]  # type: ignore[attr-defined]
    results = [message.tool_call_id for message in messages if message.type == "tool"]  # type: ignore[attr-defined]
    assert calls == results


def test_model_errors_all_have_words() -> None:
    def below(cls: type[ModelError]) -> list[type[ModelError]]:
        return [it for sub in cls.__subclasses__() for it in (sub, *below(sub))]

    for kind in below(ModelError):
        assert PHRASES.for_model(kind("x")) != PHRASES.unexpected, kind
