"""A request that cannot be answered as it was meant."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class RequestError(Exception):
    """Ends a request with a status, and with words for whoever sent it."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers
