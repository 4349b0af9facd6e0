"""S1.6 and S1.7: measured time, and the shape of every answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from acceptance.clock import Clock
from acceptance.project import Project, declaration
from toolrun import ErrorKind, Observer, Runtime, ToolResult
from toolrun.tools.context import Call


@pytest.mark.scenario("S1.6.1")
async def test_s1_6_1_track_execution_time(project: Project, clock: Clock) -> None:
    """The time in the answer of any tool goes from before its execution to after it."""

    async def wait(arguments: dict[str, Any]) -> None:
        await clock.advance(1.5)

    def work(arguments: dict[str, Any]) -> None:
        clock.skip(0.0625)

    project.declare(
        declaration("wait", {"type": "internal", "handler": "wait"}),
        declaration("work", {"type": "internal", "handler": "work"}),
        declaration("mirror", {"type": "builtin", "handler": "echo"}),
        declaration("canned", {"type": "mock", "mock_response": 1}),
    )
    async with project.open() as runtime:
        runtime.register_internal("wait", wait)
        runtime.register_internal("work", work)
        real = await runtime.executor.execute("mirror")
        assert real.execution_time_ms > 0, "by the clock of the system"
        clock.stop()
        for name, milliseconds in {"wait": 1500, "work": 62.5, "mirror": 0, "canned": 0}.items():
            clock.skip(8)
            result = await runtime.executor.execute(name)
            assert result.success
            assert result.execution_time_ms == milliseconds
            assert result.to_dict()["execution_time_ms"] == milliseconds


@pytest.mark.scenario("S1.6.2")
async def test_s1_6_2_include_time_in_error_results(project: Project, clock: Clock) -> None:
    """The time in the answer of a failed call covers its validation and the attempt to execute it."""

    class Slow(Observer):
        """Time passes when a call has come in, before anything of it is looked at."""

        def call_started(self, call: Call) -> None:
            clock.skip(0.25)

        def call_finished(self, call: Call, result: ToolResult) -> None:
            clock.skip(0.25)

    async def fail(arguments: dict[str, Any]) -> None:
        clock.skip(1.5)
        raise RuntimeError("broken")

    clock.stop()
    project.declare(declaration("fail", {"type": "internal", "handler": "fail"}, level={"type": "integer"}))
    async with Runtime.open(project.root / "toolrun.toml", observers=(Slow(),)) as runtime:
        runtime.register_internal("fail", fail)
        failed = await runtime.executor.execute("fail", {"level": "3"})
        assert failed.error == "broken"
        assert failed.repairs, "so the arguments were checked between the two moments"
        assert failed.to_dict()["execution_time_ms"] == 1750
        for name, kind in (("fail", ErrorKind.INVALID_ARGUMENTS), ("nothing", ErrorKind.UNKNOWN_TOOL)):
            refused = await runtime.executor.execute(name)
            assert refused.error_kind is kind
            assert refused.to_dict()["execution_time_ms"] == 250


@pytest.mark.scenario("S1.7.1")
async def test_s1_7_1_error_result_structure(project: Project, closed_port: int) -> None:
    """Every kind of failure is answered with exactly success, error, tool_name and execution_time_ms."""

    async def fail(arguments: dict[str, Any]) -> None:
        raise ValueError("level 11 is too loud")

    def crash(arguments: dict[str, Any]) -> None:
        raise SystemExit(3)

    async def hang(arguments: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async def connect(arguments: dict[str, Any]) -> None:
        await asyncio.open_connection("127.0.0.1", closed_port)

    services = {"fail": fail, "crash": crash, "hang": hang, "connect": connect}
    project.declare(
        *(declaration(name, {"type": "internal", "handler": name}) for name in services),
        declaration("needs_level", {"type": "builtin", "handler": "echo"}, level={"type": "integer"}),
        declaration("no_builtin", {"type": "builtin", "handler": "missing"}),
        declaration("no_internal", {"type": "internal", "handler": "missing"}),
    )
    descriptive = {
        "fail": "level 11 is too loud",
        "crash": "exit code 3",
        "hang": "'hang' timed out after 0.05 s",
        "connect": "'connect' is unavailable",
        "needs_level": "missing 'level'",
        "no_builtin": "Builtin handler 'missing' not found",
        "no_internal": "Internal handler 'missing' not found",
        "unknown": "Tool 'unknown' not found",
    }
    async with project.open() as runtime:
        for name, service in services.items():
            runtime.register_internal(name, service)
        for name, message in descriptive.items():
            result = await runtime.executor.execute(name, timeout=0.05 if name == "hang" else None)
            found = result.to_dict()
            assert list(found) == ["success", "error", "tool_name", "execution_time_ms"]
            assert (found["success"], found["tool_name"]) == (False, name)
            assert isinstance(found["error"], str)
            assert message in found["error"]
            assert isinstance(found["execution_time_ms"], float)


@pytest.mark.scenario("S1.7.2")
async def test_s1_7_2_success_result_structure(project: Project) -> None:
    """Every success is answered with exactly success, result, tool_name and execution_time_ms."""
    values: list[Any] = ["text", "", 0, 2.5, True, False, None, [], [1, "two"], {"a": {"b": None}}]

    async def give(arguments: dict[str, Any]) -> Any:
        return values[arguments["index"]]

    project.declare(declaration("give", {"type": "internal", "handler": "give"}, index={"type": "integer"}))
    async with project.open() as runtime:
        runtime.register_internal("give", give)
        for index, value in enumerate(values):
            found = (await runtime.executor.execute("give", {"index": index})).to_dict()
            assert list(found) == ["success", "result", "tool_name", "execution_time_ms"]
            assert (found["success"], found["tool_name"]) == (True, "give")
            assert found["result"] == value
            assert type(found["result"]) is type(value)
            assert isinstance(found["execution_time_ms"], float)
