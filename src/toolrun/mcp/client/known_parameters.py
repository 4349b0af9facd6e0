"""What models call the parameters of well-known MCP tools. The names are data, in `known_parameters.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


def known_parameters(tool: str) -> Mapping[str, str]:
    """Names that models use → names that the server of the tool knows. `tool` is the server's own name for it."""
    return _shipped().get(tool, {})


@cache
def _shipped() -> dict[str, dict[str, str]]:
    return tomllib.loads(files("toolrun.mcp.client").joinpath("known_parameters.toml").read_text(encoding="utf-8"))
