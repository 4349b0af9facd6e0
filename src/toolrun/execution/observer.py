"""The hook into the pipeline for logs, traces and recordings. A journal is a stage instead (`call_journal.py`)."""

from __future__ import annotations

from toolrun.result import ToolResult
from toolrun.tools.context import Call


class Observer:
    """Override one method or both. They run on the event loop, so they must not block; what they raise is logged."""

    def call_started(self, call: Call) -> None:
        """A call has come in; nothing is known of it but its name and its arguments as they came."""

    def call_finished(self, call: Call, result: ToolResult) -> None:
        """The call has its answer. `call.error` is what the tool raised, if it did."""
