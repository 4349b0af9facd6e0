# /// script
# requires-python = ">=3.11"
# dependencies = []
# [tool.toolrun]
# secrets = ["KEY"]
# ///
"""Has a secret, and works for a while."""

import time
from pathlib import Path

from toolrun_sdk import secrets

_kept = []


def victim(until: str) -> str:
    """Keep the secret in memory, and wait until a file is there."""
    _kept.append(f"{secrets['KEY']}")
    Path(f"{until}.begun").touch()
    end = time.monotonic() + 60
    while not Path(until).exists() and time.monotonic() < end:
        time.sleep(0.005)
    return "my own answer"
