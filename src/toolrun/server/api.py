"""The HTTP API and the page: finds the operation of a request, checks what it says, and sends its answer.

The guard of the MCP server stands before it: token, Host and Origin are checked. What is neither a path of the API nor
a file of the page goes on to MCP. Whatever is answered, the secrets of the project are taken out of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from toolrun.mcp.server.fast_path import App, Receive, Scope, Send, noting
from toolrun.runtime import Runtime
from toolrun.server.api_answer import ApiAnswer, EventStream, failure, send_answer, send_events, send_no_events
from toolrun.server.api_body import read_body
from toolrun.server.api_state import ApiState
from toolrun.server.approval_routes import approval_operations
from toolrun.server.call_route import CallRoute
from toolrun.server.chat_routes import chat_operations
from toolrun.server.effect_routes import effect_operations
from toolrun.server.event_routes import event_operations
from toolrun.server.health_routes import health_operations
from toolrun.server.history_routes import history_operations
from toolrun.server.metric_routes import metric_operations
from toolrun.server.openapi import document
from toolrun.server.operation import ApiRequest, Operation
from toolrun.server.report_routes import report_operations
from toolrun.server.request_error import RequestError
from toolrun.server.running_routes import running_operations
from toolrun.server.static_files import StaticFiles
from toolrun.server.tool_routes import tool_operations
from toolrun.server.trust_routes import trust_operations
from toolrun.text import show

_PREFIX: Final = "/api/"


class HttpApi:
    """The API and the page of a runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._state = state = ApiState(runtime)
        self._calls = CallRoute(state)
        self.operations: tuple[Operation, ...] = (
            *tool_operations(state),
            self._calls.operation,
            *history_operations(state),
            *running_operations(state),
            *effect_operations(state),
            *approval_operations(state),
            *trust_operations(state),
            *chat_operations(state),
            *event_operations(state),
            *report_operations(state),
            *metric_operations(state),
            *health_operations(state),
            Operation("GET", "/api/openapi.json", self._document, "This document", dict[str, Any]),
        )
        self._fixed: dict[str, dict[str, Operation]] = {}
        self._varying: dict[str, list[tuple[Operation, Any]]] = {}
        for it in self.operations:
            if "{" in it.path:
                self._varying.setdefault(it.path, []).append((it, it.pattern))
            else:
                self._fixed.setdefault(it.path, {})[it.method] = it
        self._files = StaticFiles()
        self.public_paths = self._files.paths | {it.path for it in self.operations if it.is_public}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """What the API needs beside requests."""
        with self._state.observing():
            try:
                yield
            finally:
                await self._calls.close()

    def is_read_only(self, path: str) -> bool:
        """Whether it is a path of the API or the page that takes no POST."""
        methods = self._methods(path)
        return "POST" not in methods if methods else path in self._files.paths

    def before(self, app: App) -> App:
        """An application that answers the paths of the API and the page, and passes all others on."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope["path"]
            if path.startswith(_PREFIX) or path in self._fixed:
                if scope["method"] == "POST" and (name := self._calls.tool_of(path)) is not None:
                    await self._calls.answer(name, scope, receive, send)
                else:
                    await self._answer(scope, receive, noting(scope, send))
            elif path in self._files.paths:
                await self._files(scope, receive, noting(scope, send))
            else:
                await app(scope, receive, send)

        return answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            operation, parts = self._find(scope["method"], scope["path"])
            query = operation.read_query(scope.get("query_string", b""))
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            body = None
            if operation.body is not None:
                body = await read_body(scope, receive, operation.max_body)
                operation.check_body(body)
            answered = await operation.handler(ApiRequest(parts, query, body, headers))
        except Exception as error:  # noqa: BLE001  the client gets an answer, whatever is wrong
            answered = failure(error)
        is_head = scope["method"] == "HEAD"
        if isinstance(answered, EventStream):
            if is_head:
                await send_no_events(send)
            else:
                await send_events(answered, receive, send, self._state.hide)
            return
        if not isinstance(answered, ApiAnswer):
            answered = ApiAnswer(answered)
        await send_answer(send, answered, self._state.hide, without_body=is_head)

    def _find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        """Raises RequestError."""
        methods = self._methods(path)
        if not methods:
            raise RequestError(404, f"there is no {show(path)} here; GET /api/openapi.json lists what there is")
        known = methods.get("GET" if method == "HEAD" else method)
        if known is None:
            allowed = ", ".join(methods)
            raise RequestError(405, f"use {allowed} here", {"allow": allowed})
        return known

    def _methods(self, path: str) -> dict[str, tuple[Operation, Mapping[str, str]]]:
        methods: dict[str, tuple[Operation, Mapping[str, str]]] = {}
        for name, operation in self._fixed.get(path, {}).items():
            methods[name] = (operation, {})
        for group in () if methods else self._varying.values():
            for operation, pattern in group:
                if (found := pattern.fullmatch(path)) is not None:
                    methods.setdefault(operation.method, (operation, found.groupdict()))
        return methods

    async def _document(self, request: ApiRequest) -> Any:
        return await asyncio.to_thread(document, self.operations)
