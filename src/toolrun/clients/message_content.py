"""The content of messages, block by block, in the form that the provider of a request accepts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from toolrun.clients.sendable import (
    file_block,
    image_block,
    is_base64,
    is_image,
    is_sendable,
    kind_of,
    media_type,
    sendable_json,
    sendable_text,
)
from toolrun.result import render

if TYPE_CHECKING:
    from toolrun.clients.provider import Provider
    from toolrun.clients.wording import Wording

Content: TypeAlias = str | list[str | dict[Any, Any]]
"""The content of a message, as LangChain declares it."""
M = TypeVar("M", bound=BaseMessage)

_UNSENT: Final = frozenset({"tool_calls", "function_call", "audio", "name"})
"""What packages put into `additional_kwargs` and would send again, unchecked."""


@dataclass(frozen=True, slots=True)
class Audience:
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
        content = [_sendable_block(block) for block in message.content if not _is_blank(block) and _is_kept(block)]
    more = {key: value for key, value in message.additional_kwargs.items() if key not in _UNSENT}
    more = cast(dict[str, Any], sendable_json(more))
    return _updated(message, content=content, additional_kwargs=more, name=_sendable_name(message.name))


def cleaned_words(message: BaseMessage, shown: Audience) -> BaseMessage:
    """A message of the user or with instructions. Its content is empty if it says nothing."""
    if isinstance(message.content, str):
        content: Content = "" if message.content.isspace() else sendable_text(message.content)
    else:
        is_text_only = isinstance(message, SystemMessage)
        content = [_shown_block(block, shown, is_text_only) for block in message.content if not _is_blank(block)]
    # Packages send some of what others put into `additional_kwargs`: a name, a role.
    return _updated(message, content=content, name=_sendable_name(message.name), additional_kwargs={})


def _sendable_name(name: str | None) -> str | None:
    """The name of who speaks, which OpenAI gets, too; None if it would refuse it."""
    return name if name and re.fullmatch("[A-Za-z0-9_-]{1,64}", name) else None


def cleaned_result(message: ToolMessage, shown: Audience) -> tuple[ToolMessage, list[dict[str, Any]]]:
    """The result of a call, and the images that must follow in a message of the user."""
    message = _updated(message, name=_sendable_name(message.name), additional_kwargs={})
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


def _is_kept(block: object) -> bool:
    """Whether an answer may keep a block. Thoughts are refused without the signature that their provider gave them."""
    if isinstance(block, str):
        return True
    return kind_of(block) != "" and (kind_of(block) != "thinking" or bool(cast(Any, block).get("signature")))


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": sendable_text(text)}


def _sendable_block(block: str | dict[Any, Any]) -> dict[Any, Any]:
    if isinstance(block, str):
        return _text_block(block)
    return _as_text(block) if kind_of(block) == "text" else cast(dict[Any, Any], sendable_json(block))


def _as_text(block: dict[Any, Any]) -> dict[Any, Any]:
    """A block of text, without what stands beside the text if that cannot be sent as it is."""
    text = block["text"]
    return dict(block) if isinstance(text, str) and is_sendable(block) else _text_block(str(text))


def _shown_block(block: str | dict[Any, Any], shown: Audience, is_text_only: bool) -> dict[Any, Any]:
    """A block of a user: text and images in LangChain's form, others if the provider takes them.

    `is_text_only`: instructions, which are text for every provider.
    """
    if isinstance(block, str):
        return _text_block(block)
    kind = kind_of(block)
    if kind == "text":
        return _as_text(block) if _signature(block) is None else _text_block(str(block.get("text")))
    if is_image(block):
        image = None if is_text_only else _image(block, shown)
        return image or _note(shown.wording.image_not_shown, media_type(block) or "image")
    taken = None if is_text_only or not kind else _taken(kind, block, shown.provider)
    return taken or _note(shown.wording.content_not_shown, kind or "unknown")


def _taken(kind: str, block: Mapping[Any, Any], provider: Provider) -> dict[Any, Any] | None:
    """The block as the package of a provider takes it from users; None if it takes no such block."""
    if kind == "file" and "file" in block:  # OpenAI's own form of it
        is_taken = provider.origin == "openai"
    elif kind == "document" and not isinstance(block.get("source"), Mapping):
        is_taken = False
    else:
        is_taken = provider.content_blocks is None or kind in provider.content_blocks
    if not is_taken or ("base64" in block and not is_base64(block["base64"])):
        return None
    return cast(dict[Any, Any], sendable_json(block)) if provider.takes_urls else file_block(block)


def _result_block(block: str | dict[Any, Any], shown: Audience) -> dict[str, Any]:
    if isinstance(block, str):
        return _text_block(block)
    if is_image(block):
        return _image(block, shown) or _note(shown.wording.image_not_shown, media_type(block) or "image")
    return _text_block(str(block["text"]) if block.get("type") == "text" else render([sendable_json(block)]))


def _image(block: Mapping[str, Any], shown: Audience) -> dict[str, Any] | None:
    found = image_block(block, takes_urls=shown.provider.takes_urls)
    is_same = found is not None and block.items() >= found.items() and is_sendable(block) and not _signature(block)
    return None if found is None else dict(block) if is_same else dict(found)


def _signature(block: Mapping[str, Any]) -> object:
    """The signature that Gemini gives its answers. In any other message it is none, and may be unreadable."""
    extras = block.get("extras")
    return extras.get("signature") if isinstance(extras, Mapping) else None


def _note(text: str, kind: str) -> dict[str, Any]:
    return {"type": "text", "text": text.format(kind=sendable_text(kind))}


def _updated(message: M, **fields: Any) -> M:
    """The message, copied only if a field differs."""
    changed = {name: value for name, value in fields.items() if getattr(message, name) != value}
    return message.model_copy(update=changed) if changed else message
