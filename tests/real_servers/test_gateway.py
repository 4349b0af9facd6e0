"""The server `everything` behind `toolrun serve`: a client cannot tell the difference."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcp.shared.subscriptions import ResourceUpdated

from faults_mcp.bench import Servers
from real_servers.servers import RealServer
from support.console import LIMIT
from support.raw_mcp import gateway, on_stdio, said
from support.serving import stdio_client

CALLS: list[tuple[str, dict[str, object]]] = [
    ("echo", {"message": "hello"}),
    ("get-tiny-image", {}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
    ("get-resource-links", {"count": 3}),
]
FIELDS = ("name", "title", "description", "annotations", "icons", "outputSchema", "_meta")


@pytest.mark.parametrize("client", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_client_gets_the_same_through_toolrun(
    transport: str, client: str, servers: Servers, everything: RealServer, tmp_path: Path
) -> None:
    settings = everything.settings()
    command = [str(settings["command"]), *settings["args"]]
    quoted = ", ".join(f'"{it}"' for it in command[1:])
    (tmp_path / "toolrun.toml").write_text(f'[servers.everything]\ncommand = "{command[0]}"\nargs = [{quoted}]\n')
    with on_stdio(command, tmp_path, "legacy") as directly, gateway(transport, tmp_path, client) as through:
        expected = {tool["name"]: tool for tool in said(directly("tools/list"))["tools"]}
        found = {tool["name"]: tool for tool in said(through("tools/list"))["tools"]}
        assert found.keys() == expected.keys()
        for name, tool in expected.items():
            assert {key: found[name].get(key) for key in FIELDS} == {key: tool.get(key) for key in FIELDS}
        for name, arguments in CALLS:
            answers = [said(ask("tools/call", name=name, arguments=arguments)) for ask in (directly, through)]
            assert without_times(answers[1]) == without_times(answers[0]), name
        [_, *links] = said(through("tools/call", name="get-resource-links", arguments={"count": 3}))["content"]
        assert len(links) == 3
        for link in links:
            read = [said(ask("resources/read", uri=link["uri"])) for ask in (directly, through)]
            assert without_times(read[1]) == without_times(read[0])
            assert read[1]["contents"][0]["uri"] == link["uri"]
        templates = [said(ask("resources/templates/list")) for ask in (directly, through)]
        assert templates[1] == templates[0]
        assert len(templates[1]["resourceTemplates"]) == 2
        dynamic = [said(ask("resources/read", uri="demo://resource/dynamic/text/4711")) for ask in (directly, through)]
        assert without_times(dynamic[1]) == without_times(dynamic[0])
        assert dynamic[1]["contents"][0]["uri"] == "demo://resource/dynamic/text/4711"


async def test_updates_of_its_resources_reach_a_client(
    servers: Servers, everything: RealServer, tmp_path: Path
) -> None:
    settings = everything.settings()
    command = [str(settings["command"]), *settings["args"]]
    quoted = ", ".join(f'"{it}"' for it in command[1:])
    (tmp_path / "toolrun.toml").write_text(f'[servers.everything]\ncommand = "{command[0]}"\nargs = [{quoted}]\n')
    uri = "demo://resource/dynamic/text/1"
    async with (
        asyncio.timeout(LIMIT),
        stdio_client(tmp_path, "auto") as client,
        client.listen(resource_subscriptions=[uri]) as events,
    ):
        await client.call_tool("toggle-subscriber-updates", {})  # every few seconds, whoever has subscribed by then
        assert await anext(aiter(events)) == ResourceUpdated(uri)


def without_times(value: object) -> object:
    """The server writes the time into some texts, also into those that are base64."""
    if isinstance(value, dict):
        return {key: "…" if key == "blob" else without_times(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return value.partition(" created at ")[0] if isinstance(value, str) else value
