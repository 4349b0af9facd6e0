"""The HTTP API: routes, bodies that are read up to a limit, and JSON for every answer, also for a refusal.

The guard of the MCP server stands before it: token, Host and Origin are checked. What is neither a path of the API nor
a file of the page goes on to MCP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from toolrun.errors import UnavailableError, UsageError
from toolrun.json import dumps, loads
from toolrun.mcp.server.fast_path import App, Receive, Scope, Send, noting
from toolrun.runtime import Runtime
from toolrun.server.approval_routes import ApprovalRoutes
from toolrun.server.health_routes import PUBLIC, HealthRoutes
from toolrun.server.request_error import RequestError
from toolrun.server.static_files import StaticFiles
from toolrun.text import show

_PREFIX: Final = "/api/"
MAX_BODY: Final = 1_000_000
"""Bytes of a request."""
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
"""All that a request may be sent with, so that a wrong one gets an answer in words."""
Handler = Callable[[Request, Any], Awaitable[Any]]
"""Gets the request and its JSON body, if it has one; returns the JSON of the answer."""


class HttpApi:
    """The API and the page of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        routes = {**HealthRoutes(runtime).routes, **ApprovalRoutes(runtime).routes}
        self._router = Router(
            [Route(path, _endpoint(handlers), methods=list(_METHODS)) for path, handlers in routes.items()],
            redirect_slashes=False,
            default=_not_found,
        )
        self._paths = frozenset(path for path in routes if not path.startswith(_PREFIX))
        self._files = StaticFiles()
        self.public_paths = self._files.paths | PUBLIC

    def before(self, app: App) -> App:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope["path"]
            if path.startswith(_PREFIX) or path in self._paths:
                await self._router(scope, receive, noting(scope, send))
            elif path in self._files.paths:
                await self._files(scope, receive, send)
            else:
                await app(scope, receive, send)

        return answer


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await _json({"error": f"there is no {show(scope['path'])} here; GET /api/openapi.json lists what there is"}, 404)(
        scope, receive, send
    )


def _endpoint(handlers: dict[str, Handler]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        handler = handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = ", ".join(handlers)
            return _json({"error": f"use {allowed} here"}, 405, {"allow": allowed})
        try:
            body = await _read(request) if request.method == "POST" else None
            answered = await handler(request, body)
            return answered if isinstance(answered, Response) else _json(answered)
        except RequestError as problem:
            return _json({"error": str(problem)}, problem.status)
        except UsageError as error:
            return _json({"error": str(error)}, 400)
        except UnavailableError as error:
            return _json({"error": str(error)}, 503)

    return answer


async def _read(request: Request) -> Any:
    """The JSON of a request. Raises RequestError."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise RequestError(413, f"the body may have at most {MAX_BODY:,} bytes")
        parts.append(part)
    try:
        return loads(b"".join(parts))
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {error}") from None


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(dumps(value), status, {"cache-control": "no-store", **(headers or {})}, "application/json")
