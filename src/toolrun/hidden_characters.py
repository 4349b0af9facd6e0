"""Characters that people do not see and models read: shown to people, removed for models. Pure.

A description may hold a second text for the model alone: in the tag characters of Unicode, which mirror ASCII, in a row
of zero-width characters or variation selectors, behind an escape sequence that makes a terminal skip it, or in an order
that only bidirectional controls bring about. What is hidden depends on its neighbours in three cases, because writing
needs it there:

    U+200D                 between two emoji, which it joins
    U+200C, U+200D         between two letters of a script that joins or breaks them, such as Persian or Hindi
    U+FE00 to U+FE0F       one of them behind a visible character, which it varies

Newlines and tabs are not hidden, nor is a carriage return before a newline.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_JOINED_SCRIPTS: Final = (
    "\u0600-\u061b\u061d-\u06ff\u0700-\u074f\u0750-\u077f\u07c0-\u07ff\u0840-\u085f\u0860-\u08ff"  # Arabic to Mandaic
    "\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1900-\u194f\u1a20-\u1aaf\u1b00-\u1bff"  # India to Bali
    "\u1800-\u180a\u1810-\u18af\ua840-\ua87f\ua8e0-\ua8ff\ua980-\ua9df\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00010a5f\U00011000-\U000116ff"
)
_EMOJI: Final = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_ALWAYS: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Soft hyphen, zero-width, bidirectional controls, line separators, fillers, annotations, tags, selectors 17 to 256."""
_CONTROLS: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_ESCAPE_SEQUENCE: Final = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, movements
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS and the like: a text
    r"|\x1b[ -/]*[0-~]"
)
_HIDDEN_CHARACTER: Final = (
    f"[{_ALWAYS}{_CONTROLS}]"
    r"|\r(?!\n)"
    rf"|\u200c(?!(?<=[{_JOINED_SCRIPTS}]\u200c)[{_JOINED_SCRIPTS}])"
    rf"|\u200d(?!(?<=[{_JOINED_SCRIPTS}]\u200d)[{_JOINED_SCRIPTS}]|(?<=[{_EMOJI}\ufe0f]\u200d)[{_EMOJI}])"
    rf"|(?:(?<=[\s{_ALWAYS}{_CONTROLS}\u200c\u200d\ufe00-\ufe0f])|(?<![\s\S]))[\ufe00-\ufe0f]"
)
_MAYBE: Final = re.compile(rf"[{_ALWAYS}{_CONTROLS}\r\u200c\u200d\ufe00-\ufe0f]")
"""Whether a text is worth a closer look."""
_HIDDEN: Final = re.compile(_HIDDEN_CHARACTER)
_REMOVED: Final = re.compile(f"{_ESCAPE_SEQUENCE}|{_HIDDEN_CHARACTER}")


def has_hidden(text: str) -> bool:
    """Whether the text has characters that people would not see."""
    return _MAYBE.search(text) is not None and _HIDDEN.search(text) is not None


def without_hidden(text: str) -> str:
    """The text for a model. Escape sequences are removed whole; line separators become newlines."""
    if _MAYBE.search(text) is None:
        return text
    before = ""
    while before != text:  # what was apart may form something hidden, such as two selectors in a row
        before, text = text, _REMOVED.sub(lambda found: "\n" if found[0] in "\u2028\u2029" else "", text)
    return text


def reveal(text: str) -> str:
    """The text for people: each hidden character as `<U+200B>`."""
    return replace_hidden(text, lambda character: f"<U+{ord(character):04X}>")


def replace_hidden(text: str, replacement: Callable[[str], str]) -> str:
    """The text with something else in place of each hidden character."""
    if _MAYBE.search(text) is None:
        return text
    return _HIDDEN.sub(lambda found: replacement(found[0]), text)
