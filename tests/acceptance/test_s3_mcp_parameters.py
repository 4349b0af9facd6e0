"""S3.11 and S3.14: names of parameters, with a server that is a real process."""

from __future__ import annotations

import ast
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from uv import find_uv_bin

from acceptance.kinds import ObjectTool
from acceptance.project import Project, declaration
from mcp_servers.devices import NO_DEVICE, UNKNOWN_DEVICE
from support.serving import text_of
from toolrun import Runtime
from toolrun.mcp.client import parameter_names

SERVERS = Path(__file__).parents[1] / "mcp_servers"
DEVICES = SERVERS / "devices.py"
ADAPTERS = Path(__file__).with_name("langchain_adapters.py")
TOOL = "control_zwave_device"


@asynccontextmanager
async def opened(project: Project, *settings: str) -> AsyncIterator[Runtime]:
    """The project with the server, connected. `settings` are further lines of the server's configuration."""
    server = [f"command = {json.dumps(sys.executable)}", f"args = [{json.dumps(str(DEVICES))}]"]
    project.write("toolrun.toml", "\n".join(["[servers.zwave]", *server, *settings]))
    async with project.open() as runtime:
        await runtime.ready()
        yield runtime


async def received(runtime: Runtime, arguments: dict[str, Any], tool: str = TOOL) -> dict[str, Any]:
    """What the server got."""
    result = await runtime.executor.execute(tool, arguments)
    assert isinstance(result.result, str), result.error
    found: dict[str, Any] = json.loads(result.result)
    return found


@pytest.mark.scenario("S3.11.1")
async def test_s3_11_1_snake_case_becomes_camel_case_before_the_server_is_called(project: Project) -> None:
    """Names in snake_case that a model sends are those of the server when it is called, as `action` for `command`."""
    async with opened(project) as runtime:
        assert await received(runtime, {"device_name": "Switch One", "command": "on"}) == {
            "deviceName": "Switch One",
            "action": "on",
        }
        # A server whose schema takes any name would otherwise get the wrong one without a word.
        assert await received(runtime, {"device_name": "Switch One"}, "lax_device") == {"deviceName": "Switch One"}


@pytest.mark.scenario("S3.11.2")
async def test_s3_11_2_built_in_tools_are_not_affected(project: Project) -> None:
    """A tool that comes from no MCP server gets its arguments as they were given, also names with underscores."""
    project.declare(
        declaration("get_time", {"type": "builtin", "handler": "get_current_datetime"}, time_zone={"type": "string"})
    )
    async with opened(project) as runtime:
        plain = ObjectTool(schema={"type": "object", "properties": {"device_name": {}}, "additionalProperties": True})
        runtime.manager.add(plain)
        result = await runtime.executor.execute("object", {"device_name": "Switch One", "command": "on"})
        assert plain.received == [{"device_name": "Switch One", "command": "on"}]
        assert result.repairs == ()
        told = await runtime.executor.execute("get_time", {"time_zone": "UTC"})
        assert (told.success, told.repairs) == (True, ())


@pytest.mark.scenario("S3.11.3")
async def test_s3_11_3_static_mappings_for_known_tools(project: Project) -> None:
    """`{device_name, command}` reaches the server as `{deviceName, action}`, and a configuration can map more names."""
    async with opened(project) as runtime:
        result = await runtime.executor.execute(TOOL, {"device_name": "Switch One", "command": "on"})
        assert json.loads(str(result.result)) == {"deviceName": "Switch One", "action": "on"}
        assert [(repair.before, repair.after) for repair in result.repairs] == [
            ({"device_name": "Switch One"}, {"deviceName": "Switch One"}),
            ({"command": "on"}, {"action": "on"}),
        ]
        # A name that the server knows is never renamed, and a mapping to a name that was given does not overwrite it.
        assert await received(runtime, {"deviceName": "Switch One", "action": "off"}) == {
            "deviceName": "Switch One",
            "action": "off",
        }
        # The mapping is that of this tool: another one of the same server has no other name for `command`.
        assert await received(runtime, {"deviceName": "Switch One", "command": "on"}, "lax_device") == {
            "deviceName": "Switch One",
            "command": "on",
        }
    async with opened(project, 'parameters = { brightness = "level" }') as runtime:
        more = {"device_name": "Dimmer", "command": "on", "brightness": 40}
        assert await received(runtime, more) == {"deviceName": "Dimmer", "action": "on", "level": 40}, "beside its own"


