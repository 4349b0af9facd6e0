"""A request that cannot be answered as it was meant."""

from __future__ import annotations


class RequestError(Exception):
    """Ends a request with a status, and with words for whoever sent it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
