"""MQTT messages that a broker delivers again: they have the flag DUP and the payload of one that came before.

aiomqtt does not pass the flag on, so the payload carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import aiomqtt

_RECENT: Final = 10.0
"""Seconds in which an equal payload with the flag is the same message."""


class MarkedPayload(bytes):
    """The payload of a message with the flag DUP."""


def mark_payloads(client: aiomqtt.Client) -> None:
    """From now on the payloads of messages with the flag are `MarkedPayload`."""
    paho = client._client  # there is no other way to the flag
    deliver: Any = paho.on_message

    def mark(client: Any, userdata: Any, message: Any) -> None:
        if message.dup:
            message.payload = MarkedPayload(message.payload)
        deliver(client, userdata, message)

    paho.on_message = mark


class RecentPayloads:
    """What came in the last seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._times: dict[bytes, float] = {}
        """When each came last, the oldest first."""

    def is_repeated(self, payload: bytes) -> bool:
        """Whether it came before, and is marked as coming again. It is remembered."""
        now = self._clock()
        for known, time in list(self._times.items()):
            if now - time < _RECENT:
                break
            del self._times[known]
        is_known = self._times.pop(payload, None) is not None
        self._times[bytes(payload)] = now
        return is_known and isinstance(payload, MarkedPayload)
