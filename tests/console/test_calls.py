"""The page Calls: a live list, and one call in full."""

from __future__ import annotations

import asyncio
import re

import httpx2
import pytest
from playwright.async_api import Page, Route, expect

from console.browser import Watched

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.asyncio(loop_scope="session")]
TABLE = "Calls, the newest first"
_ROWS = "(document.querySelector('.tablebox tbody').clientHeight / 28)"
"""The rows that the list has, also those that are not made."""


def call(api: httpx2.Client, tool: str, **arguments: object) -> dict[str, object]:
    answer = api.post(f"/api/tools/{tool}/call", json={"arguments": arguments})
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


async def test_a_call_of_another_client_appears_at_the_top(page: Page, address: str, api: httpx2.Client) -> None:
    call(api, "dim", room="before")
    await page.goto(f"{address}#/calls")
    rows = page.get_by_role("table", name=TABLE).locator("tbody tr:not(.gap)")
    await expect(rows.first).to_contain_text("before")
    call(api, "dim", room="moving")
    await expect(rows.first).to_contain_text("moving")
    await expect(rows.nth(1)).to_contain_text("before")
    total = api.get("/api/calls", params={"limit": 1}).json()["total"]
    await expect(page.locator(".foot")).to_contain_text(f"{total:,} calls")


async def test_a_paused_list_stands_still_and_says_how_many_are_new(
    page: Page, address: str, api: httpx2.Client
) -> None:
    call(api, "dim", room="still")
    await page.goto(f"{address}#/calls")
    rows = page.get_by_role("table", name=TABLE).locator("tbody tr:not(.gap)")
    await expect(rows.first).to_contain_text("still")
    await page.get_by_role("button", name="Pause").click()
    call(api, "dim", room="later")
    fresh = page.get_by_role("button", name="1 new")
    await expect(fresh).to_be_visible()
    await expect(rows.first).to_contain_text("still")
    await fresh.click()
    await expect(rows.first).to_contain_text("later")


async def test_a_list_that_is_flooded_misses_no_call_and_does_not_grow(
    page: Page, address: str, api: httpx2.Client
) -> None:
    await page.goto(f"{address}#/calls")
    await expect(page.get_by_role("table", name=TABLE)).to_be_visible()
    call(api, "burst", calls=2000)
    box = page.locator(".tablebox")
    rows = box.locator("tbody tr:not(.gap)")
    await expect(rows.first).to_contain_text("burst 1999")
    assert await page.evaluate(_ROWS) <= 201
    seen: list[int] = []
    while len(seen) < 1000:
        await box.evaluate("(box, top) => box.scrollTo(0, top)", 28 * len(seen))
        await expect(box).to_contain_text(f"burst {1999 - len(seen)}")
        numbers = [int(text.split()[1].rstrip(",")) for text in await rows.locator("td:nth-child(4)").all_inner_texts()]
        seen += [number for number in numbers if number < 2000 - len(seen) and number not in seen]
    assert seen == list(range(1999, 1999 - len(seen), -1))


async def test_the_last_of_many_calls_is_shown_although_it_ends_while_the_list_is_read(
    page: Page, address: str, api: httpx2.Client
) -> None:
    """An event that comes between the question and its answer asks again."""
    is_asked, is_answered = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        if is_asked.is_set():
            await route.fallback()
            return
        answer = await route.fetch()
        is_asked.set()
        await is_answered.wait()
        await route.fulfill(response=answer)

    await page.goto(f"{address}#/calls")
    rows = page.get_by_role("table", name=TABLE).locator("tbody tr:not(.gap)")
    await expect(rows.first).to_be_visible()
    await page.route("**/api/calls?*", hold)
    call(api, "dim", room="first")
    await is_asked.wait()
    async with page.expect_request("**/api/running"):  # the page has heard of the call
        call(api, "dim", room="last")
    is_answered.set()
    await expect(rows.first).to_contain_text("last")


async def test_what_a_tool_logged_is_shown_with_its_call(page: Page, address: str, api: httpx2.Client) -> None:
    await page.goto(f"{address}#/try/vague")
    await page.get_by_role("region", name="Arguments as a form").get_by_label("name").fill("lamp")
    await page.get_by_role("button", name="Run Ctrl").click()
    result = page.get_by_role("region", name="Result of vague")
    await expect(result.get_by_label("Log", exact=True)).to_contain_text("asking for <b>lamp</b>")
    await result.get_by_role("link", name=re.compile(r"\d+-\d+")).click()
    log = page.get_by_role("complementary", name="Call").get_by_role("list", name="Log")
    await expect(log).to_contain_text("warning asking for <b>lamp</b>")


