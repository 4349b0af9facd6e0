"""The page Tools: every source, one tool in full."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
from playwright.async_api import Page, expect

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.asyncio(loop_scope="session")]


async def test_it_lists_the_tools_of_every_source(page: Page) -> None:
    names = page.get_by_role("region", name="Sources and tools")
    for source in ("tools/house.py", "tools/sums.py", "tools/catalog.yaml", "zwave"):
        await expect(names.get_by_role("heading", name=source, exact=True)).to_be_visible()
    for tool in ("dim", "sums", "get_weather", "math_eval", "control_zwave_device"):
        await expect(names.get_by_role("link").filter(has=page.get_by_text(tool, exact=True))).to_be_attached()
    await expect(names).to_contain_text("Script, in workers of its own")
    await expect(names).to_contain_text("MCP server")


async def test_the_filter_leaves_what_fits(page: Page) -> None:
    links = page.locator(".tl a")
    await expect(links.nth(5)).to_be_attached()
    await page.keyboard.press("/")
    await page.keyboard.type("weather")
    await expect(links).to_have_count(1)
    await expect(links).to_contain_text("get_weather")
    await page.keyboard.press("Escape")
    await expect(links.nth(5)).to_be_attached()


async def test_nested_parameters_stand_under_the_one_that_holds_them(page: Page, address: str) -> None:
    await page.goto(f"{address}#/tools/plan")
    table = page.get_by_role("region", name="Parameters").get_by_role("table")
    await expect(table.get_by_role("row")).to_have_count(11)
    rows = [re.sub(r"\s+", " ", text) for text in await table.get_by_role("row").all_inner_texts()]
    order = ["target", "Room", "kind", "room", "Group", "kind", "members", "id", "weight", "days"]
    assert [row.split()[0] for row in rows[1:]] == order
    assert "Room or Group" in rows[1]
    assert "The name of a room" in rows[4]
    assert "list of objects" in rows[7]
    assert "else 1" in rows[9]
    assert "list of mo, tu or we" in rows[10]


async def test_each_provider_has_a_view_of_the_tool(page: Page, address: str) -> None:
    await page.goto(f"{address}#/tools/dim")
    for name in ("Anthropic", "OpenAI", "Ollama", "Gemini", "MCP"):
        await page.get_by_role("tab", name=name).click()
        await expect(page.get_by_role("tabpanel")).to_contain_text("Say how bright a room would be.")
    await page.keyboard.press("ArrowLeft")
    await expect(page.get_by_role("tab", selected=True)).to_have_text("Gemini")


async def test_calls_of_a_tool_and_how_long_they_took_are_shown(page: Page, address: str, api: httpx2.Client) -> None:
    for level in range(3):
        api.post("/api/tools/dim/call", json={"arguments": {"room": "office", "level": str(level)}})
    await page.goto(f"{address}#/tools/dim")
    await expect(page.get_by_role("heading", name="Outcomes")).to_be_visible()
    await expect(page.locator(".figures")).to_contain_text("ok")
    await expect(page.locator(".figures")).to_contain_text("repaired")
    await page.locator(".two tbody tr a").first.click()
    await expect(page.get_by_role("complementary", name="Call")).to_contain_text("dim")


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, ["form 1 of 2", "a", "form 2 of 2", "b"]),
        ({"properties": {"a": {"$ref": "#/$defs/own"}}, "$defs": {"own": {"allOf": [{"$ref": "#/$defs/own"}]}}}, ["a"]),
        (
            {"properties": {"a": {"$ref": "#/$defs/list"}}, "$defs": {"list": {"items": {"$ref": "#/$defs/list"}}}},
            ["a"],
        ),
        ({"properties": {"a": {"$ref": "#/$defs/%"}, "constructor": {"format": "valueOf"}}}, ["a", "constructor"]),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/node"}},
                "$defs": {"node": {"properties": {"b": {"items": {"$ref": "#/$defs/node"}}}}},
            },
            ["a", "b"],
        ),
        ({"properties": {"a": True, "b": {"type": ["null", "string"]}, "c": {"prefixItems": [{}]}}}, ["a", "b", "c"]),
    ],
)
async def test_schemas_of_every_shape_are_rows_of_a_table(page: Page, schema: dict[str, Any], names: list[str]) -> None:
    rows = await page.evaluate(
        "schema => import('/console/schema_words.js').then(it => it.rows(schema))", {"type": "object", **schema}
    )
    assert [row["name"] for row in rows] == names
    assert all(isinstance(row["type"], str) for row in rows)
