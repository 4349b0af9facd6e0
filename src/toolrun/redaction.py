"""Takes secrets out of what is shown: by the name of a key at any depth, and by the value of every known secret.

Also neutralises terminal escapes: what a tool returns must not move the cursor of whoever reads the log. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from toolrun.text import visible

_HIDDEN: Final = "***"
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SENSITIVE: Final = frozenset({"password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials"})
_SENSITIVE_LAST: Final = frozenset(
    {"token", "auth", "authorization", "apikey", "cookie", "cookies", "jwt", "pin", "pwd", "bearer"}
)
_KEY_KINDS: Final = frozenset({"api", "access", "private", "secret", "signing", "encryption", "ssh"})
_MEMBER: Final = re.compile(r"""("([^"\\]{1,100})"\s*:\s*)("(?:[^"\\]|\\.)*"?|[^\s"{\[,}\]]+)""", re.DOTALL)
"""A name and its value in JSON text, which need not be whole."""
_MIN_SECRET: Final = 4
_MAX_DEPTH: Final = 32


class Redactor:
    """Knows the values that must not be shown."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(value for value in secrets if len(value) >= _MIN_SECRET)
        """Very short ones would hide everything."""
        # Longest first, so that a secret that begins with another is hidden whole. In a lookahead, which takes up no
        # text, so that secrets that overlap are both found. A message may quote a secret as JSON.
        quoted = {json.dumps(value, ensure_ascii=False)[1:-1] for value in self._secrets}
        values = sorted(self._secrets | quoted, key=len, reverse=True)
        self._values = re.compile(f"(?=({'|'.join(map(re.escape, values))}))") if values else None

    def with_arguments(self, arguments: object) -> Redactor:
        """One that also knows what was passed under a sensitive name: a message may quote it."""
        found = frozenset(_sensitive_values(arguments, 0))
        return Redactor(self._secrets | found) if found else self

    def text(self, text: str) -> str:
        """One line, without secrets and without control characters."""
        return visible(self.hide(text))

    def value(self, value: object, depth: int = 0) -> object:
        """A JSON value with the values of sensitive keys and all known secrets hidden."""
        if depth > _MAX_DEPTH:
            return "…"
        if isinstance(value, Mapping):
            return {
                self.hide(str(key)): _HIDDEN if is_sensitive(str(key)) and item else self.value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value]
        return self.hide(value) if isinstance(value, str) else value

    def hide(self, text: str) -> str:
        """The text without secrets, those of JSON text in it included."""
        if self._values is not None:
            kept, end = [], 0
            for match in self._values.finditer(text):
                if match.start() >= end:
                    kept += [text[end : match.start()], _HIDDEN]
                end = max(end, match.end(1))
            text = "".join([*kept, text[end:]])
        return _MEMBER.sub(_hidden_member, text) if '"' in text else text


def is_sensitive(key: str) -> bool:
    """Whether a key names a secret: `apiKey`, `X-Auth-Token`, `db_password`, but not `max_tokens` or `author`."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words:
        return False
    if _SENSITIVE.intersection(words) or words[-1] in _SENSITIVE_LAST:
        return True
    return words[-1] in ("key", "keys") and len(words) > 1 and words[-2] in _KEY_KINDS


def _sensitive_values(value: object, depth: int, hidden: bool = False) -> Iterator[str]:
    """What stands under a sensitive name, as text."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _sensitive_values(item, depth + 1, hidden or is_sensitive(str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _sensitive_values(item, depth + 1, hidden)
    elif hidden and isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value)


def _hidden_member(match: re.Match[str]) -> str:
    return f'{match[1]}"{_HIDDEN}"' if is_sensitive(match[2]) else match[0]
