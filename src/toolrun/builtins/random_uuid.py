"""A random UUID. The handler behind `generate_uuid`."""

from __future__ import annotations

from toolrun.json import JSON


def generate_uuid(arguments: dict[str, JSON]) -> JSON:
    import uuid  # here, because importing it asks the system for a library

    return {"uuid": str(uuid.uuid4())}
