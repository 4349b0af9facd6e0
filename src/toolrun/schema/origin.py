"""Where the schema of a tool comes from: that decides what becomes of arguments that it does not list."""

from __future__ import annotations

from enum import Enum


class Origin(Enum):
    """Who made a schema. A tool says so in `schema_origin`; one that does not has a schema that was declared."""

    SIGNATURE = "signature"
    """toolrun, from a function. It lists what the function takes; nobody decided to refuse the rest, so the rest is
    ignored, and the caller is told."""
    DECLARED = "declared"
    """Somebody who wrote it for the tool. `additionalProperties: false` is a decision, and unknown names are refused.
    Where nothing is said of them they are ignored."""
    SERVER = "server"
    """A server, or a program like one, that judges its arguments itself. As above, but where nothing is said the schema
    is open, as JSON Schema has it: unknown names are passed on."""
