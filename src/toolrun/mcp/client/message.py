"""JSON-RPC messages in the lines that a stdio server writes. Pure: a line in, messages out.

A server can write what it likes. A line that is not a message is reported with its content. If it looks like the answer
to a request, `answered_request` says to which one, so that the caller need not wait until its deadline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from toolrun.json import loads
from toolrun.processes.framing import InvalidLine

TAIL: Final = 64
"""Bytes at the end of a line in which its `id` is searched for: some servers write it last."""
_ID_FIRST: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"'
)
_ID_LAST: Final = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


def decode(line: bytes) -> Sequence[dict[str, Any] | InvalidLine]:
    """The message in a line; none if it is blank, several if it is a batch. Never raises."""
    try:
        data: Any = loads(line)
    except ValueError as error:
        return [InvalidLine(f"not JSON ({error})", line, line[-TAIL:])] if line.strip() else []
    if isinstance(data, dict):
        return [data]
    if isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        return data
    return [InvalidLine("no JSON-RPC message", line)]


def answered_request(line: InvalidLine) -> int | None:
    """The id of the request that an invalid line seems to be the answer to."""
    has_id_last = line.head.lstrip().startswith(b'{"result"')
    found = _ID_FIRST.match(line.head) or (_ID_LAST.search(line.tail) if has_id_last else None)
    return int(found[1]) if found else None
