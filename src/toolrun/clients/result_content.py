"""What a model gets to see of a tool's result: text that fits into its context, and images if it can see. Pure."""

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

SEEN_EVERYWHERE: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_IMAGE: Final = 5_000_000
"""Characters of one image in base64; beyond that Anthropic refuses the request."""
_CHARS_A_TOKEN: Final = 4
_LEAST_ROOM: Final = 500


class Sight(Enum):
    """How images can be shown to a model."""

    NONE = "not at all"
    IN_RESULT = "as a part of the result of a call"
    AFTER_RESULTS = "in a message of the user after the results"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What is known of a model."""

    context_tokens: int | None = None
    sight: Sight = Sight.NONE


UNKNOWN: Final = Abilities()


def from_profile(profile: Mapping[str, Any] | None) -> Abilities:
    """What LangChain's profile of a model says."""
    if not profile:
        return UNKNOWN
    sight = Sight.NONE
    if profile.get("image_tool_message"):
        sight = Sight.IN_RESULT
    elif profile.get("image_inputs"):
        sight = Sight.AFTER_RESULTS
    tokens = profile.get("max_input_tokens")
    return Abilities(tokens if isinstance(tokens, int) and tokens > 0 else None, sight)


def room(abilities: Abilities, calls: int) -> int | None:
    """Characters for one of several results: all of them together fill at most half of the context."""
    if abilities.context_tokens is None:
        return None
    return max(_LEAST_ROOM, abilities.context_tokens * _CHARS_A_TOKEN // 2 // calls)


def has_images(result: ToolResult) -> bool:
    return any(_is_image(block) for block in result.content)


def shown(result: ToolResult, limit: int | None, sight: Sight, wording: Wording) -> tuple[str | Blocks, Blocks]:
    """The content of the result's message, and the images that have to follow in a message of their own."""
    if limit is None or (result.max_chars is not None and result.max_chars < limit):
        limit = result.max_chars
    if not has_images(result):
        return (result if limit == result.max_chars else replace(result, max_chars=limit)).text, []
    lines: list[str] = []
    images: Blocks = []
    for block in result.content:
        image = _image(block) if sight is not Sight.NONE else None
        if image is not None:
            images.append(image)
        elif _is_image(block):
            lines.append(wording.image_not_shown.format(kind=_kind(block)))
        else:
            lines.append(render([block]))
    text = shorten("\n".join(lines), limit)
    if not images or sight is Sight.AFTER_RESULTS:
        return text or "(an image, shown below)", images
    return [*([{"type": "text", "text": text}] if text else []), *images], []


def _is_image(block: Mapping[str, JSON]) -> bool:
    return block.get("type") in ("image", "image_url") or _kind(block).startswith("image/")


def _kind(block: Mapping[str, JSON]) -> str:
    source = block.get("resource") if isinstance(block.get("resource"), dict) else block
    found = cast(Mapping[str, JSON], source)
    return str(found.get("mimeType") or found.get("mime_type") or "")


def _image(block: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """LangChain's block for an image that providers take, or None."""
    resource = block.get("resource")
    data = resource.get("blob") if isinstance(resource, dict) else block.get("data") or block.get("base64")
    if not isinstance(data, str) or len(data) > _MAX_IMAGE or _kind(block) not in SEEN_EVERYWHERE:
        return None
    return {"type": "image", "base64": data, "mime_type": _kind(block)}


def following(images: Sequence[tuple[str, Blocks]], wording: Wording) -> Blocks:
    """The content of the message that shows images after the results: by name of the tool that returned them."""
    names = ", ".join(dict.fromkeys(name for name, _ in images))
    blocks: Blocks = [{"type": "text", "text": wording.images_follow.format(names=names)}]
    return blocks + [block for _, found in images for block in found]
