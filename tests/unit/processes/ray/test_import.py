"""Whoever does not use Ray does not pay for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
from toolrun import Runtime

async def main():
    async with Runtime.open("toolrun.toml") as runtime:
        result = await runtime.executor.execute("add", {"a": 1, "b": 2}, timeout=60)
        assert result.result == 3, result.text

asyncio.run(main())
RAY = ("ray", "grpc", "cryptography", "toolrun.processes.ray", "toolrun.cluster")
print([name for name in sys.modules if name.startswith(RAY)])
"""


def test_a_script_on_this_machine_imports_nothing_of_ray(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "add.py").write_text(
        '# /// script\n# dependencies = []\n# ///\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n'
    )
    (tmp_path / "toolrun.toml").write_text('[workers]\ncache = "cache"\n[journal]\nenabled = false\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr
