"""A session with a server: the era of the protocol that it speaks, its tools, and calls of them.

Up to 2025-11-25 a session begins with `initialize`, and the server announces changes by itself. From 2026-07-28 on
there is no session: every request says who asks, `server/discover` says who answers, and a client that wants to hear of
changes sends `subscriptions/listen`. Asking a server is the only way to find out which of the two eras it speaks.

Answers are read leniently: one broken tool in a list does not cost the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from toolrun.logger import get_logger
from toolrun.mcp.client.channel import Channel
from toolrun.mcp.client.http_error import HttpError
from toolrun.mcp.client.json_rpc import (
    METHOD_NOT_FOUND,
    BadAnswerError,
    LostError,
    Params,
    Pending,
    Read,
    Result,
    RpcError,
)
from toolrun.mcp.client.schema_slips import mend
from toolrun.tools.context import OnProgress
from toolrun.version import __version__

logger = get_logger("toolrun.mcp")

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
_UNSUPPORTED_VERSION: Final = -32022
_META: Final = "io.modelcontextprotocol/"
_CLIENT: Final = {"name": "toolrun", "version": __version__}
_PROBE: Final = 5.0
"""Seconds, at most, that a server has to answer `server/discover`, if only that it does not know it."""
_MAX_PAGES: Final = 1000
_LISTEN_AGAIN: Final = 5.0
"""Seconds until a server that ended its announcement of changes is asked for it again."""


@dataclass(frozen=True, slots=True)
class Listed:
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


class Session:
    """Knows the era, and what every request has to carry in it. Knows no transport."""

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self.channel = channel
        self.version = ""
        self.info = ""
        """What the server calls itself."""
        self.announces_changes = False
        self.has_resources = False
        self._envelope: Params = {}
        """What the params of every request contain besides their own."""

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    async def negotiate(self, limit: float, *, probe: bool) -> None:
        """Find out the era. Without `probe` the server is known to speak the older one.

        Raises RpcError, BadAnswerError or LostError. All of it may take `limit` seconds, the probe a third of them.
        """
        if not probe or not await self._discover(min(_PROBE, limit / 3)):
            try:
                await self._initialize()
            except RpcError as error:
                # It started slowly, and answered the probe after we had given up on it; or what we know is outdated.
                if (probe and error.code != _UNSUPPORTED_VERSION) or not await self._discover(limit):
                    raise

    async def list_tools(self) -> list[Listed]:
        tools: dict[str, Listed] = {}
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

    def submit(
        self, tool: str, arguments: Mapping[str, Any], read: Read, on_progress: OnProgress | None
    ) -> Pending | None:
        """Call a tool without a coroutine. None if the channel needs one: then `call` does it."""
        params = {"name": tool, "arguments": arguments, **self._envelope}
        return self.channel.submit("tools/call", params, read, on_progress)

    async def call(self, tool: str, arguments: Mapping[str, Any], on_progress: OnProgress | None) -> Result:
        params = {"name": tool, "arguments": arguments, **self._envelope}
        return await self.channel.request("tools/call", params, on_progress=on_progress)

    async def request_resources(self, method: str, params: dict[str, Any]) -> Result:
        """`resources/read` or `resources/list`. Raises RpcError, BadAnswerError or LostError."""
        return await self._request(method, params)

    async def watch(self, changed: Callable[[], None]) -> None:
        """Ask the server to announce changes, in the era in which it must be asked. Returns if it refuses."""
        if not self.is_modern or not self.announces_changes:
            return
        number = 0
        while True:
            number += 1
            params = {"notifications": {"toolsListChanged": True}}
            try:
                await self._request("subscriptions/listen", params, request_id=f"listen-{number}")
            except RpcError as error:
                logger.debug("MCP server '%s' does not announce changes: %s", self.name, error)
                return
            except (BadAnswerError, LostError) as error:
                logger.debug("MCP server '%s' stopped announcing changes: %s", self.name, error)
            await asyncio.sleep(_LISTEN_AGAIN)
            changed()  # nobody heard of what changed meanwhile

    async def _discover(self, limit: float, *, is_second: bool = False) -> bool:
        """Whether the server speaks the newer era."""
        envelope = {"_meta": _modern_meta()}
        try:
            async with asyncio.timeout(limit):
                result = await self.channel.request("server/discover", envelope)
        except (RpcError, BadAnswerError) as error:
            if isinstance(error, HttpError) and (error.is_refusal or error.is_gateway):
                raise  # no word about the era
            supported = error.data.get("supported") if isinstance(error, RpcError) and _is_map(error.data) else None
            if isinstance(supported, list) and MODERN in supported and not is_second:
                return await self._discover(limit, is_second=True)  # the protocol says to try again then
            if isinstance(supported, list) and supported and not set(LEGACY) & set(map(str, supported)):
                raise
            return False
        except TimeoutError:
            return False
        versions = result.get("supportedVersions")
        if not isinstance(versions, list) or MODERN not in versions:
            return False
        self.version = MODERN
        self._envelope = envelope
        information = result.get("_meta")
        self._introduce(information.get(f"{_META}serverInfo") if _is_map(information) else None, result)
        return True

    async def _initialize(self) -> None:
        params = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": _CLIENT}
        result = await self.channel.request("initialize", params)
        version = result.get("protocolVersion")
        if version not in LEGACY:
            known = ", ".join((*LEGACY, MODERN))
            raise BadAnswerError(f"it speaks version {version!r} of the protocol; toolrun knows {known}")
        self.version = str(version)
        self._envelope = {}
        self._introduce(result.get("serverInfo"), result)
        await self.channel.notify("notifications/initialized")

    def _introduce(self, information: object, result: Result) -> None:
        if _is_map(information):
            self.info = f"{information.get('name', '')} {information.get('version', '')}".strip()
        capabilities = result.get("capabilities")
        tools = capabilities.get("tools") if _is_map(capabilities) else None
        self.has_resources = _is_map(capabilities) and _is_map(capabilities.get("resources"))
        self.announces_changes = _is_map(tools) and tools.get("listChanged") is True

    async def _request(self, method: str, params: dict[str, Any], *, request_id: str | None = None) -> Result:
        return await self.channel.request(method, {**params, **self._envelope} or None, request_id=request_id)

    def _add(self, entry: object, tools: dict[str, Listed]) -> None:
        tool, fault = read_tool(entry, self.name)
        if tool is None:
            logger.warning("MCP server '%s' lists a tool that cannot be used: %s", self.name, fault)
        elif tool.name in tools:
            logger.warning("MCP server '%s' lists the tool '%s' twice; the first is used", self.name, tool.name)
        else:
            tools[tool.name] = tool


def read_tool(entry: object, server: str) -> tuple[Listed | None, str]:
    """The tool that an entry of `tools/list` describes, or why it cannot be used. Missing texts are made up."""
    if not _is_map(entry):
        return None, f"{entry!r:.100} is no description of a tool"
    name, schema = entry.get("name"), entry.get("inputSchema", {})
    if _is_map(schema):
        schema = mend(schema)
    if not isinstance(name, str) or not name:
        return None, f"it has no name: {entry!r:.200}"
    if not _is_map(schema) or schema.get("type", "object") != "object":
        return None, f"'{name}' has an inputSchema that describes no object: {schema!r:.200}"
    title, description, output = entry.get("title"), entry.get("description"), entry.get("outputSchema")
    annotations, icons, meta = entry.get("annotations"), entry.get("icons"), entry.get("_meta")
    if not isinstance(title, str):
        title = annotations.get("title") if _is_map(annotations) else None
    text = description if isinstance(description, str) and description.strip() else title
    return Listed(
        name=name,
        description=text if isinstance(text, str) and text.strip() else f"The tool '{name}' of the server '{server}'.",
        schema={"type": "object", **schema},
        title=title if isinstance(title, str) else None,
        output_schema=mend(output) if _is_map(output) else None,
        annotations=dict(annotations) if _is_map(annotations) else None,
        icons=icons if isinstance(icons, list) else None,
        meta=dict(meta) if _is_map(meta) else None,
    ), ""


def answer(method: str, params: Params) -> Result:
    """Answers a request of a server: `ping`, and that toolrun offers nothing else."""
    if method == "ping":
        return {}
    raise RpcError(METHOD_NOT_FOUND, f"toolrun does not support {method}")


def _is_map(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _modern_meta() -> dict[str, Any]:
    return {f"{_META}protocolVersion": MODERN, f"{_META}clientInfo": _CLIENT, f"{_META}clientCapabilities": {}}
