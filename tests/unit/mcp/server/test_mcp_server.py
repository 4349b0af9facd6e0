"""The MCP server, met by the SDK's own client in the same process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from support.journal_world import World
from support.serving import ERAS
from toolrun import ToolContext, ToolError, ToolExecutor, tool
from toolrun.mcp.server.http_address import Address
from toolrun.mcp.server.http_server import http_app
from toolrun.mcp.server.mcp_server import PAGE, McpServer
from toolrun.result import Content
from toolrun.sources.catalog import Declaration, DeclaredTool, Implementation
from toolrun.sources.mock import Mock, MockAnswer
from toolrun.tools.effects import Effects

LIMIT = 30.0


@asynccontextmanager
async def connected(executor: ToolExecutor, era: str, **options: Any) -> AsyncIterator[Client]:
    server = McpServer(executor.manager, executor)
    async with server.announcing(), Client(server.sdk, mode=era, **options) as client:
        yield client


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@tool
async def add(a: int, b: int = 1) -> int:
    """Add.

    Args:
        a: The first.
    """
    return a + b


@dataclass
class Weather:
    """As a tool returns it."""

    city: str
    celsius: float


@tool(title="The weather", annotations={"readOnlyHint": True}, effects="idempotent")
async def weather(city: str) -> Weather:
    """The weather in a city."""
    return Weather(city, 21.5)


async def test_a_tool_is_listed_with_all_that_is_known_of_it(executor: ToolExecutor, era: str) -> None:
    executor.manager.add(add)
    executor.manager.add(weather)
    async with connected(executor, era) as client:
        first, second = (await client.list_tools()).tools
    assert (first.name, first.title, first.description) == ("add", None, "Add.")
    assert first.input_schema == add.schema
    assert (first.output_schema, first.annotations) == (None, None)
    assert (second.title, second.output_schema) == ("The weather", weather.output_schema)
    assert second.annotations is not None
    assert (second.annotations.read_only_hint, second.annotations.idempotent_hint) == (True, True)


async def test_what_a_tool_without_annotations_says_of_its_effects_is_a_hint(executor: ToolExecutor, era: str) -> None:
    def declared(name: str, effects: Effects | None) -> DeclaredTool:
        return DeclaredTool(
            Declaration(
                name, "D.", {"type": "object"}, Implementation("mock", mock=Mock((MockAnswer(),))), effects=effects
            ),
            {},
        )

    for name, effects in (("read", Effects.NONE), ("set", Effects.IDEMPOTENT), ("pay", Effects.ONCE), ("do", None)):
        executor.manager.add(declared(name, effects))
    async with connected(executor, era) as client:
        listed = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    hints = {name: it and (it.read_only_hint, it.idempotent_hint) for name, it in listed.items()}
    assert hints == {"read": (True, None), "set": (None, True), "pay": None, "do": None}


async def test_a_call_goes_through_the_executor(executor: ToolExecutor, era: str) -> None:
    executor.manager.add(add)
    async with connected(executor, era) as client:
        repaired = await client.call_tool("add", {"a": "2", "nonsense": True})
        refused = await client.call_tool("add", {"b": 2})
    assert [block.model_dump(exclude_none=True) for block in repaired.content] == [
        {"type": "text", "text": "3"},
        {"type": "text", "text": "Note: ignored unknown arguments: nonsense"},
    ]
    assert not repaired.is_error
    assert refused.is_error
    [block] = refused.content
    assert block.type == "text"
    assert block.text.splitlines()[0] == "Invalid parameters: missing 'a'"
    assert "a (integer, required): The first." in block.text


async def test_an_object_is_structured_content(executor: ToolExecutor, era: str) -> None:
    executor.manager.add(weather)
    async with connected(executor, era) as client:
        result = await client.call_tool("weather", {"city": "Oslo"})
    assert result.structured_content == {"city": "Oslo", "celsius": 21.5}
    assert [block.type for block in result.content] == ["text"]


async def test_a_result_that_breaks_its_promise_is_an_error_that_tells_it(
    executor: ToolExecutor, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def lying() -> Weather:
        """Returns something else."""
        return {"city": 5}  # type: ignore[return-value]

    executor.manager.add(lying)
    async with connected(executor, era) as client:
        result = await client.call_tool("lying", {})
    assert result.is_error
    [block] = result.content
    assert block.type == "text"
    assert "succeeded, but its result does not match its output schema" in block.text
    assert '{"city":5}' in block.text
    assert "lying" in caplog.text


async def test_blocks_of_every_kind_arrive(executor: ToolExecutor, era: str) -> None:
    async def all_kinds() -> Content:
        """Returns blocks."""
        return Content(
            [
                {"type": "text", "text": "hello"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "x://y", "text": "content"}},
                {"type": "resource_link", "uri": "x://z", "name": "z"},
            ],
            {"n": 1},
        )

    executor.manager.add(all_kinds)
    async with connected(executor, era) as client:
        result = await client.call_tool("all_kinds", {})
    assert [block.type for block in result.content] == ["text", "image", "audio", "resource", "resource_link"]
    assert result.structured_content == {"n": 1}


async def test_a_failure_is_an_answer_and_an_unknown_tool_an_error_of_the_protocol(
    executor: ToolExecutor, era: str
) -> None:
    async def fail() -> None:
        """Fails."""
        raise ToolError("the tank is empty")

    executor.manager.add(fail)
    async with connected(executor, era) as client:
        failed = await client.call_tool("fail", {})
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("fial", {})
    assert failed.is_error
    assert [block.model_dump(exclude_none=True)["text"] for block in failed.content] == ["the tank is empty"]
    assert unknown.value.error.code == -32602
    assert unknown.value.error.message == 'Unknown tool "fial"\nDid you mean fail?'


async def test_a_cursor_that_is_none_is_refused(executor: ToolExecutor, era: str) -> None:
    executor.manager.add(add)
    async with connected(executor, era) as client:
        for cursor in ("rubbish", "", "ö", "bm9ib2R5"):
            with pytest.raises(MCPError, match="Invalid cursor") as refused:
                await client.list_tools(cursor=cursor)
            assert refused.value.error.code == -32602


async def test_progress_comes_in_order_and_before_the_answer(executor: ToolExecutor) -> None:
    def steps(context: ToolContext) -> str:
        """Reports from a thread."""
        for step in range(5):
            context.progress(step, 5, f"step {step}")
        return "done"

    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    executor.manager.add(steps)
    # In one process there is no token in the newer era; test_cli_serve.py has it over stdio and HTTP.
    async with connected(executor, "legacy") as client:
        await client.call_tool("steps", {}, progress_callback=hear)
        await client.call_tool("steps", {})  # nobody asked
    assert heard == [(step, 5, f"step {step}") for step in range(5)]


async def test_a_call_that_the_client_gives_up_is_cancelled(executor: ToolExecutor, era: str) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        """Waits."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    executor.manager.add(endless)
    async with connected(executor, era) as client:
        call = asyncio.create_task(client.call_tool("endless", {}))
        await asyncio.wait_for(started.wait(), LIMIT)
        call.cancel()
        await asyncio.wait_for(ended.wait(), LIMIT)
        await asyncio.wait([call], timeout=LIMIT)
        assert call.cancelled()


