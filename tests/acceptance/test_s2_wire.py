"""S2.2: what is said between the host and a worker, observed on the pipes of a real process."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from acceptance.processes import LIMIT, Recorder, gate
from acceptance.project import Project
from support.console import toolrun
from toolrun import ErrorKind, ToolError, UnavailableError
from toolrun.json import JSON

WEATHER = '''
    # /// script
    # dependencies = []
    #
    # [tool.toolrun]
    # secrets = ["KEY"]
    # ///
    from toolrun_sdk import config, log, secrets

    def weather(city: str) -> dict:
        """Tell the weather."""
        if "gate" in config:
            open(config["gate"]).readline()
        if city == "Atlantis":
            raise LookupError(f"there is no weather in {city}")
        if city == "Nowhere":
            raise ConnectionRefusedError("the weather service refused")
        log.info("asked", city=city)
        log.error("no wind data")
        print("not a record")
        return {"city": city, "units": config.get("units"), "secrets": sorted(secrets)}
'''


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Notes what passes between the projects that are opened and their workers, which are real."""
    recorder = Recorder()
    monkeypatch.setattr("toolrun.processes.local.LocalEngine", lambda: recorder)
    return recorder


@pytest.mark.scenario("S2.2.1")
async def test_s2_2_1_function_call_request(project: Project, recorder: Recorder) -> None:
    """A request has the function, its arguments, and each time config and secrets; then the host waits."""
    project.write("tools/weather.py", WEATHER)
    project.write(
        "toolrun.toml",
        f"""
        [secrets]
        KEY = "hunter2"
        OTHER = "not asked for"
        [tool.weather]
        secrets = ["KEY", "OTHER"]
        config = {{ units = "metric", gate = "{project.root}/gate" }}
        """,
    )
    with gate(project.root / "gate") as let_go:
        await send_two_requests(project, recorder, let_go)
    first, second = recorder.sent
    assert list(first) == ["id", "key", "function", "kwargs", "config", "secrets"]
    assert isinstance(first.pop("id"), int)
    keys = first.pop("key"), second.pop("key")
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in keys), "an opaque key beside the id, for the destination"
    assert keys[0] != keys[1], "and each call its own"
    assert first == {
        "function": "weather",
        "kwargs": {"city": "Oslo"},
        "config": {"units": "metric", "gate": str(project.root / "gate")},
        "secrets": {"KEY": "hunter2"},
    }
    assert {**second, "id": 0} == {**first, "kwargs": {"city": "Rome"}, "id": 0}, "config and secrets with each request"


async def send_two_requests(project: Project, recorder: Recorder, let_go: Callable[[], object]) -> None:
    """Call the tool twice. Each time the host has sent its request and waits until the tool is let go."""
    async with project.open() as runtime:
        for city in ("Oslo", "Rome"):
            recorder.has_sent.clear()
            running = asyncio.create_task(runtime.executor.execute("weather", {"city": city}))
            await asyncio.wait_for(recorder.has_sent.wait(), LIMIT)
            assert not running.done()
            let_go()
            result = await running
            assert result.result == {"city": city, "units": "metric", "secrets": ["KEY"]}


@pytest.mark.scenario("S2.2.2")
async def test_s2_2_2_successful_response(project: Project, recorder: Recorder) -> None:
    """The answer of a function that returned has the result, and null for the error."""
    project.write("tools/weather.py", WEATHER)
    async with project.open() as runtime:
        result = await runtime.executor.execute("weather", {"city": "Oslo"})
    [request] = recorder.sent
    assert (request["config"], request["secrets"]) == ({}, {}), "the keys are there, also if there is nothing in them"
    returned: JSON = {"city": "Oslo", "units": None, "secrets": []}
    assert recorder.received == [{"id": request["id"], "result": returned, "error": None}]
    assert (result.success, result.result) == (True, returned)


@pytest.mark.scenario("S2.2.3")
async def test_s2_2_3_error_response(project: Project, recorder: Recorder) -> None:
    """The answer of a function that raised has null for the result, and the message; the host raises what fits."""
    project.write("tools/weather.py", WEATHER)
    async with project.open() as runtime:
        tool: Any = runtime.manager.get("weather")
        with pytest.raises(ToolError, match=r"^there is no weather in Atlantis$"):
            await tool.ainvoke({"city": "Atlantis"})
        with pytest.raises(UnavailableError, match="the weather service refused"):
            await tool.ainvoke({"city": "Nowhere"})
        result = await runtime.executor.execute("weather", {"city": "Atlantis"})
    answers = [message for message in recorder.received if "error" in message]
    assert answers == [
        {"id": request["id"], "result": None, "error": error}
        for request, error in zip(
            recorder.sent,
            ["there is no weather in Atlantis", "the weather service refused", "there is no weather in Atlantis"],
            strict=True,
        )
    ]
    assert (result.error_kind, result.error) == (ErrorKind.TOOL_ERROR, "there is no weather in Atlantis")
    assert recorder.starts == 2, "one process to describe the script, and one for all calls: an error ends nothing"


@pytest.mark.scenario("S2.2.4")
async def test_s2_2_4_structured_logging(
    project: Project, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """What a worker logs comes as JSON lines on stderr, becomes log records of the host, and is shown to people."""
    project.write("tools/weather.py", WEATHER)
    with caplog.at_level(logging.INFO, "toolrun.worker"):
        async with project.open() as runtime:
            assert (await runtime.executor.execute("weather", {"city": "Oslo"})).success
    lines = [json.loads(line) for line in recorder.log if line.startswith("{")]
    call = lines[0]["call"]
    assert isinstance(call, int), "the id of the request"
    assert lines == [
        {"level": "info", "message": "asked", "fields": {"city": "Oslo"}, "call": call},
        {"level": "error", "message": "no wind data", "fields": {}, "call": call},
    ]
    records = [it for it in caplog.records if it.name == "toolrun.worker"]
    assert [(it.levelno, it.getMessage()) for it in records] == [
        (logging.INFO, "weather: asked city=Oslo"),
        (logging.ERROR, "weather: no wind data"),
        (logging.INFO, "weather: not a record"),
    ]
    assert {it.__dict__["tool"] for it in records} == {"weather"}
    shown = await asyncio.to_thread(toolrun, "-v", "call", "weather", "city=Oslo", cwd=project.root)
    assert "info toolrun.worker: weather: asked city=Oslo\n" in shown.stderr
    assert json.loads(shown.stdout)["city"] == "Oslo", "and stdout has the result alone"
