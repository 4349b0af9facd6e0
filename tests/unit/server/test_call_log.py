"""What tools log: with the call that it belongs to, while it runs and in the journal; bounded, and without secrets."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.api_client import Asked, asked
from toolrun.journal.database import open_writer
from toolrun.journal.retention import Retention

CANARY = "canary-7f3a9b2e51"
TOOLS = '''
@tool(effects="none")
def warn(context: ToolContext, times: int = 1) -> str:
    """Log in place."""
    for number in range(times):
        context.logger.info("line %d", number)
    return "done"

@tool
async def outer(context: ToolContext) -> str:
    """Log around a call of a tool that logs."""
    context.logger.debug("not kept")
    context.logger.warning("before")
    await context.call_tool("warn", {})
    context.logger.error("after")
    raise ValueError("no")

@tool(effects="none")
def tell(word: str, context: ToolContext) -> str:
    """Log a word."""
    context.logger.error("it is %s", word)
    return "done"

@tool(effects="none")
def count(context: ToolContext, times: int) -> str:
    """Report, and log at the end."""
    for number in range(times):
        context.progress(number, times, context.secrets["KEY"])
    context.logger.info("counted")
    return "done"

@tool(isolated=True, effects="none")
def apart() -> str:
    """Write from a process."""
    print("printed")
    print("x" * 5000 + "END")
    return "done"
'''
SCRIPT = '''
# /// script
# requires-python = ">=3.11"
# ///
"""Logs."""
from toolrun_sdk import log, progress

def busy(fails: bool = False) -> str:
    """Log, and perhaps fail.

    Args:
        fails: Whether to.
    """
    log.info("fetching", city="Ulm")
    print("plain")
    log.debug("small")
    progress(1, 2, "half")
    if fails:
        raise KeyError("lost")
    return "done"
'''
CONFIG = """
[secrets]
KEY = { env = "TOOLRUN_TEST_KEY" }
[tool.count]
secrets = ["KEY"]
"""


@pytest_asyncio.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    monkeypatch.setenv("TOOLRUN_TEST_KEY", CANARY)
    root = tmp_path / "project"
    (root / "tools").mkdir(parents=True)
    (root / "tools/busy.py").write_text(SCRIPT)
    async with asked(root, TOOLS, CONFIG) as made:
        yield made


async def reports_of(api: Asked, tool: str) -> list[str]:
    """What its last call reported, with what came before and after it in the timeline."""
    [row] = (await api.get("/api/calls", tool=tool, limit=1))["calls"]
    timeline = (await api.get(f"/api/calls/{row['id']}"))["timeline"]
    return [it["words"] if it["event"] == "progress" else it["event"] for it in timeline]


async def log_of(api: Asked, tool: str) -> list[tuple[str, str]]:
    """Level and text of the lines of its last call."""
    [row] = (await api.get("/api/calls", tool=tool, limit=1))["calls"]
    lines: list[dict[str, Any]] = (await api.get(f"/api/calls/{row['id']}"))["log"]
    assert [it["after_us"] for it in lines] == sorted(it["after_us"] for it in lines)
    return [(it["level"], it["text"]) for it in lines]


async def test_lines_belong_to_the_call_whose_tool_logs_them(api: Asked) -> None:
    await api.call("outer")
    assert await log_of(api, "outer") == [("warning", "before"), ("error", "after")]
    assert await log_of(api, "warn") == [("info", "line 0")]


async def test_a_call_keeps_its_first_hundred_lines(api: Asked) -> None:
    await api.call("warn", times=1000)
    lines = await log_of(api, "warn")
    assert len(lines) == 101
    assert lines[99][1] == "line 99"
    assert lines[100] == ("info", "… and 900 more")


async def test_the_first_reports_of_a_call_and_the_last_one_are_in_its_timeline(api: Asked) -> None:
    await api.call("count", times=3)
    wanted = [f"{number} of 3: ***" for number in range(3)]
    assert await reports_of(api, "count") == ["accepted", "started", *wanted, "ended"]
    await api.call("count", times=1000)
    wanted = [f"{number} of 1000: ***" for number in (*range(20), 999)]
    assert await reports_of(api, "count") == ["accepted", "started", *wanted, "ended"]
    assert await log_of(api, "count") == [("info", "counted")]


async def test_what_a_script_reports_is_in_the_timeline_of_its_call_also_if_nobody_listens(api: Asked) -> None:
    await api.call("busy")
    assert await reports_of(api, "busy") == ["accepted", "started", "1 of 2: half", "ended"]


async def test_the_log_shows_only_what_its_level_lets_through(api: Asked, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "toolrun")
    await api.call("warn")
    await api.call("outer")
    said = [record.getMessage() for record in caplog.records if record.name.startswith("toolrun.tool.")]
    assert said == ["before", "after"]


async def test_a_line_of_a_script_belongs_to_its_call_however_soon_the_call_ends(api: Asked) -> None:
    for _ in range(20):
        await api.call("busy")
        assert await log_of(api, "busy") == [("info", "fetching city=Ulm"), ("info", "plain"), ("debug", "small")]


async def test_the_traceback_of_a_script_that_fails_is_in_its_log(api: Asked) -> None:
    await api.call("busy", fails=True)
    level, text = (await log_of(api, "busy"))[-1]
    assert level == "debug"
    assert 'raise KeyError("lost")' in text


async def test_what_an_isolated_function_prints_is_in_its_log_the_end_of_long_lines(api: Asked) -> None:
    await api.call("apart")
    (_, first), (_, second) = await log_of(api, "apart")
    assert (first, len(second), second[:2], second[-4:]) == ("printed", 2001, "…x", "xEND")


async def test_lines_are_told_while_the_call_runs(api: Asked) -> None:
    events = await api.events("/api/tools/outer/call")
    lines = [(data["level"], data["text"]) for name, data in events if name == "log"]
    assert lines == [("warning", "before"), ("error", "after")]
    assert [name for name, _ in events] == ["started", "log", "log", "result"]


async def test_a_secret_in_a_line_is_hidden(api: Asked) -> None:
    events = await api.events("/api/tools/tell/call", {"arguments": {"word": CANARY}})
    assert [data["text"] for name, data in events if name == "log"] == ["it is ***"]
    assert await log_of(api, "tell") == [("error", "it is ***")]
    assert api.runtime.journal is not None
    assert CANARY.encode() not in api.runtime.journal.path.read_bytes()


async def test_lines_are_forgotten_with_their_calls(api: Asked) -> None:
    await api.call("warn", times=3)
    [row] = (await api.get("/api/calls"))["calls"]
    assert api.runtime.journal is not None
    path = api.runtime.journal.path
    with contextlib.closing(open_writer(path, is_power_safe=False)) as connection:
        Retention(days=0, spared=0).step(connection)
        assert connection.execute("SELECT count(*) FROM log_line").fetchone() == (0,)
    answer = await api.client.get(f"/api/calls/{row['id']}")
    assert answer.status_code == 404
