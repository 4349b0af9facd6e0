"""Around the pages: the token, the connection, the keyboard, the theme, and what is loaded from where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from console.browser import WIDE, Watched
from support.serving import served, serving

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.asyncio(loop_scope="session")]

ADD = '''
from toolrun import tool


@tool(effects="none")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
TITLES = {"Tools": "t", "Try": "y", "Calls": "c", "Effects": "e", "Chat": "h", "Health": "a"}


async def test_the_token_leaves_the_address_and_is_kept_for_the_tab(page: Page, address: str) -> None:
    assert "token" not in page.url
    await page.reload()
    await page.get_by_text("Live", exact=True).wait_for()
    await expect(page.locator(".tl a").first).to_be_visible()


async def test_without_a_token_the_page_asks_for_it(browser: Browser, address: str, watched: Watched) -> None:
    watched.expected.append("401")
    context = await browser.new_context(viewport=WIDE)
    await watched.watch(context)
    page = await context.new_page()
    watched.look_at(page)
    await page.goto(address)
    await expect(page.get_by_role("heading", name="Token needed")).to_be_visible()
    await expect(page.get_by_role("status").filter(has_text="Token needed")).to_be_visible()
    await page.get_by_label("Token", exact=True).fill("a-token-of-these-tests")
    await page.get_by_role("button", name="Use this token").click()
    await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    await expect(page.locator(".tl a").first).to_be_visible()
    await context.close()
    watched.check()


@pytest.mark.parametrize("title", TITLES)
async def test_g_and_a_letter_lead_to_a_page(page: Page, title: str) -> None:
    await page.keyboard.press("g")
    await page.keyboard.press(TITLES[title])
    await expect(page).to_have_title(re.compile(title))
    await expect(page.get_by_role("heading", name=title, level=1).or_(page.locator("#tool-name"))).to_be_attached()


async def test_the_search_finds_a_tool_and_opens_it_with_the_keyboard_alone(page: Page) -> None:
    await page.keyboard.press("Control+k")
    await page.keyboard.type("weather")
    await expect(page.get_by_role("option").first).to_contain_text("get_weather")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("#/try/get_weather"))
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_a_question_mark_lists_the_keys(page: Page) -> None:
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_contain_text("next and previous row")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_the_chosen_theme_is_kept(page: Page) -> None:
    dark = "rgb(18, 19, 21)"
    ground = "getComputedStyle(document.body).backgroundColor"
    assert await page.evaluate(ground) != dark
    await page.get_by_role("button", name="Dark").click()
    assert await page.evaluate(ground) == dark
    await page.reload()
    assert await page.evaluate(ground) == dark


async def test_a_lost_connection_is_said_and_found_again(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "toolrun.toml").write_text("")
    context = await browser.new_context(viewport=WIDE)
    page = await context.new_page()
    with served(cwd=tmp_path) as server:
        host, port = server.place
        await page.goto(f"http://{host}:{port}/")
        await expect(page.get_by_role("heading", name="No tools yet")).to_be_visible()
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    await expect(page.get_by_role("status").filter(has_text="No connection")).to_be_visible()
    await expect(page.get_by_role("heading", name="No tools yet")).to_be_visible()  # nothing is cleared
    with serving("--http", str(port), "--no-token", cwd=tmp_path):
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
    await context.close()


async def test_what_could_not_be_read_without_a_connection_is_read_when_it_is_back(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/add.py").write_text(ADD)
    context = await browser.new_context(viewport=WIDE)
    pages = {"tools/add": "Parameters", "try/add": "Arguments", "health": "Health"}
    (tmp_path / "toolrun.toml").write_text("")
    with served(cwd=tmp_path) as server:
        host, port = server.place
        opened = {where: await context.new_page() for where in pages}
        for where, page in opened.items():
            if where != "health":  # what is shown is loaded when it is first shown
                await page.goto(f"http://{host}:{port}/#/{where}")
                await expect(page.get_by_role("heading", name=pages[where], exact=True)).to_be_visible()
            await page.goto(f"http://{host}:{port}/#/effects")
            await expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    for where, page in opened.items():
        await expect(page.get_by_role("status").filter(has_text="No connection")).to_be_visible()
        await page.goto(f"http://{host}:{port}/#/{where}")
        words = "The page could not be loaded" if where == "health" else "There is no connection"
        await expect(page.get_by_text(words).first).to_be_visible()
    with serving("--http", str(port), "--no-token", cwd=tmp_path):
        for where, page in opened.items():
            await expect(page.get_by_role("heading", name=pages[where], exact=True)).to_be_visible()
            await expect(page.get_by_text("There is no connection")).to_have_count(0)
    await context.close()


@pytest.mark.parametrize("page_name", ["calls", "effects"])
async def test_without_a_journal_a_page_says_that_nothing_is_recorded(
    browser: Browser, tmp_path: Path, page_name: str
) -> None:
    (tmp_path / "toolrun.toml").write_text("[journal]\nenabled = false\n")
    context = await browser.new_context(viewport=WIDE)
    page = await context.new_page()
    with served(cwd=tmp_path) as server:
        host, port = server.place
        await page.goto(f"http://{host}:{port}/#/{page_name}")
        await expect(page.get_by_role("heading", name="Calls are not recorded")).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
    await context.close()


@pytest.mark.parametrize("name", ["nowhere", "toString"])
async def test_a_page_that_does_not_exist_says_so(page: Page, address: str, name: str) -> None:
    await page.goto(f"{address}#/{name}")
    await expect(page.get_by_role("heading", name=f"There is no page {name}")).to_be_visible()
