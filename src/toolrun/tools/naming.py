"""The names of tools: of functions, and such as others accept, told apart and always the same. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Final

_DIGITS: Final = 8
"""Of the mark that tells apart names which would otherwise be the same."""


@dataclass(frozen=True, slots=True)
class NameRule:
    """What a name may be."""

    characters: str
    """Those that it may have, as in a character class of a regular expression: `A-Za-z0-9_-`. `_` is among them."""
    longest: int = 64
    starts_with_letter: bool = False
    """Whether the first character has to be a letter or `_`."""

    def accepts(self, name: str) -> bool:
        first = "A-Za-z_" if self.starts_with_letter else self.characters
        return re.fullmatch(f"[{first}][{self.characters}]{{0,{self.longest - 1}}}", name) is not None

    def fit(self, name: str) -> str:
        """The name if it is accepted, otherwise one that looks like it: foreign characters are `_`."""
        if self.accepts(name):
            return name
        plain = re.sub(f"[^{self.characters}]", "_", name) or "_"
        if self.starts_with_letter and not re.match("[A-Za-z_]", plain):
            plain = f"_{plain}"
        return plain if len(plain) <= self.longest else self._marked(plain, name)

    def free(self, wanted: str, taken: Container[str]) -> str:
        """A name like the one that is wanted, accepted and not taken."""
        plain = name = self.fit(wanted)
        count = 0
        while name in taken:
            name, count = self._marked(plain, f"{wanted}\0{count}"), count + 1
        return name

    def marked(self, name: str) -> str:
        """A name like this one that is accepted, and that nobody else would think of."""
        return self._marked(self.fit(name), name)

    def _marked(self, plain: str, origin: str) -> str:
        """A name that ends in a mark of what it stands for."""
        mark = hashlib.sha256(origin.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        return f"{plain[: self.longest - _DIGITS - 1]}_{mark}"


def name_of_function(file: str, function: str) -> str:
    """The name of a tool that is a function of a script: the file's, for the function named like it.

    It depends on nothing else in the file, so that a function keeps its name whatever is added or removed beside it.
    `-` in the name of a file is `_` in that of a function.
    """
    return file if function == file.replace("-", "_") else f"{file}.{function}"


def fit_names(names: Iterable[str], rule: NameRule) -> dict[str, str]:
    """For each name one that the rule accepts, no two of them the same; their order makes no difference.

    A name that is accepted stays as it is. `a.b` becomes `a_b`, and `a_b_` with eight digits more if that is taken.
    """
    given = list(names)
    fitted = {name: name for name in given if rule.accepts(name)}
    taken = set(fitted)
    for name in sorted(set(given) - taken):
        fitted[name] = rule.free(name, taken)
        taken.add(fitted[name])
    return {name: fitted[name] for name in given}
