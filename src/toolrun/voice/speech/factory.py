"""Makes the engines that the settings name. That takes a while: call these functions in a thread."""

from __future__ import annotations

from pathlib import Path

from toolrun.config.model import VoiceSettings
from toolrun.config.parse import read_text
from toolrun.errors import ConfigError
from toolrun.voice.speech.speech_engine import Recogniser, Speaker


def make_recogniser(settings: VoiceSettings, root: Path) -> tuple[Recogniser, tuple[str, ...]]:
    """The recogniser, and messages about devices and commands that it cannot recognise.

    Raises SpeechError or ConfigError.
    """
    if settings.speech_in == "whisper":
        from toolrun.voice.speech.whisper import WhisperRecogniser

        return WhisperRecogniser(settings.speech_model, hint=", ".join(settings.devices)), ()
    from toolrun.voice.speech.grammar import default_commands, read_commands
    from toolrun.voice.speech.sphinx import SphinxRecogniser

    commands = default_commands()
    if settings.commands:
        path = root / settings.commands
        try:
            commands = read_commands(read_text(path))
        except ConfigError as error:
            raise ConfigError(f"[voice] commands: {path}: {error}") from None
    recogniser = SphinxRecogniser(settings.devices, commands)
    return recogniser, recogniser.grammar.problems


def make_speaker(settings: VoiceSettings, root: Path) -> Speaker:
    """The speaker. Raises SpeechError."""
    if settings.speech_out == "piper":
        from toolrun.voice.speech.piper import PiperSpeaker

        return PiperSpeaker(root / settings.speech_voice)
    from toolrun.voice.speech.espeak import EspeakSpeaker

    return EspeakSpeaker(settings.speech_voice) if settings.speech_voice else EspeakSpeaker()
