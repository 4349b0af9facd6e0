"""The page Try: a form and the JSON in step, a dry run while one types, and runs that can be cancelled."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from playwright.async_api import Locator, Page, Route, expect

from console.browser import LIMIT
from console.conftest import TOKEN
from support.console import TOOLRUN

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.asyncio(loop_scope="session")]


def editor(page: Page) -> Locator:
    return page.locator("#json")


async def test_the_form_writes_the_json_and_the_json_fills_the_form(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/dim")
    form = page.get_by_role("region", name="Arguments as a form")
    await form.get_by_label("room").fill("office")
    await form.get_by_label("level").fill("70")
    assert json.loads(await editor(page).input_value()) == {"room": "office", "level": 70}
    await form.get_by_label("level").fill("")
    assert json.loads(await editor(page).input_value()) == {"room": "office"}
    await editor(page).fill('{"room": "kitchen", "level": 5, "mood": "calm"}')
    await expect(form.get_by_label("room")).to_have_value("kitchen")
    await expect(form.get_by_label("level")).to_have_value("5")
    await expect(form).to_contain_text("Only in the JSON: mood")
    await editor(page).fill('{"room": ')
    await expect(form).to_contain_text("waits until the JSON is an object again")
    await editor(page).fill('{"room": "hall"}')
    await expect(form.get_by_label("room")).to_have_value("hall")


async def test_the_editor_appears_with_what_is_in_it_so_that_no_answer_overwrites_an_edit(
    page: Page, address: str
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        asked.set()
        await answer.wait()
        await route.fallback()

    await page.route("**/api/tools/dim", late)
    await page.goto(f"{address}#/try/dim")
    await asked.wait()
    await expect(page.get_by_role("heading", name="Try")).to_be_visible()
    assert await editor(page).count() == 0
    answer.set()
    await expect(editor(page)).to_have_value("{}")


async def test_an_edit_outlives_late_answers_and_other_pages(page: Page, address: str) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        asked.set()
        await answer.wait()
        await route.fallback()

    await page.route("**/api/tools/dim/check", late)
    given = quote('{"room": "hall"}')
    await page.goto(f"{address}#/try/dim?arguments={given}")
    form = page.get_by_role("region", name="Arguments as a form")
    await expect(form.get_by_label("room")).to_have_value("hall")
    await asked.wait()
    await form.get_by_label("room").fill("office")
    answer.set()
    await expect(page.get_by_role("region", name="Dry run").get_by_label("Would be sent")).to_contain_text("office")
    await page.goto(f"{address}#/health")
    await expect(page.get_by_role("heading", name="Health")).to_be_visible()
    await page.go_back()
    await expect(form.get_by_label("room")).to_have_value("office")
    assert json.loads(await editor(page).input_value()) == {"room": "office"}


async def test_forms_of_a_value_and_lists_of_objects_can_be_filled_in(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/plan")
    target = page.get_by_role("group", name="target")
    await target.get_by_role("combobox").select_option("Group")
    await target.get_by_role("button", name="Add one").click()
    await target.get_by_label("id").fill("7")
    await page.get_by_role("group", name="days").get_by_role("button", name="Add one").click()
    wanted = {"target": {"kind": "group", "members": [{"id": 7}]}, "days": ["mo"]}
    assert json.loads(await editor(page).input_value()) == wanted
    await page.get_by_role("button", name="Run Ctrl").click()
    result = page.get_by_role("region", name="Result of plan")
    await expect(result).to_contain_text("Group ['mo']")


async def test_tools_and_parameters_may_be_called_like_parts_of_the_language(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/toString")
    form = page.get_by_role("region", name="Arguments as a form")
    await expect(form.get_by_label("constructor")).to_have_value("")
    await form.get_by_label("constructor").fill("x")
    await expect(form.get_by_label("valueOf")).to_have_value("")
    assert json.loads(await editor(page).input_value()) == {"constructor": "x"}


async def test_a_number_keeps_its_digits_in_the_form_the_json_the_call_and_the_journal(
    page: Page, address: str, api: httpx2.Client
) -> None:
    number = "12345678901234567890123"
    await page.goto(f"{address}#/try/identity")
    form = page.get_by_role("region", name="Arguments as a form")
    await form.get_by_role("textbox", name="value").fill(number)
    await form.get_by_role("button", name="other: nothing").click()
    await expect(editor(page)).to_have_value(f'{{\n  "value": {number},\n  "other": null\n}}')
    await page.get_by_role("button", name="Format").click()
    await expect(page.get_by_label("Would be sent")).to_have_text(f'{{"value": {number}, "other": null}}')
    await page.get_by_role("tab", name="Python").click()
    await expect(page.get_by_role("region", name="Python", exact=True)).to_contain_text(number)
    await page.get_by_role("button", name="Run Ctrl").click()
    result = page.get_by_role("region", name="Result of identity")
    await expect(result.get_by_label("Result as text")).to_contain_text(number[:-1] + "4")
    await result.get_by_role("tab", name="JSON").click()
    await expect(result.locator(".tree")).to_contain_text(f"value: {number}")
    (row,) = api.get("/api/calls?tool=identity&limit=1").json()["calls"]
    assert json.loads(row["arguments"]) == {"value": int(number), "other": None}
    await page.goto(f"{address}#/calls/{row['id']}")
    await expect(page.get_by_role("complementary", name="Call")).to_contain_text(f"value: {number}")
    await expect(page.get_by_role("row", name="identity")).to_contain_text(f"value={number}")


async def test_nothing_is_a_value_of_the_form(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/identity")
    form = page.get_by_role("region", name="Arguments as a form")
    nothing = form.get_by_role("button", name="other: nothing")
    await nothing.click()
    await expect(nothing).to_have_attribute("aria-pressed", "true")
    await form.get_by_role("textbox", name="other").fill("7")
    await expect(nothing).to_have_attribute("aria-pressed", "false")
    assert json.loads(await editor(page).input_value()) == {"other": 7}
    await editor(page).fill('{"other": null}')
    await expect(nothing).to_have_attribute("aria-pressed", "true")
    await nothing.click()
    assert json.loads(await editor(page).input_value()) == {}


async def test_the_dry_run_says_what_would_be_repaired_and_dropped(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/dim")
    await editor(page).fill('{"room": "office", "level": "40"}')
    dry = page.get_by_role("region", name="Dry run")
    await expect(dry.get_by_role("status")).to_have_text("would run, repaired")
    await expect(dry.locator(".fixes")).to_contain_text('level: "40"')
    await expect(dry.get_by_label("Would be sent")).to_have_text('{"room": "office", "level": 40}')


async def test_the_dry_run_says_what_would_be_refused(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/dim")
    await editor(page).fill('{"room": "office", "level": 400}')
    dry = page.get_by_role("region", name="Dry run")
    await expect(dry.get_by_role("status")).to_have_text("would be refused")
    await expect(dry.get_by_label("What a model would be told")).to_contain_text("level")


async def test_text_that_is_no_json_is_checked_as_a_model_wrote_it(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/dim")
    await editor(page).fill("{'room': 'office',}")
    await expect(page.get_by_text("This is no JSON")).to_be_visible()
    await expect(page.get_by_role("region", name="Dry run").get_by_role("status")).to_contain_text("would")


async def test_a_run_shows_its_answer_as_text_as_a_tree_and_its_envelope(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/dim")
    await editor(page).fill('{"room": "office", "level": "40"}')
    await editor(page).press("Control+Enter")
    result = page.get_by_role("region", name="Result of dim")
    await expect(result.get_by_label("Result as text")).to_contain_text('"level": 40')
    await result.get_by_role("tab", name="JSON").click()
    await expect(result.locator(".tree")).to_contain_text("room: ")
    await expect(result.get_by_label("Envelope")).to_contain_text('"tool_name": "dim"')
    await expect(result).to_contain_text("1 repair")


async def test_an_image_is_shown(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/picture")
    await page.get_by_role("button", name="Run Ctrl").click()
    image = page.get_by_role("img", name="Image 1 that the tool returned")
    await expect(image).to_be_visible()
    assert await image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1


async def test_a_hung_tool_shows_its_progress_and_is_cancelled_from_the_page(
    page: Page, address: str, api: httpx2.Client
) -> None:
    await page.goto(f"{address}#/try/hang")
    await page.get_by_role("button", name="Run Ctrl").click()
    running = page.get_by_role("region", name="Running call of hang")
    await expect(running).to_contain_text("1 of 3: sleeping")
    await running.get_by_role("button", name="Cancel").click()
    result = page.get_by_role("region", name="Result of hang")
    await expect(result).to_contain_text("somebody cancelled it")
    assert not [call for call in api.get("/api/running").json()["calls"] if call["tool"] == "hang"]


async def test_what_a_tool_returns_is_text_whatever_is_in_it(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/hostile")
    await page.get_by_role("button", name="Run Ctrl").click()
    text = page.get_by_role("region", name="Result of hostile").get_by_label("Result as text")
    await expect(text).to_contain_text("<script>window.pwned = 1</script>")
    await expect(text).to_contain_text("␛[31mred")
    await expect(text).to_contain_text(r"\u{202e}back")
    assert await page.evaluate("window.pwned") is None
    assert await text.locator("script, img").count() == 0


async def test_ten_megabytes_are_shown_in_part_and_the_page_goes_on(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/flood")
    await page.get_by_role("button", name="Run Ctrl").click()
    result = page.get_by_role("region", name="Result of flood")
    await expect(result.get_by_role("button", name="Save as a file").first).to_be_visible()
    shown = await result.get_by_label("Result as text").inner_text()
    assert shown.startswith("<b>x</b>")
    assert len(shown) < 100_000
    await page.keyboard.press("g")
    await page.keyboard.press("c")
    await expect(page.get_by_role("table", name="Calls, the newest first")).to_be_visible()


async def test_the_call_is_copied_as_a_command_as_python_and_as_a_request(page: Page, address: str) -> None:
    await page.goto(f"{address}#/try/dim")
    await editor(page).fill('{"room": "the \'office\'", "level": 40}')
    wanted = {
        "CLI": "toolrun call dim 'room=the '\\''office'\\''' level:=40",
        "Python": 'runtime.executor.execute("dim", {"room": "the \'office\'", "level": 40})',
        "curl": "/api/tools/dim/call",
    }
    for name, text in wanted.items():
        await page.get_by_role("tab", name=name, exact=True).click()
        await expect(page.get_by_role("region", name=name, exact=True)).to_contain_text("office")
        await page.get_by_role("region", name="Arguments as JSON").get_by_role("button", name="Copy").click()
        await expect(page.get_by_text("Copied")).to_be_visible()
        assert text in await page.evaluate("navigator.clipboard.readText()")


async def test_what_is_copied_runs_whatever_is_in_the_arguments(page: Page, address: str, project: Path) -> None:
    value = 'it\'s "so" $HOME `id` \\ 日本 \U0001f321\n@x'
    environment = os.environ | {
        "PATH": f"{TOOLRUN.parent}{os.pathsep}{os.environ['PATH']}",
        "TOOLRUN_SERVE_TOKEN": TOKEN,
    }
    await page.goto(f"{address}#/try/toString")
    await editor(page).fill(json.dumps({"constructor": value, "mood": "calm"}))
    await expect(page.locator(".fixes")).to_contain_text("mood would be dropped")
    for name, program in (("CLI", "bash"), ("Python", sys.executable), ("curl", "bash")):
        await page.get_by_role("tab", name=name, exact=True).click()
        await expect(page.get_by_role("region", name=name, exact=True)).to_contain_text("日本")
        await page.evaluate("navigator.clipboard.writeText('')")
        await page.get_by_role("region", name="Arguments as JSON").get_by_role("button", name="Cop").click()
        await page.wait_for_function("async () => await navigator.clipboard.readText()")
        copied = await page.evaluate("navigator.clipboard.readText()")
        command = [program, "-c", copied]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=project, env=environment, capture_output=True, text=True, timeout=LIMIT / 1000
        )
        answer = json.loads(done.stdout)["result"] if name == "curl" else done.stdout.removesuffix("\n")
        assert answer == value, (name, copied, done.stderr)
