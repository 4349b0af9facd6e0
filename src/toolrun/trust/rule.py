"""Which calls may be made: rules in, `allow`, `ask` or `deny` out. Pure: knows neither people nor files.

The first rule of `[approval]` that matches decides, then the settings of the tool in toolrun.toml, then what its author
declared, then the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final

from toolrun.config.model import ApprovalRule, ApprovalSettings, ToolSettings
from toolrun.json import JSON, dumps
from toolrun.tools.protocol import Tool, source_of

DESTRUCTIVE: Final = "destructive"


class Action(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What holds for a call, and why."""

    action: Action
    reason: str = ""


_ALLOWED: Final = Ruling(Action.ALLOW)


@dataclass(frozen=True, slots=True)
class ToolRules:
    """What may hold for the calls of one tool: the rules that match all but their arguments, in order."""

    rules: tuple[tuple[int, ApprovalRule], ...]
    """Each with its number in the configuration, from 1."""
    otherwise: Ruling
    """For calls that none of them is about."""
    otherwise_by_model: Ruling
    """The same, if a model makes the call."""

    @property
    def allows_all(self) -> bool:
        allowed = all(rule.action == Action.ALLOW for _, rule in self.rules)
        return allowed and self.otherwise.action is self.otherwise_by_model.action is Action.ALLOW

    def ruling(self, arguments: Mapping[str, JSON], *, by_model: bool) -> Ruling:
        for number, rule in self.rules:
            if all(_matches(pattern, _find(arguments, name)) for name, pattern in rule.arguments.items()):
                return Ruling(Action(rule.action), f"rule {number} of [approval]")
        return self.otherwise_by_model if by_model else self.otherwise


def rules_of(tool: Tool, settings: ToolSettings, approval: ApprovalSettings) -> ToolRules:
    """The rules for one tool."""
    rules: list[tuple[int, ApprovalRule]] = []
    for number, rule in enumerate(approval.rules, 1):
        if _concerns(rule, tool):
            rules.append((number, rule))
            if not rule.arguments:
                break  # nothing after it is ever asked
    declared = getattr(tool, "approval", None)
    if settings.approval:
        otherwise = by_model = Ruling(Action(settings.approval), f"[tool.{tool.name}] approval")
    elif declared in tuple(Action):
        otherwise = by_model = Ruling(Action(declared), "its author wants it")
    elif approval.default != DESTRUCTIVE:
        otherwise = by_model = Ruling(Action(approval.default), "[approval] default")
    else:
        otherwise = by_model = _ALLOWED
        if _annotations(tool).get("destructiveHint") is True:
            by_model = Ruling(Action.ASK, "it says of itself that it destroys something")
    return ToolRules(tuple(rules), otherwise, by_model)


def toolset_of(tool: Tool) -> str:
    """The MCP server that a tool comes from, or the name of its file without the ending."""
    server = getattr(tool, "server", None)
    name = server if isinstance(server, str) else getattr(server, "name", None)
    return name if isinstance(name, str) else PurePath(source_of(tool)).stem


def _concerns(rule: ApprovalRule, tool: Tool) -> bool:
    annotations = _annotations(tool)
    return (
        fnmatchcase(tool.name, rule.tool)
        and (rule.toolset == "*" or fnmatchcase(toolset_of(tool), rule.toolset))
        and (rule.source == "*" or fnmatchcase(source_of(tool), rule.source))
        and all(annotations.get(name) == value for name, value in rule.annotations.items())
    )


def _annotations(tool: Tool) -> Mapping[str, JSON]:
    annotations = getattr(tool, "annotations", None)
    return annotations if isinstance(annotations, Mapping) else {}


class _Absent:
    """No JSON value."""


def _find(arguments: JSON | Mapping[str, JSON], path: str) -> object:
    """The argument of that name; `options.path` is one inside an object."""
    if isinstance(arguments, Mapping):
        if path in arguments:
            return arguments[path]
        head, dot, rest = path.partition(".")
        if dot and head in arguments:
            return _find(arguments[head], rest)
    return _Absent


def _matches(pattern: JSON, value: object) -> bool:
    """Whether a value, or one in a list of values, is meant. A text is a pattern for texts, and for others as JSON."""
    if value is _Absent:
        return False
    if isinstance(value, list) and not isinstance(pattern, list):
        return any(_matches(pattern, item) for item in value)
    if isinstance(pattern, str):
        return fnmatchcase(value if isinstance(value, str) else dumps(value).decode(), pattern)
    return pattern == value and isinstance(pattern, bool) == isinstance(value, bool)
