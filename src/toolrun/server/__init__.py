"""The HTTP API of `toolrun serve --http`, beside MCP on the same port and behind the same guard.

The name below is imported on first use: it needs `toolrun[mcp]`.
"""

from typing import TYPE_CHECKING

from toolrun._lazy import export
from toolrun.errors import MissingExtraError
from toolrun.extra import missing

if TYPE_CHECKING:
    from toolrun.server.embedded import serving as serving


def _missing(module: str, error: ModuleNotFoundError) -> MissingExtraError | None:
    return None if (error.name or "").startswith("toolrun") else missing("mcp", error, "serving")


__getattr__, __dir__, __all__ = export(__name__, {"embedded": ["serving"]}, _missing)
