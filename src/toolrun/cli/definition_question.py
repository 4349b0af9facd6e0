"""Asks the person at the terminal about tools that are not the ones that were agreed to: each change once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from toolrun.cli.editing import confirm
from toolrun.cli.output import inform
from toolrun.cli.wrapped_line import wrapped
from toolrun.hidden_characters import reveal

if TYPE_CHECKING:
    from toolrun.trust.pins import DefinitionChange

_STDERR: Final = 2


def can_ask() -> bool:
    """Whether a person reads and answers."""
    return all(it is not None and it.isatty() for it in (sys.stdin, sys.stderr))


class DefinitionQuestions:
    """The questions of one run of the program."""

    def __init__(self) -> None:
        self._asked: set[tuple[str, str, str]] = set()

    def accepted(self, changes: Iterable[DefinitionChange]) -> Iterator[DefinitionChange]:
        """The held changes that the person accepts. Those that were asked about before are passed over."""
        for change in changes:
            key = (change.server, change.tool, change.after.hash)
            if not change.is_held or key in self._asked:
                continue
            self._asked.add(key)
            tool = reveal(change.tool)
            parts = " and ".join(change.parts)
            inform(f"The MCP server '{change.server}' changed its tool '{tool}' ({parts}) since you agreed to it:")
            for line in change.difference.splitlines():
                inform("\n".join(wrapped(line, _STDERR)))
            if confirm(f"Use '{tool}' as it is now?"):
                yield change
            else:
                inform(f"'{tool}' is not used until it is accepted: {change.command}")
