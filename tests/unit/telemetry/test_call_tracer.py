"""Spans and durations of calls, as an SDK of OpenTelemetry gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from toolrun import ToolContext, ToolExecutor, ToolManager, tool
from toolrun.execution.observer import Observer
from toolrun.redaction import Redactor
from toolrun.telemetry import Telemetry


class Collector:
    """An SDK that keeps what it gets."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def span(self) -> ReadableSpan:
        (span,) = self.spans
        return span

    def durations(self) -> list[tuple[str, dict[str, Any], int]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return [
            (metric.name, dict(point.attributes or {}), point.count)  # type: ignore[union-attr]
            for metric in metrics
            for point in metric.data.data_points
        ]

    def telemetry(self, **options: Any) -> Telemetry:
        return Telemetry(self.tracers, self.meters, **options)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.tracers.shutdown()
    collector.meters.shutdown()


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@tool
async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_call_is_one_span_with_the_names_of_the_conventions(collector: Collector) -> None:
    executor = ToolExecutor(ToolManager([add]), observers=[collector.telemetry()])
    result = await executor.execute("add", {"a": 1, "b": "2"}, call_id="toolu_1")
    assert result.result == 3
    span = collector.span
    assert (span.name, span.kind, span.status.status_code) == ("execute_tool add", SpanKind.INTERNAL, StatusCode.UNSET)
    assert attributes(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "toolu_1",
        "toolrun.repairs": 1,
    }
    known = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.type": "function"}
    assert collector.durations() == [("gen_ai.execute_tool.duration", known, 1)]


async def test_a_failure_has_its_kind_and_side_effects_and_says_nothing_of_what_was_in_it(
    collector: Collector,
) -> None:
    executor = ToolExecutor(ToolManager([fail]), observers=[collector.telemetry()])
    await executor.execute("fail", {"why": "the canary"})
    await executor.close()
    span = collector.span
    assert span.status.status_code is StatusCode.ERROR
    found = attributes(span)
    assert (found["error.type"], found["toolrun.side_effects"]) == ("tool_error", "failed")
    assert "canary" not in span.to_json()
    assert collector.durations()[0][1]["error.type"] == "tool_error"


async def test_the_name_of_a_tool_that_does_not_exist_names_no_span_and_no_series(collector: Collector) -> None:
    executor = ToolExecutor(ToolManager([add]), observers=[collector.telemetry()])
    for number in range(3):
        await executor.execute(f"made_up_{number}")
    assert [span.name for span in collector.spans] == ["execute_tool"] * 3
    ((_, labels, count),) = collector.durations()
    assert (labels["error.type"], count) == ("unknown_tool", 3)
    assert "gen_ai.tool.name" not in labels


async def test_the_span_is_current_while_the_body_runs_and_only_then(collector: Collector) -> None:
    @tool
    async def outer(context: ToolContext) -> str:
        """Call another tool, after a suspension."""
        await asyncio.sleep(0)
        assert (await context.call_tool("add", {"a": 1, "b": 2})).result == 3
        return format(trace.get_current_span().get_span_context().span_id, "x")

    @tool
    def in_thread() -> str:
        """In a thread."""
        return format(trace.get_current_span().get_span_context().span_id, "x")

    executor = ToolExecutor(ToolManager([add, outer, in_thread]), observers=[collector.telemetry()])
    seen = [(await executor.execute(name)).result for name in ("outer", "in_thread")]
    assert not trace.get_current_span().get_span_context().is_valid
    inner, first, second = collector.spans
    assert seen == [format(span.context.span_id, "x") for span in (first, second)]
    assert inner.parent is not None
    assert inner.parent.span_id == first.context.span_id
    assert second.parent is None
    await executor.close()


async def test_a_call_belongs_to_the_trace_of_its_caller(collector: Collector) -> None:
    executor = ToolExecutor(ToolManager([add]), observers=[collector.telemetry()])
    with collector.tracers.get_tracer("agent").start_as_current_span("invoke_agent") as agent:
        await asyncio.gather(*[executor.execute("add", {"a": 1, "b": number}) for number in range(5)])
        assert trace.get_current_span() is agent
    *calls, _ = collector.spans
    assert [span.parent and span.parent.span_id for span in calls] == [agent.get_span_context().span_id] * 5


async def test_a_call_that_is_cancelled_or_out_of_time_ends_its_span(collector: Collector) -> None:
    executor = ToolExecutor(ToolManager([hang]), observers=[collector.telemetry()])
    assert not (await executor.execute("hang", timeout=0.01)).success
    calling = asyncio.create_task(executor.execute("hang"))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert [attributes(span)["error.type"] for span in collector.spans] == ["timeout", "cancelled"]
    await executor.close()


async def test_content_is_there_on_request_and_without_secrets(collector: Collector) -> None:
    telemetry = collector.telemetry(content=True, redactor=Redactor(["the canary"]))
    executor = ToolExecutor(ToolManager([add, fail]), observers=[telemetry], secrets={"K": "the canary"})
    await executor.execute("add", {"a": 1, "b": 2})
    await executor.execute("fail", {"why": "the canary sings", "password": "another"})
    await executor.close()
    good, bad = collector.spans
    assert attributes(good)["gen_ai.tool.call.arguments"] == '{"a":1,"b":2}'
    assert attributes(good)["gen_ai.tool.call.result"] == "3"
    assert attributes(bad)["gen_ai.tool.call.arguments"].startswith('{"why":"')
    assert "sings" in str(bad.status.description)
    for span in (good, bad):
        assert "canary" not in span.to_json()
        assert "another" not in span.to_json()


async def test_a_failing_exporter_costs_no_call() -> None:
    class Failing(Observer):
        def call_started(self, call: Any) -> None:
            raise RuntimeError("no telemetry today")

    executor = ToolExecutor(ToolManager([add]), observers=[Failing()])
    assert (await executor.execute("add", {"a": 1, "b": 2})).result == 3


def test_a_request_of_a_client_continues_the_trace_that_it_carries(collector: Collector) -> None:
    telemetry = collector.telemetry()
    carrier = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "other": 1}
    with telemetry.serve("tools/call", "add", carrier, {"network.transport": "pipe"}) as served:
        served.fail("tool_error")
    span = collector.span
    assert (span.name, span.kind) == ("tools/call add", SpanKind.SERVER)
    assert span.parent is not None
    assert format(span.context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    assert format(span.parent.span_id, "016x") == "b7ad6b7169203331"
    found = attributes(span)
    assert (found["mcp.method.name"], found["error.type"]) == ("tools/call", "tool_error")
    assert collector.durations()[0][0] == "mcp.server.operation.duration"


@pytest.mark.parametrize("carrier", [{}, {"traceparent": "nonsense"}, {"traceparent": 7}, {"traceparent": "00-" * 99}])
def test_a_request_without_a_trace_that_can_be_read_begins_one(collector: Collector, carrier: dict[str, Any]) -> None:
    with collector.telemetry().serve("tools/list", "", carrier, {}):
        pass
    assert collector.span.parent is None
    assert collector.span.name == "tools/list"


def test_a_method_that_a_client_made_up_names_no_span_and_no_series(collector: Collector) -> None:
    telemetry = collector.telemetry()
    for method in ("made/up", "tools/call\n", "x" * 10_000):
        with telemetry.serve(method, "", {}, {}) as served:
            served.fail("MCPError")
    assert {span.name for span in collector.spans} == {"_OTHER"}
    ((_, measured, count),) = collector.durations()
    assert (measured["mcp.method.name"], count) == ("_OTHER", 3)
