"""Health over HTTP: servers and workers, and starting one of them anew. Metrics of the same."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from support.api_client import LIMIT, Asked, asked

SERVER = Path(__file__).parents[2] / "mcp_servers/rich.py"
TOOLS = '''
import os
import time
from pathlib import Path

@tool(isolated=True)
def where() -> int:
    """The process."""
    return os.getpid()

@tool
def slow() -> str:
    """Blocks for a while."""
    time.sleep(0.2)
    return "done"

@tool(effects="none")
def stuck() -> str:
    """Blocks until there is a gate."""
    while not Path(__file__).with_name("gate").exists():
        time.sleep(0.01)
    return "done"
'''
CONFIG = f"""
[servers.rich]
command = {str(sys.executable)!r}
args = [{str(SERVER)!r}, "legacy"]
"""
SAMPLE = re.compile(r'(\w+)(\{\w+="(?:[^"\\]|\\.)*"(?:,\w+="(?:[^"\\]|\\.)*")*\})? (-?[0-9.e+-]+)')


async def samples(api: Asked) -> dict[str, float]:
    """Every line of the metrics, which all have to be readable."""
    answer = await api.client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            assert f"{match[1]}{match[2] or ''}" not in found
            found[f"{match[1]}{match[2] or ''}"] = float(match[3])
    return found


async def test_a_worker_is_seen_and_replaced(tmp_path: Path) -> None:
    async with asked(tmp_path / "project", TOOLS) as api:
        pid = (await api.call("where"))["result"]
        [worker] = (await api.get("/api/health"))["workers"]
        assert (worker["id"], worker["script"], worker["state"], worker["calls"]) == (str(pid), "where", "ready", 1)
        assert worker["memory"] > 1_000_000
        assert worker["restarts"] == 0
        assert (await samples(api))['toolrun_workers{script="where",state="ready"}'] == 1
        assert (await api.post(f"/api/workers/{pid}/restart"))["state"] in ("draining", "ending")
        second = (await api.call("where"))["result"]
        assert second != pid
        [worker] = (await api.get("/api/health"))["workers"]
        assert (worker["id"], worker["restarts"]) == (str(second), 1)
        await api.post(f"/api/workers/{second}/restart", {"force": True})
        assert (await api.call("where"))["result"] not in (pid, second)
        assert (await api.get("/api/health"))["workers"][0]["restarts"] == 2
        await api.post(f"/api/workers/{pid}/restart", status=404)


async def test_a_server_is_seen_and_connected_with_anew(tmp_path: Path) -> None:
    async with asked(tmp_path / "project", "", CONFIG) as api:
        await api.runtime.ready()
        [server] = (await api.get("/api/health"))["servers"]
        assert (server["name"], server["state"], server["connections"]) == ("rich", "connected", 1)
        assert server["error"] is None
        tools = (await api.get("/api/tools", source="mcp"))["tools"]
        assert len(tools) == server["tools"] > 0
        assert {it["source"]["name"] for it in tools} == {"rich"}
        await api.post("/api/servers/rich/restart")
        await until_connected(api, 2)
        assert (await samples(api))['toolrun_server_connected{server="rich"}'] == 1
        assert {it["state"] for it in (await api.get("/api/tools"))["tools"]} == {"ready"}
        await api.post("/api/servers/poor/restart", status=404)


async def until_connected(api: Asked, times: int) -> None:
    async with asyncio.timeout(LIMIT):
        while True:
            [server] = (await api.get("/api/health"))["servers"]
            if server["connections"] == times and server["state"] == "connected":
                return
            await asyncio.sleep(0.01)


async def test_a_thread_that_was_given_up_is_seen(tmp_path: Path) -> None:
    async with asked(tmp_path / "project", TOOLS) as api:
        await api.post("/api/tools/stuck/call", {"timeout": 0.3})
        assert (await api.get("/api/health"))["threads"]["abandoned"] == {"stuck": 1}
        assert (await samples(api))['toolrun_threads_abandoned{tool="stuck"}'] == 1
        (tmp_path / "project/tools/gate").touch()


async def test_calls_are_counted_by_tool_and_outcome(tmp_path: Path) -> None:
    async with asked(tmp_path / "project", TOOLS) as api:
        await api.call("slow")
        await api.call("slow")
        for number in range(5):
            await api.call(f"unknown{number}")
        found = await samples(api)
        assert found['toolrun_calls_total{tool="slow",outcome="ok"}'] == 2
        assert found['toolrun_calls_total{tool="(unknown)",outcome="unknown_tool"}'] == 5
        assert not [name for name in found if "unknown0" in name]
        assert found['toolrun_call_duration_seconds_count{tool="slow"}'] == 2
        assert found['toolrun_call_duration_seconds_bucket{tool="slow",le="0.1"}'] == 0
        assert found['toolrun_call_duration_seconds_bucket{tool="slow",le="+Inf"}'] == 2
        assert found['toolrun_call_duration_seconds_sum{tool="slow"}'] > 0.4
        assert found["toolrun_tools"] == 3


async def test_it_is_ready_when_every_server_was_tried(tmp_path: Path) -> None:
    config = "[mcp]\ndelays = [0.0, 3600.0]\n[servers.none]\ncommand = 'there-is-no-such-program'\n"
    async with asked(tmp_path / "project", TOOLS, config) as api:
        answer = await api.client.get("/ready")
        assert (answer.status_code, answer.json()) == (503, {"error": "not ready"})
        assert (await api.client.get("/health")).json() == {"status": "ok"}
        assert (await api.get("/api/health"))["ready"] is False
