"""Doubles for users' own tests and demonstrations: a model that plays a script, tools that play recordings."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolrun.testing.recorded_tools import RecordedTools as RecordedTools
    from toolrun.testing.recorded_tools import Recorder as Recorder
    from toolrun.testing.scripted_model import Said as Said
    from toolrun.testing.scripted_model import ScriptedModel as ScriptedModel

_HOME = {
    "RecordedTools": "recorded_tools",
    "Recorder": "recorded_tools",
    "Said": "scripted_model",
    "ScriptedModel": "scripted_model",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'toolrun.testing' has no attribute {name!r}")
    value: object = getattr(import_module(f"toolrun.testing.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
