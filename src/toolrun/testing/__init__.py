"""Doubles for users' own tests and demonstrations: a model that plays a script, tools that play recordings."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolrun.testing.model import Said as Said
    from toolrun.testing.model import ScriptedModel as ScriptedModel
    from toolrun.testing.tools import RecordedTools as RecordedTools
    from toolrun.testing.tools import Recorder as Recorder

_HOME = {"RecordedTools": "tools", "Recorder": "tools", "Said": "model", "ScriptedModel": "model"}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'toolrun.testing' has no attribute {name!r}")
    value: object = getattr(import_module(f"toolrun.testing.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
