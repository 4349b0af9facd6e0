"""S1.3, S1.4 and S1.5: tools that a catalog declares as mock, builtin and internal."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from acceptance.project import Project, declaration, envelope
from acceptance.proofs import call_fields, call_record
from toolrun import ErrorKind, ToolError, ToolResult

TEXT = {"type": "string"}


@pytest.mark.scenario("S1.3.1")
async def test_s1_3_1_execute_mock_tool(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    """A mock answers its response at once, whatever the parameters, which are logged.

    The answer comes in the first step of the call, without a suspension and without a thread. Of many calls the
    shortest is timed: a busy machine may hold up some of them, but not all.
    """
    response = {"temperature": 21.5, "sky": ["clear", None]}
    project.declare(declaration("weather", {"type": "mock", "mock_response": response}, city=TEXT))
    async with project.open() as runtime:
        threads = threading.active_count()
        for city in ("Oslo", "Rome"):
            caplog.clear()
            with caplog.at_level(logging.INFO, "toolrun.call"), pytest.raises(StopIteration) as finished:
                runtime.executor.execute("weather", {"city": city}).send(None)
            result = finished.value.value
            assert isinstance(result, ToolResult)
            assert envelope(result) == {"success": True, "result": response, "tool_name": "weather"}
            assert call_fields(call_record(caplog))["arguments"] == {"city": city}
            assert city in call_record(caplog).getMessage()
        assert threading.active_count() == threads
        answers = [await runtime.executor.execute("weather", {"city": "Bern"}) for _ in range(20)]
        assert min(answer.execution_time_ms for answer in answers) < 10


@pytest.mark.scenario("S1.4.1")
async def test_s1_4_1_execute_builtin_tool(project: Project) -> None:
    """A builtin tool is answered by the handler that its declaration names, called with the parameters."""
    project.declare(
        declaration("calculate", {"type": "builtin", "handler": "math_eval"}, expression=TEXT),
        declaration("mirror", {"type": "builtin", "handler": "echo"}, expression=TEXT),
        declaration("clock", {"type": "builtin", "handler": "get_current_datetime"}, timezone=TEXT),
        declaration("new_id", {"type": "builtin", "handler": "generate_uuid"}),
    )
    async with project.open() as runtime:
        execute = runtime.executor.execute
        assert (await execute("calculate", {"expression": "6*7"})).result == {"result": 42}
        assert (await execute("mirror", {"expression": "6*7"})).result == {"echo": {"expression": "6*7"}}
        assert "Asia/Tokyo" in (await execute("clock", {"timezone": "Asia/Tokyo"})).text
        made = [(await execute("new_id")).text for _ in range(2)]
    assert made[0] != made[1]


@pytest.mark.scenario("S1.4.2")
async def test_s1_4_2_builtin_handler_not_found(project: Project) -> None:
    """A builtin tool whose handler does not exist is answered `Builtin handler '<name>' not found`."""
    project.declare(declaration("tell_fortune", {"type": "builtin", "handler": "crystal_ball"}))
    async with project.open() as runtime:
        declared: Any = runtime.manager.get("tell_fortune")
        with pytest.raises(ToolError, match=r"^Builtin handler 'crystal_ball' not found$"):
            declared.invoke({})
        result = await runtime.executor.execute("tell_fortune")
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert envelope(result) == {
        "success": False,
        "error": "Builtin handler 'crystal_ball' not found",
        "tool_name": "tell_fortune",
    }


@pytest.mark.scenario("S1.4.3")
async def test_s1_4_3_math_evaluation_handler(project: Project) -> None:
    """`math_eval` answers `{result: 4}` to `2+2`, evaluates what mathjs does but no code, and says what is invalid."""
    project.declare(declaration("calculate", {"type": "builtin", "handler": "math_eval"}, expression=TEXT))
    invalid = ["2 +", "(1 + 2", "nonsense(3)", "1 / / 2", ""]
    unsafe = ["__import__('os').getpid()", "().__class__", "open('/etc/passwd')", "9^9^9", "1e9!"]
    async with project.open() as runtime:

        async def evaluate(expression: str) -> ToolResult:
            return await runtime.executor.execute("calculate", {"expression": expression})

        assert (await evaluate("2+2")).result == {"result": 4}
        assert (await evaluate("sqrt(16) + 2^3")).result == {"result": 12}
        messages = []
        for expression in (*invalid, *unsafe):
            result = await evaluate(expression)
            assert result.error_kind is ErrorKind.TOOL_ERROR, expression
            messages.append(result.error or "")
    for expression, message in zip(invalid[:-1], messages, strict=False):
        assert expression in message, "it quotes what it could not read"
    assert "nonsense" in messages[2]
    assert "empty" in messages[4]


@pytest.mark.scenario("S1.4.4")
async def test_s1_4_4_echo_handler(project: Project) -> None:
    """`echo` answers `{echo: <parameters>}`, the parameters exactly as they came."""
    entry = declaration("mirror", {"type": "builtin", "handler": "echo"})
    entry["parameters"]["additionalProperties"] = True
    project.declare(entry)
    samples: list[dict[str, Any]] = [
        {},
        {"message": "Grüße 👋", "count": 3},
        {"nested": {"list": [1, 2.5, None, True, {"deep": "x"}]}, "text": "5"},
    ]
    async with project.open() as runtime:
        for arguments in samples:
            result = await runtime.executor.execute("mirror", arguments)
            assert result.result == {"echo": arguments}
            assert not result.repairs


@pytest.mark.scenario("S1.5.1")
async def test_s1_5_1_execute_internal_tool(project: Project) -> None:
    """An internal tool is answered by the service of the host that its declaration names, async or not."""
    received: list[tuple[str, dict[str, Any]]] = []

    def find_notes(arguments: dict[str, Any]) -> dict[str, Any]:
        received.append(("find", arguments))
        return {"notes": ["milk"]}

    async def save_note(arguments: dict[str, Any]) -> dict[str, Any]:
        received.append(("save", arguments))
        return {"saved": arguments["text"]}

    project.declare(
        declaration("search_notes", {"type": "internal", "handler": "notes.find"}, text=TEXT),
        declaration("write_note", {"type": "internal", "handler": "notes.save"}, text=TEXT),
    )
    async with project.open() as runtime:
        runtime.register_internal("notes.find", find_notes)
        runtime.register_internal("notes.save", save_note)
        found = await runtime.executor.execute("search_notes", {"text": "mi"})
        saved = await runtime.executor.execute("write_note", {"text": "eggs"})
    assert received == [("find", {"text": "mi"}), ("save", {"text": "eggs"})]
    assert envelope(found) == {"success": True, "result": {"notes": ["milk"]}, "tool_name": "search_notes"}
    assert envelope(saved) == {"success": True, "result": {"saved": "eggs"}, "tool_name": "write_note"}


@pytest.mark.scenario("S1.5.2")
async def test_s1_5_2_internal_handler_not_found(project: Project) -> None:
    """An internal tool whose handler does not exist is answered `Internal handler '<name>' not found`."""
    project.declare(declaration("search_notes", {"type": "internal", "handler": "notes.find"}))
    async with project.open() as runtime:
        runtime.register_internal("notes.save", print)
        declared: Any = runtime.manager.get("search_notes")
        with pytest.raises(ToolError, match=r"^Internal handler 'notes\.find' not found$"):
            declared.invoke({})
        result = await runtime.executor.execute("search_notes")
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert envelope(result) == {
        "success": False,
        "error": "Internal handler 'notes.find' not found",
        "tool_name": "search_notes",
    }
