"""Recognises free speech with a Whisper model: the package faster-whisper, which no extra installs.

The first use of a model downloads it. Instead of a name, the directory of a downloaded model may be given.
"""

from __future__ import annotations

import threading
from array import array
from typing import Any

from toolrun.errors import SpeechError


class WhisperRecogniser:
    """A `Recogniser` without a grammar. The constructor takes seconds: call it in a thread."""

    def __init__(self, model: str = "base.en", *, language: str = "en", hint: str = "") -> None:
        """`hint` is text that resembles the sentences, for instance the names of the devices."""
        try:
            from faster_whisper import WhisperModel  # type: ignore[import-not-found]  # users install it
        except ImportError:
            raise SpeechError(
                "Recognition with Whisper needs the package faster-whisper. Install it with 'pip install "
                "faster-whisper', or use pocketsphinx, which recognises the commands of a grammar."
            ) from None
        try:
            self._model: Any = WhisperModel(model, device="cpu", compute_type="int8")
        except (OSError, ValueError, RuntimeError) as error:
            raise SpeechError(
                f"The Whisper model '{model}' cannot be loaded: {error}. Is this machine online?"
            ) from None
        self._language = language
        self._hint = hint
        self._lock = threading.Lock()

    def hear(self, pcm: bytes) -> str:
        """The words; empty if there are none."""
        import numpy  # type: ignore[import-not-found]  # comes with faster-whisper

        sound = numpy.frombuffer(array("h", pcm[: len(pcm) // 2 * 2]), dtype=numpy.int16).astype(numpy.float32) / 32768
        with self._lock:
            segments, _ = self._model.transcribe(
                sound, language=self._language, initial_prompt=self._hint or None, beam_size=5
            )
            return " ".join(" ".join(segment.text for segment in segments).split())
