"""Text, JSON and images that every provider accepts. Pure.

One value that JSON cannot carry (NaN, half of a surrogate pair, 3,000 levels) makes the request with it fail, and every
later request of the same conversation. Whatever enters a conversation is made sendable here first.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from toolrun.json import JSON

_MAX_DEPTH: Final = 64
"""Levels of a value. Provider packages walk values with several Python frames for each level."""
_MAX_BITS: Final = 1024
"""An integer with more bits is beyond every float, and Python may refuse to write it."""
_TOO_DEEP: Final = "[nested too deeply]"
_IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_IMAGE_CHARS: Final = 5_000_000
"""Characters of one image in base64; beyond that Anthropic refuses the request."""
_DATA_URL: Final = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)


def sendable_text(text: str) -> str:
    """The text with surrogate pairs joined, and each half of a pair replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def sendable_json(value: object, _depth: int = 0, _path: tuple[int, ...] = ()) -> JSON:
    """The value as JSON: NaN and infinities are null, and what is too deep or refers to itself is a text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return sendable_text(str(value))
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MAX_BITS else None
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if _depth >= _MAX_DEPTH or id(value) in _path:
            return _TOO_DEEP
        below = (_depth + 1, (*_path, id(value)))
        if isinstance(value, Mapping):
            return {sendable_text(str(key)): sendable_json(item, *below) for key, item in value.items()}
        return [sendable_json(item, *below) for item in value]
    return f"[{type(value).__name__}]"


def is_sendable(value: object) -> bool:
    """Whether JSON can carry the value as it is."""
    return sendable_json(value) == value


def kind_of(block: object) -> str:
    """The type of a content block; empty if it has none that is a text."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    return kind if isinstance(kind, str) else ""


def is_image(block: Mapping[str, Any]) -> bool:
    return kind_of(block) in ("image", "image_url") or media_type(block).startswith("image/")


def media_type(block: Mapping[str, Any]) -> str:
    """The media type of an image or resource in any provider's form."""
    for holder in (block.get("resource"), block.get("source"), block):
        if isinstance(holder, Mapping):
            found = holder.get("mimeType") or holder.get("mime_type") or holder.get("media_type")
            if isinstance(found, str):
                return found
    url = _url(block)
    in_url = _DATA_URL.match(url) if url else None
    return in_url[1] if in_url else ""


def image_block(block: Mapping[str, Any], *, takes_urls: bool = False) -> dict[str, JSON] | None:
    """LangChain's block for an image in any provider's form; None if providers would refuse it."""
    url = _url(block)
    in_url = _DATA_URL.match(url) if url else None
    if url and not in_url:
        is_url = re.fullmatch(r"https?://[^\s]+", url) is not None and is_sendable(url)
        return {"type": "image", "url": url} if takes_urls and is_url else None
    data = in_url[2] if in_url else _image_data(block)
    kind = media_type(block)
    if not is_base64(data) or len(data) > _MAX_IMAGE_CHARS or kind not in _IMAGE_TYPES:
        return None
    return {"type": "image", "base64": data, "mime_type": kind}


def file_block(block: Mapping[str, Any]) -> dict[str, JSON] | None:
    """LangChain's block for a file whose content is in the block, or is with Gemini; None if it is elsewhere."""
    data, uri, kind = block.get("base64") or block.get("data"), block.get("file_uri"), media_type(block)
    if not re.fullmatch(r"[\w.+-]+/[\w.+-]+", kind, re.ASCII):
        return None
    if kind_of(block) == "media" and isinstance(uri, str) and is_sendable(uri):
        return {"type": "media", "file_uri": uri, "mime_type": kind}
    return {"type": "file", "base64": data, "mime_type": kind} if is_base64(data) else None


def is_base64(data: object) -> TypeGuard[str]:
    try:
        return isinstance(data, str) and len(base64.b64decode(data, validate=True)) > 0
    except (binascii.Error, ValueError):
        return False


def _url(block: Mapping[str, Any]) -> str:
    for holder in (block.get("image_url"), block.get("source"), block):
        found = holder.get("url") if isinstance(holder, Mapping) else holder
        if isinstance(found, str) and found:
            return found
    return ""


def _image_data(block: Mapping[str, Any]) -> object:
    for holder in (block.get("resource"), block.get("source"), block):
        if isinstance(holder, Mapping):
            found = holder.get("blob") or holder.get("data") or holder.get("base64")
            if found:
                return found
    return None
