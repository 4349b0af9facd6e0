"""The tools: what there is, one of them in full, and what a call of it would do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Any, Final, cast

from typing_extensions import TypedDict  # pydantic, which needs it, brings it

from toolrun.clients.dialect import PROVIDERS, for_provider
from toolrun.errors import CallError, DefinitionError, InvalidArgumentsError
from toolrun.execution.dry_run import dry_run
from toolrun.result import normalise
from toolrun.server.api_state import ApiState
from toolrun.server.call_route import RepairView
from toolrun.server.operation import ApiRequest, Operation, Parameter
from toolrun.server.request_error import RequestError
from toolrun.server.tool_view import (
    NO_STATS,
    SourceView,
    ToolStats,
    ToolView,
    said_schema,
    settings_of,
    source_view,
    view_tool,
)
from toolrun.text import close_names, shown_name
from toolrun.tools.protocol import Tool
from toolrun.trust.rule import rules_of

_GLANCE: Final = 2.0
"""Seconds for which the counts of all tools are good enough."""
_MAX_BODY: Final = 16 * 1024 * 1024


class ProblemView(TypedDict):
    """One reason why arguments are refused."""

    path: str
    message: str


class ToolsAnswer(TypedDict):
    """The tools that match."""

    tools: list[ToolView]
    problems: list[str]
    """Files and servers whose tools are missing, each with the reason."""


class ProviderView(TypedDict):
    """A tool as a provider gets it."""

    definition: dict[str, Any]
    notes: list[str]
    """What was simplified for it."""


class ToolDetail(TypedDict):
    """A tool in full."""

    name: str
    title: str | None
    description: str
    source: SourceView
    effects: str | None
    approval: str
    state: str
    calls: int
    errors: int
    p50_ms: float | None
    schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any]
    timeout: float
    concurrency: int | None
    views: dict[str, ProviderView]
    problem: str | None
    """Why it cannot be called, if it cannot."""


class CheckBody(TypedDict, total=False):
    """Arguments to try."""

    arguments: dict[str, Any] | str | None


class RulingView(TypedDict):
    """What the rules of [approval] say."""

    action: str
    reason: str


class CheckAnswer(TypedDict):
    """What a call would do."""

    outcome: str
    """`runs` or `refused`."""
    arguments: dict[str, Any] | None
    """As the tool would get them."""
    repairs: list[RepairView]
    dropped: list[str]
    problems: list[ProblemView]
    message: str
    """What a model would read if the call is refused; else empty."""
    error_kind: str | None
    approval: RulingView
    """Of a call that runs: whether somebody has to agree first."""


def tool_operations(state: ApiState) -> list[Operation]:
    routes = _ToolRoutes(state)
    unknown = {404: "There is no such tool."}
    return [
        Operation(
            "GET",
            "/api/tools",
            routes.list_tools,
            "List the tools",
            ToolsAnswer,
            query=(
                Parameter("q", "Words that the name or the description has."),
                Parameter("source", "A kind of source, such as `mcp`, or the name of one."),
            ),
        ),
        Operation("GET", "/api/tools/{name}", routes.describe, "Show a tool", ToolDetail, failures=unknown),
        Operation(
            "POST",
            "/api/tools/{name}/check",
            routes.check,
            "Say what a call would do, without making it",
            CheckAnswer,
            body=CheckBody,
            max_body=_MAX_BODY,
        ),
    ]


class _ToolRoutes:
    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._runtime = state.runtime
        self._glance: dict[str, ToolStats] = {}
        self._glance_until = 0.0

    async def list_tools(self, request: ApiRequest) -> ToolsAnswer:
        words = str(request.query["q"] or "").casefold().split()
        source = request.query["source"]
        stats = await self._stats()
        found = []
        for tool in self._every():
            if words and not all(word in f"{tool.name} {tool.description}".casefold() for word in words):
                continue
            origin = source_view(self._runtime, tool)
            if source is None or source in (origin["kind"], origin["name"]):
                found.append(view_tool(self._runtime, tool, stats.get(tool.name, NO_STATS)))
        problems = [str(it) for it in self._runtime.problems]
        if missing := self._runtime.missing():
            problems.append(missing)
        return {"tools": found, "problems": problems}

    async def describe(self, request: ApiRequest) -> ToolDetail:
        tool = self._find(request.parts["name"])
        view = view_tool(self._runtime, tool, (await self._stats()).get(tool.name, NO_STATS))
        settings, problem = settings_of(self._runtime, tool), None
        timeout = settings.timeout or getattr(tool, "timeout", None) or self._runtime.config.timeout
        if view["state"] == "held" and (change := self._runtime.change_of(tool)) is not None:
            problem = change.reason
        else:
            try:
                timeout = (await self._runtime.executor.find(tool.name)).timeout
            except (CallError, DefinitionError) as error:
                problem = str(error)
        output, annotations = getattr(tool, "output_schema", None), getattr(tool, "annotations", None)
        return {
            **view,
            "title": getattr(tool, "title", None),
            "schema": said_schema(tool),
            "output_schema": dict(output) if output else None,
            "annotations": dict(annotations) if annotations else {},
            "timeout": float(timeout),
            "concurrency": settings.concurrency,
            "views": await asyncio.to_thread(self._views, tool),
            "problem": problem,
        }

    async def check(self, request: ApiRequest) -> CheckAnswer:
        tried = await dry_run(self._runtime.executor, request.parts["name"], request.body.get("arguments"))
        call, refusal, prepared = tried.call, tried.refusal, tried.prepared
        error = call.error
        problems = error.problems if isinstance(error, InvalidArgumentsError) else ()
        approval: RulingView = {"action": "allow", "reason": ""}
        if refusal is None and prepared is not None and prepared.gate is not None:
            rules = rules_of(prepared.tool, prepared.settings, self._runtime.config.approval)
            ruling = rules.ruling(call.arguments, by_model=False)
            approval = {"action": ruling.action.value, "reason": ruling.reason}
        return {
            "outcome": "runs" if refusal is None else "refused",
            "arguments": cast("dict[str, Any]", normalise(call.arguments)) if refusal is None else None,
            "repairs": cast(Any, normalise(call.repairs)),
            "dropped": list(call.dropped),
            "problems": [cast("ProblemView", normalise(it)) for it in problems],
            "message": "" if refusal is None else refusal.text,
            "error_kind": None if refusal is None or refusal.error_kind is None else refusal.error_kind.value,
            "approval": approval,
        }

    def _every(self) -> list[Tool]:
        """The tools, and those that are held until somebody accepts their changes."""
        return [*self._runtime.manager, *self._runtime.held.values()]

    def _find(self, name: str) -> Tool:
        """Raises RequestError."""
        tool = self._runtime.manager.get(name) or self._runtime.held.get(name)
        if tool is None:
            reason = self._runtime.unavailable(name)
            close = close_names(name, [it.name for it in self._every()])
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise RequestError(404, reason or f"there is no tool '{shown_name(name)}'{hint}")
        return tool

    def _views(self, tool: Tool) -> dict[str, ProviderView]:
        """The tool as each provider gets it, among all the others."""
        views: dict[str, ProviderView] = {}
        for provider in PROVIDERS:
            with suppress(DefinitionError):
                offer = for_provider([tool], provider)
                notes = [f"{it.path or '(tool)'}: {it.what} → {it.where}" for it in offer.report]
                views[provider] = {"definition": offer.tools[0], "notes": notes}
        return views

    async def _stats(self) -> dict[str, ToolStats]:
        """By tool; empty where calls are not recorded."""
        if monotonic() > self._glance_until and self._runtime.journal is not None:
            self._glance_until = monotonic() + _GLANCE
            with suppress(RequestError):
                found = await self._state.read(lambda history: history.glance())
                self._glance = {
                    name: {
                        "calls": it.calls,
                        "errors": it.errors,
                        "p50_ms": None if it.p50_us is None else it.p50_us / 1000,
                    }
                    for name, it in found.items()
                }
        return self._glance
