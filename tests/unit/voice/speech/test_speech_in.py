"""Sound becomes words: sentences spoken by espeak-ng, cut by the voice detector, heard by pocketsphinx."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.speaking import spoken
from toolrun.errors import ConfigError, MissingExtraError, SpeechError
from toolrun.voice.speech.grammar import default_commands
from toolrun.voice.speech.microphone import microphone
from toolrun.voice.speech.segment import Segments, silero
from toolrun.voice.speech.speech_engine import Recogniser, sentences
from toolrun.voice.speech.sphinx import SphinxRecogniser, has_loud_silence
from toolrun.voice.speech.wav import read_wav
from toolrun.voice.speech.whisper import WhisperRecogniser

ROOT = Path(__file__).parents[4]
DEVICES = ["Switch One", "Switch Two", "Bedroom Dimmer", "Hallway Light", "Kitchen Sensor", "Front Door"]
COMMANDS = {
    "turn on switch one": "turn on Switch One",
    "turn off switch two": "turn off Switch Two",
    "set the bedroom dimmer to fifty percent": "set the Bedroom Dimmer to 50 percent",
    "what is the temperature of the kitchen sensor": "what is the temperature of the Kitchen Sensor",
    "turn on the hallway light": "turn on the Hallway Light",
    "what time is it": "what time is it",
    "turn the volume up": "turn the volume up",
    "is switch one on": "is Switch One on",
    "turn off everything": "turn off everything",
    "dim the bedroom dimmer to twenty percent": "dim the Bedroom Dimmer to 20 percent",
}
OTHERS = [
    "the weather is nice this morning",
    "play some jazz music please",
    "who was the first president",
    "i would like a cup of coffee",
    "remind me to call my mother tomorrow",
    "the cat sat on the mat",
    "turn it up a little and then stop",
    "two three four five",
    "she sells sea shells by the shore",
    "the train leaves from platform nine",
    "thank you very much",  # is heard as "turn the volume up" in this voice
]
SILENCE = b"\0" * 32_000
"""One second."""


@pytest.fixture(scope="module")
def recogniser() -> SphinxRecogniser:
    return SphinxRecogniser(DEVICES, default_commands())


async def heard(recogniser: Recogniser, *sounds: bytes, piece: int = 4096) -> list[str]:
    """What is heard in the sounds, which come in pieces as from a microphone, with silence around each."""
    stream = SILENCE + b"".join(sound + SILENCE for sound in sounds)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(stream), piece):
            yield stream[start : start + piece]

    return [text async for text in sentences(pieces(), Segments(silero()), recogniser)]


@pytest.mark.parametrize(("voice", "floor"), [("en-us+f2", 8), ("en-us", 4)])
async def test_most_of_ten_spoken_commands_are_understood(recogniser: SphinxRecogniser, voice: str, floor: int) -> None:
    wrong, understood = [], 0
    for command, written in COMMANDS.items():
        found = await heard(recogniser, read_wav(await spoken(command, voice)))
        understood += found == [written]
        wrong += [text for text in found if text not in ("", written)]
    print(f"{voice}: {understood} of {len(COMMANDS)} commands understood, {len(wrong)} taken for another: {wrong}")
    assert understood >= floor
    assert len(wrong) <= 1


async def test_what_is_no_command_is_hardly_ever_taken_for_one(recogniser: SphinxRecogniser) -> None:
    taken = []
    for sentence in OTHERS:
        taken += [(sentence, text) for text in await heard(recogniser, read_wav(await spoken(sentence))) if text]
    print(f"{len(taken)} of {len(OTHERS)} other sentences taken for a command: {taken}")
    assert len(taken) <= 2


async def test_the_sound_file_of_the_example_is_understood(recogniser: SphinxRecogniser) -> None:
    path = ROOT / "examples" / "home" / "turn_on_switch_one.wav"
    assert path.stat().st_size < 100_000
    assert await heard(recogniser, read_wav(path)) == ["turn on Switch One"]


async def test_two_commands_in_one_stream_are_two_sentences(recogniser: SphinxRecogniser) -> None:
    sound = read_wav(ROOT / "examples" / "home" / "turn_on_switch_one.wav")
    assert await heard(recogniser, sound, sound, piece=1000) == ["turn on Switch One"] * 2


@pytest.mark.parametrize("sound", [b"", b"\0" * 320, b"\0" * 64_001, b"\x10\x27\xf0\xd8" * 8000])
def test_silence_and_noise_are_nothing(recogniser: SphinxRecogniser, sound: bytes) -> None:
    assert recogniser.hear(sound) == ""


def test_words_that_are_in_no_dictionary_can_be_said_and_what_cannot_is_reported() -> None:
    recogniser = SphinxRecogniser(["Tradfri Lamp", "Zwave 7", "Кухня"], ["turn on {device}"])
    assert list(recogniser.grammar.devices.values()) == ["Tradfri Lamp", "Zwave 7"]
    assert recogniser.grammar.pronunciations["tradfri"] == "T R AE D F R IY"
    assert len(recogniser.grammar.problems) == 1


async def test_a_pronunciation_of_ones_own_is_heard_beside_that_of_the_dictionary() -> None:
    sound = read_wav(ROOT / "examples" / "home" / "turn_on_switch_one.wav")
    own = {"foo": "S W IH CH", "bar": "W AH N"}
    recogniser = SphinxRecogniser(["Foo Bar", "Bar Foo"], ["turn on {device}"], pronunciations=own)
    assert await heard(recogniser, sound) == ["turn on Foo Bar"]


def test_a_pronunciation_with_unknown_phones_is_refused() -> None:
    with pytest.raises(SpeechError, match="phones of the CMU dictionary"):
        SphinxRecogniser(["Foo"], ["turn on {device}"], pronunciations={"foo": "QQ ZZ"})


def test_a_grammar_with_nothing_to_say_is_refused() -> None:
    with pytest.raises(ConfigError, match="The grammar is empty"):
        SphinxRecogniser([], ["turn on {device}"])


@pytest.mark.parametrize(
    ("spans", "loud"),
    [
        ([("<s>", 0, 10), ("turn", 10, 60), ("<sil>", 60, 100)], False),
        ([("turn", 10, 30), ("<sil>", 30, 100)], True),
        ([("[NOISE]", 0, 40), ("turn", 40, 60)], True),
        ([("turn", 10, 50), ("<sil>", 50, 70)], False),
        ([("<sil>", 0, 100)], False),
        ([], False),
    ],
)
def test_speech_that_is_taken_for_silence_is_noticed(spans: list[tuple[str, int, int]], loud: bool) -> None:
    """The sound is loud from frame 10 to frame 60."""
    frame = 160
    pcm = b"\0\0" * 10 * frame + b"\0\x20" * 50 * frame + b"\0\0" * 40 * frame
    assert has_loud_silence(pcm, spans) is loud


@pytest.mark.parametrize(
    ("module", "make", "advice"),
    [
        ("pocketsphinx", lambda: SphinxRecogniser([], ["stop"]), r"pip install 'toolrun\[voice\]'"),
        ("faster_whisper", WhisperRecogniser, "pip install faster-whisper"),
    ],
)
def test_without_its_package_an_engine_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, make: type, advice: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises((MissingExtraError, SpeechError), match=advice):
        make()


async def test_without_its_package_the_microphone_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(SpeechError, match="pip install sounddevice"):
        async with microphone():
            pass
