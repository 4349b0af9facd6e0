"""One line per call, with everything in it but the secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from toolrun import Limits, LogObserver, ToolContext, ToolError, ToolExecutor, ToolManager, ToolSettings
from toolrun.json import JSON
from toolrun.redaction import Redactor

SECRET = "s3cr3t-value"


async def login(user: str, password: str, pin: int = 0, options: dict[str, Any] | None = None) -> str:
    """Log in."""
    return f"{user} is in"


async def echo(value: Any) -> Any:
    """Return what came."""
    return value


async def fail(message: str) -> None:
    """Fail."""
    raise LookupError(message)


async def refuse(message: str) -> None:
    """Fail on purpose."""
    raise ToolError(message)


async def leak(context: ToolContext) -> object:
    """Show what must not be shown."""
    return {"url": f"https://x.org/?key={context.secrets['KEY']}", "keys": [context.secrets["KEY"]]}


@pytest_asyncio.fixture
async def executor() -> AsyncIterator[ToolExecutor]:
    """An executor that logs and knows a secret."""
    made = ToolExecutor(
        ToolManager([login, echo, fail, refuse, leak]),
        settings={"leak": ToolSettings(secrets=("KEY",))},
        secrets={"KEY": SECRET},
        observers=[LogObserver(slow_call=1000, redactor=Redactor([SECRET]))],
    )
    yield made
    await made.close()


class Log:
    """The lines about calls."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def record(self) -> logging.LogRecord:
        """The only one since the last look."""
        [record] = [it for it in self._caplog.records if it.name == "toolrun.call"]
        assert "an observer failed" not in self._caplog.text
        self._caplog.clear()
        return record

    @property
    def line(self) -> str:
        line = self.record.getMessage()
        assert "\n" not in line
        return line

    def data(self) -> dict[str, Any]:
        fields = self.record.__dict__["call"]
        json.dumps(fields, allow_nan=False)
        assert isinstance(fields, dict)
        return fields


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    caplog.set_level(logging.INFO, "toolrun.call")
    return Log(caplog)


async def test_a_success_is_one_line_with_name_time_arguments_and_result(executor: ToolExecutor, log: Log) -> None:
    result = await executor.execute("echo", {"value": [1, "ä"]}, call_id="c-1")
    record = log.record
    milliseconds = round(result.execution_time_ms, 3)
    assert record.levelno == logging.INFO
    assert record.getMessage() == (
        f'echo ok {milliseconds} ms call_id=c-1 arguments={{"value":[1,"ä"]}} result=[1,"ä"]'
    )
    assert record.__dict__["call"] == {
        "tool": "echo",
        "call_id": "c-1",
        "outcome": "ok",
        "ms": milliseconds,
        "arguments": {"value": [1, "ä"]},
        "repairs": [],
        "result": '[1,"ä"]',
    }
    assert record.exc_info is None


async def test_the_record_shares_nothing_with_the_arguments_of_the_tool(executor: ToolExecutor, log: Log) -> None:
    plain, inner = dict[str, JSON](value=1), list[JSON]([1])
    await executor.execute("echo", plain)
    fields = log.data()
    plain["value"] = 2
    assert fields["arguments"] == {"value": 1}
    await executor.execute("echo", {"value": inner})
    fields = log.data()
    inner.append(2)
    assert fields["arguments"] == {"value": [1]}


@pytest.mark.parametrize(
    ("name", "arguments", "level", "outcome"),
    [
        ("nobody", {}, logging.WARNING, "unknown_tool"),
        ("echo", {}, logging.WARNING, "invalid_arguments"),
        ("fail", {"message": "x"}, logging.ERROR, "tool_error"),
        ("refuse", {"message": "x"}, logging.ERROR, "tool_error"),
        ("echo", {"value": 1}, logging.INFO, "ok"),
    ],
)
async def test_refused_calls_are_warnings_and_failures_are_errors(
    executor: ToolExecutor, log: Log, name: str, arguments: dict[str, Any], level: int, outcome: str
) -> None:
    await executor.execute(name, arguments)
    record = log.record
    assert (record.levelno, record.__dict__["call"]["outcome"]) == (level, outcome)


async def test_a_call_that_was_not_approved_is_a_warning(log: Log) -> None:
    strict = ToolExecutor(ToolManager([echo]), on_approval=lambda request: False)
    await strict.execute("echo", {"value": 1})
    record = log.record
    assert (record.levelno, record.__dict__["call"]["outcome"]) == (logging.WARNING, "not_approved")
    await strict.close()


async def test_a_call_without_a_place_is_a_warning(log: Log) -> None:
    full = ToolExecutor(ToolManager([echo]), limits=Limits(max_concurrency=0, max_queue=0))

    @full.manager.add
    def blocking() -> None:
        """Block."""

    await full.execute("blocking")
    assert log.record.levelno == logging.WARNING
    await full.close()


async def test_only_what_the_level_lets_through_is_written(executor: ToolExecutor, log: Log) -> None:
    logger = logging.getLogger("toolrun.call")
    logger.setLevel(logging.ERROR)
    await executor.execute("echo", {"value": 1})
    await executor.execute("nobody")
    await executor.execute("fail", {"message": "x"})
    assert log.record.levelno == logging.ERROR


