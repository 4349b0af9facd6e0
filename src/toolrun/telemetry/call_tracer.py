"""Spans of calls: an observer of the executor, which the MCP client and server ask for spans of their own.

    execute_tool NAME       one call, from its request to its answer; current while the body runs
      tools/call NAME       (client) a request to an MCP server that it makes
    tools/call NAME         (server) a request that `toolrun serve` answers, with its call inside

The trace goes on in other programs: MCP requests carry it in `_meta` (SEP-414), scripts have it in `TRACEPARENT`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, MeterProvider, get_meter_provider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from toolrun.errors import ErrorKind
from toolrun.execution.log import shown_content
from toolrun.execution.observer import Observer
from toolrun.redaction import Redactor
from toolrun.result import ToolResult
from toolrun.telemetry import conventions as names
from toolrun.text import shown_name
from toolrun.tools.context import Call
from toolrun.version import __version__

_CARRIED: Final = ("traceparent", "tracestate", "baggage")
_KILLING: Final = frozenset({ErrorKind.TIMEOUT, ErrorKind.CANCELLED, ErrorKind.PROTOCOL})
"""Failures with which the worker of a call is killed."""
Attributes = Mapping[str, str | int]


class Telemetry(Observer):
    """Traces and measures the calls of an executor: `ToolExecutor(manager, observers=[LogObserver(), Telemetry()])`."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
        redactor: Redactor | None = None,
    ) -> None:
        """Without providers, those of the program. `content`: spans have arguments and results, without secrets."""
        self._tracer = trace.get_tracer("toolrun", __version__, tracer_provider)
        meter = (meter_provider or get_meter_provider()).get_meter("toolrun", __version__)
        tool, client, server = (
            meter.create_histogram(name, "s", about, explicit_bucket_boundaries_advisory=names.BOUNDARIES)
            for name, about in (
                (names.TOOL_DURATION, "Duration of a tool call, from its request to its answer"),
                (names.CLIENT_DURATION, "Duration of a request to an MCP server"),
                (names.SERVER_DURATION, "Duration of a request of an MCP client"),
            )
        )
        self._tool_duration, self._client_duration, self._server_duration = tool, client, server
        self._content = (redactor or Redactor()) if content else None

    def call_started(self, call: Call) -> None:
        name = shown_name(call.name)
        attributes = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: name, names.TOOL_TYPE: "function"}
        if call.given_id is not None:
            attributes[names.TOOL_CALL_ID] = str(call.given_id)
        span = self._tracer.start_span(f"{names.EXECUTE_TOOL} {name}", attributes=attributes)
        call.trace = CallTrace(self._tracer, self._client_duration, span)

    def call_finished(self, call: Call, result: ToolResult) -> None:
        trace = call.trace
        if not isinstance(trace, CallTrace):
            return  # the call has met another observer of this kind
        span, kind = trace.span, result.error_kind
        trace.end(kind)
        name = shown_name(call.name)
        measured = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: name, names.TOOL_TYPE: trace.tool_type}
        if kind is ErrorKind.UNKNOWN_TOOL:  # a name that anybody may make up is no name for a span
            span.update_name(names.EXECUTE_TOOL)
            del measured[names.TOOL_NAME]
        if kind is not None:
            measured[names.ERROR_TYPE] = kind.value
        self._tool_duration.record(result.execution_time_ms / 1000, measured, context=trace.context)
        if span.is_recording():
            self._describe(span, trace, call, result)
        span.end()

    def _describe(self, span: Span, trace: CallTrace, call: Call, result: ToolResult) -> None:
        kind = result.error_kind
        attributes: dict[str, str | int | bool] = {
            names.TOOL_TYPE: trace.tool_type,
            names.TOOL_CALL_ID: call.id,
            names.REPAIRS: len(result.repairs),
        }
        if result.dropped:
            attributes[names.DROPPED] = len(result.dropped)
        if result.replayed:
            attributes[names.REPLAYED] = True
        if result.recorded_as is not None:
            attributes[names.RECORDED_AS] = result.recorded_as
        if call.gone is not None:  # it ran in a worker
            attributes[names.KILLED] = kind in _KILLING
        words = None
        if self._content is not None:
            arguments, said = shown_content(call, result, self._content)
            attributes[names.TOOL_ARGUMENTS] = arguments
            if kind is None:
                attributes[names.TOOL_RESULT] = said
            else:
                words = said
        if kind is not None:
            attributes[names.ERROR_TYPE] = kind.value
            attributes[names.SIDE_EFFECTS] = str(result.side_effects)
            span.set_status(Status(StatusCode.ERROR, words))
        span.set_attributes(attributes)

    @contextmanager
    def serve(
        self, method: str, tool: str, carrier: Mapping[str, object], attributes: Attributes
    ) -> Iterator[ServedRequest]:
        """While a request of an MCP client is answered; in the client's trace, if it has sent one."""
        known = {name: value for name in _CARRIED if isinstance(value := carrier.get(name), str)}
        parent = propagate.extract(known, otel_context.get_current())
        method = method if method in names.METHODS else names.OTHER
        facts: dict[str, str | int] = {names.MCP_METHOD: method, **attributes}
        if tool:
            facts |= {names.TOOL_NAME: tool, names.OPERATION: names.EXECUTE_TOOL}
        span = self._tracer.start_span(
            f"{method} {tool}" if tool else method, parent, SpanKind.SERVER, attributes=facts
        )
        served, started = ServedRequest(), perf_counter()
        token = otel_context.attach(trace.set_span_in_context(span, parent))
        try:
            yield served
        except BaseException as error:
            served.fail(type(error).__name__)
            if tool:  # there may be no such tool, and a name that anybody may make up is no name for a span
                span.update_name(method)
                del facts[names.TOOL_NAME]
            raise
        finally:
            otel_context.detach(token)
            if served.error_type:
                facts[names.ERROR_TYPE] = served.error_type
                span.set_attribute(names.ERROR_TYPE, served.error_type)
                span.set_status(Status(StatusCode.ERROR))
            self._server_duration.record(perf_counter() - started, facts)
            span.end()


