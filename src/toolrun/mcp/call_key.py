"""The key of a call in MCP: in the `_meta` of `tools/call`, and over HTTP in a header as well. Pure.

MCP has no name for it, so toolrun sends one under its own name and takes several.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

META_KEY: Final = "toolrun/idempotencyKey"
"""In the `_meta` of every call that toolrun makes."""
PERSON_KEY: Final = "toolrun/person"
"""In the `_meta` of what `toolrun call` sends: a person makes the call, and no model."""
HEADER: Final = "idempotency-key"
"""The same over HTTP (draft-ietf-httpapi-idempotency-key-header)."""
_ESCAPED: Final = re.compile(r'\\(["\\])')


def given_keys(meta: Mapping[str, Any], header: str | None, names: Iterable[str]) -> list[Any]:
    """The keys that a client gives a call, whatever they are: none, one, or several that differ."""
    given = [meta[name] for name in names if name in meta]
    if header is not None:
        given.append(unquoted(header))
    return [it for index, it in enumerate(given) if it not in given[:index]]


def unquoted(header: str) -> str:
    """The value of the header, which is quoted text by the draft, and is bare in most programs."""
    if len(header) >= 2 and header[0] == header[-1] == '"':
        return _ESCAPED.sub(r"\1", header[1:-1])
    return header
