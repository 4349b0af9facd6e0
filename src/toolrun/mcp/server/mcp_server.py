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
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_INFO_META_KEY,
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
from toolrun.execution.approval import Caller, current_caller
from toolrun.execution.executor import ToolExecutor
from toolrun.json import JSON, dumps
from toolrun.logger import get_logger
from toolrun.mcp.call_key import HEADER, META_KEY, PERSON_KEY, given_keys
from toolrun.mcp.call_result import too_large, write_result
from toolrun.mcp.server.announcements import Announcements, Context
from toolrun.mcp.server.client_approval import AskingClient, ParkedCall, asking_client, is_well_formed, parked_call
from toolrun.mcp.server.client_message import HeldArguments
from toolrun.mcp.server.forwarded_resources import ForwardedResources, ResourceSource
from toolrun.mcp.server.progress_reports import reporting
from toolrun.mcp.server.request_trace import traced
from toolrun.mcp.server.resource_subscriptions import ResourceSubscriptions
from toolrun.mcp.server.tool_list import ServedTool, ToolList
from toolrun.result import ToolResult
from toolrun.tools.context import CallKey, OnProgress
from toolrun.tools.manager import ToolManager
from toolrun.version import __version__

logger = get_logger("toolrun.serve")

PAGE: Final = 1000
"""Tools in one answer to `tools/list`. Many clients ask for the first page only, so pages are large."""
_FIRST_LIST: Final = 10.0
"""Seconds that the first list waits for servers. Clients that ignore changes would never see their tools."""
_GREETING: Final = 3.0
"""Seconds that the first answer to a client waits for servers, because it says whether there are resources."""
_SMALL: Final = 20_000_000
"""Bytes of an answer that need not be counted: a result whose text was not made beforehand has fewer."""
_LISTS: Final = frozenset({"resources/list", "resources/templates/list"})
_SUBSCRIPTIONS: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})
_MODEL: Final = Caller(is_model=True)
"""Who makes the calls of clients: a model, as far as anybody knows."""
_PERSON: Final = Caller(is_model=False)
"""Who makes those of `toolrun call --url`."""


