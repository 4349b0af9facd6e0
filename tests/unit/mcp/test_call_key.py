"""Which key a client gives its call."""

from __future__ import annotations

from typing import Any

import pytest

from toolrun.mcp.call_key import given_keys, unquoted

NAMES = ("toolrun/idempotencyKey", "idempotencyKey", "idempotency-key")


@pytest.mark.parametrize(
    ("meta", "header", "given"),
    [
        ({}, None, []),
        ({"progressToken": 1, "key": "k"}, None, []),
        ({"idempotencyKey": "k"}, None, ["k"]),
        ({"idempotency-key": "k"}, None, ["k"]),
        ({"toolrun/idempotencyKey": "k"}, None, ["k"]),
        ({}, "k", ["k"]),
        ({}, '"k"', ["k"]),
        ({}, "", [""]),
        ({"idempotencyKey": "k"}, '"k"', ["k"]),
        ({"idempotencyKey": "k", "idempotency-key": "k"}, None, ["k"]),
        ({"idempotencyKey": "k", "idempotency-key": "l"}, None, ["k", "l"]),
        ({"idempotencyKey": "k"}, "l", ["k", "l"]),
        ({"idempotencyKey": None}, None, [None]),
        ({"idempotencyKey": {"a": 1}}, None, [{"a": 1}]),
    ],
)
def test_a_key_is_in_the_fields_or_the_header(meta: dict[str, Any], header: str | None, given: list[Any]) -> None:
    assert given_keys(meta, header, NAMES) == given


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("8e03978e-40d5", "8e03978e-40d5"),
        ('"8e03978e-40d5"', "8e03978e-40d5"),
        (r'"a \"b\" \\ c"', r'a "b" \ c'),
        ('""', ""),
        ('"', '"'),
        ('"a', '"a'),
    ],
)
def test_the_header_is_read_quoted_and_bare(header: str, key: str) -> None:
    assert unquoted(header) == key
