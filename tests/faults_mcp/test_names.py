"""Two servers with the same names: neither takes a name or a setting from the other, whoever comes first."""

from __future__ import annotations

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


async def test_the_settings_of_a_tool_stay_when_its_name_changes(servers: Servers) -> None:
    servers.lists("subject", {**DELETE, "name": "slow"})
    servers.settings("slow", timeout=7, concurrency=2)
    servers.settings("bystander__slow", timeout=9)
    async with servers.open() as tools:
        await tools.has("slow")
        servers.lists("bystander", {**DELETE, "name": "slow"})
        await tools.run("changed()", "bystander__run")
        await tools.has("subject__slow")
        executor = tools.runtime.executor
        ours, theirs = executor._prepare("subject__slow"), executor._prepare("bystander__slow")
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
