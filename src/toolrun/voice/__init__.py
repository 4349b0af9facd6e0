"""A voice gateway: utterances in, tools in the middle, spoken answers out.

The names below are imported when they are first asked for: they need a model's packages, and speech alone does not.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.voice.broker_address import BrokerAddress as BrokerAddress
    from toolrun.voice.events import Answered as Answered
    from toolrun.voice.events import Heard as Heard
    from toolrun.voice.events import Listener as Listener
    from toolrun.voice.events import Outcome as Outcome
    from toolrun.voice.events import ToolActivity as ToolActivity
    from toolrun.voice.events import Utterance as Utterance
    from toolrun.voice.events import VoiceEvent as VoiceEvent
    from toolrun.voice.gateway import Sources as Sources
    from toolrun.voice.gateway import run_gateway as run_gateway
    from toolrun.voice.transcriber import BackgroundTranscriber as BackgroundTranscriber

__getattr__, __dir__, __all__ = export(
    __name__,
    {
        "broker_address": ["BrokerAddress"],
        "events": ["Answered", "Heard", "Listener", "Outcome", "ToolActivity", "Utterance", "VoiceEvent"],
        "gateway": ["Sources", "run_gateway"],
        "transcriber": ["BackgroundTranscriber"],
    },
)
