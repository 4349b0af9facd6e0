"""The span of a request that is being answered, where calls are traced."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TypeVar

from toolrun.text import shown_name
from toolrun.tools.trace import Tracer

Answer = TypeVar("Answer")


async def traced(
    tracer: Tracer,
    answering: Awaitable[Answer],
    method: str,
    tool: object,
    meta: object,
    version: str,
    *,
    is_http: bool,
) -> Answer:
    """Answer a request as part of the trace that its `_meta` continues."""
    name = shown_name(tool) if isinstance(tool, str) else ""
    carrier = meta if isinstance(meta, Mapping) else {}
    attributes = {"mcp.protocol.version": version, "network.transport": "tcp" if is_http else "pipe"}
    with tracer.serve(method, name, carrier, attributes) as served:
        answer = await answering
        if failure := _failure(answer):
            served.fail(failure)
        return answer


def _failure(answer: object) -> str:
    """What kind of failure an answer is, which is a success to JSON-RPC."""
    if not isinstance(answer, Mapping):
        return ""
    meta = answer.get("_meta")
    kind = meta.get("toolrun/errorKind") if isinstance(meta, Mapping) else None
    return str(kind or ("tool_error" if answer.get("isError") else ""))
