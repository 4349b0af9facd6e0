"""The body of a request is limited by what arrives, whatever its head says."""

from __future__ import annotations

from typing import Any

import pytest

from toolrun.server.api_body import read_body
from toolrun.server.request_error import RequestError


async def test_a_body_without_a_length_is_refused_once_it_is_too_large() -> None:
    parts = [{"type": "http.request", "body": b"x" * 60, "more_body": True} for _ in range(3)]

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    with pytest.raises(RequestError) as refused:
        await read_body({"headers": []}, receive, 100)
    assert refused.value.status == 413
    assert len(parts) == 1
