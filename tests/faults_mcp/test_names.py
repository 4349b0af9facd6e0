"""Two servers with the same names: neither takes a name or a setting from the other, whoever comes first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faults_mcp.bench import Servers

DELETE: dict[str, Any] = {"name": "delete", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize("section", ["delete", "subject__delete"])
async def test_a_second_server_does_not_undo_a_setting(servers: Servers, section: str) -> None:
    servers.lists("subject", DELETE)
    servers.settings(section, enabled=False)
    async with servers.open() as tools:
        assert "delete" not in tools.runtime.manager
        servers.lists("bystander", DELETE)
        await tools.run("changed()", "bystander__run")
        if section == "delete":
            servers.lists("bystander", DELETE, {**DELETE, "name": "after"})
            await tools.run("changed()", "bystander__run")
            await tools.has("after")
        else:
            await tools.has("bystander__delete")
        assert not [tool.name for tool in tools.runtime.manager if tool.name in ("delete", "subject__delete")]


@pytest.mark.parametrize(("is_first", "name"), [(True, "slow"), (False, "subject__slow")])
async def test_the_settings_of_a_tool_are_the_same_whatever_its_name(
    servers: Servers, is_first: bool, name: str
) -> None:
    servers.lists("subject", {**DELETE, "name": "slow"})
    servers.settings("slow", timeout=7, concurrency=2)
    servers.settings("bystander__slow", timeout=9)
    if not is_first:
        servers.lists("bystander", {**DELETE, "name": "slow"})
    async with servers.open() as tools:
        await tools.has(name)
        servers.lists("bystander", {**DELETE, "name": "slow"})
        await tools.run("changed()", "bystander__run")
        await tools.has("bystander__slow")
        executor = tools.runtime.executor
        ours, theirs = executor._prepare(name), executor._prepare("bystander__slow")
        assert (ours.timeout, ours.concurrency) == (7, 2)
        assert (theirs.timeout, theirs.concurrency) == (9, None)


async def test_no_server_takes_over_the_name_of_another_ones_tool(servers: Servers) -> None:
    servers.at_start("subject", "sys.exit('not now')")
    servers.lists("bystander", {**DELETE, "name": "subject__run"})
    async with servers.open() as tools:
        assert "subject__run" not in tools.runtime.manager
        result = await tools.call("bystander__subject__run")
        assert result.result == "subject__run {}"
        servers.at_start("subject", "")
        await tools.has("subject__run")
        await tools.works("subject__run")


@pytest.mark.parametrize(
    "settings",
    [
        {"command": "bank", "enabled": False},
        {"command": "bank", "env": {"TOKEN": "${BANK_TOKEN_THAT_IS_NOT_SET}"}},
        {},
        {"command": "bank", "url": "http://127.0.0.1:1/"},
    ],
    ids=["disabled", "variable not set", "no command", "command and url"],
)
async def test_nobody_poses_as_a_server_that_is_not_started(servers: Servers, settings: dict[str, Any]) -> None:
    servers.put("bank", **settings)
    servers.settings("bank__pay", timeout=7)
    servers.lists("bystander", {**DELETE, "name": "bank__pay"})
    async with servers.open() as tools:
        assert "bank__pay" not in tools.runtime.manager
        assert (await tools.call("bystander__bank__pay")).result == "bank__pay {}"
        assert tools.runtime.executor._prepare("bystander__bank__pay").timeout != 7


async def test_nobody_poses_as_a_server_of_another_programs_file(servers: Servers) -> None:
    entries = {"bank": {"command": "bank", "disabled": True}, "shop": {"type": "unheard of"}}
    (servers.root / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    servers.lists("bystander", {**DELETE, "name": "bank__pay"}, {**DELETE, "name": "shop__pay"})
    async with servers.open(files=["mcp.json"]) as tools:
        assert [it for it in ("bank__pay", "shop__pay") if it in tools.runtime.manager] == []
        assert [it for it in ("bystander__bank__pay", "bystander__shop__pay") if it not in tools.runtime.manager] == []
