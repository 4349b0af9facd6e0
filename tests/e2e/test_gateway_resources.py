"""`toolrun serve` in front of servers with templates and subscriptions, asked by a client of the SDK."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ResourceUpdatedNotification, TextResourceContents

from support.console import LIMIT, write_project
from support.serving import ERAS, http_client, served, stdio_client, text_of

# The SDK's client warns of what the newer era has no more, whatever it is connected with.
pytestmark = pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning")

NOTES = Path(__file__).parents[1] / "mcp_servers" / "notes.py"


def project(root: Path, *servers: str, era: str = "legacy") -> Path:
    root = write_project(root)
    lines = []
    for name in servers:
        (root / name).mkdir()
        lines += [
            f'[servers.{name}]\ncommand = "{sys.executable}"\nargs = ["{NOTES}", "{era}", "{name}"]\ncwd = "{name}"'
        ]
    (root / "toolrun.toml").write_text("\n".join(["[mcp]\ndelays = [0, 0]", *lines]) + "\n")
    return root


@asynccontextmanager
async def client_of(transport: str, root: Path, era: str, **options: Any) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        if transport == "stdio":
            yield await stack.enter_async_context(stdio_client(root, era, **options))
        else:
            server = stack.enter_context(served(cwd=root))
            yield await stack.enter_async_context(http_client(server.url, era, **options))


async def read(client: Client, uri: str) -> str:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def touch(client: Client, uri: str, tool: str = "touch") -> int:
    """How many subscriptions the server has at this moment."""
    return int(text_of(await client.call_tool(tool, {"uri": uri})))


async def until_subscribed(client: Client, uri: str, count: int) -> None:
    while True:
        try:
            if await touch(client, uri) == count:
                return
        except (MCPError, ValueError):  # its server is being started again
            pass


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_templates_are_listed_and_what_matches_them_can_be_read(
    transport: str, upstream: str, era: str, tmp_path: Path
) -> None:
    async with (
        asyncio.timeout(LIMIT),
        client_of(transport, project(tmp_path, "one", "two", era=upstream), era) as client,
    ):
        listed = (await client.list_resource_templates()).resource_templates
        assert [it.uri_template for it in listed] == [
            "note:///{name}",
            "note:///{+broken",
            "one://{+path}",
            "two://{+path}",
        ]
        assert listed[0].meta == {"of": "one"}
        assert await read(client, "one://a/b") == "one://a/b of one"
        assert await read(client, "two://a/b") == "two://a/b of two"
        assert await read(client, "note:///any") == "note:///any of one", "of two the first in the configuration"
        assert await read(client, "note:///both") == "note:///both of one", "as above"
        assert await read(client, "note:///two") == "note:///two of two", "what is listed goes before a template"
        with pytest.raises(MCPError, match="Resource not found") as refused:
            await read(client, "note:///secret")
        assert refused.value.error.data == {"uri": "'note:///secret'"} or refused.value.error.code == -32002
        with pytest.raises(MCPError, match="no server lists it"):
            await read(client, "note:///a/b")


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_of_the_handshake_era_hears_of_updates_until_it_unsubscribes(
    transport: str, upstream: str, tmp_path: Path
) -> None:
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def handle(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await updated.put(message.params.uri)

    root = project(tmp_path, "one", era=upstream)
    async with asyncio.timeout(LIMIT), client_of(transport, root, "legacy", message_handler=handle) as client:
        resources = client.server_capabilities.resources
        assert resources is not None
        assert resources.subscribe is True
        with pytest.raises(MCPError, match="no server lists it"):
            await client.subscribe_resource("other:/1")
        await client.subscribe_resource("note:///a")
        await until_subscribed(client, "note:///a", 1)
        assert await updated.get() == "note:///a"
        await client.call_tool("die", {})
        await until_subscribed(client, "note:///a", 1)
        assert await updated.get() == "note:///a", "also of the server that was started again"
        await client.unsubscribe_resource("note:///a")
        await until_subscribed(client, "note:///a", 0)
        if upstream == "legacy":
            with pytest.raises(MCPError, match="Resource not found"):
                await client.subscribe_resource("note:///secret")


@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_of_the_newer_era_hears_of_updates_as_long_as_it_listens(
    transport: str, upstream: str, tmp_path: Path
) -> None:
    root = project(tmp_path, "one", era=upstream)
    async with asyncio.timeout(LIMIT), client_of(transport, root, "auto") as client:
        resources = client.server_capabilities.resources
        assert resources is not None
        assert resources.subscribe is True
        async with client.listen(resource_subscriptions=["note:///a", "note:///b", "other:/1"]) as events:
            await until_subscribed(client, "note:///b", 2)
            assert getattr(await anext(aiter(events)), "uri", None) == "note:///b"
        await until_subscribed(client, "note:///b", 0)


async def test_a_client_that_leaves_is_unsubscribed(tmp_path: Path) -> None:
    root = project(tmp_path, "one")
    async with asyncio.timeout(LIMIT):
        with served(cwd=root) as server:
            async with http_client(server.url, "legacy") as stays:
                async with http_client(server.url, "legacy") as leaves:
                    await leaves.subscribe_resource("note:///a")
                    await leaves.subscribe_resource("note:///b")
                    await stays.subscribe_resource("note:///b")
                    assert await touch(stays, "note:///c") == 2
                await until_subscribed(stays, "note:///c", 1)
                methods = (root / "one" / "received").read_text().split()
    assert (methods.count("resources/subscribe"), methods.count("resources/unsubscribe")) == (2, 1)
