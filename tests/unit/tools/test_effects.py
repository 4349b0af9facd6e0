"""What a tool says of its effects, wherever it says so."""

from __future__ import annotations

from typing import Any

import pytest

from toolrun import Done, NotDone, ToolExecutor, ToolManager, tool
from toolrun.config.model import ToolSettings
from toolrun.result import normalise
from toolrun.tools.effects import Effects, declared_effects


class Lamp:
    """A tool that is no function."""

    name = "lamp"
    description = "Switch a lamp."
    schema: dict[str, Any] = {"type": "object"}  # noqa: RUF012  a test's own

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def invoke(self, arguments: dict[str, Any]) -> str:
        return "on"


@pytest.mark.parametrize(
    ("attributes", "effects"),
    [
        ({}, None),
        ({"effects": "once"}, Effects.ONCE),
        ({"effects": Effects.KEYED}, Effects.KEYED),
        ({"effects": "sparkles"}, None),
        ({"effects": ["once"]}, None),
        ({"annotations": {"readOnlyHint": True}}, Effects.NONE),
        ({"annotations": {"idempotentHint": True}}, Effects.IDEMPOTENT),
        ({"annotations": {"readOnlyHint": True, "idempotentHint": True}}, Effects.NONE),
        ({"annotations": {"readOnlyHint": False, "idempotentHint": False}}, None),
        ({"annotations": {"readOnlyHint": "yes", "idempotentHint": 1}}, None),
        ({"annotations": {"readOnlyHint": True}, "effects": "once"}, Effects.ONCE),
        ({"inline": True}, Effects.NONE),
        ({"inline": True, "effects": "once"}, Effects.ONCE),
    ],
)
def test_a_tool_says_it_in_our_words_or_by_hints(attributes: dict[str, Any], effects: Effects | None) -> None:
    assert declared_effects(Lamp(**attributes)) is effects


def test_the_project_overrules_the_tool() -> None:
    @tool(effects="none")
    def lamp(name: str) -> str:
        """Switch a lamp."""
        return name.upper()

    executor = ToolExecutor(ToolManager([lamp]), settings={"lamp": ToolSettings(effects="once")})
    assert executor._prepare("lamp").effects is Effects.ONCE
    assert ToolExecutor(ToolManager([lamp]))._prepare("lamp").effects is Effects.NONE


def test_verdicts_can_be_told_apart_as_json() -> None:
    assert normalise(Done({"id": 7})) == {"result": {"id": 7}, "verdict": "done"}
    assert normalise(Done()) == {"result": None, "verdict": "done"}
    assert normalise(NotDone()) == {"verdict": "not_done"}
    assert (repr(Done(7)), repr(NotDone())) == ("Done(result=7)", "NotDone()")
