"""What a tool says of itself, as a hash: whoever agreed to a tool agreed to exactly this."""

from __future__ import annotations

from toolrun.json import JSON, dumps
from toolrun.result import normalise
from toolrun.tools.protocol import Tool, schema_of


def hash_definition(tool: Tool) -> str:
    """16 hexadecimal digits of the name, description, schema and annotations of a tool, and of what its source adds."""
    import hashlib  # loads OpenSSL, and most programs never ask

    said: dict[str, JSON] = {
        "name": tool.name,
        "description": tool.description,
        "schema": dict(schema_of(tool)),
        "annotations": dict(getattr(tool, "annotations", None) or {}),
    }
    if isinstance(more := getattr(tool, "said_hash", None), str):
        said["more"] = more
    return hashlib.sha256(dumps(normalise(said), sort_keys=True)).hexdigest()[:16]
