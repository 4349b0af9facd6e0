"""The HTTP API: routes, bodies that are read up to a limit, and JSON for every answer, also for a refusal.

The guard of the MCP server stands before it: token, Host and Origin are checked. What is no path of the API goes on to
MCP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from toolrun.errors import UnavailableError, UsageError
from toolrun.json import dumps, loads
from toolrun.runtime import Runtime
from toolrun.server.approval_routes import ApprovalRoutes
from toolrun.server.request_error import RequestError

MAX_BODY: Final = 1_000_000
"""Bytes of a request."""
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
"""All that a request may be sent with, so that a wrong one gets an answer in words."""
Handler = Callable[[Request, Any], Awaitable[Any]]
"""Gets the request and its JSON body, if it has one; returns the JSON of the answer."""


def http_api(runtime: Runtime, app: ASGIApp) -> ASGIApp:
    """The API of a runtime, in front of another application."""
    routes = [
        Route(path, _endpoint(handlers), methods=list(_METHODS))
        for path, handlers in ApprovalRoutes(runtime).routes.items()
    ]
    return Router(routes, redirect_slashes=False, default=app)


def _endpoint(handlers: dict[str, Handler]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        handler = handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = ", ".join(handlers)
            return _json({"error": f"use {allowed} here"}, 405, {"allow": allowed})
        try:
            body = await _read(request) if request.method == "POST" else None
            return _json(await handler(request, body))
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
