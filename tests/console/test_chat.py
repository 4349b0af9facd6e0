"""The page Chat: a model, and the calls that it makes."""

from __future__ import annotations

import re

import httpx2
import pytest
from playwright.async_api import Page, expect

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.asyncio(loop_scope="session")]


async def test_the_model_answers_and_its_calls_can_be_watched(page: Page, address: str, api: httpx2.Client) -> None:
    await page.goto(f"{address}#/chat")
    await page.get_by_label("Message").fill("how bright is the office?")
    await page.keyboard.press("Enter")
    said = page.get_by_role("region", name="What was said")
    await expect(said).to_contain_text("The tool says:")
    made = said.locator("details.tc")
    await expect(made).to_contain_text("dim")
    await made.locator("summary").click()
    await expect(made).to_contain_text("number sent as text")
    await expect(made.get_by_label("Result as text")).to_contain_text('"level": 40')
    await expect(page).to_have_url(re.compile("#/chat/.+"))

    kept = page.get_by_role("complementary", name="This conversation")
    await expect(kept.get_by_role("link", name="how bright is the office?").first).to_be_visible()

    await page.reload()
    await expect(said).to_contain_text("how bright is the office?")
    await expect(said.locator("details.tc")).to_contain_text("dim")
    conversation = page.url.rpartition("/")[2]
    await page.get_by_role("link", name="Its calls in the list").click()
    await expect(page.get_by_role("button", name=re.compile(f"conversation {conversation}"))).to_be_visible()
    rows = page.get_by_role("table", name="Calls, the newest first").locator("tbody tr:not(.gap)")
    await expect(rows).to_have_count(1)


async def test_a_new_conversation_begins_with_nothing_said(page: Page, address: str) -> None:
    await page.goto(f"{address}#/chat")
    await page.get_by_label("Message").fill("hello")
    await page.get_by_role("button", name="Send").click()
    said = page.get_by_role("region", name="What was said")
    await expect(said).to_contain_text("The tool says:")
    await page.get_by_role("button", name="New").click()
    await expect(said).to_contain_text("Talk to the tools")
