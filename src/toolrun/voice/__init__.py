"""A voice gateway: utterances in, tools in the middle, spoken answers out.

The names below are imported on first use: they need the packages of a model, which speech alone does not.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.voice.broker_address import BrokerAddress as BrokerAddress
    from toolrun.voice.gateway import Sources as Sources
    from toolrun.voice.gateway import run_gateway as run_gateway
    from toolrun.voice.transcriber import BackgroundTranscriber as BackgroundTranscriber
    from toolrun.voice.voice_event import Answered as Answered
    from toolrun.voice.voice_event import Heard as Heard
    from toolrun.voice.voice_event import Listener as Listener
    from toolrun.voice.voice_event import Outcome as Outcome
    from toolrun.voice.voice_event import ToolActivity as ToolActivity
    from toolrun.voice.voice_event import Utterance as Utterance
    from toolrun.voice.voice_event import VoiceEvent as VoiceEvent


def _missing(module: str, error: ModuleNotFoundError) -> Exception | None:
    """The error for a missing LangChain, which names the extra to install."""
    if error.name is None or not error.name.startswith("langchain_core"):
        return None
    from toolrun.extra import missing

    return missing("langchain", error, "The voice gateway")


__getattr__, __dir__, __all__ = export(
    __name__,
    {
        "broker_address": ["BrokerAddress"],
        "voice_event": ["Answered", "Heard", "Listener", "Outcome", "ToolActivity", "Utterance", "VoiceEvent"],
        "gateway": ["Sources", "run_gateway"],
        "transcriber": ["BackgroundTranscriber"],
    },
    _missing,
)
