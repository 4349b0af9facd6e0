"""Names of parameters that ship with toolrun, with a server that is a real process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from toolrun import Runtime
from toolrun.mcp.client.known_parameters import known_parameters
from toolrun.runtime import read_config

DEVICES = Path(__file__).parents[3] / "mcp_servers" / "devices.py"


async def received(tmp_path: Path, arguments: dict[str, Any], **settings: Any) -> Any:
    more = "\n".join(f"{key} = {value}" for key, value in settings.items())
    server = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(DEVICES))}]\n{more}"
    (tmp_path / "toolrun.toml").write_text(f"[servers.zwave]\n{server}\n")
    async with Runtime.open(read_config(str(tmp_path / "toolrun.toml"))) as runtime:
        await runtime.ready()
        result = await runtime.executor.execute("control_zwave_device", arguments)
        return json.loads(str(result.result)) if result.success else result.error


def test_the_names_of_the_z_wave_tool_are_shipped() -> None:
    assert known_parameters("control_zwave_device") == {"device_name": "deviceName", "command": "action"}
    assert known_parameters("anything_else") == {}


async def test_they_apply_without_any_configuration(tmp_path: Path) -> None:
    given = {"device_name": "Switch One", "command": "on"}
    assert await received(tmp_path, given) == {"deviceName": "Switch One", "action": "on"}


@pytest.mark.parametrize("parameters", ['{ gadget = "deviceName" }', '{ gadget = "deviceName", command = "action" }'])
async def test_the_configuration_adds_to_them(tmp_path: Path, parameters: str) -> None:
    given = {"gadget": "Switch One", "command": "on"}
    assert await received(tmp_path, given, parameters=parameters) == {"deviceName": "Switch One", "action": "on"}
