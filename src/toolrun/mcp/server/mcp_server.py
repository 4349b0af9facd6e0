"""toolrun as an MCP server: every tool of a manager, called through the one executor. Knows nothing of transports.

The SDK's low-level server speaks both eras of the protocol. Some requests are answered before the SDK sees them:
`tools/list`, whose answer is rendered once and kept until the tools change, and `tools/call`, so that neither gets more
expensive with the number of tools; and `resources/…`, which exist only if another server has resources. A request that
is not well-formed goes to the SDK, which refuses it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    NotificationParams,
    PaginatedRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolrun.config.model import ServeSettings
from toolrun.errors import ErrorKind
from toolrun.execution.executor import ToolExecutor
from toolrun.json import JSON, dumps
from toolrun.logger import get_logger
from toolrun.mcp.call_result import too_large, write_result
from toolrun.mcp.server.forwarded_resources import ForwardedResources, Reader
from toolrun.mcp.server.tool_list import ServedTool, ToolList
from toolrun.tools.context import OnProgress, Progress
from toolrun.tools.manager import ToolManager
from toolrun.version import __version__

logger = get_logger("toolrun.serve")

PAGE: Final = 1000
"""Tools in one answer to `tools/list`. Many clients ask for the first page only, so pages are large."""
_SETTLING: Final = 0.05
"""Seconds for which changes are collected: the tools of a file or a server change together."""
_FIRST_LIST: Final = 10.0
"""Seconds that the first list waits for servers. Clients that ignore changes would never see their tools."""
_GREETING: Final = 3.0
"""Seconds that the first answer to a client waits for servers, because it says whether there are resources."""
_RESOURCES: Final = frozenset({"resources/read", "resources/list", "resources/templates/list"})
_MAX_REPORTS: Final = 256
"""Reports of progress that wait for a client to read; then the oldest are dropped."""

Context = ServerRequestContext[Any, Any]


class McpServer:
    """The tools of a manager, for any number of MCP clients."""

    def __init__(
        self,
        manager: ToolManager,
        executor: ToolExecutor,
        ready: Callable[[], Awaitable[None]] | None = None,
        settings: ServeSettings | None = None,
        reader: Reader | None = None,
    ) -> None:
        """`ready` waits for the tools of servers that are still connecting; the first list waits for it.

        `reader` reads the resources of those servers.
        """
        self.settings = settings = settings or ServeSettings()
        self._ready = ready
        self._manager = manager
        self._executor = executor
        self.tools = ToolList(manager)
        self._max_bytes = settings.max_result_mb * 1_000_000
        self._resources = (
            ForwardedResources(reader, lambda: self.tools.rendered().tools.values(), executor.timeout)
            if reader is not None
            else None
        )
        self._bus = InMemorySubscriptionBus()
        self._listeners = ListenHandler(self._bus)
        self._sessions: dict[int, asyncio.Event] = {}
        """Of each client of the handshake era: set when the tools have changed, and the client must be told."""
        version = settings.version or __version__
        self.sdk = _SdkServer(
            settings.name,
            version=version,
            instructions=settings.instructions or None,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._on_list,
            on_call_tool=self._on_call,
            on_subscriptions_listen=self._listeners,
        )
        self.sdk.add_notification_handler("notifications/initialized", NotificationParams, self._on_initialized)
        self.sdk.middleware[:] = [self._answer_at_once]
        self._stamp = {SERVER_INFO_META_KEY: {"name": settings.name, "version": version}}

    @asynccontextmanager
    async def announcing(self) -> AsyncIterator[None]:
        """Announce changes of the tools to clients. At the end, the streams of those that listen are closed."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            self.tools.clear()
            loop.call_soon_threadsafe(changed.set)

        self._manager.on_change.append(tell)
        announcing = asyncio.create_task(self._announce(changed))
        try:
            yield
        finally:
            self._manager.on_change.remove(tell)
            announcing.cancel()
            await asyncio.wait([announcing])
            self._listeners.close()

    async def _announce(self, changed: asyncio.Event) -> None:
        while True:
            await changed.wait()
            await asyncio.sleep(_SETTLING)
            changed.clear()
            for session in self._sessions.values():
                session.set()
            await self._bus.publish(ToolsListChanged())

    async def _on_initialized(self, ctx: Context, params: NotificationParams) -> None:
        """Announce changes to a client of the handshake era, until the SDK ends this task with the connection.

        A client may say more than once that it is initialized. It is known by its parameters, which are one object.
        """
        client = id(ctx.session.client_params)
        if ctx.session.client_params is None or client in self._sessions:
            return
        changed = self._sessions[client] = asyncio.Event()
        try:
            while True:
                await changed.wait()
                changed.clear()
                await ctx.session.send_tool_list_changed()
        finally:
            del self._sessions[client]

    async def _answer_at_once(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The SDK calls this for every message. Whatever is not a well-formed call or list is left to the SDK."""
        params = ctx.params if ctx.params is not None else {}
        if ctx.method in ("initialize", "server/discover"):
            return await self._greet(await call_next(ctx))
        if ctx.request_id is None or not _is_open(ctx):
            return await call_next(ctx)
        if ctx.method == "tools/call":
            name, arguments = params.get("name"), params.get("arguments")
            if isinstance(name, str) and (arguments is None or isinstance(arguments, dict)):
                return await self._call(ctx, name, arguments)
        elif ctx.method == "tools/list":
            cursor = params.get("cursor")
            if cursor is None or isinstance(cursor, str):
                return await self._list(ctx, cursor)
        elif ctx.method in _RESOURCES and self._resources is not None and self._resources.reader.has_resources:
            uri = params.get("uri")
            if ctx.method != "resources/read" or isinstance(uri, str):
                return await self._forward(ctx, self._resources, str(uri))
        return await call_next(ctx)

    async def _greet(self, greeting: HandlerResult) -> HandlerResult:
        """What the SDK says about this server, and whether there are resources."""
        if self._resources is None or not isinstance(greeting, dict):
            return greeting
        await self._wait_for_servers(_GREETING)
        if self._resources.reader.has_resources:
            greeting["capabilities"] = {**greeting["capabilities"], "resources": {}}
        return greeting

    async def _forward(self, ctx: Context, resources: ForwardedResources, uri: str) -> dict[str, Any]:
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        answer: dict[str, Any]
        if ctx.method == "resources/read":
            answer = await resources.read(uri, is_modern)
        elif ctx.method == "resources/list":
            answer = {"resources": await resources.list_all()}
        else:
            answer = {"resourceTemplates": []}
        if is_modern:
            answer |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            answer["_meta"] = {**answer.get("_meta", {}), **self._stamp}
        if (size := len(dumps(answer))) > self._max_bytes:
            raise MCPError(INTERNAL_ERROR, f"The answer has {size:,} bytes, more than [serve] max_result_mb allows")
        return answer

    async def _wait_for_servers(self, seconds: float) -> None:
        """Wait until their tools are there, at most that long."""
        if self._ready is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ready()
                    self._ready = None

    async def _on_list(self, ctx: Context, params: PaginatedRequestParams | None) -> Any:
        return await self._list(ctx, params.cursor if params is not None else None)

    async def _on_call(self, ctx: Context, params: CallToolRequestParams) -> Any:
        return await self._call(ctx, params.name, params.arguments)

    async def _list(self, ctx: Context, cursor: str | None) -> dict[str, Any]:
        await self._wait_for_servers(_FIRST_LIST)
        self._ready = None
        rendered, start = self.tools.rendered(), 0
        if cursor is not None:
            last = _decoded(cursor)
            if last not in rendered.tools:
                message = "Invalid cursor: the tools have changed since; list them again without one"
                raise MCPError(INVALID_PARAMS, message)
            start = rendered.tools[last].position + 1
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        tools, last_name = rendered.page(start, PAGE, is_modern)
        answer: dict[str, Any] = {"tools": tools}
        if last_name is not None:
            answer["nextCursor"] = _encoded(last_name)
        if is_modern:  # ttlMs: there is a stream for clients that want to hear of changes
            answer |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": self._stamp}
        return answer

    async def _call(self, ctx: Context, name: str, arguments: dict[str, JSON] | None) -> dict[str, Any]:
        is_modern, tool = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS, self.tools.find(name)
        if ctx.meta is None or ctx.meta.get("progress_token") is None:
            return await self.call(name, tool, arguments, is_modern)
        async with _reporting(ctx) as report:
            return await self.call(name, tool, arguments, is_modern, report)

    async def call(
        self,
        name: str,
        tool: ServedTool | None,
        arguments: dict[str, JSON] | None,
        is_modern: bool,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """The `CallToolResult` of a call. `tool` is what was found under the name. Raises MCPError if none comes."""
        tool_name = tool.tool_name if tool is not None else name
        result = await self._executor.execute(tool_name, arguments, on_progress=on_progress)
        if result.error_kind is ErrorKind.UNKNOWN_TOOL:
            raise MCPError(INVALID_PARAMS, result.text.removeprefix("Error: "))
        tool = tool or self.tools.find(name)  # the call may have waited for its server
        answer: dict[str, Any] = tool.answer(result, is_modern) if tool is not None else write_result(result, False)
        if self._resources is not None and result.content and tool is not None and tool.server is not None:
            self._resources.note(tool.server, result.content)
        if (size := len(dumps(answer))) > self._max_bytes:
            answer = too_large(tool_name, size, self._max_bytes)
        if is_modern:
            answer["resultType"] = "complete"
            answer["_meta"] = {**answer.get("_meta", {}), **self._stamp}  # a failure has its own
        return answer

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self.tools.find(name)
        return tool.header_schema if tool is not None else None


class _SdkServer(Server[Any]):
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The SDK's HTTP transport passes no options, and would tell clients that the tools never change."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


def _is_open(ctx: Context) -> bool:
    """Whether the client may send requests: in the handshake era only after the handshake."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None


@asynccontextmanager
async def _reporting(ctx: Context) -> AsyncIterator[OnProgress]:
    """Yields a function that takes reports of progress. They are sent in order, and before the answer."""
    reports: deque[Progress] = deque(maxlen=_MAX_REPORTS)
    news = asyncio.Event()
    is_over = False

    def report(progress: Progress) -> None:
        reports.append(progress)
        news.set()

    async def send() -> None:
        while reports or not is_over:
            if not reports:
                news.clear()
                await news.wait()
                continue
            it = reports.popleft()
            await ctx.session.report_progress(it.progress, it.total, it.message or None)

    sending = asyncio.create_task(send())
    try:
        yield report
        is_over = True
        news.set()
        await sending
    finally:
        sending.cancel()


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _decoded(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode()
    except ValueError:
        return ""
