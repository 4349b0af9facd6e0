"""Everybody can use every page: axe finds no serious violation, in light, in dark and on a phone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser, expect

from console.browser import PHONE, WIDE, Watched
from console.conftest import TOKEN

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.asyncio(loop_scope="session")]
AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"
PAGES = {
    "tools": "#/tools/plan",
    "try": "#/try/plan",
    "calls": "#/calls",
    "call": "#/calls/{call}",
    "effects": "#/effects",
    "chat": "#/chat",
    "health": "#/health",
    "nowhere": "#/nowhere",
}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "has_touch": True},
}
_RUN = """
async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter((it) => ["serious", "critical"].includes(it.impact))
    .flatMap((it) => it.nodes.map((node) => `${it.id}: ${node.target.join(" ")}: ${node.failureSummary}`));
}
"""


@pytest.mark.parametrize("look", LOOKS)
async def test_axe_finds_no_serious_violation_on_any_page(
    browser: Browser, address: str, watched: Watched, api: httpx2.Client, look: str
) -> None:
    if not AXE.exists():
        assert os.environ.get("CI") != "true", f"{AXE} is not installed: script/environment does that"
        pytest.skip("axe-core is not installed: script/environment does that")
    api.post("/api/tools/dim/call", json={"arguments": {"room": "office", "level": "40", "mood": "calm"}})
    api.post("/api/tools/vague/call", json={"arguments": {"name": "axe"}})
    call = api.get("/api/calls?tool=dim&limit=1").json()["calls"][0]["id"]
    context = await browser.new_context(**LOOKS[look])
    await watched.watch(context)
    page = await context.new_page()
    watched.look_at(page)
    await page.goto(f"{address}#token={TOKEN}")
    await page.get_by_text("Live", exact=True).wait_for()
    found = {}
    for name, where in PAGES.items():
        await page.goto(address + where.format(call=call))
        await expect(page.locator("main h1, main h2, main aside h2").first).to_be_attached()
        await page.evaluate(AXE.read_text(encoding="utf-8"))
        found[name] = await page.evaluate(_RUN)
        width = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0, f"{name} is wider than the screen by {width} px"
    for name, key in (("help", "?"), ("search", "Control+k")):
        await page.keyboard.press(key)
        await expect(page.locator("dialog[open]")).to_be_visible()
        found[name] = await page.evaluate(_RUN)
        await page.keyboard.press("Escape")
        await expect(page.locator("dialog[open]")).to_have_count(0)
    await page.goto(f"{address}#/try/hostile")
    await page.get_by_role("button", name="Run", exact=False).first.click()
    await expect(page.get_by_role("region", name="Result of hostile")).to_be_visible()
    found["run"] = await page.evaluate(_RUN)
    await context.close()
    watched.check()
    assert not {name: it for name, it in found.items() if it}
