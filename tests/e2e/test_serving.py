"""A program serves its runtime with `toolrun.server.serving`."""

from __future__ import annotations

import subprocess
import sys

import httpx2
import pytest

from toolrun import ConfigError, Runtime, tool
from toolrun.server import serving


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_the_block_serves_api_and_console_to_whoever_has_the_token() -> None:
    async with Runtime.open() as runtime, serving(runtime) as page, httpx2.AsyncClient() as client:
        runtime.manager.add(add)
        address, _, token = page.partition("#token=")
        wanted = {"arguments": {"a": 2, "b": 3}}
        refused = await client.post(f"{address}api/tools/add/call", json=wanted)
        called = await client.post(
            f"{address}api/tools/add/call", json=wanted, headers={"Authorization": f"Bearer {token}"}
        )
        shown = await client.get(address)
    assert refused.status_code == 401
    assert (called.status_code, called.json()["result"]) == (200, 5)
    assert "<title>" in shown.text


async def test_the_end_of_the_block_closes_the_port() -> None:
    async with Runtime.open() as runtime, httpx2.AsyncClient() as client:
        async with serving(runtime, token="mine") as page:
            assert page.endswith("#token=mine")
        with pytest.raises(httpx2.ConnectError):
            await client.get(page.partition("#")[0])


async def test_other_machines_are_not_served_without_a_token() -> None:
    async with Runtime.open() as runtime:
        with pytest.raises(ConfigError, match="others could call your tools"):
            async with serving(runtime, "0.0.0.0:0", token=""):
                pass


def test_without_the_packages_the_error_names_the_extra() -> None:
    program = "import sys; sys.modules['uvicorn'] = None\nfrom toolrun.server import serving"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'toolrun[mcp]'" in done.stderr