async def test_names_that_providers_refuse_are_mapped_and_mapped_back(executor: ToolExecutor, era: str) -> None:
    for name in ("photos.add", "photos_add", "x" * 100):
        executor.manager.add(tool(name=name)(add.function))
    async with connected(executor, era) as client:
        names = [it.name for it in (await client.list_tools()).tools]
        answers = [await client.call_tool(name, {"a": 1}) for name in (*names, "photos.add")]
    assert names[1] == "photos_add"
    assert names[0] != "photos_add"
    assert names[0].startswith("photos_add")
    assert max(map(len, names)) <= 64
    assert not any(answer.is_error for answer in answers)


async def test_the_list_comes_in_pages(executor: ToolExecutor, era: str) -> None:
    count = 2 * PAGE + 3
    for number in range(count):
        executor.manager.add(tool(name=f"tool_{number}")(add.function))
    async with connected(executor, era) as client:
        names: list[str] = []
        sizes: list[int] = []
        cursor = None
        while cursor is not None or not sizes:
            page = await client.list_tools(cursor=cursor)
            names += [it.name for it in page.tools]
            sizes.append(len(page.tools))
            cursor = page.next_cursor
    assert names == [f"tool_{number}" for number in range(count)]
    assert sizes == [PAGE, PAGE, 3]


