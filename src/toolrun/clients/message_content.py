"""The content of messages, block by block, in the form that the provider of a request accepts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from toolrun.clients.sendable import image_block, is_image, media_type, sendable_json, sendable_text
from toolrun.result import render

if TYPE_CHECKING:
    from toolrun.clients.provider import Provider
    from toolrun.clients.wording import Wording

Content: TypeAlias = str | list[str | dict[Any, Any]]
"""The content of a message, as LangChain declares it."""
M = TypeVar("M", bound=BaseMessage)

_UNSENT: Final = frozenset({"tool_calls", "function_call", "audio"})
"""What packages put into `additional_kwargs` and would send again, unchecked."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Who is shown the content, and the words for what they cannot be shown."""

    provider: Provider
    wording: Wording


def cleaned_text(content: Content) -> str:
    """The text in a content."""
    if isinstance(content, str):
        return sendable_text(content)
    texts = [block if isinstance(block, str) else block.get("text") for block in content]
    return sendable_text("".join(text for text in texts if isinstance(text, str)))


def cleaned_answer(message: AIMessage) -> AIMessage:
    """An answer of the model without blank texts, and without anything that is not JSON."""
    content: Content
    if isinstance(message.content, str):
        content = "" if message.content.isspace() else sendable_text(message.content)
    else:
        content = [_sendable_block(block) for block in message.content if not _is_blank(block)]
    more = {key: value for key, value in message.additional_kwargs.items() if key not in _UNSENT}
    more = cast(dict[str, Any], sendable_json(more))
    return _updated(message, content=content, additional_kwargs=more, name=_sendable_name(message.name))


def cleaned_words(message: BaseMessage, shown: Shown) -> BaseMessage:
    """A message of the user or with instructions. Its content is empty if it says nothing."""
    if isinstance(message.content, str):
        content: Content = "" if message.content.isspace() else sendable_text(message.content)
    else:
        content = [_shown_block(block, shown) for block in message.content if not _is_blank(block)]
    return _updated(message, content=content, name=_sendable_name(message.name))


def _sendable_name(name: str | None) -> str | None:
    """The name of who speaks, which OpenAI gets, too; None if it would refuse it."""
    return name if name and re.fullmatch("[A-Za-z0-9_-]{1,64}", name) else None


def cleaned_result(message: ToolMessage, shown: Shown) -> tuple[ToolMessage, list[dict[str, Any]]]:
    """The result of a call, and the images that must follow in a message of the user."""
    if isinstance(message.content, str):
        return _updated(message, content=_or_nothing(sendable_text(message.content))), []
    blocks = [_result_block(block, shown) for block in message.content if not _is_blank(block)]
    images = [block for block in blocks if block.get("type") == "image"]
    if not images or not shown.provider.shows_images_in_results:
        text = "\n".join(block["text"] for block in blocks if block.get("type") == "text")
        return _updated(message, content=_or_nothing(text)), images
    return _updated(message, content=blocks), []


def _or_nothing(text: str) -> str:
    return text if text.strip() else render(None)


def _is_blank(block: object) -> bool:
    text = block.get("text", "") if isinstance(block, Mapping) and block.get("type") == "text" else block
    return not text or (isinstance(text, str) and not text.strip())


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": sendable_text(text)}


def _sendable_block(block: str | dict[Any, Any]) -> dict[Any, Any]:
    if isinstance(block, str):
        return _text_block(block)
    if block.get("type") == "text" and not isinstance(block["text"], str):
        block = {**block, "text": str(block["text"])}
    return cast(dict[Any, Any], sendable_json(block))


def _shown_block(block: str | dict[Any, Any], shown: Shown) -> dict[Any, Any]:
    """A block of a user: text and images in LangChain's form, others if the provider takes them."""
    if isinstance(block, str):
        return _text_block(block)
    known = shown.provider.content_blocks
    if block.get("type") == "text":
        return {**block, "text": sendable_text(str(block["text"]))}
    if is_image(block):
        return _image(block, shown) or _note(shown.wording.image_not_shown, media_type(block) or "image")
    if known is None or block.get("type") in known:
        return cast(dict[Any, Any], sendable_json(block))
    return _note(shown.wording.content_not_shown, str(block.get("type", "unknown")))


def _result_block(block: str | dict[Any, Any], shown: Shown) -> dict[str, Any]:
    if isinstance(block, str):
        return _text_block(block)
    if is_image(block):
        return _image(block, shown) or _note(shown.wording.image_not_shown, media_type(block) or "image")
    return _text_block(str(block["text"]) if block.get("type") == "text" else render([sendable_json(block)]))


def _image(block: Mapping[str, Any], shown: Shown) -> dict[str, Any] | None:
    found = image_block(block, takes_urls=shown.provider.takes_image_urls)
    return None if found is None else dict(block) if block.items() >= found.items() else dict(found)


def _note(text: str, kind: str) -> dict[str, Any]:
    return {"type": "text", "text": text.format(kind=sendable_text(kind))}


def _updated(message: M, **fields: Any) -> M:
    """The message, copied only if a field differs."""
    changed = {name: value for name, value in fields.items() if getattr(message, name) != value}
    return message.model_copy(update=changed) if changed else message
