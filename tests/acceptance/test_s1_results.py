"""S1.6 and S1.7: measured time, and the shape of every answer."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

import pytest

from acceptance.project import Project, declaration
from acceptance.proofs import until_later
from toolrun import ErrorKind, Observer, Runtime, ToolResult
from toolrun.tools.context import Call


class Stopwatch(Observer):
    """Notes when a call came in: before anything of it is looked at."""

    def __init__(self) -> None:
        self.came_in = 0.0

    def call_started(self, call: Call) -> None:
        self.came_in = perf_counter()

    def call_finished(self, call: Call, result: ToolResult) -> None:
        pass


@pytest.mark.scenario("S1.6.1")
async def test_s1_6_1_track_execution_time(project: Project) -> None:
    """The time in the answer of any tool goes from before its execution to after it."""
    inside: dict[str, float] = {}

    async def wait(arguments: dict[str, Any]) -> None:
        started = perf_counter()
        await until_later(0.002)
        inside["wait"] = perf_counter() - started

    project.declare(
        declaration("wait", {"type": "internal", "handler": "wait"}),
        declaration("mirror", {"type": "builtin", "handler": "echo"}),
        declaration("canned", {"type": "mock", "mock_response": 1}),
    )
    async with project.open() as runtime:
        runtime.register_internal("wait", wait)
        for name in ("wait", "mirror", "canned"):
            before = perf_counter()
            result = await runtime.executor.execute(name)
            outside = perf_counter() - before
            assert result.success
            assert inside.get(name, 0.0) * 1000 <= result.execution_time_ms <= outside * 1000
            assert result.execution_time_ms > 0
            assert result.to_dict()["execution_time_ms"] == round(result.execution_time_ms, 3)


@pytest.mark.scenario("S1.6.2")
async def test_s1_6_2_include_time_in_error_results(project: Project) -> None:
    """The time in the answer of a failed call covers its validation and the attempt to execute it."""
    watch = Stopwatch()
    raised_at = 0.0

    async def fail(arguments: dict[str, Any]) -> None:
        nonlocal raised_at
        await until_later(0.002)
        raised_at = perf_counter()
        raise RuntimeError("broken")

    project.declare(declaration("fail", {"type": "internal", "handler": "fail"}, level={"type": "integer"}))
    async with Runtime.open(project.root / "toolrun.toml", observers=(watch,)) as runtime:
        runtime.register_internal("fail", fail)
        before = perf_counter()
        failed = await runtime.executor.execute("fail", {"level": "3"})
        outside = perf_counter() - before
        assert failed.error == "broken"
        assert failed.repairs, "so the arguments were checked between the two moments"
        assert (raised_at - watch.came_in) * 1000 <= failed.execution_time_ms <= outside * 1000
        for name, kind in (("fail", ErrorKind.INVALID_ARGUMENTS), ("nothing", ErrorKind.UNKNOWN_TOOL)):
            before = perf_counter()
            refused = await runtime.executor.execute(name)
            outside = perf_counter() - before
            assert refused.error_kind is kind
            assert 0 < refused.execution_time_ms <= outside * 1000
            assert "execution_time_ms" in refused.to_dict()


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
