"""A tool of an MCP server as a tool of toolrun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolrun.config.model import ToolSettings
from toolrun.errors import CallError, DefinitionError, ProtocolError, SideEffects, ToolError, UnavailableError
from toolrun.json import JSON, Schema
from toolrun.logger import get_logger
from toolrun.mcp.call_result import protocol_failure, read_result
from toolrun.mcp.client.http_error import HttpError
from toolrun.mcp.client.json_rpc import BadAnswerError, LostError, NotSentError, Pending, Result, RpcError
from toolrun.mcp.client.known_parameters import known_parameters
from toolrun.mcp.client.parameter_names import rename
from toolrun.mcp.client.session import Listed
from toolrun.mcp.client.supervisor import Supervisor
from toolrun.mcp.output_check import OutputSchema, broken_promise
from toolrun.result import Content
from toolrun.schema.origin import Origin
from toolrun.tools.context import Call, current_call

logger = get_logger("toolrun.mcp")

_DEFAULTS: Final = ToolSettings()
_TOO_MANY: Final = 429
_FAILED: Final = 500
"""From this status on the server may have acted, whatever it says."""


class McpTool:
    """Calls go to the server through the session that its supervisor has at that moment."""

    schema_origin = Origin.SERVER

    __slots__ = (
        "_known",
        "_mapping",
        "_output",
        "annotations",
        "description",
        "icons",
        "listed",
        "meta",
        "name",
        "output_schema",
        "schema",
        "settings",
        "source",
        "supervisor",
        "timeout",
        "title",
    )

    def __init__(self, supervisor: Supervisor, listed: Listed, name: str, settings: ToolSettings = _DEFAULTS) -> None:
        """`name` is its name in toolrun, which may change; the server may know it by another."""
        server = supervisor.server.settings
        self.name = name
        self.settings = settings
        self.listed = listed
        self.source = f"MCP server {supervisor.name}"
        self.description = listed.description
        self.schema: Schema = listed.schema
        self.title = listed.title
        self.annotations = listed.annotations
        self.output_schema = listed.output_schema
        self.icons = listed.icons
        self.meta = listed.meta
        self.timeout = server.timeout
        self.supervisor = supervisor
        self._output = _promise(listed)
        properties = listed.schema.get("properties")
        self._known = frozenset(properties) if isinstance(properties, Mapping) else frozenset()
        configured = {old: str(new) for old, new in server.parameters.items()}
        self._mapping = {**known_parameters(listed.name), **configured}

    def rename_arguments(self, arguments: Mapping[str, JSON]) -> tuple[dict[str, JSON], dict[str, str]]:
        """The arguments under the names that the server knows, and {old: new} of those that were renamed."""
        return rename(arguments, self._known, self._mapping)

    def submit(self, call: Call) -> Pending | None:
        """`ainvoke` without a coroutine; None if there is no session yet, or its channel needs one."""
        session = self.supervisor.latest_session
        if session is None or session.channel.loss is not None:
            return None
        return session.submit(self.listed.name, call.arguments, self._read_normal, call.on_progress)

    async def ainvoke(self, arguments: dict[str, JSON]) -> object:
        call = current_call.get()
        session = await self.supervisor.connected()
        try:
            result = await session.call(self.listed.name, arguments, call.on_progress if call is not None else None)
        except (RpcError, BadAnswerError, LostError) as error:
            return self._read(None, error)
        return self._read(result, None)

    def _read(self, result: Result | None, error: Exception | None) -> Content:
        """The content of the server's answer. Raises CallError."""
        if error is not None:
            raise self._failure(error)
        content = read_result(result or {})
        if self._output is not None and content.data is not None:
            problem = self._output.problem(content.data)
            if problem:
                raise broken_promise(problem, content)
        return content

    def _read_normal(self, result: Result | None, error: Exception | None) -> Content:
        """`_read` for an answer that our own JSON module has read: the SDK's lets NaN through."""
        content = self._read(result, error)
        content.is_normal = True
        return content

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, HttpError):
            return self._http_failure(error)
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

    def _http_failure(self, error: HttpError) -> CallError:
        name, settings = self.supervisor.name, self.supervisor.server.settings
        if error.is_refusal:
            check = settings.hint or (f"'headers' in [servers.{name}]" if error.status != _TOO_MANY else "")
            return UnavailableError(
                f"The MCP server '{name}' refused the call: {error.summary}",
                side_effects=SideEffects.NOT_STARTED,
                detail=f"What to check: {check}" if check else "",
            )
        if error.rpc is not None:
            failure = protocol_failure(error.code, str(error.rpc.get("message") or ""), error.data, self.name)
            about = f"The MCP server '{name}' answered {error.facts}"
            failure.detail = f"{failure.detail}\n{about}" if failure.detail else about
            if error.status >= _FAILED:
                failure.side_effects = SideEffects.UNKNOWN
            return failure
        kind = UnavailableError if error.is_gateway else ToolError
        return kind(f"The MCP server '{name}' answered {error.summary}", side_effects=SideEffects.UNKNOWN)


def _promise(listed: Listed) -> OutputSchema | None:
    if listed.output_schema is None:
        return None
    try:
        return OutputSchema(listed.output_schema)
    except DefinitionError as error:
        logger.info("the answers of '%s' are not checked: its output schema cannot be used: %s", listed.name, error)
        return None


def _unavailable(message: str, side_effects: SideEffects, error: LostError) -> CallError:
    last = f"Its last words on stderr:\n{error.tail}" if error.tail else ""
    return UnavailableError(message, side_effects=side_effects, detail=last)
