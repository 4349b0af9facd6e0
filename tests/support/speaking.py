"""Sentences spoken by espeak-ng, for tests of what hears them."""

from __future__ import annotations

import os
import shutil

import pytest

from toolrun.voice.speech.espeak import EspeakSpeaker


def need_program(name: str) -> None:
    """Skips a test where a program is missing; in CI that is a failure."""
    if shutil.which(name) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")


async def spoken(text: str, voice: str = "en-us+f2") -> bytes:
    """The sentence as the content of a WAV file."""
    need_program("espeak-ng")
    return await EspeakSpeaker(voice).speak(text)
