"""Requests over HTTP that have the same id at the same time, in a session of the handshake era.

The SDK finds the stream of an answer by the id of its request: of two requests with one id, the second would get the
answer of the first, and the first none. Each POST has a stream of its own, so both can be answered. The second request
gets an id of ours on its way to the SDK, and its own one back on the way to the client. A call whose client has left
runs on, and is still answered: its id stays taken.

In the newer era each POST stands for itself, and over stdio, where all answers share a stream, the second request is
refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from toolrun.json import dumps

_CANCELLED: Final = "notifications/cancelled"
_MAX_LEFT: Final = 1000
"""Ids of requests whose clients have left that are remembered. One too many costs nothing but a new id."""

_Key: TypeAlias = tuple[str, str]
"""The session, and the id as the SDK compares it."""


class PassedRequest:
    """A request on its way through the SDK."""

    def __init__(self, session: str, id: int | str) -> None:
        self.key: _Key = (session, str(id))
        self.own = dumps(id)
        self.given: str | None = None
        """The id that the SDK knows it by, if that is another one."""
        self.has_left = False
        """Whether its client has gone without an answer."""
        self.is_cancelled = False

    def restored(self, body: bytes) -> bytes:
        """A part of the answer, with the id that the client knows."""
        return body if self.given is None else body.replace(f'"{self.given}"'.encode(), self.own)


class RequestIds:
    """The requests of all sessions that are not answered yet."""

    def __init__(self) -> None:
        self._open: dict[_Key, list[PassedRequest]] = {}
        self._left: dict[_Key, None] = {}

    @contextmanager
    def passing(self, session: str, request: dict[str, Any]) -> Iterator[PassedRequest | None]:
        """Changes the id in the message if it is taken; None for a message that is no request."""
        id = request.get("id")
        if not isinstance(id, int | str) or "method" not in request:
            self._direct(session, request)
            yield None
            return
        passed = PassedRequest(session, id)
        if passed.key in self._open or passed.key in self._left:
            passed.given = request["id"] = f"toolrun-{secrets.token_hex(8)}"  # no tool can guess it, and say it
        self._open.setdefault(passed.key, []).append(passed)
        try:
            yield passed
        finally:
            self._close(passed)

    def _close(self, passed: PassedRequest) -> None:
        others = self._open[passed.key]
        others.remove(passed)
        if not others:
            del self._open[passed.key]
        if passed.has_left and passed.given is None:
            self._left[passed.key] = None
            if len(self._left) > _MAX_LEFT:
                del self._left[next(iter(self._left))]

    def _direct(self, session: str, message: dict[str, Any]) -> None:
        """Who cancels an id means the last request that has it."""
        params = message.get("params")
        if message.get("method") != _CANCELLED or not isinstance(params, dict):
            return
        others = self._open.get((session, str(params.get("requestId"))), [])
        last = next((it for it in reversed(others) if not it.is_cancelled), None)
        if last is not None:
            last.is_cancelled = True
            if last.given is not None:
                message["params"] = {**params, "requestId": last.given}
