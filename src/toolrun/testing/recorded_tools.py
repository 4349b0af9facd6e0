"""Recorded calls as tools: recorded with `Recorder` or `toolrun record`, played with `Recording`."""

from __future__ import annotations

from toolrun.recording.playback import RecordedTool, Recording
from toolrun.recording.recording_observer import Recorder

__all__ = ["RecordedTool", "Recorder", "Recording"]
