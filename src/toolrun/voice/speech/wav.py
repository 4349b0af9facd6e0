"""WAV files, converted to the format of sound that all engines take.

Reads PCM of 8, 16, 24 and 32 bits and floats, of any rate and any number of channels. The standard library's `wave`
reads neither floats nor the header of a program that did not know the length of its output. Nothing here needs numpy.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from operator import mul
from pathlib import Path
from typing import Final

from toolrun.errors import SpeechError
from toolrun.voice.speech.speech_engine import RATE, WIDTH

MAX_SECONDS: Final = 600
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_ZERO_CROSSINGS: Final = 12
"""Of the filter, to each side. More is slower, and no engine hears the difference."""


def read_wav(source: Path | bytes) -> bytes:
    """The sound of a WAV file, or of its content, as PCM. Raises SpeechError."""
    name = "The sound" if isinstance(source, bytes) else str(source)
    try:
        content = source if isinstance(source, bytes) else source.read_bytes()
    except OSError as error:
        raise SpeechError(f"{name} cannot be read: {error.strerror}.") from None
    try:
        (format_code, channels, rate, bits), data = _chunks(content)
        samples = _samples(format_code, bits, data[: (MAX_SECONDS * rate + 1) * channels * (bits // 8)])
    except (struct.error, ValueError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is cut off"
        raise SpeechError(f"{name} is not a usable WAV file: {reason}.") from None
    if len(samples) // channels > MAX_SECONDS * rate:
        raise SpeechError(f"{name} is longer than {MAX_SECONDS} seconds. Split it into several files.")
    return _little_endian(array("h", map(_clipped, _resampled(_mixed(samples, channels), rate))))


def seconds(pcm: bytes) -> float:
    """How long a sound lasts."""
    return len(pcm) / WIDTH / RATE


def _chunks(content: bytes) -> tuple[tuple[int, int, int, int], memoryview]:
    """Format code, channels, rate and bits, and the data, cut to what is there: its declared length may be wrong."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise ValueError("it does not begin with RIFF … WAVE")
    view, position = memoryview(content), 12
    layout: tuple[int, int, int, int] | None = None
    while position + 8 <= len(content):
        chunk_id, size = struct.unpack_from("<4sI", content, position)
        position += 8
        if chunk_id == b"fmt ":
            format_code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content, position)
            if format_code == _EXTENSIBLE:
                (format_code,) = struct.unpack_from("<H", content, position + 24)
            layout = format_code, channels, rate, bits
            if not 1 <= channels <= 64 or not 1_000 <= rate <= 400_000:
                raise ValueError(f"{channels} channels at {rate} samples a second make no sense")
        elif chunk_id == b"data":
            if layout is None:
                raise ValueError("its data comes before its format")
            frame = layout[1] * max(1, layout[3] // 8)
            size = min(size, len(content) - position)
            return layout, view[position : position + size - size % frame]
        position += size + size % 2
    raise ValueError("it has no data")


def _samples(format_code: int, bits: int, data: memoryview) -> Sequence[float]:
    """The samples as numbers of the range of 16 bits."""
    if format_code == _FLOAT and bits in (32, 64):
        values = _array("f" if bits == 32 else "d", data)
        return [value * 32768 if math.isfinite(value) else 0.0 for value in values]
    if format_code == _PCM and bits == 8:
        return [(value - 128) * 256 for value in data]
    if format_code == _PCM and bits == 16:
        return _array("h", data)
    if format_code == _PCM and bits == 24:
        return _array("h", b"".join(data[at + 1 : at + 3] for at in range(0, len(data), 3)))  # the upper 16 bits
    if format_code == _PCM and bits == 32:
        return [value / 65536 for value in _array("i", data)]
    raise ValueError(f"format {format_code} with {bits} bits is not supported; convert it to 16-bit PCM")


def _array(code: str, data: memoryview | bytes) -> array[float]:
    values: array[float] = array(code)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _little_endian(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _mixed(samples: Sequence[float], channels: int) -> Sequence[float]:
    """One channel: the mean of all."""
    if channels == 1:
        return samples
    return [sum(frame) / channels for frame in zip(*(samples[it::channels] for it in range(channels)), strict=True)]


def _resampled(samples: Sequence[float], rate: int) -> Sequence[float]:
    """The same sound at our rate: each new sample is a weighted mean of those around it (a windowed sinc)."""
    if rate == RATE:
        return samples
    common = math.gcd(rate, RATE)
    phases, step = RATE // common, rate // common
    cutoff = 0.95 * min(1.0, RATE / rate)  # frequencies that our rate cannot hold are left out
    reach = math.ceil(_ZERO_CROSSINGS / cutoff)
    weights = [_weights(phase / phases, cutoff, reach) for phase in range(phases)]
    padded = [0.0] * (reach - 1) + list(samples) + [0.0] * (reach + 1)
    made = []
    for index in range(len(samples) * phases // step):
        at, phase = divmod(index * step, phases)
        made.append(sum(map(mul, weights[phase], padded[at : at + 2 * reach])))
    return made


def _weights(fraction: float, cutoff: float, reach: int) -> list[float]:
    weights = []
    for offset in range(1 - reach, reach + 1):
        distance = offset - fraction
        angle = math.pi * cutoff * distance
        window = 0.5 + 0.5 * math.cos(math.pi * distance / (reach + 1))
        weights.append(cutoff * window * (math.sin(angle) / angle if angle else 1.0))
    total = sum(weights)
    return [weight / total for weight in weights]


def _clipped(value: float) -> int:
    return max(-32768, min(32767, round(value)))
