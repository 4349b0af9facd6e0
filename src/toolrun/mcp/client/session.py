"""A session with a server: the era of the protocol that it speaks, its tools, and calls of them.

Up to 2025-11-25 a session begins with `initialize`, and the server announces changes by itself. From 2026-07-28 on
there is no session: every request says who asks, `server/discover` says who answers, and a client that wants to hear of
changes sends `subscriptions/listen`. Asking a server is the only way to find out which of the two eras it speaks. It is
asked in both ways without waiting in between, because some servers do not answer a question that they do not know.

Answers are read leniently: one broken tool in a list does not cost the others.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from toolrun.logger import get_logger
from toolrun.mcp.call_key import META_KEY, PERSON_KEY
from toolrun.mcp.client.channel import Channel
from toolrun.mcp.client.json_rpc import (
    METHOD_NOT_FOUND,
    BadAnswerError,
    LostError,
    OnLateAnswer,
    Params,
    Result,
    RpcError,
    TransportError,
)
from toolrun.mcp.client.schema_slips import mend
from toolrun.tools.context import OnProgress
from toolrun.tools.trace import Carrier
from toolrun.version import __version__

logger = get_logger("toolrun.mcp")

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_UNTRACED: Final[Carrier] = {}
_UNSUPPORTED_VERSION: Final = -32022
_META: Final = "io.modelcontextprotocol/"
_CLIENT: Final = {"name": "toolrun", "version": __version__}
_SECOND_ANSWER: Final = 4.0
"""Seconds that a server has for the other answer, when it was asked in both ways and the first one does not decide."""
_MAX_PAGES: Final = 1000
_KEYS_OF_TOOLS: Final = frozenset(
    {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta"}
)
_LISTEN_AGAIN: Final = 5.0
"""Seconds until a server that ended its announcement of changes is asked for it again."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server lists it."""

    name: str
    description: str
    schema: dict[str, Any]
    title: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    icons: list[Any] | None = None
    meta: dict[str, Any] | None = None
    """Its `_meta`."""
    is_described: bool = True
    """Whether the description is the server's own."""
    more: dict[str, Any] | None = None
    """What else is listed of it: `execution`, keys of vendors and of later versions of the protocol."""
    as_said: ListedTool | None = None
    """The same with the characters that were removed from it for models, if there were any."""
    definition: str = ""
    """Hash of all that the server said, and of its command or address."""


class WantedUpdates:
    """The resources of a server whose updates somebody wants, whatever session there is."""

    def __init__(self) -> None:
        self.uris: set[str] = set()
        self.news = asyncio.Event()
        """Set when they change."""

    def add(self, uri: str) -> None:
        self.uris.add(uri)
        self.news.set()

    def discard(self, uri: str) -> None:
        self.uris.discard(uri)
        self.news.set()


