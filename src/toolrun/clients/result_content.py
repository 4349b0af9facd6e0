"""The content of a tool result for a model: text that fits its context, and images if it supports them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from toolrun.clients.sendable import image_block, is_image, media_type
from toolrun.result import ToolResult, render, shorten

if TYPE_CHECKING:
    from toolrun.clients.wording import Wording

Blocks = list[str | dict[Any, Any]]
"""LangChain's content blocks."""

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
    refuses_images: bool = False
    """Whether the model is known to take no images from users."""


UNKNOWN_CAPABILITIES: Final = Capabilities()


def capabilities_from_profile(
    profile: Mapping[str, object] | None, *, shows_images_in_results: bool = True
) -> Capabilities:
    """The capabilities in LangChain's profile of a model, which does not know about the API that is used."""
    if not profile:
        return UNKNOWN_CAPABILITIES
    image_support = ImageSupport.NONE
    if profile.get("image_tool_message") and shows_images_in_results:
        image_support = ImageSupport.IN_RESULT
    elif profile.get("image_inputs") or profile.get("image_tool_message"):
        image_support = ImageSupport.AFTER_RESULTS
    tokens = profile.get("max_input_tokens")
    known_tokens = tokens if isinstance(tokens, int) and tokens > 0 else None
    return Capabilities(known_tokens, image_support, refuses_images=profile.get("image_inputs") is False)


def max_chars_per_result(capabilities: Capabilities, calls: int) -> int | None:
    """The characters for each result of a round: all results together fill at most half of the context."""
    if capabilities.context_tokens is None:
        return None
    return max(_MIN_RESULT_CHARS, capabilities.context_tokens * _CHARS_PER_TOKEN // 2 // calls)


def has_images(result: ToolResult) -> bool:
    return any(is_image(block) for block in result.content)


def render_result(
    result: ToolResult, limit: int | None, image_support: ImageSupport, wording: Wording
) -> tuple[str | Blocks, Blocks]:
    """The content of the tool message, and the images that must follow in a separate message."""
    if limit is None or (result.max_chars is not None and result.max_chars < limit):
        limit = result.max_chars
    if not has_images(result):
        if limit == result.max_chars:
            return result.text, []
        if result.rendered is not None:  # a large one is not rendered a second time
            return shorten(result.text, limit), []
        return replace(result, max_chars=limit).text, []
    lines: list[str] = [] if result.error is None else [result.text]  # which has the text of all blocks
    images: Blocks = []
    for block in result.content:
        image = image_block(block) if image_support is not ImageSupport.NONE else None
        if image is not None:
            images.append(image)
        elif result.error is not None:
            continue
        elif is_image(block):
            lines.append(wording.image_not_shown.format(kind=media_type(block)))
        else:
            lines.append(render([block]))
    note = result.note if result.error is None else ""  # which has it already
    text = "\n".join(filter(None, (shorten("\n".join(lines), limit), note)))
    if not images or image_support is ImageSupport.AFTER_RESULTS:
        return text or "(an image, shown below)", images
    return [*([{"type": "text", "text": text}] if text else []), *images], []


def image_blocks(images: Sequence[tuple[str, Blocks]], wording: Wording) -> Blocks:
    """The content of the message that shows images after the results. `images` are pairs of tool name and blocks."""
    names = ", ".join(dict.fromkeys(name for name, _ in images))
    blocks: Blocks = [{"type": "text", "text": wording.images_follow.format(names=names)}]
    return blocks + [block for _, found in images for block in found]
