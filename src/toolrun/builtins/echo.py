"""Returns what it gets, for trying things out. The handler behind `echo`."""

from __future__ import annotations

from toolrun.json import JSON


def echo(arguments: dict[str, JSON]) -> JSON:
    return {"echo": arguments}