async def test_the_list_is_filtered_by_text_outcome_and_tool(page: Page, address: str, api: httpx2.Client) -> None:
    call(api, "dim", room="needle")
    call(api, "vague", name="needle")
    await page.goto(f"{address}#/calls")
    rows = page.get_by_role("table", name=TABLE).locator("tbody tr:not(.gap)")
    await page.get_by_label("Filter by argument, result or error").fill("needle")
    await expect(rows).to_have_count(2)
    await page.get_by_role("combobox", name="Tool").select_option("dim")
    await expect(rows).to_have_count(1)
    await page.get_by_role("combobox", name="Tool").select_option("")
    await page.get_by_role("button", name=re.compile("ok")).click()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("dim")
    await page.keyboard.press("Escape")
    await expect(rows.nth(2)).to_be_attached()


async def test_one_call_is_shown_in_full_and_can_be_made_again(page: Page, address: str, api: httpx2.Client) -> None:
    made = call(api, "dim", room="office", level="40", mood="calm")
    await page.goto(f"{address}#/calls/{made['recorded_as'] or newest(api)}")
    drawer = page.get_by_role("complementary", name="Call")
    await expect(drawer.get_by_role("heading", name="Timeline")).to_be_visible()
    await expect(drawer.locator(".logs")).to_contain_text("accepted")
    sent = drawer.get_by_role("row").filter(has_text="level")
    await expect(sent).to_contain_text('level: "40"')
    await expect(sent).to_contain_text("level: 40")
    await expect(drawer.get_by_role("row").filter(has_text="mood")).to_contain_text("dropped")
    await expect(drawer.get_by_label("Result as text")).to_contain_text('"room": "office"')
    await page.keyboard.press("r")
    await expect(drawer.get_by_role("status")).to_contain_text("It ran again as")


async def test_a_tool_that_acts_is_made_again_only_if_that_is_confirmed(
    page: Page, address: str, api: httpx2.Client, watched: Watched
) -> None:
    watched.expected.append("409")
    call(api, "vague", name="once")
    before = len(api.get("/api/calls?tool=vague").json()["calls"])
    await page.goto(f"{address}#/calls/{newest(api)}")
    drawer = page.get_by_role("complementary", name="Call")
    await drawer.get_by_role("button", name="Replay").click()
    await expect(drawer.get_by_role("group", name="Replay vague")).to_contain_text("may act again")
    assert len(api.get("/api/calls?tool=vague").json()["calls"]) == before
    await drawer.get_by_role("button", name="Run it again").click()
    await expect(drawer.get_by_role("status")).to_contain_text("It ran again as")
    assert len(api.get("/api/calls?tool=vague").json()["calls"]) == before + 1


async def test_the_keyboard_moves_through_the_rows_and_the_drawer_follows(
    page: Page, address: str, api: httpx2.Client
) -> None:
    for room in ("first", "second"):
        call(api, "dim", room=room)
    await page.goto(f"{address}#/calls")
    await expect(page.get_by_role("table", name=TABLE).locator("tbody tr").first).to_contain_text("second")
    await page.keyboard.press("j")
    drawer = page.get_by_role("complementary", name="Call")
    await expect(drawer).to_contain_text("second")
    await page.keyboard.press("j")
    await expect(drawer).to_contain_text("first")
    await page.keyboard.press("Escape")
    await expect(drawer).to_have_count(0)


async def test_of_a_long_list_only_the_rows_on_the_screen_are_made(
    page: Page, address: str, api: httpx2.Client
) -> None:
    for number in range(420):
        call(api, "dim", room=f"room {number}")
    await page.goto(f"{address}#/calls")
    rows = page.get_by_role("table", name=TABLE).locator("tbody tr:not(.gap)")
    await expect(rows.first).to_contain_text("room 419")
    assert await rows.count() < 80
    await page.locator(".tablebox").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    await expect(page.locator(".foot")).to_contain_text("400 of ")
    await page.locator(".tablebox").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    await expect(page.get_by_text("room 15", exact=True).first).to_be_attached()
    assert await rows.count() < 80


def newest(api: httpx2.Client) -> str:
    return str(api.get("/api/calls?limit=1").json()["calls"][0]["id"])


async def test_the_timeline_has_the_worker_and_what_the_tool_reported(
    page: Page, address: str, api: httpx2.Client
) -> None:
    answer = api.post("/api/tools/hang/call", json={"arguments": {}, "timeout": 0.3}).json()
    await page.goto(f"{address}#/calls/{answer['recorded_as']}")
    timeline = page.get_by_role("complementary", name="Call").get_by_role("img", name=re.compile("queued"))
    await expect(timeline).to_have_accessible_name(re.compile("progress 1 report"))
    await expect(page.get_by_role("list", name="What happened")).to_contain_text("1 of 3: sleeping")
    call(api, "sums", a=1, b=2)
    await page.goto(f"{address}#/calls/{newest(api)}")
    await expect(timeline).to_have_accessible_name(re.compile(r"worker pid \d+"))
