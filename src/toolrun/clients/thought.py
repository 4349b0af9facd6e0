"""What a model thought before it answered, where its template leaves that in the text. Pure."""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(
    r"(?<!`)(?:"
    r"<(?P<xml>/?)(?:[\w.-]{1,20}:)?(?:think|thinking|thought|reasoning)\b[^<>]{0,100}>"  # also <seed:think>
    r"|◁(?P<kimi>/?)think▷"
    r"|\[(?P<mistral>/?)THINK\]"
    r"|<\|(?:begin|start|(?P<of_thought>end))_of_(?:thought|thinking)\|>"
    r"|<\|(?:start|(?P<cohere>end))_thinking\|>"
    r")(?!`)",
    re.IGNORECASE,
)
_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(\w*)[^<]{0,200}(?:<\|constrain\|>[^<]{0,50})?<\|message\|>")
"""Of gpt-oss: what follows is a thought, unless the channel is `final`."""
_CONTROL: Final = re.compile(r"<\|start\|>\s*assistant|<\|(?:start|end|return|call|channel|message)\|>")
_BARE_CHANNELS: Final = re.compile(r"\s*(?:assistant)?analysis.*?assistantfinal", re.DOTALL)
"""The same, where the server has dropped the control tokens."""


def without_thoughts(text: str) -> str:
    """The text without what the model thought. A template may swallow the first tag, a limit the last."""
    text = _without_channels(text)
    said: list[str] = []
    depth = position = 0
    for tag in _TAG.finditer(text):
        if depth == 0:
            said.append(text[position : tag.start()])
        if not any(tag.groups()):
            depth += 1
        elif depth:
            depth -= 1
        else:  # an end without a beginning: everything up to here was a thought
            said.clear()
        position = tag.end()
    return "\n".join(said if depth else [*said, text[position:]])


def _without_channels(text: str) -> str:
    if "<|channel|>" not in text:
        bare = _BARE_CHANNELS.match(text)
        return text[bare.end() :] if bare else text
    first, *parts = _CHANNEL.split(text)
    final = [part for channel, part in zip(parts[::2], parts[1::2], strict=True) if channel == "final"]
    return "\n".join(_CONTROL.sub("", part) for part in (first, *final))
