"""The first page of the web console with 1,000 tools and 100,000 calls: the work until it is shown.

usage: console.py [rounds] [calls]

Processor time, not time that passes: of the main thread of the page (Chromium's own figures) until the first tool is on
the screen and nothing is left to do, and of the server in the same time. Beside it MCP Inspector's page, before it is
connected with any server: what it would have to read and show comes on top. Runs in .venv, which has Playwright;
`script/test tests/conformance/test_inspector.py` installs the inspector.
"""

import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway import free_port
from harness import Target, print_table, print_targets
from playwright.async_api import Browser, async_playwright

CHROMIUM = Path("/usr/bin/chromium")
MODULES = Path(__file__).parents[1] / ".cache/conformance/node_modules"
INSPECTOR = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
TOOLS = 1000
LIMIT_MS = 300
TOOL = '''
@tool(effects="none")
def tool_{number}(query: str, limit: int = 10) -> str:
    """Search index {number} for a query and return the best matches."""
    return query
'''
FILL = """
import asyncio, sys
from toolrun import Runtime
async def main():
    async with Runtime.open("toolrun.toml") as runtime:
        for number in range(int(sys.argv[1])):
            await runtime.executor.execute(f"tool_{number % 1000}", {"query": "x", "limit": str(number)})
            if number % 2000 == 0:
                await asyncio.to_thread(runtime.journal.flush)
asyncio.run(main())
"""
PAGES = {"Tools": ("#/", ".tl a"), "Calls": ("#/calls", ".tablebox tbody tr")}


def make_project(folder: Path, calls: int) -> None:
    (folder / "tools").mkdir()
    tools = "".join(TOOL.format(number=number) for number in range(TOOLS))
    (folder / "tools/many.py").write_text(f"from toolrun import tool\n{tools}")
    (folder / "toolrun.toml").write_text('[log]\nlevel = "error"\n')
    subprocess.run([sys.executable, "-c", FILL, str(calls)], cwd=folder, check=True)


def cpu_of(pid: int) -> float:
    """Milliseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1000


@contextmanager
def inspector() -> Iterator[tuple[str, int]]:
    """MCP Inspector's page, while it is served: its address and the pid of its server."""
    node = shutil.which("node")
    assert node is not None
    environment = os.environ | {"MCP_AUTO_OPEN_ENABLED": "false", "CLIENT_PORT": str(free_port())}
    command = [node, str(INSPECTOR), "--web"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if "_API_TOKEN=" in line)
            yield line.strip(), process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


async def sample(browser: Browser, address: str, shown: str, pid: int) -> tuple[float, float]:
    context = await browser.new_context(viewport={"width": 1400, "height": 900})
    page = await context.new_page()
    session = await context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = cpu_of(pid)
    await page.goto(address)
    await page.locator(shown).first.wait_for()
    await page.evaluate("new Promise((resolve) => requestIdleCallback(resolve))")
    found: dict[str, Any] = await session.send("Performance.getMetrics")
    figures = {it["name"]: it["value"] for it in found["metrics"]}
    server = cpu_of(pid) - before
    await context.close()
    return figures["TaskDuration"] * 1000, server


async def measure(pages: dict[str, tuple[str, str]], rounds: int, pid: int) -> dict[str, tuple[float, float]]:
    """Medians: milliseconds of the browser and of the server, by page: its address, and what shows that it is there."""
    found = {}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for title, (address, shown) in pages.items():
            samples = [await sample(browser, address, shown, pid) for _ in range(rounds)]
            page, server = (statistics.median(it) for it in zip(*samples, strict=True))
            found[title] = (page, server)
        await browser.close()
    return found


def main(rounds: int, calls: int) -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_project(folder, calls)
        command = [sys.executable, "-m", "toolrun", "serve", "--http", "0", "--no-token"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            line = next(line for line in server.stderr if line.startswith("Serving"))
            address = line.split(" at ")[1].split("/mcp")[0] + "/"
            try:
                pages = {title: (address + where, shown) for title, (where, shown) in PAGES.items()}
                figures = asyncio.run(measure(pages, rounds, server.pid))
            finally:
                server.terminate()
    worst = max(page for page, _ in figures.values())
    if INSPECTOR.exists():
        with inspector() as (address, pid):
            figures |= asyncio.run(measure({"MCP Inspector, not connected": (address, "button")}, rounds, pid))
    rows = [(title, round(page), round(of_server)) for title, (page, of_server) in figures.items()]
    print_table(
        f"The first page with {TOOLS:,} tools and {calls:,} calls", ("page", "browser, CPU ms", "server, CPU ms"), rows
    )
    return print_targets([Target("first page, CPU ms in the browser", worst, LIMIT_MS)])


if __name__ == "__main__":
    sizes = [int(it) for it in sys.argv[1:]]
    done = main(sizes[0] if sizes else 5, sizes[1] if len(sizes) > 1 else 100_000)
    sys.exit(0 if done else 1)
