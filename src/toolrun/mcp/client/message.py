"""JSON-RPC messages in the lines that a stdio server writes. Pure: a line in, messages out.

A server can write what it likes. A line that is not a message is reported with its content. If it looks like the answer
to a request, `answered_request` says to which one, so that the caller need not wait until its deadline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from toolrun.json import loads
from toolrun.json_pieces import loads_in_pieces
from toolrun.mcp.client.foreign_json import loads_foreign
from toolrun.processes.framing import InvalidLine, LargeLine

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
        return _reread(line, line, line[-TAIL:], error) if line.strip() else []
    return [data] if type(data) is dict else _messages(data, line)


def decode_large(line: LargeLine) -> Sequence[dict[str, Any] | InvalidLine]:
    """The same, in a thread."""
    text = line.join()
    try:
        return _messages(loads_in_pieces(text), line.head)
    except ValueError as error:
        return _reread(text, line.head, line.tail, error)


def _reread(text: bytes, head: bytes, tail: bytes, error: ValueError) -> Sequence[dict[str, Any] | InvalidLine]:
    """What a text says that is not JSON in every detail."""
    if not text.lstrip().startswith((b"{", b"[")):  # a line of a log, or such
        return [InvalidLine(f"not JSON ({error})", head, tail)]
    try:
        return _messages(loads_foreign(text), head)
    except ValueError:
        return [InvalidLine(f"not JSON ({error})", head, tail)]


def _messages(data: Any, line: bytes) -> Sequence[dict[str, Any] | InvalidLine]:
    if isinstance(data, dict):
        return [data]
    if isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        return data
    return [InvalidLine("not a JSON-RPC message", line)]


def answered_request(line: InvalidLine | LargeLine) -> int | None:
    """The id of the request that a line seems to be the answer to, which is not valid or was not read yet."""
    has_id_last = line.head.lstrip().startswith(b'{"result"')
    found = _ID_FIRST.match(line.head) or (_ID_LAST.search(line.tail) if has_id_last else None)
    return int(found[1]) if found else None
