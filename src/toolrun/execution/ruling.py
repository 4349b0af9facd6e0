"""Whether a call may be made, as far as its tool says so: by its settings, by its author, by its annotations. Pure.

Where a project has rules of its own, they come first (`trust/rule.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from toolrun.config.model import ApprovalSettings, ToolSettings
from toolrun.json import JSON
from toolrun.text import section
from toolrun.tools.protocol import Tool

_DESTRUCTIVE: Final = "destructive"
_DEFAULTS: Final = ApprovalSettings()


class Action(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What holds for a call, and why."""

    action: Action
    reason: str = ""


ALLOWED: Final = Ruling(Action.ALLOW)


@dataclass(frozen=True, slots=True)
class Rulings:
    """What holds for the calls of one tool."""

    others: Ruling
    """For calls that no model makes."""
    models: Ruling

    @property
    def allow_all(self) -> bool:
        return self.others.action is self.models.action is Action.ALLOW


def declared(tool: Tool, settings: ToolSettings, approval: ApprovalSettings = _DEFAULTS) -> Rulings:
    """The settings of a tool decide, then its author, then the default."""
    own = getattr(tool, "approval", None)
    if settings.approval:
        ruling = Ruling(Action(settings.approval), f"{section('tool', tool.name)} approval")
    elif own in tuple(Action):
        ruling = Ruling(Action(own), "its author requires it")
    elif approval.default != _DESTRUCTIVE:
        ruling = Ruling(Action(approval.default), "[approval] default")
    elif any(it.get("destructiveHint") is True for it in annotations_of(tool)):
        return Rulings(ALLOWED, Ruling(Action.ASK, "it declares itself destructive"))
    else:
        ruling = ALLOWED
    return Rulings(ruling, ruling)


def annotations_of(tool: Tool) -> list[Mapping[str, JSON]]:
    """What the tool says of itself, and what it said when it was agreed to, if that is something else."""
    said = [getattr(tool, "annotations", None) or {}, getattr(tool, "agreed_annotations", None)]
    return [it for it in said if isinstance(it, Mapping)]
