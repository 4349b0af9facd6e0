"""The environment variables by which a process is recognised from outside: its tag and its label.

Every process that an engine starts carries both, and everything it starts inherits them. The tag is unique and names
the host, which distinguishes the process from its descendants: only the process itself is a child of the host.
"""

from __future__ import annotations

import os
import secrets
from typing import Final

TAG: Final = "TOOLRUN_WORKER"
"""`HOST-ENGINE:NUMBER`: the host's pid, a random id of the engine, and the number of the process."""
LABEL: Final = "TOOLRUN_LABEL"
"""What the process is, for people."""


def new_engine_id() -> str:
    """The beginning of the tags of one engine."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


def host_of(tag: str) -> str:
    """The pid of the host, as the host itself sees it; empty if the tag has none."""
    return tag.partition("-")[0]
