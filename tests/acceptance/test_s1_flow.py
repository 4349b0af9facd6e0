"""S1.1 and S1.2: one call from validation to envelope."""

from __future__ import annotations

from typing import Any

import pytest

from acceptance.project import Project, declaration, envelope
from toolrun import ErrorKind, Runtime, ToolResult

SWITCH = {"type": "internal", "handler": "switches"}


class Switches:
    """A service of the host application that remembers what it was asked."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.received.append(arguments)
        return {"switched": True}


async def call(runtime: Runtime, arguments: dict[str, Any]) -> tuple[ToolResult, list[dict[str, Any]]]:
    """Call the tool `switch`; the answer, and what its service received."""
    service = Switches()
    runtime.register_internal("switches", service)
    return await runtime.executor.execute("switch", arguments), service.received


@pytest.mark.scenario("S1.1.1")
async def test_s1_1_1_successful_tool_execution(project: Project) -> None:
    """A valid call of a tool that exists is checked, run as its implementation says, and answered by the envelope."""
    number = {"type": "integer"}
    project.declare(
        declaration("canned", {"type": "mock", "mock_response": {"temperature": 21}}, level=number),
        declaration("mirror", {"type": "builtin", "handler": "echo"}, level=number),
        declaration("switch", SWITCH, level=number),
    )
    expected = {
        "canned": {"temperature": 21},
        "mirror": {"echo": {"level": 3}},
        "switch": {"switched": True},
    }
    async with project.open() as runtime:
        runtime.register_internal("switches", Switches())
        for name, value in expected.items():
            result = await runtime.executor.execute(name, {"level": 3})
            assert list(result.to_dict()) == ["success", "result", "tool_name", "execution_time_ms"]
            assert envelope(result) == {"success": True, "result": value, "tool_name": name}
            assert not (await runtime.executor.execute(name, {"level": "high"})).success, "the schema was asked"
        assert not (await runtime.executor.execute("dimmer", {"level": 3})).success, "and whether the tool exists"


@pytest.mark.scenario("S1.1.2")
async def test_s1_1_2_tool_not_found(project: Project) -> None:
    """A call of a tool that does not exist is answered `Tool '<name>' not found` and raises nothing."""
    async with project.open() as runtime:
        result = await runtime.executor.execute("teleport", {"to": "Mars"})
    assert list(result.to_dict()) == ["success", "error", "tool_name", "execution_time_ms"]
    assert envelope(result) == {"success": False, "error": "Tool 'teleport' not found", "tool_name": "teleport"}


@pytest.mark.scenario("S1.1.3")
async def test_s1_1_3_parameter_validation_failure(project: Project) -> None:
    """A call without a required parameter is answered `missing '<param>'` and the tool does not run."""
    project.declare(declaration("switch", SWITCH, device={"type": "string"}, on={"type": "boolean"}))
    async with project.open() as runtime:
        result, received = await call(runtime, {"device": "lamp"})
    assert envelope(result) == {
        "success": False,
        "error": "Invalid parameters: missing 'on'",
        "tool_name": "switch",
    }
    assert received == []


@pytest.mark.scenario("S1.1.4")
async def test_s1_1_4_tool_execution_error(project: Project) -> None:
    """An exception of a tool is caught and its message is the error of the envelope."""

    def broken(arguments: dict[str, Any]) -> None:
        raise RuntimeError("the relay does not answer")

    async def broken_late(arguments: dict[str, Any]) -> None:
        raise RuntimeError("the relay does not answer")

    project.declare(
        declaration("switch", {"type": "internal", "handler": "broken"}),
        declaration("switch_async", {"type": "internal", "handler": "broken_late"}),
    )
    async with project.open() as runtime:
        runtime.register_internal("broken", broken)
        runtime.register_internal("broken_late", broken_late)
        for name in ("switch", "switch_async"):
            result = await runtime.executor.execute(name)
            assert envelope(result) == {"success": False, "error": "the relay does not answer", "tool_name": name}


@pytest.mark.scenario("S1.2.1")
async def test_s1_2_1_required_parameter_check(project: Project) -> None:
    """All required parameters must be present; each missing one is named in the error."""
    project.declare(declaration("switch", SWITCH, device={"type": "string"}, on={"type": "boolean"}))
    incomplete: list[tuple[dict[str, Any], str]] = [
        ({"on": True}, "missing 'device'"),
        ({"device": "lamp"}, "missing 'on'"),
        ({}, "missing 'device'; missing 'on'"),
    ]
    async with project.open() as runtime:
        complete, received = await call(runtime, {"device": "lamp", "on": True})
        assert complete.success
        assert received == [{"device": "lamp", "on": True}]
        for arguments, missing in incomplete:
            result, received = await call(runtime, arguments)
            assert result.error_kind is ErrorKind.INVALID_ARGUMENTS
            assert result.error == f"Invalid parameters: {missing}"
            assert received == []


@pytest.mark.scenario("S1.2.2")
async def test_s1_2_2_type_checking(project: Project) -> None:
    """A value must have the type of its parameter: whole numbers for integers, nothing but strings for strings."""
    project.declare(declaration("switch", SWITCH, level={"type": "integer"}, label={"type": "string"}))
    fine: list[dict[str, Any]] = [{"level": 3, "label": "x"}, {"level": -3.0, "label": ""}, {"level": 0, "label": "7"}]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"level": 1.5, "label": "x"}, "'level' must be integer, got 1.5 (number)"),
        ({"level": True, "label": "x"}, "'level' must be integer, got true (boolean)"),
        ({"level": None, "label": "x"}, "'level' must be integer, got null (null)"),
        ({"level": "three", "label": "x"}, "'level' must be integer, got \"three\" (string)"),
        ({"level": 3, "label": 7}, "'label' must be string, got 7 (integer)"),
        ({"level": 3, "label": ["x", "y"]}, '\'label\' must be string, got ["x", "y"] (array)'),
    ]
    async with project.open() as runtime:
        for arguments in fine:
            result, received = await call(runtime, arguments)
            assert result.success
            assert not result.repairs
            assert received == [arguments]
        for arguments, problem in wrong:
            result, received = await call(runtime, arguments)
            assert result.error == f"Invalid parameters: {problem}"
            assert received == []


@pytest.mark.scenario("S1.2.3")
async def test_s1_2_3_enum_validation(project: Project) -> None:
    """A value must be one of the allowed ones; one that is not is refused with the list of them."""
    project.declare(declaration("switch", SWITCH, action={"type": "string", "enum": ["on", "off", "toggle"]}))
    async with project.open() as runtime:
        for action in ("on", "off", "toggle"):
            result, received = await call(runtime, {"action": action})
            assert result.success
            assert received == [{"action": action}]
        result, received = await call(runtime, {"action": "explode"})
    assert result.error_kind is ErrorKind.INVALID_ARGUMENTS
    assert result.error == ('Invalid parameters: \'action\' must be one of "on", "off", "toggle"; got "explode"')
    assert received == []


@pytest.mark.scenario("S1.2.4")
async def test_s1_2_4_allow_extra_parameters(project: Project) -> None:
    """Parameters that the schema does not know are ignored: they refuse nothing, excuse nothing and reach nobody."""
    project.declare(declaration("switch", SWITCH, on={"type": "boolean"}))
    async with project.open() as runtime:
        result, received = await call(runtime, {"on": True, "colour": "red", "speed": {"deep": [None]}})
        assert result.success
        assert received == [{"on": True}]
        assert result.dropped == ("colour", "speed")
        refused, received = await call(runtime, {"on": 7, "colour": "red"})
        assert refused.error == "Invalid parameters: 'on' must be boolean, got 7 (integer)"
        assert received == []