class Session:
    """Knows the era, and what every request has to carry in it. Knows no transport."""

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self.channel = channel
        self.version = ""
        self.speaks_modern = False
        """Whether the server has the newer era, also if the session is one of the older."""
        self.info = ""
        """What the server calls itself."""
        self.announces_changes = False
        self.has_resources = False
        self.can_subscribe = False
        """Whether the server announces updates of its resources."""
        self._subscribed: set[str] = set()
        """The resources whose updates a server of the older era was asked for."""
        self._envelope: Params = {}
        """What the params of every request contain besides their own."""

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    async def negotiate(self, patience: float | None, *, is_stateless: bool = False) -> None:
        """Find out the era. Raises RpcError, BadAnswerError or LostError. How long it takes is up to the caller.

        For `patience` seconds the server is asked for the newer era alone. Then it gets the handshake of the older one
        as well, whatever it has to say: some servers do not answer what they do not know. None: the server is known to
        speak the older era. `is_stateless`: the answer to one question does not depend on the other.
        """
        if patience is None:
            await self._shake_hands(None)
            return
        async with _running(self._discover()) as discovery:
            await asyncio.wait({discovery}, timeout=patience)
            if discovery.done() and (found := discovery.result()) is not None:
                self._adopt(found)
            else:
                await self._shake_hands(discovery, is_stateless)

    async def list_tools(self) -> list[ListedTool]:
        tools: dict[str, ListedTool] = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            try:
                page = await self._request("tools/list", {} if cursor is None else {"cursor": cursor})
            except RpcError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
                return []  # a server without tools
            listed = page.get("tools")
            for entry in listed if isinstance(listed, list) else ():
                self._add(entry, tools)
            cursor, before = page.get("nextCursor"), cursor
            if not isinstance(cursor, str) or not cursor or cursor == before:
                return list(tools.values())
        logger.warning("MCP server '%s' lists more than %d pages of tools; the rest is left out", self.name, _MAX_PAGES)
        return list(tools.values())

    async def call(self, params: Params, on_progress: OnProgress | None, on_late: OnLateAnswer | None = None) -> Result:
        """`params` are those of `call_params`. Raises RpcError, BadAnswerError or LostError."""
        return await self.channel.request("tools/call", params, on_progress=on_progress, on_late_answer=on_late)

    def call_params(self, tool: str, arguments: Mapping[str, Any], key: str, trace: Carrier = _UNTRACED) -> Params:
        """Those of `tools/call`. `key` is what the server may know the call by; `trace` what it continues."""
        if not key:
            return {"name": tool, "arguments": arguments, **self._envelope}
        meta = {**self._envelope.get("_meta", {}), META_KEY: key, **trace}
        return {"name": tool, "arguments": arguments, "_meta": meta}

    def speak_for_person(self) -> None:
        """From now on its calls are those of a person."""
        self._envelope = {"_meta": {**self._envelope.get("_meta", {}), PERSON_KEY: True}}

    async def request_resources(self, method: str, params: dict[str, Any]) -> Result:
        """What begins with `resources/` and is no subscription. Raises RpcError, BadAnswerError or LostError."""
        return await self._request(method, params)

    async def subscribe(self, uri: str) -> None:
        """Ask for updates of a resource in the older era. Raises RpcError, BadAnswerError or LostError."""
        await self._request("resources/subscribe", {"uri": uri})
        self._subscribed.add(uri)

    async def watch(self, changed: Callable[[], None], wanted: WantedUpdates) -> None:
        """Ask the server to announce changes of its tools and of the wanted resources, in the way of its era."""
        if self.is_modern:
            await self._listen(changed, wanted)
        else:
            await self._follow(wanted)

    async def _listen(self, changed: Callable[[], None], wanted: WantedUpdates) -> None:
        """Have one stream open for everything that is wanted, and another one when that changes."""
        async with AsyncExitStack() as streams:
            for number in itertools.count(1):
                wanted.news.clear()
                kinds: dict[str, Any] = {"toolsListChanged": True} if self.announces_changes else {}
                if self.can_subscribe and wanted.uris:
                    kinds["resourceSubscriptions"] = sorted(wanted.uris)
                async with AsyncExitStack() as before:  # which ends when the next one is open: nothing is missed
                    before.push_async_exit(streams.pop_all())
                    news = await streams.enter_async_context(_running(wanted.news.wait()))
                    listening = self._announced(kinds, f"listen-{number}", changed)
                    await streams.enter_async_context(_running(listening))
                    await asyncio.sleep(0)  # until it is sent
                await asyncio.wait({news})

    async def _announced(self, kinds: dict[str, Any], request_id: str, changed: Callable[[], None]) -> None:
        """Have the server announce changes of these kinds. Returns if it refuses."""
        for number in itertools.count() if kinds else ():
            try:
                own_id = f"{request_id}-{number}" if number else request_id
                await self._request("subscriptions/listen", {"notifications": kinds}, request_id=own_id)
            except RpcError as error:
                logger.debug("MCP server '%s' does not announce changes: %s", self.name, error)
                return
            except (BadAnswerError, LostError) as error:
                logger.debug("MCP server '%s' stopped announcing changes: %s", self.name, error)
            await asyncio.sleep(_LISTEN_AGAIN)
            changed()  # nobody heard of what changed meanwhile

    async def _follow(self, wanted: WantedUpdates) -> None:
        """Subscribe to what was wanted of the session before this one, and unsubscribe from what nobody wants."""
        while self.can_subscribe:
            wanted.news.clear()
            try:
                for uri in wanted.uris - self._subscribed:
                    self._subscribed.add(uri)  # also if it is refused: it was there before
                    await self._request("resources/subscribe", {"uri": uri})
                for uri in self._subscribed - wanted.uris:
                    self._subscribed.discard(uri)
                    await self._request("resources/unsubscribe", {"uri": uri})
            except (RpcError, BadAnswerError) as error:
                logger.debug("MCP server '%s' refuses a subscription: %s", self.name, error)
                continue
            except LostError:
                return
            await wanted.news.wait()

    async def _shake_hands(self, discovery: asyncio.Task[Result | None] | None, is_stateless: bool = False) -> None:
        """Ask in the older way. `discovery` is what the server was asked before, and may not have answered yet.

        The handshake decides if the server accepts it: a server with both eras either stays in the one that it was
        asked for first, and refuses the handshake, or changes to the older one. A stateless one does neither.
        """
        asked = {discovery} if discovery is not None else set()
        clock = asyncio.get_running_loop().time
        began = clock()
        async with _running(self._initialize()) as handshake:
            await asyncio.wait({handshake, *asked}, return_when=asyncio.FIRST_COMPLETED)
            if is_stateless and asked:
                # The answers may overtake each other, so the other one has as long again as the first one took.
                await asyncio.wait(asked, timeout=clock() - began)
                if (found := _found(discovery)) is not None:
                    self._adopt(found)
                    return
            await asyncio.wait({handshake}, timeout=_SECOND_ANSWER if _found(discovery) is not None else None)
            try:
                result = handshake.result() if handshake.done() else None
            except (RpcError, BadAnswerError) as error:
                if asked:
                    await asyncio.wait(asked, timeout=_SECOND_ANSWER)
                is_modern = isinstance(error, RpcError) and error.code == _UNSUPPORTED_VERSION
                found = _found(discovery)
                if found is None and (is_modern or not asked):  # what was remembered is outdated
                    found = await self._discover()
                if found is None:
                    raise
                self._adopt(found)
                return
        found = _found(discovery)
        if result is not None:
            self.speaks_modern = found is not None
            await self._agree(result)
        elif found is not None:
            self._adopt(found)

    async def _discover(self, *, is_second: bool = False) -> Result | None:
        """What the server says about itself in the newer era. None if it does not speak that."""
        try:
            result = await self.channel.request("server/discover", {"_meta": _modern_meta()})
        except (RpcError, BadAnswerError) as error:
            if isinstance(error, TransportError) and (error.is_refusal or error.is_unreachable):
                raise  # no word about the era
            supported = error.data.get("supported") if isinstance(error, RpcError) and _is_map(error.data) else None
            if isinstance(supported, list) and MODERN in supported and not is_second:
                return await self._discover(is_second=True)  # the protocol says to try again then
            if isinstance(supported, list) and supported and not set(LEGACY) & set(map(str, supported)):
                raise
            return None
        versions = result.get("supportedVersions")
        return result if isinstance(versions, list) and MODERN in versions else None

    def _adopt(self, result: Result) -> None:
        """Speak the newer era."""
        self.version = MODERN
        self.speaks_modern = True
        self._envelope = {"_meta": _modern_meta()}
        information = result.get("_meta")
        self._introduce(information.get(f"{_META}serverInfo") if _is_map(information) else None, result)

    async def _initialize(self) -> Result:
        params = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": _CLIENT}
        return await self.channel.request("initialize", params)

    async def _agree(self, result: Result) -> None:
        """Speak the older era."""
        version = result.get("protocolVersion")
        if version not in LEGACY:
            known = ", ".join((*LEGACY, MODERN))
            raise BadAnswerError(f"it speaks version {version!r} of the protocol; toolrun knows {known}")
        self.version = str(version)
        self._introduce(result.get("serverInfo"), result)
        await self.channel.notify("notifications/initialized")

    def _introduce(self, information: object, result: Result) -> None:
        if _is_map(information):
            self.info = f"{information.get('name', '')} {information.get('version', '')}".strip()
        capabilities = result.get("capabilities")
        tools = capabilities.get("tools") if _is_map(capabilities) else None
        resources = capabilities.get("resources") if _is_map(capabilities) else None
        self.has_resources = _is_map(resources)
        self.can_subscribe = _is_map(resources) and resources.get("subscribe") is True
        self.announces_changes = _is_map(tools) and tools.get("listChanged") is True

    async def _request(self, method: str, params: dict[str, Any], *, request_id: str | None = None) -> Result:
        return await self.channel.request(method, {**params, **self._envelope} or None, request_id=request_id)

    def _add(self, entry: object, tools: dict[str, ListedTool]) -> None:
        tool, fault = read_tool(entry, self.name)
        if tool is None:
            logger.warning("MCP server '%s' lists a tool that cannot be used: %s", self.name, fault)
        elif tool.name in tools:
            logger.warning("MCP server '%s' lists the tool '%s' twice; the first is used", self.name, tool.name)
        else:
            tools[tool.name] = tool


