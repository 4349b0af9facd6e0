"""One server with tools of every source, and one browser, for all tests of the console."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from console.browser import CHROMIUM, FLAGS, LIMIT, WIDE, Watched, require_chromium
from support.serving import Served, served

TOKEN = "a-token-of-these-tests"
HERE = Path(__file__).parent
ODD = '''
from toolrun import ToolContext, tool


@tool(name="toString", effects="none")
def to_string(constructor: str, valueOf: int = 1) -> str:
    """Has names that every object of JavaScript knows."""
    return constructor


@tool(effects="none")
async def burst(context: ToolContext, calls: int) -> int:
    """Makes many calls, as fast as it can."""
    for number in range(calls):
        await context.call_tool("toString", {"constructor": f"burst {number}"})
    return calls


@tool(effects="none")
def identity(value: int, other: int | None) -> dict:
    """Gives a number back."""
    return {"value": value, "values": [value + 1]}
'''
"""Beside the tools of the project, which are those of the pictures in the documentation."""
expect.set_options(timeout=LIMIT / 2)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("console") / "house"
    shutil.copytree(HERE / "project", folder)
    settings = folder / "toolrun.toml"
    servers = HERE.parent / "mcp_servers"
    text = settings.read_text().replace("PYTHON", sys.executable).replace("SERVERS", str(servers))
    settings.write_text(text)
    (folder / "tools/odd.py").write_text(ODD)
    return folder


@pytest.fixture(scope="session")
def server(project: Path) -> Iterator[Served]:
    with served("--token", TOKEN, cwd=project) as running:
        yield running


@pytest.fixture(scope="session")
def address(server: Served) -> str:
    """Of the page, without the token."""
    host, port = server.place
    return f"http://{host}:{port}/"


@pytest.fixture
def api(address: str) -> Iterator[httpx2.Client]:
    """Another client of the same server."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=address, headers=headers, timeout=LIMIT / 1000) as client:
        yield client


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    require_chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def watched(address: str) -> Watched:
    return Watched(address.split("/")[2])


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, address: str, watched: Watched) -> AsyncIterator[Page]:
    """The console, opened with its token; the test fails for whatever the page must not do."""
    context = await browser.new_context(viewport=WIDE, permissions=["clipboard-read", "clipboard-write"])
    await watched.watch(context)
    page = await context.new_page()
    watched.look_at(page)
    await page.goto(f"{address}#token={TOKEN}")
    await page.get_by_text("Live", exact=True).wait_for()
    yield page
    await context.close()
    watched.check()
