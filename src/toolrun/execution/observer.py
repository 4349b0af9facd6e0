"""The hook into the pipeline for logs, traces and recordings. A journal is a stage instead (`call_journal.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toolrun.result import ToolResult
from toolrun.tools.context import Call


class Observer:
    """Override one method or both. They run on the event loop, so they must not block; what they raise is logged."""

    def call_started(self, call: Call) -> None:
        """A call has come in; nothing is known of it but its name and its arguments as they came."""

    def call_finished(self, call: Call, result: ToolResult) -> None:
        """The call has its answer. `call.error` is what the tool raised, if it did."""


class Observers:
    """Those of one executor. They may come and go while it runs."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self.on_started: list[Callable[[Call], object]] = []
        """Only of those that have something to do then: mostly none."""
        self.on_finished: list[Callable[[Call, ToolResult], object]] = []
        for it in observers:
            self.add(it)

    def add(self, observer: Observer) -> None:
        """It is told of the calls that start or finish from now on."""
        if type(observer).call_started is not Observer.call_started:
            self.on_started.append(observer.call_started)
        self.on_finished.append(observer.call_finished)

    def remove(self, observer: Observer) -> None:
        if observer.call_started in self.on_started:
            self.on_started.remove(observer.call_started)
        self.on_finished.remove(observer.call_finished)
