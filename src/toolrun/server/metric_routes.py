"""GET /metrics: what Prometheus scrapes."""

from __future__ import annotations

from collections import Counter

from toolrun.server.api_answer import ApiAnswer
from toolrun.server.api_state import ApiState
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.prometheus import MEDIA_TYPE, Sample
from toolrun.server.report_routes import workers_of
from toolrun.version import __version__


def metric_operations(state: ApiState) -> list[Operation]:
    async def metrics(request: ApiRequest) -> ApiAnswer:
        return ApiAnswer(state.counters.render(_gauges(state)), media_type=MEDIA_TYPE)

    return [Operation("GET", "/metrics", metrics, "Metrics for Prometheus", "text/plain")]


def _gauges(state: ApiState) -> list[tuple[str, str, list[Sample]]]:
    runtime = state.runtime
    health = runtime.executor.health()
    workers = Counter((script, worker.status().state) for script, _, worker in workers_of(state))
    connected: list[Sample] = [("", {"server": it.name}, float(it.session is not None)) for it in runtime.servers]
    by_worker: list[Sample] = [
        ("", {"script": script, "state": word}, count) for (script, word), count in workers.items()
    ]
    abandoned: list[Sample] = [("", {"tool": tool}, count) for tool, count in health.abandoned.items()]
    return [
        ("toolrun_info", "The version of toolrun.", [("", {"version": __version__}, 1)]),
        ("toolrun_tools", "Tools that can be called.", [("", {}, len(runtime.manager))]),
        ("toolrun_calls_running", "Calls that are being executed.", [("", {}, health.running)]),
        ("toolrun_calls_queued", "Calls that wait for their turn.", [("", {}, health.queued)]),
        ("toolrun_threads_abandoned", "Threads that still run an abandoned call.", abandoned),
        (
            "toolrun_calls_lingering",
            "Async calls that were cancelled but have not ended.",
            [("", {}, health.lingering)],
        ),
        ("toolrun_journal_problem", "Whether calls cannot be recorded.", [("", {}, float(health.journal is not None))]),
        ("toolrun_server_connected", "Whether an MCP server is connected.", connected),
        ("toolrun_workers", "Worker processes, by script and by what they do.", by_worker),
    ]
