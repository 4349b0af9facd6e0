"""Puts the gateway together: the sources of utterances, one transcriber, and the listeners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolrun.config.model import Config
from toolrun.redaction import Redactor
from toolrun.voice.announcer import Announcer
from toolrun.voice.broker_address import BrokerAddress
from toolrun.voice.mqtt import MqttLink
from toolrun.voice.phrases import Phrases
from toolrun.voice.speech.factory import make_recogniser, make_speaker
from toolrun.voice.speech.speech_engine import Recogniser, sentences
from toolrun.voice.taken_utterances import TakenUtterances
from toolrun.voice.transcriber import BackgroundTranscriber
from toolrun.voice.voice_event import Listener, Utterance

if TYPE_CHECKING:
    from toolrun.clients.model_client import ModelClient
    from toolrun.journal.journal import Journal

Job = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where utterances come from. With files or lines, the gateway ends after the last of them."""

    audio: tuple[Path, ...] = ()
    lines: AsyncIterable[str] | None = None
    microphone: bool = False
    broker: BrokerAddress | None = None

    @property
    def is_finite(self) -> bool:
        return bool(self.audio) or self.lines is not None


async def run_gateway(
    client: ModelClient,
    config: Config,
    sources: Sources,
    listeners: Sequence[Listener],
    warn: Callable[[str], None],
    journal: Journal | None = None,
) -> None:
    """Listen and answer until the files and lines are exhausted, or until this is cancelled.

    `warn` gets the devices and commands that cannot be recognised. `journal` remembers which utterances were taken.
    Raises SpeechError or ConfigError.
    """
    settings, root = config.voice, config.root
    phrases = Phrases.load(root / settings.phrases if settings.phrases else None)
    transcriber = BackgroundTranscriber(client, settings=settings, listeners=listeners, phrases=phrases)
    background: list[Job] = []
    announcer: Announcer | None = None
    recogniser: Recogniser | None = None
    if sources.audio or sources.microphone:
        recogniser, problems = await asyncio.to_thread(make_recogniser, settings, root)
        for problem in problems:
            warn(problem)
    if settings.speech_out:
        announcer = await _announcer(config)
        transcriber.listeners.append(announcer.on_event)
        background.append(announcer.run)
    if sources.broker is not None:
        taken = TakenUtterances(f"mqtt {settings.prefix}", journal)
        link = _link(sources.broker, transcriber, config, taken)
        transcriber.listeners += [link.on_event, taken.on_event]
        background.append(link.run)
    if sources.microphone and recogniser is not None:
        background.append(partial(_hear_microphone, recogniser, transcriber, announcer))
    utterances = _utterances(sources, recogniser) if sources.is_finite else None
    await _run_with_background(background, partial(_talk, transcriber, utterances, announcer))


async def _talk(
    transcriber: BackgroundTranscriber, utterances: AsyncIterator[Utterance] | None, announcer: Announcer | None
) -> None:
    await transcriber.run(utterances)
    if announcer is not None:
        await announcer.finish()


async def _run_with_background(background: Sequence[Job], main: Job) -> None:
    """Run `main` beside the background jobs, which end after it: they still publish its last events."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job()) for job in background]
            try:
                await main()
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _utterances(sources: Sources, recogniser: Recogniser | None) -> AsyncIterator[Utterance]:
    """The utterances in the files, then the lines."""
    if recogniser is not None:
        for path in sources.audio:
            async for text in _utterances_in(path, recogniser):
                yield Utterance("", text, "audio")
    if sources.lines is not None:
        async for line in sources.lines:
            if line.strip():
                yield Utterance("", line, "stdin")


async def _utterances_in(path: Path, recogniser: Recogniser) -> AsyncIterator[str]:
    from toolrun.voice.speech.segment import Segments, silero
    from toolrun.voice.speech.wav import read_wav

    sound = await asyncio.to_thread(read_wav, path)
    detector = await asyncio.to_thread(silero)

    async def whole() -> AsyncIterator[bytes]:
        yield sound

    async for text in sentences(whole(), Segments(detector), recogniser):
        yield text


async def _hear_microphone(
    recogniser: Recogniser, transcriber: BackgroundTranscriber, announcer: Announcer | None
) -> None:
    from toolrun.voice.speech.microphone import microphone
    from toolrun.voice.speech.segment import Segments, silero

    detector = await asyncio.to_thread(silero)
    async with microphone() as sound, aclosing(sentences(sound, Segments(detector), recogniser)) as texts:
        async for text in texts:
            if announcer is None or not announcer.is_speaking:  # the microphone would hear the answer
                transcriber.hear(text, source="microphone")


async def _announcer(config: Config) -> Announcer:
    from toolrun.voice.speech.player import play

    speaker = await asyncio.to_thread(make_speaker, config.voice, config.root)
    return Announcer(speaker, play, has_barge_in=config.voice.mode == "barge_in")


def _link(
    broker: BrokerAddress, transcriber: BackgroundTranscriber, config: Config, taken: TakenUtterances
) -> MqttLink:
    def hear(text: str, id: str) -> None:
        transcriber.hear(text, id=id, source="mqtt", conversation=taken.conversation_of(id))

    settings = config.voice
    redactor = Redactor(config.secrets.values())
    link = MqttLink(broker, hear, prefix=settings.prefix, delays=settings.delays, redactor=redactor)
    link.claim, link.before_answer = taken.claim, taken.end
    return link
