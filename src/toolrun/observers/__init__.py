"""Who watches calls. An observer is told when a call starts and when it is answered; it cannot change either."""

from __future__ import annotations

from toolrun.observers.log import LogObserver
from toolrun.observers.observer import Observer

__all__ = ["LogObserver", "Observer"]
