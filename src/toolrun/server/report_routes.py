"""The state of everything that runs: servers, workers, queues, threads, the journal; and starting one of them anew."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import (
    Final,
    NotRequired,  # pydantic, which needs it, brings it
)

from typing_extensions import TypedDict

from toolrun.scripts.pool import Pool
from toolrun.scripts.pooled_worker import PooledWorker
from toolrun.server.api_state import ApiState
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.request_error import RequestError
from toolrun.text import shown_name
from toolrun.version import __version__

_PID: Final = "pid "


class ServerView(TypedDict):
    """An MCP server."""

    name: str
    transport: str
    state: str
    """`connecting`, `connected`, `waiting` for the next attempt, `unreachable` or `closed`."""
    error: str | None
    tail: str | None
    """What it wrote on stderr last."""
    protocol: str | None
    info: str | None
    tools: int
    connections: int
    """How often it has been connected with."""


class WorkerView(TypedDict):
    """A process that runs the functions of a script."""

    id: str
    """Its pid, or where else it runs."""
    script: str
    state: str
    """`starting`, `ready`, `busy`, `draining` or `ending`."""
    calls: int
    running: int
    memory: int | None
    """Resident bytes."""
    uptime: float
    """Seconds."""
    restarts: int
    """How many workers of its script were lost, worn out or replaced before: those that were idle do not count."""
    sandbox: str


class QueuesView(TypedDict):
    """Calls and their turns."""

    running: int
    queued: int
    max_concurrency: int
    max_queue: int


class ThreadsView(TypedDict):
    """Threads and tasks that were given up."""

    abandoned: dict[str, int]
    """By tool: threads in which a call still runs that was answered at its deadline."""
    lingering: int
    """Async calls that were cancelled but have not ended."""


class JournalView(TypedDict):
    """The record of calls."""

    path: str | None
    problem: str | None


class ReportAnswer(TypedDict):
    """All of it."""

    version: str
    uptime: float
    ready: bool
    servers: list[ServerView]
    workers: list[WorkerView]
    queues: QueuesView
    threads: ThreadsView
    journal: JournalView
    problems: list[str]


class RestartBody(TypedDict):
    """How to restart."""

    force: NotRequired[bool]
    """Of a worker: now, with the calls that run in it; else when its last call has ended."""


class RestartedAnswer(TypedDict):
    """What happens now."""

    state: str


def report_operations(state: ApiState) -> list[Operation]:
    routes = _ReportRoutes(state)
    return [
        Operation("GET", "/api/health", routes.report, "The state of servers, workers and queues", ReportAnswer),
        Operation(
            "POST",
            "/api/servers/{name}/restart",
            routes.restart_server,
            "Reconnect to a server",
            RestartedAnswer,
            RestartBody,
            failures={404: "There is no such server."},
        ),
        Operation(
            "POST",
            "/api/workers/{id}/restart",
            routes.restart_worker,
            "Replace a worker",
            RestartedAnswer,
            RestartBody,
            failures={404: "There is no such worker."},
        ),
    ]


class _ReportRoutes:
    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._runtime = state.runtime
        self._started = monotonic()

    async def report(self, request: ApiRequest) -> ReportAnswer:
        runtime = self._runtime
        health, limits = runtime.executor.health(), runtime.config.limits
        problems = [str(it) for it in runtime.problems]
        problems += [f"a secret is missing: {it}" for it in runtime.config.missing_secrets.values()]
        return {
            "version": __version__,
            "uptime": round(monotonic() - self._started, 1),
            "ready": self._state.is_ready(),
            "servers": self._servers(),
            "workers": [_view_worker(*it) for it in workers_of(self._state)],
            "queues": {
                "running": health.running,
                "queued": health.queued,
                "max_concurrency": limits.max_concurrency,
                "max_queue": limits.max_queue,
            },
            "threads": {"abandoned": dict(health.abandoned), "lingering": health.lingering},
            "journal": {
                "path": None if runtime.journal is None else str(runtime.journal.path),
                "problem": health.journal,
            },
            "problems": [*problems, *health.definitions],
        }

    def _servers(self) -> list[ServerView]:
        counts: dict[str, int] = {}
        for tool in self._runtime.manager:
            server = getattr(tool, "mcp_server", None)
            if isinstance(server, str):
                counts[server] = counts.get(server, 0) + 1
        return [
            {
                "name": it.name,
                "transport": it.server.transport,
                "state": it.state.value,
                "error": it.error or None,
                "tail": it.tail or None,
                "protocol": it.version or None,
                "info": it.info or None,
                "tools": counts.get(it.name, 0),
                "connections": it.connections,
            }
            for it in self._runtime.servers
        ]

    async def restart_server(self, request: ApiRequest) -> RestartedAnswer:
        name = request.parts["name"]
        server = next((it for it in self._runtime.servers if it.name == name), None)
        if server is None:
            raise RequestError(404, f"there is no server '{shown_name(name)}'")
        await server.restart()
        return {"state": server.state.value}

    async def restart_worker(self, request: ApiRequest) -> RestartedAnswer:
        id, body = request.parts["id"], request.body
        for _, pool, worker in workers_of(self._state):
            if _id(worker) == id:
                pool.replace(worker, is_forced=bool(body.get("force")))
                return {"state": worker.status().state}
        raise RequestError(404, f"there is no worker {shown_name(id)}; GET /api/health lists those that run")


def workers_of(state: ApiState) -> Iterator[tuple[str, Pool, PooledWorker]]:
    """Every worker of the runtime, with its script and its pool."""
    runtime = state.runtime
    root = runtime.config.root
    for script in runtime.scripts:
        path = script.path
        label = str(path.relative_to(root) if path.is_relative_to(root) else path)
        for pool in (script.pool, *script.retired):
            yield from ((label, pool, worker) for worker in pool.workers)
    isolated = runtime.executor.loop_state().isolated
    if isolated is not None:
        for name, pool in isolated.pools.items():
            yield from ((name, pool, worker) for worker in pool.workers)


def _view_worker(script: str, pool: Pool, worker: PooledWorker) -> WorkerView:
    status, info = worker.status(), worker.describe()
    return {
        "id": _id(worker),
        "script": script,
        "state": status.state,
        "calls": status.calls,
        "running": status.running,
        "memory": None if info is None else info.memory,
        "uptime": round(monotonic() - worker.born, 1),
        "restarts": pool.restarts,
        "sandbox": status.sandbox,
    }


def _id(worker: PooledWorker) -> str:
    info = worker.describe()
    return "" if info is None else info.place.removeprefix(_PID).replace(" ", "-")
