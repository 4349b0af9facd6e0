"""A voice gateway: utterances in, tools in the middle, spoken answers out.

The names below are imported when they are first asked for: they need a model's packages, and speech alone does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolrun.voice.events import Answered as Answered
    from toolrun.voice.events import Heard as Heard
    from toolrun.voice.events import Listener as Listener
    from toolrun.voice.events import Outcome as Outcome
    from toolrun.voice.events import ToolActivity as ToolActivity
    from toolrun.voice.events import Utterance as Utterance
    from toolrun.voice.events import VoiceEvent as VoiceEvent
    from toolrun.voice.transcriber import BackgroundTranscriber as BackgroundTranscriber

_HOME = {
    "Answered": "events",
    "BackgroundTranscriber": "transcriber",
    "Heard": "events",
    "Listener": "events",
    "Outcome": "events",
    "ToolActivity": "events",
    "Utterance": "events",
    "VoiceEvent": "events",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'toolrun.voice' has no attribute {name!r}")
    value: object = getattr(import_module(f"toolrun.voice.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