async def test_a_failure_says_where_it_was_raised_and_shows_no_traceback(executor: ToolExecutor, log: Log) -> None:
    await executor.execute("fail", {"message": "no such city"})
    line = log.line
    assert "error=no such city side_effects=failed" in line
    assert f"raised=LookupError at {__file__}:" in line
    assert "Traceback" not in line
    await executor.execute("refuse", {"message": "not today"})
    assert "raised=" not in log.line, "who raises a ToolError means the words, not the place"


async def test_debugging_shows_the_traceback_without_secrets(
    executor: ToolExecutor, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "toolrun.call")
    await executor.execute("fail", {"message": f"{SECRET}\x1b[2J"})
    text = log.record.getMessage()
    assert "Traceback (most recent call last):" in text
    assert "LookupError: ***" in text
    assert SECRET not in text
    assert "\x1b" not in text


async def test_a_slow_call_is_a_warning(log: Log) -> None:
    impatient = ToolExecutor(ToolManager([echo]), observers=[LogObserver(slow_call=0)])
    await impatient.execute("echo", {"value": 1})
    record = log.record
    assert record.levelno == logging.WARNING
    assert "ms (slow: over 0 ms) call_id=" in record.getMessage()
    await impatient.close()


async def test_sensitive_arguments_are_hidden_at_any_depth(executor: ToolExecutor, log: Log) -> None:
    options: JSON = {"headers": [{"Authorization": "Bearer abc"}], "retries": 3}
    await executor.execute("login", {"user": "ada", "password": "hunter2", "options": options})
    record = log.record
    assert record.__dict__["call"]["arguments"] == {
        "user": "ada",
        "password": "***",
        "options": {"headers": [{"Authorization": "***"}], "retries": 3},
    }
    assert "hunter2" not in record.getMessage()
    assert "abc" not in record.getMessage()


@pytest.mark.parametrize(
    "arguments",
    [
        {"user": "ada", "password": "hunter2", "pin": "98765"},
        {"user": "ada", "password": ["hunter2"], "pin": 98765},
        {"password": "hunter2", "pin": 98765},
        '{"password": "hunter2", "pin": 98765}',
        b'{"password": "hunter2", "pin": 98765}',
        '{"user": "ada", "password": "hunter2", "pin": 98765',
        '"{\\"user\\": \\"ada\\", \\"password\\": \\"hunter2\\", \\"pin\\": 98765}"',
        {"args": '{"user": "ada", "password": "hunter2", "pin": 98765}'},
        ["password", {"password": "hunter2", "pin": 98765}],
    ],
)
async def test_a_sensitive_argument_is_hidden_however_it_comes_and_wherever_it_is_quoted(
    executor: ToolExecutor, log: Log, arguments: Any
) -> None:
    await executor.execute("login", arguments)
    record = log.record
    for text in (record.getMessage(), repr(record.__dict__["call"])):
        assert "hunter2" not in text
        assert "98765" not in text


async def test_the_values_of_secrets_are_hidden_in_results_errors_and_arguments(
    executor: ToolExecutor, log: Log
) -> None:
    await executor.execute("leak")
    assert 'result={"url":"https://x.org/?key=***","keys":["***"]}' in log.line
    for name, arguments in (
        ("echo", {"value": f"<{SECRET}>"}),
        ("fail", {"message": f"bad key {SECRET}"}),
        (f"tool-{SECRET}", {}),
        ("echo", {"value": "x" * 495 + SECRET}),
        ("echo", {"value": SECRET * 200}),
    ):
        await executor.execute(name, arguments)
        record = log.record
        for text in (record.getMessage(), repr(record.__dict__["call"])):
            assert SECRET not in text
            assert "s3cr3" not in text
            assert "***" in text


async def test_long_values_are_cut_and_their_length_is_said(executor: ToolExecutor, log: Log) -> None:
    await executor.execute("echo", {"value": "x" * 100_000})
    line = log.line
    assert f"result={'x' * 500}… (100,000 characters)" in line
    assert "… (100,012 characters) result=" in line
    assert len(line) < 1500
    await executor.execute("x" * 100_000, "no json " * 10_000)
    assert len(log.line) < 2500
    await executor.execute("fail", {"message": "y" * 100_000})
    assert f"error={'y' * 500}… (100,000 characters)" in log.line


async def test_control_characters_are_neutralised(executor: ToolExecutor, log: Log) -> None:
    for name, arguments in (
        ("echo", {"value": "\x1b[2J\nfake ok 1 ms\u202e"}),
        ("fail", {"message": "\x1b]0;title\x07\r"}),
        ("na\x1bme\n", {}),
    ):
        await executor.execute(name, arguments, call_id="id\x1b\n")
        assert log.line.isprintable()


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, {1, 2}, object(), float("nan"), [10**5000], b"\xff"])
async def test_arguments_that_are_no_json_are_logged_too(executor: ToolExecutor, log: Log, value: Any) -> None:
    await executor.execute("echo", {"value": value})
    data = log.data()
    assert data["tool"] == "echo"
    assert set(data["arguments"]) == {"value"}
    await executor.execute("echo", value)
    assert log.data()["outcome"] != "ok"


async def test_repairs_are_logged(executor: ToolExecutor, log: Log) -> None:
    await executor.execute("login", '{"user": "ada", "password": "x", "pin": "12"}')
    assert "repairs=" in log.line
