"""Values that every provider accepts."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolrun.clients.sendable import file_block, image_block, sendable_json, sendable_text

characters = st.characters(codec=None, exclude_categories=())
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(characters) | st.binary(max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(characters), inner), max_leaves=20
)


@given(values)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_value_becomes_json(value: Any) -> None:
    json.dumps(sendable_json(value), allow_nan=False, ensure_ascii=False).encode()


@given(st.text())
@settings(deadline=None)
def test_a_text_that_is_one_stays_as_it_is(text: str) -> None:
    assert sendable_text(text) is text


def test_halves_of_characters_are_joined_or_replaced() -> None:
    assert sendable_text("a\ud83d\ude00b\ud83d") == "a😀b\ufffd"
    assert sendable_text("\ude00\ud83d") == "\ufffd\ufffd"


def test_what_is_no_number_is_null_and_what_is_json_stays() -> None:
    assert sendable_json([math.nan, math.inf, 1 << 20_000]) == [None, None, None]
    value = {"a": [1, 2.5, True, None, "x", 10**30]}
    assert sendable_json(value) == value


@pytest.mark.parametrize("levels", [64, 3_000, 100_000])
def test_depth_is_limited(levels: int) -> None:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    text = json.dumps(sendable_json(value))
    assert text.count("{") + text.count("[") == 65
    assert "nested too deeply" in text


def test_a_value_in_itself_ends() -> None:
    value: list[Any] = []
    value += [value, value]
    assert sendable_json(value) == ["[nested too deeply]"] * 2


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": "data:image/png;base64,AAAA"},
        {"type": "resource", "resource": {"mimeType": "image/png", "blob": "AAAA"}},
    ],
)
def test_images_of_every_form_are_one_form(block: dict[str, Any]) -> None:
    assert image_block(block) == {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image"},
        {"type": "image", "base64": "", "mime_type": "image/png"},
        {"type": "image", "base64": "not base64", "mime_type": "image/png"},
        {"type": "image", "base64": "A" * 5_000_004, "mime_type": "image/png"},
        {"type": "image", "base64": "AAAA", "mime_type": "image/svg+xml"},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
    ],
)
def test_images_that_providers_refuse_are_none(block: dict[str, Any]) -> None:
    assert image_block(block, takes_urls=True) is None


def test_a_file_is_sent_only_with_its_content_where_the_package_would_fetch_it() -> None:
    pdf = {"type": "file", "base64": "AAAA", "mime_type": "application/pdf"}
    assert file_block({**pdf, "url": "http://169.254.169.254/", "extras": {"signature": "s"}}) == pdf
    assert file_block({"type": "media", "data": "AAAA", "mime_type": "application/pdf"}) == pdf
    uploaded = {"type": "media", "file_uri": "https://example.org/files/1", "mime_type": "video/mp4"}
    assert file_block(uploaded) == uploaded
    for lacking in (
        {"type": "file", "url": "http://169.254.169.254/", "mime_type": "application/pdf"},
        {"type": "file", "file_id": "file-1", "mime_type": "application/pdf"},
        {**pdf, "base64": "not base64"},
        {**pdf, "mime_type": ""},
        {**pdf, "mime_type": "\ud800/x"},
    ):
        assert file_block(lacking) is None


def test_an_address_is_an_image_where_the_provider_takes_it() -> None:
    block = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    assert image_block(block, takes_urls=True) == {"type": "image", "url": "https://example.org/a.png"}
    assert image_block(block) is None
