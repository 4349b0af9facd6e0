"""What a model gets to see of a result."""

from __future__ import annotations

from typing import Any

import pytest

from toolrun.clients.result_content import (
    Capabilities,
    ImageSupport,
    capabilities_from_profile,
    image_blocks,
    max_chars_per_result,
    render_result,
)
from toolrun.clients.wording import Wording
from toolrun.result import ToolResult

WORDING = Wording.load()
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
SEEN = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


def result(*blocks: dict[str, Any]) -> ToolResult:
    return ToolResult("camera", list(blocks), content=blocks, max_chars=1000)


def test_text_is_what_it_is() -> None:
    assert render_result(ToolResult("t", {"a": 1}), None, ImageSupport.IN_RESULT, WORDING) == ('{"a":1}', [])
    assert render_result(ToolResult("t", error="no"), None, ImageSupport.NONE, WORDING) == ("Error: no", [])


@pytest.mark.parametrize(("limit", "own", "length"), [(50, 1000, 50), (1000, 50, 50), (None, 50, 50), (50, None, 50)])
def test_the_smaller_limit_counts(limit: int | None, own: int | None, length: int) -> None:
    text, _ = render_result(ToolResult("t", "x" * 5000, max_chars=own), limit, ImageSupport.NONE, WORDING)
    assert isinstance(text, str)
    assert text.count("x") == length


def test_images_are_shown_where_a_model_can_see_them() -> None:
    both = result({"type": "text", "text": "Click."}, IMAGE)
    assert render_result(both, None, ImageSupport.IN_RESULT, WORDING) == (
        [{"type": "text", "text": "Click."}, SEEN],
        [],
    )
    assert render_result(both, None, ImageSupport.AFTER_RESULTS, WORDING) == ("Click.", [SEEN])
    text, images = render_result(both, None, ImageSupport.NONE, WORDING)
    assert (text, images) == ("Click.\n" + WORDING.image_not_shown.format(kind="image/png"), [])


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a.png", "blob": "AAAA", "mimeType": "image/png"}},
    ],
)
def test_images_come_in_several_forms(block: dict[str, Any]) -> None:
    assert render_result(result(block), None, ImageSupport.IN_RESULT, WORDING) == ([SEEN], [])


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "AAAA", "mimeType": "image/svg+xml"},
        {"type": "image", "data": "A" * 5_000_001, "mimeType": "image/png"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ],
)
def test_an_image_that_providers_refuse_is_only_named(block: dict[str, Any]) -> None:
    text, images = render_result(result(block), None, ImageSupport.IN_RESULT, WORDING)
    assert isinstance(text, str)
    assert text.startswith("[an image")
    assert images == []


def test_images_after_the_results_say_whose_they_are() -> None:
    blocks = image_blocks([("camera", [SEEN]), ("screen", [SEEN]), ("camera", [SEEN])], WORDING)
    assert blocks[0] == {"type": "text", "text": WORDING.images_follow.format(names="camera, screen")}
    assert blocks[1:] == [SEEN] * 3


def test_results_of_a_round_share_half_of_the_context() -> None:
    assert max_chars_per_result(Capabilities(), 1) is None
    assert max_chars_per_result(Capabilities(10_000), 1) == 20_000
    assert max_chars_per_result(Capabilities(10_000), 4) == 5_000
    assert max_chars_per_result(Capabilities(10), 4) == 500


@pytest.mark.parametrize(
    ("profile", "capabilities"),
    [
        (None, Capabilities()),
        ({"max_input_tokens": 1000}, Capabilities(1000)),
        ({"image_inputs": True}, Capabilities(None, ImageSupport.AFTER_RESULTS)),
        ({"image_inputs": True, "image_tool_message": True}, Capabilities(None, ImageSupport.IN_RESULT)),
    ],
)
def test_a_profile_tells_what_a_model_can_do(profile: Any, capabilities: Capabilities) -> None:
    assert capabilities_from_profile(profile) == capabilities
