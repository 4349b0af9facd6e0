"""A tool of an MCP server as a tool of toolrun."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final, cast
from urllib.parse import urlsplit

from toolrun.config.model import ToolSettings
from toolrun.errors import CallError, DefinitionError, ProtocolError, SideEffects, ToolError, UnavailableError
from toolrun.execution.body import Outcome
from toolrun.json import JSON, Schema
from toolrun.logger import get_logger
from toolrun.mcp.call_result import protocol_failure, read_result
from toolrun.mcp.client.channel import LargeResult
from toolrun.mcp.client.json_rpc import (
    BadAnswerError,
    LostError,
    NotSentError,
    Pending,
    Result,
    RpcError,
    SessionForgottenError,
    TransportError,
)
from toolrun.mcp.client.known_parameters import known_parameters
from toolrun.mcp.client.parameter_names import rename
from toolrun.mcp.client.session import ListedTool, Session
from toolrun.mcp.client.supervisor import Supervisor
from toolrun.mcp.output_check import OutputSchema, broken_promise
from toolrun.result import Content, Large
from toolrun.schema.origin import Origin
from toolrun.text import section
from toolrun.tools.context import Call, OnLateEnd, current_call
from toolrun.tools.key_argument import KeyArgument

logger = get_logger("toolrun.mcp")

_DEFAULTS: Final = ToolSettings()


class McpTool:
    """Calls go to the server through the session that its supervisor has at that moment."""

    schema_origin = Origin.SERVER
    is_served = True
    """Its body runs on a server, which may act on a call that was given up."""

    __slots__ = (
        "_known",
        "_mapping",
        "_output",
        "agreed_annotations",
        "annotations",
        "description",
        "icons",
        "key_argument",
        "listed",
        "meta",
        "name",
        "output_schema",
        "qualified_name",
        "schema",
        "settings",
        "source",
        "supervisor",
        "timeout",
        "title",
    )

    def __init__(
        self, supervisor: Supervisor, listed: ListedTool, name: str, settings: ToolSettings = _DEFAULTS
    ) -> None:
        """`name` is its name in toolrun, which may change; the server may know it by another."""
        server = supervisor.server.settings
        self.name = name
        self.qualified_name = f"{supervisor.name}__{listed.name}"
        """Its name with the prefix of its server, which no tool of another server can have."""
        self.settings = settings
        self.listed = listed
        self.source = f"{'remote ' if server.url else ''}MCP server {supervisor.name}"
        self.description = listed.description
        self.schema: Schema = listed.schema
        self.title = listed.title
        self.annotations = listed.annotations
        self.agreed_annotations: Mapping[str, JSON] | None = None
        """Those that it had when it was agreed to, if it has changed since and is used all the same."""
        self.output_schema = listed.output_schema
        self.icons = listed.icons
        self.meta = listed.meta
        self.timeout = server.timeout
        self.supervisor = supervisor
        self.key_argument: KeyArgument | None = None
        """The parameter that takes the key of a call, if the configuration says so (`hide_key_argument`)."""
        self._output = _promise(listed)
        properties = listed.schema.get("properties")
        self._known = frozenset(properties) if isinstance(properties, Mapping) else frozenset()
        configured = {old: str(new) for old, new in server.parameters.items()}
        self._mapping = {**known_parameters(listed.name), **configured}

    @property
    def mcp_server(self) -> str:
        """The name of its server."""
        return self.supervisor.name

    @property
    def own_name(self) -> str:
        """By which its server knows it."""
        return self.listed.name

    @property
    def said_hash(self) -> str:
        """Of all that its server says of it, also what models do not get, and of the server's command or address."""
        return self.listed.definition

    @property
    def parameter_names(self) -> Mapping[str, str]:
        """Names that models use → names that the server knows."""
        return self._mapping

    @property
    def survives_host(self) -> bool:
        """Whether its server goes on when this process ends."""
        return bool(self.supervisor.server.settings.url)

    def rename_arguments(self, arguments: Mapping[str, JSON]) -> tuple[dict[str, JSON], dict[str, str]]:
        """The arguments under the names that the server knows, and {old: new} of those that were renamed."""
        return rename(arguments, self._known, self._mapping)

    def submit(self, call: Call) -> Pending | None:
        """`ainvoke` without a coroutine; None if there is no session yet, or its channel or the trace needs one."""
        session = self.supervisor.latest_session
        if session is None or session.channel.loss is not None or call.trace is not None:
            return None
        params = session.call_params(self.listed.name, call.arguments, call.idempotency_key)
        listener = None if call.on_progress is None else call.progressed  # reports are made only if somebody listens
        return session.channel.submit("tools/call", params, self._read, listener)

    async def ainvoke(self, arguments: dict[str, JSON]) -> object:
        try:
            try:
                result = await self._call(arguments)
            except SessionForgottenError:  # the server has not acted on it; a second time it is the answer
                result = await self._call(arguments)
            if isinstance(result, LargeResult):
                content, failure = await asyncio.to_thread(self._read, result, None)
            else:
                content, failure = self._read(result, None, is_normal=False)
        except (RpcError, BadAnswerError, LostError) as error:
            result, (content, failure) = {}, self._read(None, error)
        if failure is not None:
            raise failure
        return Large(cast(Content, content)) if isinstance(result, LargeResult) else content

    async def _call(self, arguments: dict[str, JSON]) -> Result:
        """In the session that there is, or the next one. Raises CallError, RpcError, BadAnswerError, LostError."""
        call = current_call.get()
        session = await self.supervisor.connected()
        if call is None:
            return await session.call(session.call_params(self.listed.name, arguments, ""), None)
        late = None if call.on_late_end is None else partial(self._answered_late, call.on_late_end)
        params = partial(session.call_params, self.listed.name, arguments, call.idempotency_key)
        listener = None if call.on_progress is None else call.progressed
        if call.trace is None:
            return await session.call(params(), listener, late)
        trace = call.trace.request(self.listed.name, self._address(session))
        try:
            result = await session.call(params(trace.carrier), listener, late)
        except Exception as error:
            trace.end(str(error.code) if isinstance(error, RpcError) else type(error).__name__)
            raise
        trace.end("tool_error" if result.get("isError") else "")
        return result

    def _address(self, session: Session) -> dict[str, str | int]:
        """Where its server is, for a trace, in the words of OpenTelemetry."""
        settings = self.supervisor.server.settings
        about: dict[str, str | int] = {
            "mcp.protocol.version": session.version,
            "network.transport": "tcp" if settings.url else "pipe",
            "toolrun.server": self.supervisor.name,
        }
        if settings.url:
            place = urlsplit(settings.url)
            about["server.address"] = place.hostname or place.path
            if place.port is not None:
                about["server.port"] = place.port
        return about

    def _answered_late(self, on_late_end: OnLateEnd, result: Result | None, error: Exception | None) -> None:
        on_late_end(*self._read(result, error, is_normal=False))

    def _read(self, result: Result | None, error: Exception | None, *, is_normal: bool = True) -> Outcome:
        """The content of the server's answer. Never raises.

        `is_normal`: our own JSON module has read it. The SDK's lets NaN through.
        """
        try:
            if error is not None:
                raise self._failure(error)
            content = read_result(result or {}, is_normal)
            if self._output is not None and content.data is not None:
                problem = self._output.problem(content.data)
                if problem:
                    raise broken_promise(problem, content)
        except Exception as failure:  # noqa: BLE001  whatever it is, it is this call's, and not the connection's
            return None, failure
        return content, None

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, TransportError):
            return self._transport_failure(error)
        if isinstance(error, RpcError):
            return protocol_failure(error.code, error.message, error.data, self.name)
        server = f"The MCP server '{self.supervisor.name}'"
        if isinstance(error, NotSentError):
            return _unavailable(f"{server} is not available: {error}", SideEffects.NOT_STARTED, error)
        if isinstance(error, LostError):
            return _unavailable(f"{server} was lost during the call: {error}", SideEffects.UNKNOWN, error)
        if isinstance(error, BadAnswerError):
            return ProtocolError(f"{server} gave no usable answer: {error}")
        return error

    def _transport_failure(self, error: TransportError) -> CallError:
        name, settings = self.supervisor.name, self.supervisor.server.settings
        if error.is_refusal:
            check = settings.hint or (f"'headers' in {section('servers', name)}" if not error.is_throttled else "")
            return UnavailableError(
                f"The MCP server '{name}' refused the call: {error.summary}",
                side_effects=SideEffects.NOT_STARTED,
                detail=f"What to check: {check}" if check else "",
            )
        if error.rpc is not None:
            failure = protocol_failure(error.code, str(error.rpc.get("message") or ""), error.data, self.name)
            about = f"The MCP server '{name}' answered {error.facts}"
            failure.detail = f"{failure.detail}\n{about}" if failure.detail else about
            if error.may_have_acted:
                failure.side_effects = SideEffects.UNKNOWN
            return failure
        kind = UnavailableError if error.is_unreachable else ToolError
        return kind(f"The MCP server '{name}' answered {error.summary}", side_effects=SideEffects.UNKNOWN)


def _promise(listed: ListedTool) -> OutputSchema | None:
    if listed.output_schema is None:
        return None
    try:
        return OutputSchema(listed.output_schema)
    except DefinitionError as error:
        logger.info("the answers of '%s' are not checked: its output schema cannot be used: %s", listed.name, error)
        return None


def _unavailable(message: str, side_effects: SideEffects, error: LostError) -> CallError:
    last = f"Its last output on stderr:\n{error.tail}" if error.tail else ""
    return UnavailableError(message, side_effects=side_effects, detail=last)
