"""A collector that speaks OTLP over HTTP, and keeps what programs export to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collected:
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    spans: list[Any] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    metrics: set[str] = field(default_factory=set)

    def read_traces(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self._note(resource.resource)
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def read_metrics(self, body: bytes) -> None:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self._note(resource.resource)
            for scope in resource.scope_metrics:
                self.metrics |= {metric.name for metric in scope.metrics}

    def _note(self, resource: Any) -> None:
        self.services |= {it.value.string_value for it in resource.attributes if it.key == "service.name"}

    def named(self, name: str) -> Any:
        """The one span of that name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span


@contextmanager
def collector() -> Iterator[Collected]:
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collected.bodies.append(body)
            (collected.read_traces if self.path == "/v1/traces" else collected.read_metrics)(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collected.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