async def test_a_page_goes_on_after_a_change_and_not_after_a_tool_that_is_gone(
    executor: ToolExecutor, era: str
) -> None:
    for number in range(PAGE + 2):
        executor.manager.add(tool(name=f"tool_{number}")(add.function))
    async with connected(executor, era) as client:
        cursor = (await client.list_tools()).next_cursor
        executor.manager.remove("tool_0")
        page = await client.list_tools(cursor=cursor)
        assert [it.name for it in page.tools] == [f"tool_{PAGE}", f"tool_{PAGE + 1}"]
        executor.manager.remove(f"tool_{PAGE - 1}")
        with pytest.raises(MCPError, match="the tools have changed since"):
            await client.list_tools(cursor=cursor)


async def test_clients_are_told_once_of_a_burst_of_changes(executor: ToolExecutor) -> None:
    executor.manager.add(add)
    told: list[Any] = []
    heard = asyncio.Event()

    async def hear(message: Any) -> None:
        told.append(message)
        heard.set()

    async with connected(executor, "legacy", message_handler=hear) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        for number in range(100):
            executor.manager.add(tool(name=f"tool_{number}")(add.function))
        await asyncio.wait_for(heard.wait(), LIMIT)
        assert len((await client.list_tools(cache_mode="refresh")).tools) == 101
        heard.clear()
        executor.manager.remove("add")
        await asyncio.wait_for(heard.wait(), LIMIT)
        assert len((await client.list_tools(cache_mode="refresh")).tools) == 100
    assert [type(message).__name__ for message in told] == ["ToolListChangedNotification"] * 2


async def test_a_client_of_the_newer_era_listens_for_changes(executor: ToolExecutor) -> None:
    async with connected(executor, "2026-07-28") as client, client.listen(tools_list_changed=True) as changes:
        executor.manager.add(add)
        await asyncio.wait_for(anext(aiter(changes)), LIMIT)
        assert [it.name for it in (await client.list_tools(cache_mode="refresh")).tools] == ["add"]


class NotJson:
    name, description = "not_json", "Cannot be described."
    schema: ClassVar[Any] = {"type": "object", "properties": {"x": {"type": "string"}}}
    annotations: ClassVar[Any] = {"readOnlyHint": object()}

    def invoke(self, arguments: dict[str, Any]) -> object:
        return arguments


async def test_a_tool_that_cannot_be_described_does_not_hide_the_others(
    executor: ToolExecutor, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    executor.manager.add(NotJson())
    executor.manager.add(add)
    with caplog.at_level(logging.WARNING):
        async with connected(executor, era) as client:
            assert [it.name for it in (await client.list_tools()).tools] == ["add"]
    assert "tool 'not_json' is not offered" in caplog.text


async def test_whose_key_it_is_depends_on_the_token_or_else_on_the_name_that_a_client_gives(
    tmp_path: Path,
) -> None:
    world = World(tmp_path / "journal.db")
    server = McpServer(world.manager, world.executor)
    meta = {"idempotencyKey": "k"}
    named = {**meta, "io.modelcontextprotocol/clientInfo": {"name": "b"}}
    keys = [server.given_key(meta, None, "a"), server.given_key(named, None, "a")]
    servers = [McpServer(world.manager, world.executor) for _ in range(3)]
    for it, token in zip(servers, ("one", "two", "two"), strict=True):
        http_app(it, Address("127.0.0.1", 8000, token=token))
        keys.append(it.given_key(meta, None, "a"))
    assert [key is not None and key.key for key in keys] == ["k"] * 5
    assert len(set(keys)) == 4
    assert keys[3] == keys[4]
    assert not any("two" in str(key) for key in keys)
    await world.executor.close()
    world.journal.close()
