"""WAV files of every kind become the one form of sound that is heard."""

from __future__ import annotations

import io
import math
import struct
import wave
from array import array
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun.errors import SpeechError
from toolrun.voice.speech.wav import read_wav, seconds


def tone(hertz: float, rate: int, length: float = 0.25, size: float = 0.5) -> list[float]:
    return [size * math.sin(2 * math.pi * hertz * at / rate) for at in range(round(rate * length))]


def file_of(form: int, channels: int, rate: int, bits: int, data: bytes) -> bytes:
    layout = struct.pack("<HHIIHH", form, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits)
    body = b"WAVE" + struct.pack("<4sI", b"fmt ", len(layout)) + layout + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def encoded(samples: list[float], form: int, bits: int) -> bytes:
    if form == 3:
        return array("f" if bits == 32 else "d", samples).tobytes()
    if bits == 8:
        return bytes(round(value * 127) + 128 for value in samples)
    scale = 2 ** (bits - 1) - 1
    return b"".join(round(value * scale).to_bytes(bits // 8, "little", signed=True) for value in samples)


def loudness(pcm: bytes, hertz: float) -> float:
    """How much of a frequency is in the sound, 1.0 for a tone as loud as can be. The edges do not count."""
    samples = array("h", pcm)[800:-800]
    turns = [2 * math.pi * hertz * at / 16_000 for at in range(len(samples))]
    real = sum(value * math.cos(turn) for value, turn in zip(samples, turns, strict=True))
    imaginary = sum(value * math.sin(turn) for value, turn in zip(samples, turns, strict=True))
    return 2 * math.hypot(real, imaginary) / len(samples) / 32768


@pytest.mark.parametrize(("form", "bits"), [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)])
def test_every_kind_of_sample_is_read(form: int, bits: int) -> None:
    pcm = read_wav(file_of(form, 1, 16_000, bits, encoded(tone(440, 16_000), form, bits)))
    expected = array("h", [round(value * 32767) for value in tone(440, 16_000)])
    tolerance = 300 if bits == 8 else 2
    assert all(abs(a - b) <= tolerance for a, b in zip(array("h", pcm), expected, strict=True))


@pytest.mark.parametrize("rate", [8_000, 11_025, 11_127, 22_050, 32_000, 44_100, 48_000, 96_000])
def test_a_tone_stays_the_same_at_every_rate(rate: int) -> None:
    pcm = read_wav(file_of(1, 1, rate, 16, encoded(tone(1000, rate), 1, 16)))
    assert seconds(pcm) == pytest.approx(0.25, abs=0.002)
    assert loudness(pcm, 1000) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("rate", [22_050, 44_100, 48_000])
def test_what_is_too_high_for_our_rate_is_not_heard_as_something_else(rate: int) -> None:
    too_high = 10_000
    pcm = read_wav(file_of(1, 1, rate, 16, encoded(tone(too_high, rate), 1, 16)))
    assert loudness(pcm, 16_000 - too_high) < 0.005


def test_channels_are_mixed() -> None:
    left, right = tone(500, 16_000), tone(2000, 16_000)
    both = [value for frame in zip(left, right, strict=True) for value in frame]
    pcm = read_wav(file_of(1, 2, 16_000, 16, encoded(both, 1, 16)))
    assert seconds(pcm) == 0.25
    assert loudness(pcm, 500) == pytest.approx(0.25, abs=0.01)
    assert loudness(pcm, 2000) == pytest.approx(0.25, abs=0.01)


def test_what_is_too_loud_is_clipped() -> None:
    pcm = read_wav(file_of(3, 1, 16_000, 32, encoded([2.0, -2.0, math.nan, math.inf], 3, 32)))
    assert list(array("h", pcm)) == [32767, -32768, 0, 0]


def test_a_file_that_does_not_know_its_own_length_is_read_to_its_end() -> None:
    content = bytearray(file_of(1, 1, 16_000, 16, b"\x01\x00" * 100 + b"\x07"))
    for at in (4, 40):
        content[at : at + 4] = b"\xff\xff\xff\x7f"
    assert read_wav(bytes(content)) == b"\x01\x00" * 100


def test_other_chunks_and_the_long_form_of_the_header_are_understood() -> None:
    layout = struct.pack("<HHIIHHHHIH14x", 0xFFFE, 1, 16_000, 32_000, 2, 16, 22, 16, 4, 1)
    chunks = [(b"LIST", b"odd"), (b"fmt ", layout), (b"fact", b"\0\0\0\0"), (b"data", b"\x05\x00" * 10)]
    body = b"".join(struct.pack("<4sI", kind, len(it)) + it + b"\0" * (len(it) % 2) for kind, it in chunks)
    assert read_wav(b"RIFF\0\0\0\0WAVE" + body) == b"\x05\x00" * 10


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    path.write_bytes(file_of(1, 1, 16_000, 16, b"\x01\x00\x02\x00"))
    assert read_wav(path) == b"\x01\x00\x02\x00"


def test_what_the_standard_library_writes_is_read() -> None:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setframerate(16_000)
        file.setsampwidth(2)
        file.writeframes(b"\x03\x00" * 7)
    assert read_wav(content.getvalue()) == b"\x03\x00" * 7


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it does not begin with RIFF"),
        (b"ID3 an mp3 file", "it does not begin with RIFF"),
        (b"RIFF\0\0\0\0WAVE", "it has no data"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0", "its data comes before its format"),
        (b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0", "it is cut off"),
        (file_of(1, 0, 16_000, 16, b""), "0 channels"),
        (file_of(1, 1, 16, 16, b""), "at 16 samples a second"),
        (file_of(85, 1, 16_000, 16, b""), "format 85 with 16 bits is not supported; convert it to 16-bit PCM"),
        (file_of(1, 1, 16_000, 4, b""), "format 1 with 4 bits"),
    ],
)
def test_what_is_no_sound_is_refused_with_the_reason(content: bytes, problem: str) -> None:
    with pytest.raises(SpeechError) as caught:
        read_wav(content)
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpeechError, match=r"nothing\.wav cannot be read: No such file"):
        read_wav(tmp_path / "nothing.wav")


def test_a_sound_that_is_too_long_is_refused() -> None:
    with pytest.raises(SpeechError, match=r"longer than 600 seconds\. Split it"):
        read_wav(file_of(1, 1, 1_000, 8, b"\x80" * 600_001))


@given(st.binary(max_size=200))
def test_rubbish_is_refused_and_nothing_else_happens(rubbish: bytes) -> None:
    for content in (rubbish, b"RIFF\0\0\0\0WAVE" + rubbish):
        with suppress(SpeechError):
            assert len(read_wav(content)) % 2 == 0
