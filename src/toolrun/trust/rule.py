"""Which calls may be made: rules in, `allow`, `ask` or `deny` out. Pure: knows neither people nor files.

The first rule of `[approval]` that matches decides, then the settings of the tool in toolrun.toml, then what its author
declared, then the default (`execution/ruling.py`).

In doubt a rule that allows does not match, and one that asks or denies does: of a list, `allow` has to mean every
element, the others one; a tool that got the prefix of its server, because another server has the same name, is still
meant by its own name, except by `allow`; and a tool that has changed its annotations, which nobody has accepted yet, is
still meant by those that it had, whereas `allow` has to mean both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final

from toolrun.config.model import ApprovalRule, ApprovalSettings, ToolSettings
from toolrun.execution.ruling import Action, Ruling, Rulings, annotations_of, declared
from toolrun.json import JSON, Schema, dumps
from toolrun.schema.value import local_reference
from toolrun.tools.protocol import Tool, schema_of, source_of

_MAX_REFERENCES: Final = 10
"""From one schema to the next, as they may go in a circle."""


@dataclass(frozen=True, slots=True)
class ToolRules:
    """What may hold for the calls of one tool: the rules that match all but their arguments, in order."""

    rules: tuple[tuple[int, ApprovalRule], ...]
    """Each with its number in the configuration, from 1."""
    otherwise: Rulings
    """For calls that none of them is about."""
    schema: Schema
    """Of the arguments: a call that leaves one out means its default."""

    @property
    def allows_all(self) -> bool:
        return self.otherwise.allow_all and all(rule.action == Action.ALLOW for _, rule in self.rules)

    def ruling(self, arguments: Mapping[str, JSON], *, by_model: bool) -> Ruling:
        for number, rule in self.rules:
            if self._is_about(rule, arguments):
                return Ruling(Action(rule.action), f"rule {number} of [approval]")
        return self.otherwise.models if by_model else self.otherwise.others

    def _is_about(self, rule: ApprovalRule, arguments: Mapping[str, JSON]) -> bool:
        is_met = all if rule.action == Action.ALLOW else any
        for name, pattern in rule.arguments.items():
            values = _find(arguments, name, self.schema, self.schema)
            if not values or not is_met(_matches(pattern, value, is_met) for value in values):
                return False
        return True


def rules_of(tool: Tool, settings: ToolSettings, approval: ApprovalSettings) -> ToolRules:
    """The rules for one tool."""
    rules: list[tuple[int, ApprovalRule]] = []
    for number, rule in enumerate(approval.rules, 1):
        if _concerns(rule, tool):
            rules.append((number, rule))
            if not rule.arguments:
                break  # nothing after it is ever asked
    has_patterns = any(rule.arguments for _, rule in rules)
    return ToolRules(tuple(rules), declared(tool, settings, approval), dict(schema_of(tool)) if has_patterns else {})


def toolset_of(tool: Tool) -> str:
    """The MCP server that a tool comes from, or the name of its file without the ending."""
    server = getattr(tool, "mcp_server", None)
    return server if isinstance(server, str) else PurePath(source_of(tool)).stem


def _concerns(rule: ApprovalRule, tool: Tool) -> bool:
    sources = {source_of(tool), source_of(tool).removeprefix("remote ")}
    is_met = all if rule.action == Action.ALLOW else any
    return (
        any(_is_like(name, rule.tool) for name in _names(tool, rule))
        and _is_like(toolset_of(tool), rule.toolset)
        and any(_is_like(source, rule.source) for source in sources)
        and is_met(
            all(said.get(name) == value for name, value in rule.annotations.items()) for said in annotations_of(tool)
        )
    )


def _names(tool: Tool, rule: ApprovalRule) -> set[str]:
    """By which a rule may mean the tool. Which of them it has depends on what other servers list."""
    server, own = getattr(tool, "mcp_server", None), getattr(tool, "own_name", None)
    if not isinstance(server, str) or not isinstance(own, str):
        return {tool.name}
    plain = f"{server}__{own}"  # of servers `a` and `a__b`, this may be the name of a tool of either
    names = {tool.name, getattr(tool, "qualified_name", plain)}
    return names if rule.action == Action.ALLOW else names | {plain, own}


class _Absent:
    """No JSON value."""


def _find(arguments: object, path: str, schema: object, root: Schema) -> list[object]:
    """The values of that name: none if it is absent, many if lists are on the way.

    `options.path` is in an object. Where a tool takes any name, a caller may send another argument that is called so,
    and the tool gets both.
    """
    schema = _resolved(schema, root)
    if isinstance(arguments, list):
        items = schema.get("items")
        return [value for item in arguments for value in _find(item, path, items, root) or [_Absent]]
    if not isinstance(arguments, Mapping):
        return []
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    value = arguments.get(path, _default(known.get(path), root))
    found = [] if value is _Absent else [value]
    head, dot, rest = path.partition(".")
    if dot:
        inside = arguments.get(head, _default(known.get(head), root))
        found += _find(inside, rest, known.get(head), root)
    return found


def _default(schema: object, root: Schema) -> object:
    default = _resolved(schema, root).get("default")
    return _Absent if default is None else default


def _resolved(schema: object, root: Schema) -> Mapping[str, JSON]:
    """The schema, with that which it refers to."""
    found: Mapping[str, JSON] = schema if isinstance(schema, Mapping) else {}
    for _ in range(_MAX_REFERENCES):
        target = local_reference(root, found.get("$ref"))
        if target is None:
            break
        found = {**target[1], **{key: value for key, value in found.items() if key != "$ref"}}
    return found


def _matches(pattern: JSON, value: object, is_met: Callable[[Iterable[bool]], bool]) -> bool:
    """Whether a value, or the values in a list, are meant. A text is a pattern for texts, and for others as JSON."""
    if value is _Absent:
        return False
    if isinstance(value, list) and not isinstance(pattern, list):
        return bool(value) and is_met(_matches(pattern, item, is_met) for item in value)
    if isinstance(pattern, str):
        return _is_like(value if isinstance(value, str) else dumps(value).decode(), pattern)
    return pattern == value and isinstance(pattern, bool) == isinstance(value, bool)


def _is_like(text: str, pattern: str) -> bool:
    """Whether a text is as a pattern says, in which `*` stands for any text, and all else for itself: a path may have
    brackets, and a rule about it shall be about it."""
    return fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))
