"""Two users of one machine: whoever runs the tests, who must be root, and a stranger without a name."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.console import TOOLRUN, run

STRANGER = 54321
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can act as two users, with setpriv"
)
_TO_STRANGER = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
_READS_ALL = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""The interpreter of the tests may be in a folder that only root can enter."""


@contextmanager
def shared_place() -> Iterator[Path]:
    """A folder that both can enter, which pytest's own are not."""
    place = Path(tempfile.mkdtemp(prefix="toolrun-two-users-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def toolrun_of_stranger(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `toolrun` as the stranger, who owns nothing but may read everything."""
    own = {"HOME": "/nonexistent", "TOOLRUN_WORKERS_CACHE": "/nonexistent", **(env or {})}
    return run(*_TO_STRANGER, *_READS_ALL, str(TOOLRUN), *arguments, cwd=cwd, env=own)


def run_as_stranger(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the system as the stranger, without any rights."""
    return run(*_TO_STRANGER, "--inh-caps=-all", *command, cwd=cwd)
