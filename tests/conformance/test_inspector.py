"""A real client: the inspector's command line, over stdio and HTTP, in both eras."""

from __future__ import annotations

import json
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from conformance import suite
from support.console import TOOLRUN, environment
from support.serving import served

PROJECT = Path(__file__).parent / "project"


def inspect(target: list[str], era: str, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    env = environment({"MCP_CATALOG_PATH": str(tmp_path / "catalog.json"), "HOME": str(tmp_path)})
    arguments = ["--cli", "--protocol-era", era, *target, *options]
    return suite.run(suite.INSPECTOR, *arguments, cwd=PROJECT, env=env)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_lists_and_calls(transport: str, era: str, tmp_path: Path) -> None:
    with served(cwd=PROJECT) if transport == "http" else nullcontext() as server:
        target = [server.url] if server is not None else [str(TOOLRUN), "serve"]
        listed = inspect(target, era, tmp_path, "--method", "tools/list")
        assert listed.returncode == 0, listed.stderr
        tools = {tool["name"]: tool for tool in json.loads(listed.stdout)["tools"]}
        assert tools["test_simple_text"]["description"] == "Returns text."

        call = ("--method", "tools/call", "--tool-name")
        good = inspect(target, era, tmp_path, *call, "test_simple_text")
        assert good.returncode == 0, good.stderr
        [block] = json.loads(good.stdout)["content"]
        assert block == {"type": "text", "text": "This is a simple text response for testing."}

        if server is None:
            return
        bad = inspect(target, era, tmp_path, *call, "test_custom_headers", "--tool-arg", "priority=1")
        assert "missing 'region'" in bad.stdout
        assert bad.returncode == 5  # what it says of `isError`
