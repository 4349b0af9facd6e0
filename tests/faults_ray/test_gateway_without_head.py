"""A gateway that speaks MCP on standard output, and the head of its cluster dies."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.ray_cluster import RayCluster

pytestmark = pytest.mark.xdist_group("ray")

REMOTE = '''# /// script
# dependencies = []
# ///
def remote(value: int) -> int:
    """Answer."""
    return value
'''
LOCAL = '''from toolrun import tool


@tool
def local(value: int) -> int:
    """Answer."""
    return value
'''


class Gateway:
    """`toolrun serve` on pipes. Each line that it prints has to be a message."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._count = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == self._count:
                return message
        raise AssertionError("the gateway has ended")

    def call(self, name: str, value: int) -> tuple[bool, str]:
        """Whether it worked, and what was said."""
        result = self.ask("tools/call", name=name, arguments={"value": value})["result"]
        return not result.get("isError"), result["content"][0]["text"]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("wait", [1.0, pytest.param(70.0, marks=pytest.mark.real_time)])
def test_a_gateway_on_stdio_outlives_the_head_with_its_local_tools_and_a_clean_output(
    ray_cluster: RayCluster, tmp_path: Path, wait: float
) -> None:
    """Ray ends a process that has used it a minute after the head is gone: the longer wait is for that."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "remote.py").write_text(REMOTE)
    (tmp_path / "tools" / "local.py").write_text(LOCAL)
    on_head = f'[tool.remote]\nresources = {{ "node:{ray_cluster.address_of("head")}" = 0.001 }}\n'
    settings = f'[workers]\nengine = "ray"\n[executor]\ntimeout = 25\n[journal]\nenabled = false\n{on_head}'
    (tmp_path / "toolrun.toml").write_text(settings)
    process = subprocess.Popen(
        ray_cluster.command(sys.executable, "-m", "toolrun", "serve"),
        env=ray_cluster.variables(),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        gateway = Gateway(process)
        gateway.ask(
            "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "test", "version": "1"}
        )
        assert gateway.call("remote", 1) == (True, "1")
        ray_cluster.kill("head")
        assert not gateway.call("remote", 2)[0]  # it may have been on its way to the replica that is lost
        is_answered, text = gateway.call("remote", 2)
        assert not is_answered
        assert "the head of the cluster does not answer" in text, text
        assert gateway.call("local", 3) == (True, "3")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(wait)
        assert gateway.call("local", 4) == (True, "4")
        ray_cluster.repair()  # all nodes start again, as their units have them do
        with contextlib.suppress(subprocess.TimeoutExpired):
            while gateway.call("remote", 5) != (True, "5"):  # until the gateway tries the cluster again
                process.wait(0.5)
        assert process.poll() is None
        rest, _ = process.communicate(timeout=30)  # which closes its input
        assert all(json.loads(line)["jsonrpc"] for line in rest.splitlines())
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