def read_tool(entry: object, server: str) -> tuple[ListedTool | None, str]:
    """The tool that an entry of `tools/list` describes, or why it cannot be used. Missing texts are made up."""
    if not _is_map(entry):
        return None, f"{entry!r:.100} is not a tool definition"
    name, schema = entry.get("name"), entry.get("inputSchema", {})
    if schema is None or schema == []:  # PHP's empty object
        schema = {}
    if _is_map(schema):
        schema = mend(schema)
    if not isinstance(name, str) or not name:
        return None, f"it has no name: {entry!r:.200}"
    if not _is_map(schema) or schema.get("type", "object") != "object":
        return None, f"'{name}' has an inputSchema that does not describe an object: {schema!r:.200}"
    title, description, output = entry.get("title"), entry.get("description"), entry.get("outputSchema")
    annotations, icons, meta = entry.get("annotations"), entry.get("icons"), entry.get("_meta")
    if not isinstance(title, str):
        title = annotations.get("title") if _is_map(annotations) else None
    is_described = isinstance(description, str) and bool(description.strip())
    text = description if is_described else title
    return ListedTool(
        name=name,
        description=text if isinstance(text, str) and text.strip() else f"The tool '{name}' of the server '{server}'.",
        schema={"type": "object", **schema},
        title=title if isinstance(title, str) else None,
        output_schema=mend(output) if _is_map(output) else None,
        annotations=dict(annotations) if _is_map(annotations) else None,
        icons=icons if isinstance(icons, list) else None,
        meta=dict(meta) if _is_map(meta) else None,
        is_described=is_described,
        more={key: value for key, value in entry.items() if key not in _KEYS_OF_TOOLS} or None,
    ), ""


def answer(method: str, params: Params) -> Result:
    """Answers a request of a server: `ping`, and that toolrun offers nothing else."""
    if method == "ping":
        return {}
    raise RpcError(METHOD_NOT_FOUND, f"toolrun does not support {method}")


@asynccontextmanager
async def _running(request: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """A request that is given up at the end of the block, if it has no answer by then."""
    task = asyncio.get_running_loop().create_task(request)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # whoever wanted to know has asked


def _found(discovery: asyncio.Task[Result | None] | None) -> Result | None:
    """What the server has said about itself in the newer era by now."""
    if discovery is None or not discovery.done() or discovery.cancelled() or discovery.exception() is not None:
        return None
    return discovery.result()


def _is_map(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _modern_meta() -> dict[str, Any]:
    return {f"{_META}protocolVersion": MODERN, f"{_META}clientInfo": _CLIENT, f"{_META}clientCapabilities": {}}