class ServedRequest:
    """A request of a client that is being answered."""

    error_type = ""

    def fail(self, error_type: str) -> None:
        self.error_type = error_type


class CallTrace:
    """The span of a call, which is current until the call has its answer, and the requests that the call makes."""

    def __init__(self, tracer: trace.Tracer, duration: Histogram, span: Span) -> None:
        self.span = span
        self.context: Context = trace.set_span_in_context(span)
        self.tool_type = "function"
        self._tracer, self._duration = tracer, duration
        self._requests: list[ClientRequest] = []
        self._token = otel_context.attach(self.context)

    @property
    def carrier(self) -> Mapping[str, str]:
        return _carrier(self.context)

    def request(self, tool: str, attributes: Attributes) -> ClientRequest:
        self.tool_type = "extension"  # what acts is another program
        facts = {names.MCP_METHOD: "tools/call", names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: tool}
        span = self._tracer.start_span(
            f"tools/call {tool}", self.context, SpanKind.CLIENT, attributes={**facts, **attributes}
        )
        request = ClientRequest(span, self.context, self._duration, {**facts, **attributes})
        self._requests.append(request)
        return request

    def end(self, kind: ErrorKind | None) -> None:
        """The call has its answer: nobody waits for its requests any more."""
        otel_context.detach(self._token)
        for request in self._requests:
            request.end("" if kind is None else kind.value)


class ClientRequest:
    """A request to an MCP server."""

    def __init__(self, span: Span, context: Context, duration: Histogram, facts: dict[str, str | int]) -> None:
        self._span, self._duration, self._facts = span, duration, facts
        self._context = trace.set_span_in_context(span, context)
        self._started, self._is_open = perf_counter(), True

    @property
    def carrier(self) -> Mapping[str, str]:
        return _carrier(self._context)

    def end(self, error_type: str = "") -> None:
        if not self._is_open:
            return
        self._is_open = False
        if error_type:
            self._facts[names.ERROR_TYPE] = error_type
            self._span.set_attribute(names.ERROR_TYPE, error_type)
            self._span.set_status(Status(StatusCode.ERROR))
        self._duration.record(perf_counter() - self._started, self._facts, context=self._context)
        self._span.end()


def _carrier(context: Context) -> dict[str, str]:
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    return carrier