class McpServer:
    """The tools of a manager, for any number of MCP clients."""

    def __init__(
        self,
        manager: ToolManager,
        executor: ToolExecutor,
        ready: Callable[[], Awaitable[None]] | None = None,
        settings: ServeSettings | None = None,
        reader: ResourceSource | None = None,
    ) -> None:
        """`ready` waits for the tools of servers that are still connecting; the first list waits for it.

        `reader` reads the resources of those servers.
        """
        self.settings = settings = settings or ServeSettings()
        self._ready = ready
        self._manager = manager
        self.executor = executor
        self.tools = ToolList(manager)
        self.held_arguments = HeldArguments()
        self._max_bytes = settings.max_result_mb * 1_000_000
        self._resources = (
            ForwardedResources(reader, lambda: self.tools.rendered().tools.values(), executor.timeout)
            if reader is not None
            else None
        )
        self._subscriptions = ResourceSubscriptions(self._resources) if self._resources is not None else None
        self._announcements = Announcements(self._subscriptions)
        version = settings.version or __version__
        self.sdk = _SdkServer(
            settings.name,
            version=version,
            instructions=settings.instructions or None,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._on_list,
            on_call_tool=self._on_call,
            on_subscriptions_listen=self._announcements.on_listen,
        )
        self.sdk.add_notification_handler(
            "notifications/initialized", NotificationParams, self._announcements.on_initialized
        )
        self.sdk.middleware[:] = [self._answer_at_once]
        self.principal = ""
        """Who the clients are, if all of them had to prove that they are the same; otherwise they say who they are."""
        self._stamp = {SERVER_INFO_META_KEY: {"name": settings.name, "version": version}}
        self._abandoned: set[asyncio.Task[ToolResult]] = set()
        """Calls with a key whose clients have left."""
        self._is_closing = False

    @asynccontextmanager
    async def announcing(self) -> AsyncIterator[None]:
        """Announce changes of the tools to clients. At the end, the streams of those that listen are closed, and calls
        that nobody waits for are cancelled."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            self.tools.clear()
            loop.call_soon_threadsafe(self._announcements.tools_changed)

        self._manager.on_change.append(tell)
        try:
            async with self._announcements.running():
                yield
        finally:
            self._manager.on_change.remove(tell)
            await self._give_up_abandoned()

    async def _answer_at_once(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The SDK calls this for every message."""
        if (tracer := self.executor.tracer) is None or ctx.request_id is None:
            return await self._answer(ctx, call_next)
        params = ctx.params if ctx.params is not None else {}
        name = params.get("name") if ctx.method == "tools/call" else None
        is_http, version = ctx.request is not None, ctx.protocol_version
        answering = self._answer(ctx, call_next)
        return await traced(tracer, answering, ctx.method, name, params.get("_meta"), version, is_http=is_http)

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Whatever is not a well-formed call or list is left to the SDK."""
        params = ctx.params if ctx.params is not None else {}
        if ctx.method in ("initialize", "server/discover"):
            return await self._greet(await call_next(ctx))
        if ctx.request_id is None or not _is_open(ctx):
            return await call_next(ctx)
        if ctx.method == "tools/call":
            name, arguments = params.get("name"), params.get("arguments")
            is_readable = arguments is None or isinstance(arguments, dict)
            if isinstance(name, str) and is_readable and is_well_formed(params):
                return await self._call(ctx, name, arguments)
        elif ctx.method == "tools/list":
            cursor = params.get("cursor")
            if cursor is None or isinstance(cursor, str):
                return await self._list(ctx, cursor)
        elif self._resources is not None and self._resources.reader.has_resources:
            uri, is_modern = params.get("uri"), ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            if ctx.method in _LISTS or (ctx.method == "resources/read" and isinstance(uri, str)):
                return await self._forward(ctx, self._resources, str(uri))
            if ctx.method in _SUBSCRIPTIONS and isinstance(uri, str) and not is_modern:
                return await self._subscribe(ctx, uri)
        return await call_next(ctx)

    async def _greet(self, greeting: HandlerResult) -> HandlerResult:
        """What the SDK says about this server, and whether there are resources."""
        if self._resources is None or not isinstance(greeting, dict):
            return greeting
        await self._wait_for_servers(_GREETING)
        if self._resources.reader.has_resources:
            resources = {"subscribe": True} if self._resources.reader.can_subscribe else {}
            greeting["capabilities"] = {**greeting["capabilities"], "resources": resources}
        return greeting

    async def _forward(self, ctx: Context, resources: ForwardedResources, uri: str) -> dict[str, Any]:
        await self._wait_for_servers(_FIRST_LIST)
        self._ready = None
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        answer: dict[str, Any]
        if ctx.method == "resources/read":
            answer = await resources.read(uri, is_modern)
        elif ctx.method == "resources/list":
            answer = {"resources": await resources.list_all()}
        else:
            answer = {"resourceTemplates": await resources.list_templates()}
        if is_modern:
            answer |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            answer["_meta"] = {**answer.get("_meta", {}), **self._stamp}
        if (size := len(dumps(answer))) > self._max_bytes:
            raise MCPError(INTERNAL_ERROR, f"The answer has {size:,} bytes, more than [serve] max_result_mb allows")
        return answer

    async def _subscribe(self, ctx: Context, uri: str) -> dict[str, Any]:
        """What only the handshake era has: in the newer one clients listen."""
        assert self._subscriptions is not None
        client = id(ctx.session.client_params)
        if ctx.method == "resources/subscribe":
            await self._subscriptions.subscribe(client, uri, is_modern=False)
        else:
            self._subscriptions.unsubscribe(client, uri)
        return {}

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
        arguments, client = self.held_arguments.real(arguments), ctx.session.client_params
        header = ctx.request.headers.get(HEADER) if ctx.request is not None else None
        meta = ctx.params.get("_meta") if ctx.params is not None else None
        key = self.given_key(meta or {}, header, "" if client is None else client.client_info.name)
        # In the older era a client that leaves cancels nothing, and one that cancels says so.
        outlives = is_modern and ctx.request is not None and META_KEY not in (meta or {})
        asking = parked_call(ctx.params or {}, meta or {}) if is_modern else asking_client(ctx)
        is_person = (meta or {}).get(PERSON_KEY) is True
        more: dict[str, Any] = {"outlives_client": outlives, "on_approval": asking, "is_person": is_person}
        call = partial(self.call, name, tool, arguments, is_modern, key=key, **more)
        try:
            if ctx.meta is None or ctx.meta.get("progress_token") is None:
                return await call()
            async with reporting(ctx) as report:
                return await call(on_progress=report)
        except asyncio.CancelledError:
            if isinstance(asking, AskingClient) and asking.is_gone:  # to the SDK, this would be the end of the session
                raise MCPError(INTERNAL_ERROR, "The client left before it answered the request for approval") from None
            raise

    def given_key(self, meta: Mapping[str, Any], header: str | None, client: str = "") -> CallKey | None:
        """The key that a client gives its call. Raises MCPError for two that differ.

        A client of toolrun sends a key with every call. Without a journal nothing is made of that, whereas a client
        that asks for it by a key of its own choice is refused.
        """
        if header is None and meta.keys().isdisjoint(self.settings.key_fields):
            return None
        given = given_keys(meta, header, self.settings.key_fields)
        if given and self.executor.recorder is None:
            given = [key for key in given if key != meta.get(META_KEY)]
        if not given:
            return None
        if len(given) > 1:
            raise MCPError(INVALID_PARAMS, "The call has several keys that differ; give it one")
        said = meta.get(CLIENT_INFO_META_KEY)
        name = said.get("name") if isinstance(said, Mapping) else client
        return CallKey(given[0], self.principal or f"client {name}", given[0] != meta.get(META_KEY))

    async def call(
        self,
        name: str,
        tool: ServedTool | None,
        arguments: dict[str, JSON] | None,
        is_modern: bool,
        on_progress: OnProgress | None = None,
        key: CallKey | None = None,
        outlives_client: bool = False,
        on_approval: AskingClient | ParkedCall | None = None,
        is_person: bool = False,
    ) -> dict[str, Any]:
        """The `CallToolResult` of a call. `tool` is what was found under the name. Raises MCPError if none comes.

        `outlives_client`: a call with a key goes on if this is cancelled because nobody waits for the answer.
        `on_approval` asks the client, if it can be asked. The result may be an `InputRequiredResult` then.
        """
        tool_name = tool.tool_name if tool is not None else name
        caller = _PERSON if is_person else _MODEL
        if on_approval is not None:
            caller = Caller(caller.is_model, on_approval=on_approval)
        before = current_caller.set(caller)  # as `calling_as` does, at a tenth of its cost
        try:
            calling = self.executor.execute(tool_name, arguments, on_progress=on_progress, key=key)
            result = await (self._to_its_end(calling) if outlives_client and key is not None else calling)
        finally:
            current_caller.reset(before)
        if result.error_kind is ErrorKind.NOT_APPROVED and isinstance(on_approval, ParkedCall):
            question = on_approval.question()
            if question is not None:
                return {**question, "_meta": self._stamp}
        if key is not None and key.is_told and result.record is not None:
            result.record = (result.record[0], key.key)
        if result.error_kind is ErrorKind.UNKNOWN_TOOL:
            raise MCPError(INVALID_PARAMS, result.text.removeprefix("Error: "))
        tool = tool or self.tools.find(name)  # the call may have waited for its server
        answer: dict[str, Any] = tool.answer(result, is_modern) if tool is not None else write_result(result, False)
        if self._resources is not None and result.content and tool is not None and tool.server is not None:
            self._resources.note(tool.server, result.content)
        is_short = result.edited is None and (type(result.result) is not str or len(result.result) < _SMALL // 10)
        is_small = is_short and not (result.rendered or result.content or result.error) and self._max_bytes > _SMALL
        if not is_small and (size := len(dumps(answer))) > self._max_bytes:
            answer = too_large(tool_name, size, self._max_bytes)
        if is_modern:
            answer["resultType"] = "complete"
            answer["_meta"] = {**answer.get("_meta", {}), **self._stamp}  # a failure has its own
        return answer

    async def _to_its_end(self, calling: Coroutine[Any, Any, ToolResult]) -> ToolResult:
        """A client that gave its call a key repeats it when its connection breaks, and wants to know how it ended."""
        task = asyncio.create_task(calling)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._is_closing:
                task.cancel()
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
            raise

    async def _give_up_abandoned(self) -> None:
        self._is_closing = True
        for task in self._abandoned:
            task.cancel()
        if self._abandoned:
            await asyncio.wait(self._abandoned)

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


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _decoded(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode()
    except ValueError:
        return ""
