"""Names of parameters: when they are changed, and when not."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolrun import ToolExecutor
from toolrun.json import JSON
from toolrun.mcp.client.parameter_names import rename

MAPPING = {"command": "action", "device": "deviceName"}
NAMES = st.sampled_from(["device_name", "deviceName", "device", "command", "action", "level", "a_b", "aB", "A_b", "_"])


def test_a_name_is_changed_to_the_one_that_the_mapping_has_for_it() -> None:
    arguments: dict[str, JSON] = {"command": "on", "level": 1, "device": "desk"}
    assert rename(arguments, {"deviceName", "action", "level"}, MAPPING) == (
        {"action": "on", "level": 1, "deviceName": "desk"},
        {"command": "action", "device": "deviceName"},
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"device_name": 1},  # the schema knows it
        {"other_name": 1},  # neither the schema nor the mapping knows it
        {"command": 1},  # the schema does not know what the mapping has for it
        {"deviceName": 1, "device": 2},  # there is a value for deviceName already
    ],
)
def test_what_is_known_unknown_or_given_already_is_left_alone(arguments: dict[str, JSON]) -> None:
    assert rename(arguments, {"device_name", "deviceName"}, MAPPING) == (arguments, {})


def test_the_first_of_two_names_for_one_parameter_wins() -> None:
    arguments: dict[str, JSON] = {"device": 1, "device_name": 2}
    changed, renamed = rename(arguments, {"deviceName"}, MAPPING)
    assert (changed, renamed) == ({"deviceName": 1, "device_name": 2}, {"device": "deviceName"})


@given(st.dictionaries(NAMES, st.integers()), st.frozensets(NAMES), st.dictionaries(NAMES, NAMES))
def test_no_value_is_lost_and_only_unknown_names_are_changed(
    arguments: dict[str, Any], known: frozenset[str], mapping: dict[str, str]
) -> None:
    changed, renamed = rename(arguments, known, mapping)
    assert list(changed.values()) == list(arguments.values())
    assert changed == {renamed.get(name, name): value for name, value in arguments.items()}
    for old, new in renamed.items():
        assert old not in known
        assert new in known
        assert new not in arguments


class Lamp:
    """A tool that renames, as those of MCP servers do."""

    name = "lamp"
    description = "Switch a lamp."

    def __init__(self, mapping: dict[str, str] | None = None, **more: JSON) -> None:
        properties: JSON = {"deviceName": {"type": "string"}, "level": {"type": "integer"}, "target": {}}
        self.mapping = mapping or {}
        self.schema: dict[str, JSON] = {"type": "object", "properties": properties, "required": ["deviceName"], **more}
        self.received: list[dict[str, Any]] = []

    def rename_arguments(self, arguments: dict[str, JSON]) -> tuple[dict[str, JSON], dict[str, str]]:
        return rename(arguments, {"deviceName", "level", "target"}, self.mapping)

    async def ainvoke(self, arguments: dict[str, Any]) -> str:
        self.received.append(arguments)
        return "done"


@pytest.mark.parametrize(
    "arguments",
    [
        {"device_name": "desk", "level": "5"},
        '{"device_name": "desk", "level": 5}',
        {"args": {"device_name": "desk", "level": 5}},
    ],
)
async def test_the_executor_renames_whatever_form_the_arguments_have(executor: ToolExecutor, arguments: Any) -> None:
    lamp = executor.manager.add(Lamp())
    result = await executor.execute("lamp", arguments)
    assert lamp.received == [{"deviceName": "desk", "level": 5}]
    renaming = [repair for repair in result.repairs if repair.reason == "parameter name"]
    assert [str(repair) for repair in renaming] == [
        'arguments: {"device_name": "desk"} → {"deviceName": "desk"} (parameter name)'
    ]


@pytest.mark.parametrize(
    ("mapping", "received"),
    [
        ({"device_name": "target"}, {"target": "desk"}),
        ({"device_name": "gone"}, {"deviceName": "desk"}),
        ({}, {"deviceName": "desk"}),
    ],
)
async def test_the_mapping_goes_before_the_renaming_that_all_tools_have(
    executor: ToolExecutor, mapping: dict[str, str], received: dict[str, str]
) -> None:
    lamp = executor.manager.add(Lamp(mapping, required=[]))
    await executor.execute("lamp", {"device_name": "desk"})
    assert lamp.received == [received]


@pytest.mark.parametrize("openness", [True, {}, {"type": "string"}])
async def test_a_schema_that_takes_any_name_does_not_let_the_wrong_one_through(
    executor: ToolExecutor, openness: JSON
) -> None:
    lamp = executor.manager.add(Lamp(additionalProperties=openness, required=[]))
    await executor.execute("lamp", {"device_name": "desk", "colour": "red"})
    assert lamp.received == [{"deviceName": "desk", "colour": "red"}]


async def test_arguments_that_are_right_are_not_logged_as_renamed(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    executor.manager.add(Lamp())
    with caplog.at_level(logging.INFO, "toolrun"):
        right = await executor.execute("lamp", {"deviceName": "desk"})
        await executor.execute("lamp", {"device_name": "hidden-4711"})
    assert right.repairs == ()
    lines = [record.getMessage() for record in caplog.records if record.name == "toolrun"]
    assert lines == ['lamp: {device_name: "..."} → {deviceName: "..."}']


async def test_what_is_wrong_after_renaming_is_refused_under_the_name_of_the_schema(executor: ToolExecutor) -> None:
    lamp = executor.manager.add(Lamp())
    result = await executor.execute("lamp", {"device_name": 7})
    assert lamp.received == []
    assert result.error == "Invalid parameters: 'deviceName' must be string, got 7 (integer)"