@pytest.mark.scenario("S3.11.4")
async def test_s3_11_4_names_without_a_mapping_are_converted(project: Project) -> None:
    """`new_parameter_name`, which no mapping knows, reaches the server as `newParameterName`."""
    async with opened(project) as runtime:
        assert await received(runtime, {"deviceName": "Switch One", "new_parameter_name": "x"}) == {
            "deviceName": "Switch One",
            "newParameterName": "x",
        }


@pytest.mark.scenario("S3.11.5")
async def test_s3_11_5_names_without_underscores_are_unchanged(project: Project) -> None:
    """`level` stays `level`."""
    async with opened(project) as runtime:
        result = await runtime.executor.execute(TOOL, {"deviceName": "Dimmer", "level": 40})
        assert json.loads(str(result.result)) == {"deviceName": "Dimmer", "level": 40}
        assert result.repairs == ()
        mixed = await runtime.executor.execute(TOOL, {"device_name": "Dimmer", "level": 40})
        assert json.loads(str(mixed.result)) == {"deviceName": "Dimmer", "level": 40}
        assert [repair.before for repair in mixed.repairs] == [{"device_name": "Dimmer"}], "beside one that is renamed"


@pytest.mark.scenario("S3.11.6")
async def test_s3_11_6_renaming_is_logged(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    """The log shows the names before and after, and nothing when they are the same."""
    async with opened(project) as runtime:
        caplog.clear()
        with caplog.at_level(logging.INFO, "toolrun"):
            await runtime.executor.execute(TOOL, {"deviceName": "Switch One"})
            assert "→" not in caplog.text
            await runtime.executor.execute(TOOL, {"device_name": "Switch One"})
    assert '{device_name: "..."} → {deviceName: "..."}' in caplog.text


@pytest.mark.scenario("S3.11.7")
async def test_s3_11_7_the_servers_own_rejection_is_unchanged(project: Project) -> None:
    """What the server says of arguments that it does not take is the error of the call, word for word."""
    async with opened(project) as runtime:
        unknown = await runtime.executor.execute(TOOL, {"device_name": "Switch Nine", "command": "on"})
        assert (unknown.success, unknown.error) == (False, UNKNOWN_DEVICE)
        missing = await runtime.executor.execute(TOOL, {"command": "on"})
        assert (missing.success, missing.error) == (False, NO_DEVICE)
        assert missing.text == f"Error: {NO_DEVICE}"


@pytest.mark.scenario("S3.14.1")
async def test_s3_14_1_neither_the_sdk_nor_langchains_adapters_convert_names() -> None:
    """Called with `device_name` through each of them, the server gets `device_name`: the renaming is needed."""
    sent = {"device_name": "Switch One"}
    async with Client(StdioServerParameters(command=sys.executable, args=[str(DEVICES)])) as client:
        await client.list_tools()
        refused = await client.call_tool(TOOL, sent)
        assert refused.is_error
        assert text_of(refused) == NO_DEVICE
        lax = await client.call_tool("lax_device", sent)
        assert json.loads(text_of(lax)) == sent
    through_adapters = ask_adapters(sent)
    assert json.loads(through_adapters["lax_device"]) == sent
    assert NO_DEVICE in through_adapters[TOOL]


def ask_adapters(arguments: dict[str, Any]) -> dict[str, str]:
    """What the tools answer through `langchain-mcp-adapters`, which needs an older SDK and so its own environment."""
    command = [find_uv_bin(), "run", "--isolated", "--no-project", "--with", "langchain-mcp-adapters==0.3.2", "python"]
    process = subprocess.run(
        [*command, str(ADAPTERS), sys.executable, str(DEVICES), json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if process.returncode != 0 and "error sending request" in process.stderr and os.environ.get("CI") != "true":
        pytest.skip("the packages cannot be reached")
    assert process.returncode == 0, process.stderr
    answers: dict[str, str] = json.loads(process.stdout)
    return answers


@pytest.mark.scenario("S3.14.2")
def test_s3_14_2_the_decision_is_documented() -> None:
    """The module that renames says what was decided, why, and with which versions that was measured."""
    document = ast.get_docstring(ast.parse(Path(parameter_names.__file__).read_text(encoding="utf-8"))) or ""
    assert "Decision: the renaming stays, because nothing below us does it." in document
    assert "`langchain-mcp-adapters` 0.3.2 on mcp" in document
    assert "mcp 2." in document
