"""Where spans and durations go: to the program's own providers, or by OTLP to where the `OTEL_…` variables say.

Nothing is written to stdout, which belongs to protocols, so there is no exporter for the console.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from toolrun.logger import get_logger
from toolrun.redaction import Redactor
from toolrun.telemetry.call_tracer import Telemetry
from toolrun.version import __version__

logger = get_logger("toolrun.telemetry")

_LAST_EXPORT: Final = 3.0
"""Seconds that the end of a program waits for a collector."""


@asynccontextmanager
async def open_telemetry(*, content: bool, redactor: Redactor) -> AsyncIterator[Telemetry]:
    """Telemetry by the program's own providers, or by ones that end, and export what is left, on leaving."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield Telemetry(content=content, redactor=redactor)
        return
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)  # it warns of each attempt
    resource = Resource.create({"service.name": "toolrun", "service.version": __version__})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource, shutdown_on_exit=False)
    try:
        yield Telemetry(tracers, meters, content=content, redactor=redactor)
    finally:
        if not await _end(tracers, meters):
            logger.warning("not all traces and metrics were exported: the collector did not take them in time")


async def _end(tracers: TracerProvider, meters: MeterProvider) -> bool:
    """Export what is left. In threads that the program need not wait for: a collector may not answer."""
    loop, ended = asyncio.get_running_loop(), asyncio.Queue[None]()

    def run(end: Callable[[], object]) -> None:
        end()
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(ended.put_nowait, None)

    for end in (tracers.shutdown, partial(meters.shutdown, timeout_millis=_LAST_EXPORT * 1000)):
        threading.Thread(target=run, args=[end], name="telemetry", daemon=True).start()
    try:
        async with asyncio.timeout(_LAST_EXPORT):
            await ended.get()
            await ended.get()
    except TimeoutError:
        return False
    return True
