"""What two specifications ask for in the same words, proved once for any kind of tool.

S0 and S3 share these scenarios. The tests of S0 run the proofs with functions, those of S3 with LangChain tools: `make`
turns a function into the kind of tool that is meant.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal

import jsonschema_rs
import pytest

from acceptance.kinds import Make, ObjectTool
from toolrun import DefinitionError, ErrorKind, Limits, ToolExecutor, ToolManager, ToolResult
from toolrun.tools.protocol import schema_of

BROADCAST = "255.255.255.255"
"""No connection can be made to it: the system answers that the network is unreachable, and sends nothing."""


def call_record(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """The one line that was logged about a call."""
    [record] = [it for it in caplog.records if it.name == "toolrun.call"]
    return record


def call_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The same line as data."""
    fields = record.__dict__["call"]
    assert isinstance(fields, dict)
    return fields


async def until_later(seconds: float) -> None:
    """Return when the event loop's clock has gone on by so much."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await asyncio.wait_for(passed.wait(), 10)


async def prove_execution_by_name(executor: ToolExecutor, make: Make) -> None:
    ran = []

    async def add(a: int, b: int) -> int:
        """Add."""
        ran.append("add")
        return a + b

    async def multiply(a: int, b: int) -> int:
        """Multiply."""
        ran.append("multiply")
        return a * b

    executor.manager.add(make(add))
    executor.manager.add(make(multiply))
    result = await executor.execute("multiply", {"a": 6, "b": 7})
    assert ran == ["multiply"]
    assert (result.success, result.tool_name, result.result, result.text) == (True, "multiply", 42, "42")


async def prove_log_of_execution(executor: ToolExecutor, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    async def greet(name: str) -> str:
        """Greet."""
        return f"Hello {name}!"

    executor.manager.add(make(greet))
    with caplog.at_level(logging.INFO, "toolrun.call"):
        result = await executor.execute("greet", {"name": "Ada"})
    record = call_record(caplog)
    milliseconds = round(result.execution_time_ms, 3)
    fields = call_fields(record)
    assert (fields["tool"], fields["arguments"]) == ("greet", {"name": "Ada"})
    assert (fields["ms"], fields["result"]) == (milliseconds, "Hello Ada!")
    for part in ("greet", '{"name":"Ada"}', f"{milliseconds} ms", "Hello Ada!"):
        assert part in record.getMessage()


async def prove_unknown_tool(executor: ToolExecutor, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    async def get_weather(city: str) -> str:
        """Tell the weather."""
        return city

    executor.manager.add(make(get_weather))
    result = await executor.execute("get_wether", {"city": "Oslo"})
    record = call_record(caplog)
    assert record.levelno == logging.WARNING
    assert "get_wether" in record.getMessage()
    assert result.error_kind is ErrorKind.UNKNOWN_TOOL
    assert result.error == "Tool 'get_wether' not found"
    assert result.text.splitlines()[0] == 'Error: Unknown tool "get_wether"'
    assert "get_weather" in result.text, "the close name that was meant"


async def prove_tool_error(executor: ToolExecutor, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    async def get_weather(city: str) -> str:
        """Tell the weather."""
        raise LookupError(f"there is no weather station in {city}")

    executor.manager.add(make(get_weather))
    result = await executor.execute("get_weather", {"city": "Atlantis"}, call_id="c-17")
    record = call_record(caplog)
    assert record.levelno == logging.ERROR
    context = ("get_weather", "c-17", '{"city":"Atlantis"}', "there is no weather station in Atlantis", "LookupError")
    for part in (*context, f"{__file__}:"):
        assert part in record.getMessage()
    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert result.text == "Error: there is no weather station in Atlantis"


def prove_definition(make: Make) -> None:
    async def book(city: str, nights: int = 1) -> str:
        """Book a room."""
        return f"{city} {nights}"

    manager = ToolManager()
    added = manager.add(make(book))
    assert added.name == "book"
    assert added.description == "Book a room."
    schema = dict(schema_of(added))
    jsonschema_rs.meta.validate(schema)
    assert (schema["type"], schema["required"]) == ("object", ["city"])
    manager.add(added)
    manager.add(ObjectTool(name="other"))
    assert [it.name for it in manager.tools] == ["book", "other"], "a name is there once"
    incomplete = [
        ObjectTool(name=None),
        ObjectTool(name=""),
        ObjectTool(name="two words"),
        ObjectTool(description=None),
        ObjectTool(description=" "),
        ObjectTool(schema=7),
        ObjectTool(schema={"type": "string"}),
        ObjectTool(schema={"type": "object", "properties": {"x": {"type": "whole number"}}}),
    ]
    for candidate in incomplete:
        with pytest.raises(DefinitionError):
            manager.add(candidate)
    assert len(manager) == 2


async def prove_uniqueness(executor: ToolExecutor, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def version(answer: str) -> Callable[[], Any]:
        async def get_version() -> str:
            """Tell the version."""
            return answer

        return get_version

    executor.manager.add(make(version("old")))
    assert not caplog.records
    new = executor.manager.add(make(version("new")))
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "get_version" in record.getMessage()
    assert executor.manager.tools == [new]
    assert (await executor.execute("get_version")).result == "new"


async def prove_measured_time(executor: ToolExecutor, make: Make) -> None:
    inside: list[float] = []

    async def wait() -> str:
        """Let time pass."""
        started = perf_counter()
        await until_later(0.002)
        inside.append(perf_counter() - started)
        return "done"

    executor.manager.add(make(wait))
    before = perf_counter()
    result = await executor.execute("wait")
    outside = perf_counter() - before
    assert result.result == "done"
    assert inside[0] * 1000 <= result.execution_time_ms <= outside * 1000, "from the start to the end of the tool"


async def prove_log_of_slow_tools(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    async def dawdle() -> str:
        """Let time pass."""
        await until_later(0.02)
        return "done"

    async def call(limits: Limits) -> tuple[logging.LogRecord, ToolResult]:
        caplog.clear()
        executor = ToolExecutor(ToolManager([make(dawdle)]), limits=limits)
        with caplog.at_level(logging.INFO, "toolrun.call"):
            result = await executor.execute("dawdle")
        await executor.close()
        return call_record(caplog), result

    slow, result = await call(Limits(slow_call=0.001))
    assert result.success
    assert slow.levelno == logging.WARNING
    for part in ("dawdle", f"{round(result.execution_time_ms, 3)} ms", "slow"):
        assert part in slow.getMessage()
    fast, _ = await call(Limits(slow_call=600))
    assert fast.levelno == logging.INFO
    assert "slow" not in fast.getMessage()
    assert ToolExecutor(ToolManager()).limits.slow_call == Limits().slow_call == 1.0, "1000 ms unless configured"


async def prove_network_error(executor: ToolExecutor, make: Make, closed_port: int) -> None:
    async def ask_service(host: str, port: int) -> None:
        """Connect on the event loop."""
        await asyncio.open_connection(host, port)

    def ask_service_blocking(host: str, port: int) -> None:
        """Connect in a thread."""
        with socket.create_connection((host, port), timeout=10):
            pass

    for function in (ask_service, ask_service_blocking):
        executor.manager.add(make(function))
        for host in ("127.0.0.1", BROADCAST):
            result = await executor.execute(function.__name__, {"host": host, "port": closed_port})
            assert result.text.startswith(f"Error: The service behind '{function.__name__}' is unavailable"), host
            assert result.error_kind is ErrorKind.UNAVAILABLE


async def prove_invalid_arguments(executor: ToolExecutor, make: Make) -> None:
    ran = []

    async def book(city: str, nights: int, room: Literal["single", "double"] = "single") -> str:
        """Book a room."""
        ran.append(city)
        return f"{city} {nights} {room}"

    executor.manager.add(make(book))
    missing = await executor.execute("book", {"city": "Oslo"})
    invalid = await executor.execute("book", {"city": "Oslo", "nights": "some"})
    both = await executor.execute("book", {"nights": [1]})
    assert not ran
    assert missing.error == "Invalid parameters: missing 'nights'"
    assert invalid.error == "Invalid parameters: 'nights' must be integer, got \"some\" (string)"
    assert "missing 'city'" in both.text
    assert "'nights' must be integer" in both.text
    for refused in (missing, invalid, both):
        assert refused.error_kind is ErrorKind.INVALID_ARGUMENTS
        described = [line.strip() for line in refused.text.splitlines()]
        assert "city (string, required)" in described
        assert "nights (integer, required)" in described


async def prove_timeout(make: Make) -> None:
    cancelled = asyncio.Event()

    async def wait(forever: bool) -> str:
        """Wait."""
        try:
            if forever:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "done"

    executor = ToolExecutor(ToolManager([make(wait)]), timeout=0.2)
    first = await executor.execute("wait", {"forever": False}, timeout=30)  # LangChain imports much at its first call
    assert first.result == "done"
    result = await executor.execute("wait", {"forever": True})
    await asyncio.wait_for(cancelled.wait(), 10)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.text == "Error: Tool 'wait' timed out after 0.2 s"
    assert (await executor.execute("wait", {"forever": False}, timeout=30)).success, "and the executor goes on"
    await executor.close()
    assert ToolExecutor(ToolManager()).timeout == 30.0
