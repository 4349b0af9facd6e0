"""What two specifications ask for in the same words, proved once for any kind of tool.

S0 and S3 share these scenarios. The tests of S0 run the proofs with functions, those of S3 with LangChain tools: `make`
turns a function into the kind of tool that is meant.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import httpx
import jsonschema_rs
import pytest

from acceptance.clock import Clock
from acceptance.kinds import Make, ObjectTool
from acceptance.processes import LIMIT
from toolrun import DefinitionError, ErrorKind, Limits, Runtime, ToolExecutor, ToolManager
from toolrun.config.model import Config
from toolrun.execution.log import LogObserver
from toolrun.tools.protocol import schema_of

BROADCAST = "255.255.255.255"
"""No connection can be made to it: the system answers that the network is unreachable, and sends nothing."""


NETWORK_ERRORS: dict[str, Exception] = {
    "name": socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    "reset": ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    "route": OSError(errno.EHOSTUNREACH, "No route to host"),
    "network": OSError(errno.ENETDOWN, "Network is down"),
    "certificate": ssl.SSLError(1, "certificate verify failed"),
    "http": httpx.ConnectError("All connection attempts failed"),
    "urllib": urllib.error.URLError("unreachable"),
}
"""How Python and its libraries say that there is no connection."""


def call_record(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """The one line that was logged about a call."""
    [record] = [it for it in caplog.records if it.name == "toolrun.call"]
    return record


def call_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The same line as data."""
    fields = record.__dict__["call"]
    assert isinstance(fields, dict)
    return fields


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
        ObjectTool(name="x" * 129),
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


async def prove_measured_time(executor: ToolExecutor, make: Make, clock: Clock) -> None:
    async def wait() -> str:
        """Let time pass on the event loop."""
        clock.skip(1.25)
        await asyncio.sleep(0)
        clock.skip(0.25)
        return "done"

    def work() -> str:
        """Let time pass in a thread."""
        clock.skip(2.5)
        return "done"

    async def fail() -> str:
        """Let time pass, then fail."""
        clock.skip(0.5)
        raise ValueError("no")

    clock.stop()
    for function, milliseconds in ((wait, 1500), (work, 2500), (fail, 500)):
        executor.manager.add(make(function))
        clock.skip(8)  # what was before is no part of it
        result = await executor.execute(function.__name__)
        assert result.success is (function is not fail)
        assert result.execution_time_ms == milliseconds, "from the start to the completion, and nothing else"


async def prove_log_of_slow_tools(make: Make, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    async def dawdle(seconds: float) -> str:
        """Let time pass."""
        clock.skip(seconds)
        return "done"

    clock.stop()
    a_bit = 2**-10
    tools = ToolManager([make(dawdle)])
    runtime = Runtime(Config(None, Path()))
    runtime.manager.add(make(dawdle))
    configured = Runtime(Config(None, Path(), limits=Limits(slow_call=0.25)))
    configured.manager.add(make(dawdle))
    executors = {
        "of a runtime": (runtime.executor, 1.0),
        "of a configured runtime": (configured.executor, 0.25),
        "by default": (ToolExecutor(tools), 1.0),
        "with an observer": (ToolExecutor(tools, observers=[LogObserver()]), 1.0),
        "as configured": (ToolExecutor(tools, limits=Limits(slow_call=0.25)), 0.25),
    }
    for way, (executor, threshold) in executors.items():
        for seconds in (threshold, threshold + a_bit):
            caplog.clear()
            with caplog.at_level(logging.INFO, "toolrun.call"):
                assert (await executor.execute("dawdle", {"seconds": seconds})).success
            record, is_slow = call_record(caplog), seconds > threshold
            assert record.levelno == (logging.WARNING if is_slow else logging.INFO), (way, seconds)
            assert record.getMessage().startswith(f"dawdle ok {round(seconds * 1000, 3)} ms ")
            assert (f"slow: over {threshold * 1000:g} ms" in record.getMessage()) is is_slow
        await executor.close()


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

    async def look_up(problem: str) -> None:
        """Fail as networks do."""
        raise NETWORK_ERRORS[problem]

    executor.manager.add(make(look_up))
    for problem in NETWORK_ERRORS:
        result = await executor.execute("look_up", {"problem": problem})
        assert result.text.startswith("Error: The service behind 'look_up' is unavailable"), problem
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
    both = await executor.execute("book", {"nights": [1, 2]})
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


async def prove_timeout(make: Make, clock: Clock) -> None:
    began, cancelled, released = asyncio.Event(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def wait(forever: bool) -> str:
        """Wait on the event loop."""
        began.set()
        try:
            if forever:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "done"

    def block(forever: bool) -> str:
        """Wait in a thread, which nothing can stop."""
        loop.call_soon_threadsafe(began.set)
        released.wait(LIMIT)
        return "done"

    clock.stop()
    tools = ToolManager([make(wait), make(block)])
    runtime = Runtime(Config(None, Path()))
    for tool in tools:
        runtime.manager.add(tool)
    executors = [(ToolExecutor(tools), 30.0), (ToolExecutor(tools, timeout=2.5), 2.5), (runtime.executor, 30.0)]
    for executor, timeout in executors:
        for function in (wait, block):
            began.clear()
            cancelled.clear()
            running = asyncio.create_task(executor.execute(function.__name__, {"forever": True}))
            await began.wait()
            await clock.advance(timeout - 0.25)
            assert not running.done(), "it has its time"
            assert not cancelled.is_set()
            await clock.advance(0.25)
            assert running.done(), "and not a moment more"
            result = running.result()
            assert (result.error_kind, result.execution_time_ms) == (ErrorKind.TIMEOUT, timeout * 1000)
            assert result.text == f"Error: Tool '{function.__name__}' timed out after {timeout:g} s"
            if function is wait:
                await cancelled.wait()
            else:
                assert executor.health().abandoned == {"block": 1}, "it is counted, and not waited for"
        assert (await executor.execute("wait", {"forever": False})).success, "and the executor goes on"
    released.set()
    for executor, _ in executors:
        await executor.close()
