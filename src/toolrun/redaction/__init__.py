"""Takes secrets out of what is shown: by the name of a key at any depth, and by the value of every known secret.

A value is recognised in each of the forms of `secret_form.py`. That is all: a tool that is bent on giving a secret away
can write it backwards.

Also neutralises terminal escapes: what a tool returns must not move the cursor of whoever reads the log. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from toolrun.text import visible

if TYPE_CHECKING:
    from toolrun.redaction.secret_form import SecretForm

HIDDEN: Final = "***"
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SENSITIVE: Final = frozenset({"password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials"})
_SENSITIVE_LAST: Final = frozenset(
    {"token", "auth", "authorization", "apikey", "cookie", "cookies", "jwt", "pin", "pwd", "bearer"}
)
_KEY_KINDS: Final = frozenset({"api", "access", "private", "secret", "signing", "encryption", "ssh"})
_MEMBER: Final = re.compile(r"""("([^"\\]{1,100})"\s*:\s*)("(?:[^"\\]|\\.)*"?|[^\s"{\[,}\]]+)""", re.DOTALL)
"""A name and its value in JSON text, which need not be whole."""
_HINTS: Final = ("pass", "secret", "credential", "token", "auth", "key", "cookie", "jwt", "pin", "pwd", "bearer")
"""One of these is in every sensitive name, whatever its case."""
_COLON: Final = re.compile(r"\s*:")
_MAX_DEPTH: Final = 32


class Redactor:
    """Knows the values that must not be shown."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(secrets)
        self._forms: tuple[SecretForm, ...] = ()
        if self._secrets:
            from toolrun.redaction.secret_form import forms_of  # with what encodes, which most programs do not need

            self._forms = tuple({form: None for it in sorted(self._secrets) for form in forms_of(it)})
        self._needles = tuple({form.needle: None for form in self._forms})
        self.has_values = bool(self._forms)
        """Whether it knows any value: as true as the redactor itself, without a call."""

    def __bool__(self) -> bool:
        """Whether it knows any value."""
        return bool(self._forms)

    def with_arguments(self, arguments: object) -> Redactor:
        """One that also knows what was passed under a sensitive name: a message may quote it."""
        found = frozenset(_sensitive_values(arguments, 0))
        return Redactor(self._secrets | found) if found else self

    def has_secret(self, text: str) -> bool:
        """Whether the text may show a known value."""
        for needle in self._needles:  # noqa: SIM110  a generator would take as long as all the tests
            if needle in text:
                return True
        return False

    def may_hide(self, text: str) -> bool:
        """Whether `value` or `hide` could change anything in this JSON text. Much cheaper than they are."""
        if self._needles and self.has_secret(text):
            return True
        lowered = text.lower()
        for hint in _HINTS:
            if hint in lowered:
                return _has_sensitive_name(text)
        return False

    def text(self, text: str) -> str:
        """One line, without secrets and without control characters."""
        return visible(self.hide(text))

    def value(self, value: object, depth: int = 0) -> object:
        """A JSON value with the values of sensitive keys and all known secrets hidden."""
        if depth > _MAX_DEPTH:
            return "…"
        if isinstance(value, Mapping):
            return {
                self.hide(str(key)): HIDDEN if is_sensitive(str(key)) and item else self.value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value]
        return self.hide(value) if isinstance(value, str) else value

    def hide(self, text: str) -> str:
        """The text without secrets, those of JSON text in it included."""
        if self._forms:
            text = self.hide_values(text)
        return _MEMBER.sub(_hidden_member, text) if '"' in text else text

    def hide_values(self, text: str) -> str:
        """The text without the values of known secrets, and otherwise as it is."""
        if not self._forms or not (found := [form for form in self._forms if form.needle in text]):
            return text
        kept, end = [], 0
        for start, stop in sorted(span for form in found for span in form.spans(text)):
            if start >= end:
                kept += [text[end:start], HIDDEN]
            end = max(end, stop)
        return "".join([*kept, text[end:]])

    def hide_cut(self, text: str) -> str:
        """The same for a text that may have been cut in the middle of a secret: also without what is left of that."""
        text = self.hide_values(text)
        start = max((form.cut_start(text) for form in self._forms), default=0)
        text = HIDDEN + text[start:] if start else text
        end = min((form.cut_end(text) for form in self._forms), default=len(text))
        return text[:end] + HIDDEN if end < len(text) else text


def is_sensitive(key: str) -> bool:
    """Whether a key names a secret: `apiKey`, `X-Auth-Token`, `db_password`, but not `max_tokens` or `author`."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words:
        return False
    if _SENSITIVE.intersection(words) or words[-1] in _SENSITIVE_LAST:
        return True
    return words[-1] in ("key", "keys") and len(words) > 1 and words[-2] in _KEY_KINDS


def _has_sensitive_name(text: str) -> bool:
    """Whether a name in JSON text, also in one that is quoted in it, may be sensitive."""
    parts = text.split('"')
    for before, name, after in zip(["", *parts], parts, parts[1:], strict=False):
        # Behind an escaped quote stands the rest of a name, or a quoted one.
        if _COLON.match(after) and (before.endswith("\\") or is_sensitive(name)):
            return True
    return False


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
    return f'{match[1]}"{HIDDEN}"' if is_sensitive(match[2]) else match[0]
