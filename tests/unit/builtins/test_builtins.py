"""The handlers that ship with toolrun, called as a catalog declares them."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from toolrun import ErrorKind, Runtime, SideEffects, ToolResult
from toolrun.builtins import BUILTINS
from toolrun.config.model import Config, ToolSettings


@pytest_asyncio.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    """A project with one tool for each handler, which takes any arguments."""
    declared = [
        {
            "name": handler,
            "description": f"Call {handler}.",
            "parameters": {"type": "object", "additionalProperties": True},
            "implementation": {"type": "builtin", "handler": handler},
        }
        for handler in BUILTINS
    ]
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "catalog.json").write_text(json.dumps(declared), encoding="utf-8")
    async with Runtime.open(Config(None, tmp_path)) as opened:
        assert not opened.problems
        yield opened


async def call(runtime: Runtime, name: str, arguments: dict[str, Any]) -> ToolResult:
    return await runtime.executor.execute(name, arguments)


def test_these_handlers_ship_with_toolrun() -> None:
    assert sorted(BUILTINS) == [
        "control_speaker_volume",
        "echo",
        "generate_uuid",
        "get_current_datetime",
        "math_eval",
        "search_web",
    ]


async def test_echo_returns_its_arguments(runtime: Runtime) -> None:
    given = {"message": "hi", "nested": {"list": [1, None]}}
    result = await call(runtime, "echo", given)
    assert result.result == {"echo": given}
    assert result.text == '{"echo":{"message":"hi","nested":{"list":[1,null]}}}'
    assert (await call(runtime, "echo", {})).result == {"echo": {}}


async def test_every_uuid_is_another_random_one(runtime: Runtime) -> None:
    made = [(await call(runtime, "generate_uuid", {})).result for _ in range(5)]
    values = {uuid.UUID(str(it["uuid"])) for it in made if isinstance(it, dict)}
    assert len(values) == 5
    assert {value.version for value in values} == {4}


async def test_math_is_evaluated(runtime: Runtime) -> None:
    assert (await call(runtime, "math_eval", {"expression": "2^10"})).result == {"result": 1024}


async def test_the_time_is_told_in_the_zone_that_is_asked_for(runtime: Runtime) -> None:
    result = (await call(runtime, "get_current_datetime", {"timezone": "Asia/Kolkata"})).result
    assert isinstance(result, dict)
    assert result["utc_offset"] == "+0530"
    for arguments in ({}, {"timezone": None}, {"timezone": ""}):
        assert (await call(runtime, "get_current_datetime", arguments)).success


async def test_the_zone_of_the_house_is_a_matter_of_configuration(tmp_path: Path) -> None:
    declared = {
        "name": "clock",
        "description": "The time.",
        "implementation": {"type": "builtin", "handler": "get_current_datetime"},
    }
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "clock.json").write_text(json.dumps(declared), encoding="utf-8")
    settings = {"clock": ToolSettings(config={"timezone": "Asia/Kolkata"})}
    async with Runtime.open(Config(None, tmp_path, tool=settings)) as opened:
        at_home, elsewhere = await call(opened, "clock", {}), await call(opened, "clock", {"timezone": "UTC"})
    assert isinstance(at_home.result, dict)
    assert isinstance(elsewhere.result, dict)
    assert (at_home.result["timezone"], at_home.result["utc_offset"]) == ("Asia/Kolkata", "+0530")
    assert elsewhere.result["timezone"] == "UTC"


async def test_a_wrong_zone_is_answered_with_the_right_one(runtime: Runtime) -> None:
    result = await call(runtime, "get_current_datetime", {"timezone": "Berlin"})
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert result.text == "Error: There is no time zone 'Berlin'; did you mean Europe/Berlin?"


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("math_eval", {}, "Invalid parameters: missing 'expression'"),
        ("math_eval", {"expression": 5}, "Invalid parameters: 'expression' must be a string"),
        ("math_eval", {"expression": None}, "Invalid parameters: 'expression' must be a string"),
        ("get_current_datetime", {"timezone": 5}, "Invalid parameters: 'timezone' must be a string"),
    ],
)
async def test_a_handler_checks_what_the_schema_of_the_catalog_lets_through(
    runtime: Runtime, name: str, arguments: dict[str, Any], error: str
) -> None:
    result = await call(runtime, name, arguments)
    assert (result.error, result.error_kind) == (error, ErrorKind.INVALID_ARGUMENTS)
    assert result.side_effects is SideEffects.NOT_STARTED
