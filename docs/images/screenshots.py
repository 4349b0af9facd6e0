"""Pictures of every page of the console, for the documentation. `script/screenshots` runs this.

It serves a project like that of the tests, makes some calls, and takes the pictures in Chromium.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

import httpx2
from playwright.async_api import Page, async_playwright

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from console.browser import CHROMIUM, FLAGS, PHONE  # noqa: E402  after the line that makes it importable
from support.serving import served  # noqa: E402

OUT = Path(__file__).parent
TOKEN = "a-token-for-pictures"
SIZE = {"width": 1400, "height": 860}
CALLS = [
    ("get_weather", {"city": "Berlin"}),
    ("math_eval", {"expression": "5 km / 20 minutes"}),
    ("sums", {"a": "2", "b": 3}),
    ("control_zwave_device", {"device_name": "desk lamp", "action": "on"}),
    ("dim", {"room": "office", "level": "40", "mood": "calm"}),
    ("dim", {"room": "kitchen", "level": 400}),
    ("good_night", {"rooms": '["hall", "kitchen", "office"]'}),
    ("get_weather", {"city": "Ulm"}),
    ("vague", {"name": "garden pump"}),
    ("plan", {"target": {"kind": "room", "room": "hall"}, "days": "mo"}),
]


def spread(journal: Path) -> None:
    """Let the calls so far have happened in the last hour, more of them now than then."""
    with contextlib.closing(sqlite3.connect(journal, timeout=30)) as connection, connection:
        connection.execute("UPDATE call SET at = at - 900000 * ((id * 40503) % 61) * ((id * 7919) % 61)")


async def take(page: Page, api: httpx2.AsyncClient, address: str, journal: Path) -> None:
    for number in range(400):
        name, arguments = CALLS[(number * 7) % len(CALLS)]
        if name != "vague" or number < 8:
            await api.post(f"/api/tools/{name}/call", json={"arguments": arguments})
    spread(journal)
    for name, arguments in [*CALLS[:-2], CALLS[-1]]:
        await api.post(f"/api/tools/{name}/call", json={"arguments": arguments})
    headers = {"accept": "text/event-stream"}
    asked = {"arguments": {"path": "photos/2019"}}
    waiting = asyncio.create_task(api.post("/api/tools/remove/call", json=asked, headers=headers))
    repaired = (await api.get("/api/calls?tool=good_night&limit=1")).json()["calls"][0]["id"]
    pages = {
        "tools": "#/tools/plan",
        "try": "#/try/dim",
        "calls": f"#/calls/{repaired}",
        "effects": "#/effects",
        "health": "#/health",
        "chat": "#/chat",
    }
    await page.goto(f"{address}#token={TOKEN}")
    await page.get_by_text("Live", exact=True).wait_for()
    for name, where in pages.items():
        await page.goto(address + where)
        if name == "try":
            await page.locator("#json").fill('{\n  "room": "office",\n  "level": "40",\n  "mood": "calm"\n}')
            await page.get_by_text("would run, repaired").wait_for()
            await page.get_by_role("button", name="Run Ctrl").click()
            await page.get_by_label("Envelope").wait_for()
        if name == "chat":
            await page.get_by_label("Message").fill("How bright would the office be?")
            await page.keyboard.press("Enter")
            await page.get_by_text("The tool says").wait_for()
            await page.locator("details.tc summary").click()
        await page.wait_for_timeout(1500)  # charts and late answers
        await page.screenshot(path=OUT / f"console-{name}.png")
    await page.emulate_media(color_scheme="dark")
    await page.goto(address + pages["calls"])
    await page.wait_for_timeout(1500)
    await page.screenshot(path=OUT / "console-dark.png")
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size(PHONE)
    await page.goto(f"{address}#/calls")
    await page.wait_for_timeout(1500)
    await page.screenshot(path=OUT / "console-phone.png")
    waiting.cancel()
    await asyncio.wait([waiting])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "house"
        shutil.copytree(ROOT / "tests/console/project", project)
        text = (project / "toolrun.toml").read_text()
        (project / "toolrun.toml").write_text(
            text.replace("PYTHON", sys.executable).replace("SERVERS", str(ROOT / "tests/mcp_servers"))
        )
        with served("--token", TOKEN, cwd=project) as server:
            host, port = server.place
            address = f"http://{host}:{port}/"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with (
                httpx2.AsyncClient(base_url=address, headers=headers, timeout=60) as api,
                async_playwright() as playwright,
            ):
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                context = await browser.new_context(viewport=SIZE, color_scheme="light")
                await take(await context.new_page(), api, address, project / ".toolrun/journal.db")
                await browser.close()
    for picture in sorted(OUT.glob("console-*.png")):
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size / 1000:.0f} kB")  # noqa: T201  a command


if __name__ == "__main__":
    asyncio.run(main())
