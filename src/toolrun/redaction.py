"""Takes secrets out of what is shown: by the name of a key at any depth, and by the value of every known secret.

Also neutralises terminal escapes: what a tool returns must not move the cursor of whoever reads the log. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_HIDDEN: Final = "***"
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SENSITIVE: Final = frozenset({"password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials"})
_SENSITIVE_LAST: Final = frozenset(
    {"token", "auth", "authorization", "apikey", "cookie", "jwt", "pin", "pwd", "bearer"}
)
_KEY_KINDS: Final = frozenset({"api", "access", "private", "secret", "signing", "encryption", "ssh"})
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_MIN_SECRET: Final = 4
_MAX_DEPTH: Final = 32


class Redactor:
    """Knows the values that must not be shown."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Longest first, so that a secret that contains another is hidden whole. Very short ones would hide everything.
        values = sorted({value for value in secrets if len(value) >= _MIN_SECRET}, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, values))) if values else None

    def text(self, text: str) -> str:
        """One line, without secrets and without control characters."""
        if self._values is not None:
            text = self._values.sub(_HIDDEN, text)
        return _CONTROL.sub(_escaped, text).replace("\n", "\\n")

    def value(self, value: object, depth: int = 0) -> object:
        """A JSON value with the values of sensitive keys and all known secrets hidden."""
        if depth > _MAX_DEPTH:
            return "…"
        if isinstance(value, Mapping):
            return {
                self._text(str(key)): _HIDDEN if is_sensitive(str(key)) and item else self.value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        return text if self._values is None else self._values.sub(_HIDDEN, text)


def is_sensitive(key: str) -> bool:
    """Whether a key names a secret: `apiKey`, `X-Auth-Token`, `db_password`, but not `max_tokens` or `author`."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words:
        return False
    if _SENSITIVE.intersection(words) or words[-1] in _SENSITIVE_LAST:
        return True
    return words[-1] in ("key", "keys") and len(words) > 1 and words[-2] in _KEY_KINDS


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
