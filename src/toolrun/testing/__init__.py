"""Test doubles for users: a model that plays a script, tools that play recordings, an engine without processes.

The pytest fixture `recording` is in `pytest_plugin`, which pytest finds by itself. `find_workers` shows the worker
processes that a test has left running.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export

if TYPE_CHECKING:
    from toolrun.processes.process_table import WorkerProcess as WorkerProcess
    from toolrun.processes.process_table import find_workers as find_workers
    from toolrun.recording.playback import RecordedTool as RecordedTool
    from toolrun.recording.playback import Recording as Recording
    from toolrun.recording.recording_observer import Recorder as Recorder
    from toolrun.testing.memory_engine import MemoryEngine as MemoryEngine
    from toolrun.testing.memory_engine import MemoryWorker as MemoryWorker
    from toolrun.testing.mock_tool import MockTool as MockTool
    from toolrun.testing.scripted_model import Said as Said
    from toolrun.testing.scripted_model import ScriptedModel as ScriptedModel


def _missing(module: str, error: ModuleNotFoundError) -> Exception | None:
    """The error for a missing LangChain, which names the extra to install."""
    if error.name is None or not error.name.startswith("langchain_core"):
        return None
    from toolrun.extra import missing

    return missing("langchain", error, "ScriptedModel")


__getattr__, __dir__, __all__ = export(
    __name__,
    {
        "memory_engine": ["MemoryEngine", "MemoryWorker"],
        "mock_tool": ["MockTool"],
        "scripted_model": ["Said", "ScriptedModel"],
        "toolrun.processes.process_table": ["WorkerProcess", "find_workers"],
        "toolrun.recording.playback": ["RecordedTool", "Recording"],
        "toolrun.recording.recording_observer": ["Recorder"],
    },
    _missing,
)
