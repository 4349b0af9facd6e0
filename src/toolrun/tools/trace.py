"""The seam between calls and whatever traces them (`toolrun.telemetry`). Nobody here knows OpenTelemetry.

A call that is traced has a `Trace`; one that is not has None, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

Carrier: TypeAlias = Mapping[str, str]
"""What another program continues a trace with: `traceparent`, and perhaps `tracestate` and `baggage`."""


class RequestTrace(Protocol):
    """A request to another program that is part of a call."""

    @property
    def carrier(self) -> Carrier: ...

    def end(self, error_type: str = "") -> None:
        """There is an answer, or there will be none. Later calls change nothing."""


class Trace(Protocol):
    """The trace of one call."""

    @property
    def carrier(self) -> Carrier:
        """As that of a request, for programs that get no request of their own."""

    def request(self, tool: str, attributes: Mapping[str, str | int]) -> RequestTrace:
        """An MCP request is about to be sent. It ends with the call, at the latest."""


class ServedTrace(Protocol):
    """A request of a client that is being answered."""

    def fail(self, error_type: str) -> None:
        """The answer is a failure, whatever the protocol calls it."""


class Tracer(Protocol):
    """Traces the requests of clients."""

    def serve(
        self, method: str, tool: str, carrier: Mapping[str, object], attributes: Mapping[str, str | int]
    ) -> AbstractContextManager[ServedTrace]:
        """While a request is answered. What it calls becomes part of the client's trace."""
