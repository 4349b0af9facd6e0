"""The page Health: what runs, how calls went, and what can be started anew."""

from __future__ import annotations

import re

import httpx2
import pytest
from playwright.async_api import Page, expect

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.asyncio(loop_scope="session")]


async def test_a_worker_is_shown_and_replaced(page: Page, address: str, api: httpx2.Client) -> None:
    answer = api.post("/api/tools/sums/call", json={"arguments": {"a": 1, "b": 2}}).json()
    assert answer["result"] == 3, answer
    await page.goto(f"{address}#/health")
    workers = page.get_by_role("region", name="Workers")
    await expect(workers).to_contain_text("sums.py")
    [before] = [it["id"] for it in api.get("/api/health").json()["workers"]]
    await workers.get_by_role("button", name=re.compile("Restart .*sums")).click()
    await expect(workers.get_by_role("cell", name=before.removeprefix("pid "), exact=True)).to_have_count(0)
    api.post("/api/tools/sums/call", json={"arguments": {"a": 1, "b": 2}})
    [worker] = api.get("/api/health").json()["workers"]
    assert worker["restarts"] > 0
    row = workers.get_by_role("row").filter(has_text="sums.py")
    await expect(row.get_by_role("cell").nth(7)).to_have_text(str(worker["restarts"]))


async def test_a_server_is_connected_with_anew(page: Page, address: str, api: httpx2.Client) -> None:
    [server] = api.get("/api/health").json()["servers"]
    await page.goto(f"{address}#/health")
    servers = page.get_by_role("region", name="Servers")
    await expect(servers).to_contain_text("connected")
    await servers.get_by_role("button", name="Restart zwave").click()
    again = f"{server['connections'] + 1} times"
    await expect(servers).to_contain_text(again)
    await expect(servers).to_contain_text("connected")


async def test_charts_show_how_calls_went_and_tables_have_their_figures(
    page: Page, address: str, api: httpx2.Client
) -> None:
    api.post("/api/tools/dim/call", json={"arguments": {"room": "office"}})
    await page.goto(f"{address}#/health")
    for label in ("Latency over time", "Calls over time by outcome", "How many calls were at work"):
        chart = page.get_by_role("img", name=re.compile(label))
        await expect(chart.locator("canvas")).to_be_visible()
        drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(it => it)"
        assert await chart.locator("canvas").evaluate(drawn)
    outcomes = page.get_by_role("table").filter(has_text="Outcome")
    await expect(outcomes.get_by_role("row").filter(has_text="ok")).to_contain_text(re.compile(r"[1-9]"))
    await page.get_by_role("button", name="24 h").click()
    await expect(page.get_by_text("calls every 20 min")).to_be_visible()


async def test_figures_of_the_moment_are_those_of_the_server(page: Page, address: str, api: httpx2.Client) -> None:
    await page.goto(f"{address}#/health")
    places = api.get("/api/health").json()["queues"]["max_concurrency"]
    await expect(page.locator(".kpis")).to_contain_text(f"of {places} places")
    await expect(page.get_by_text(".toolrun/journal.db")).to_be_visible()
