"""The engines that the settings name, made when they are needed. Each takes a while: call these in a thread."""

from __future__ import annotations

from pathlib import Path

from toolrun.config.model import VoiceSettings
from toolrun.config.parse import read_text
from toolrun.errors import ConfigError
from toolrun.voice.speech.speech_engine import Recogniser, Speaker


def make_recogniser(settings: VoiceSettings, root: Path) -> tuple[Recogniser, tuple[str, ...]]:
    """What hears, and which devices and commands it cannot hear, with the reasons. SpeechError, ConfigError."""
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
    made = SphinxRecogniser(settings.devices, commands)
    return made, made.grammar.problems


def make_speaker(settings: VoiceSettings, root: Path) -> Speaker:
    """What speaks. SpeechError: it cannot."""
    if settings.speech_out == "piper":
        from toolrun.voice.speech.piper import PiperSpeaker

        return PiperSpeaker(root / settings.speech_voice)
    from toolrun.voice.speech.espeak import EspeakSpeaker

    return EspeakSpeaker(settings.speech_voice) if settings.speech_voice else EspeakSpeaker()
