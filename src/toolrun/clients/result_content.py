"""The content of a tool result for a model: text that fits its context, and images if it supports them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from toolrun.json import JSON
from toolrun.result import ToolResult, render, shorten

if TYPE_CHECKING:
    from toolrun.clients.wording import Wording

Blocks = list[str | dict[Any, Any]]
"""LangChain's content blocks."""

_IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_IMAGE_CHARS: Final = 5_000_000
"""Characters of one image in base64; beyond that Anthropic refuses the request."""
_CHARS_PER_TOKEN: Final = 4
_MIN_RESULT_CHARS: Final = 500


class ImageSupport(Enum):
    """How a model takes images."""

    NONE = "not at all"
    IN_RESULT = "as a part of the result of a call"
    AFTER_RESULTS = "in a message of the user after the results"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What is known about a model."""

    context_tokens: int | None = None
    image_support: ImageSupport = ImageSupport.NONE


UNKNOWN_CAPABILITIES: Final = Capabilities()


def capabilities_from_profile(profile: Mapping[str, object] | None) -> Capabilities:
    """The capabilities in LangChain's profile of a model."""
    if not profile:
        return UNKNOWN_CAPABILITIES
    image_support = ImageSupport.NONE
    if profile.get("image_tool_message"):
        image_support = ImageSupport.IN_RESULT
    elif profile.get("image_inputs"):
        image_support = ImageSupport.AFTER_RESULTS
    tokens = profile.get("max_input_tokens")
    return Capabilities(tokens if isinstance(tokens, int) and tokens > 0 else None, image_support)


def max_chars_per_result(capabilities: Capabilities, calls: int) -> int | None:
    """The characters for each result of a round: all results together fill at most half of the context."""
    if capabilities.context_tokens is None:
        return None
    return max(_MIN_RESULT_CHARS, capabilities.context_tokens * _CHARS_PER_TOKEN // 2 // calls)


def has_images(result: ToolResult) -> bool:
    return any(_is_image(block) for block in result.content)


def render_result(
    result: ToolResult, limit: int | None, image_support: ImageSupport, wording: Wording
) -> tuple[str | Blocks, Blocks]:
    """The content of the tool message, and the images that must follow in a separate message."""
    if limit is None or (result.max_chars is not None and result.max_chars < limit):
        limit = result.max_chars
    if not has_images(result):
        return (result if limit == result.max_chars else replace(result, max_chars=limit)).text, []
    lines: list[str] = [] if result.error is None else [result.text]  # which has the text of all blocks
    images: Blocks = []
    for block in result.content:
        image = _image_block(block) if image_support is not ImageSupport.NONE else None
        if image is not None:
            images.append(image)
        elif result.error is not None:
            continue
        elif _is_image(block):
            lines.append(wording.image_not_shown.format(kind=_media_type(block)))
        else:
            lines.append(render([block]))
    text = "\n".join(filter(None, (shorten("\n".join(lines), limit), result.note)))
    if not images or image_support is ImageSupport.AFTER_RESULTS:
        return text or "(an image, shown below)", images
    return [*([{"type": "text", "text": text}] if text else []), *images], []


def _is_image(block: Mapping[str, JSON]) -> bool:
    return block.get("type") in ("image", "image_url") or _media_type(block).startswith("image/")


def _media_type(block: Mapping[str, JSON]) -> str:
    source = block.get("resource") if isinstance(block.get("resource"), dict) else block
    found = cast(Mapping[str, JSON], source)
    return str(found.get("mimeType") or found.get("mime_type") or "")


def _image_block(block: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """LangChain's block for the image; None if providers would refuse it."""
    resource = block.get("resource")
    data = resource.get("blob") if isinstance(resource, dict) else block.get("data") or block.get("base64")
    if not isinstance(data, str) or len(data) > _MAX_IMAGE_CHARS or _media_type(block) not in _IMAGE_TYPES:
        return None
    return {"type": "image", "base64": data, "mime_type": _media_type(block)}


def image_blocks(images: Sequence[tuple[str, Blocks]], wording: Wording) -> Blocks:
    """The content of the message that shows images after the results. `images` are pairs of tool name and blocks."""
    names = ", ".join(dict.fromkeys(name for name, _ in images))
    blocks: Blocks = [{"type": "text", "text": wording.images_follow.format(names=names)}]
    return blocks + [block for _, found in images for block in found]
