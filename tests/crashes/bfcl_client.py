"""How tools talk to the process that owns BFCL's worlds. Standard library only."""

from __future__ import annotations

import json
import socket
from typing import Any


def ask(path: str, **request: Any) -> Any:
    """One question, one answer. Raises ConnectionError if there is none."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        line = connection.makefile("rb").readline()
    if not line:
        raise ConnectionResetError("the world hung up")
    return json.loads(line)
