"""A tool that is not there, or not yet: what the executor may wait for, and what it says in the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from toolrun.errors import CallError, SideEffects, UnavailableError, UnknownToolError
from toolrun.text import close_names, section, show, shown_name


class PendingTools(Protocol):
    """Sources whose tools are not all there yet, such as servers that are still connecting."""

    async def wait_for(self, name: str) -> None:
        """Wait until there is a tool of that name, or none can be expected any more."""

    def missing(self) -> str:
        """Which sources are not there, for a model."""

    def unavailable(self, name: str) -> str:
        """Why the tool of that name cannot be had, if its source is known; otherwise empty."""

    def names(self) -> list[str]:
        """The names under which tools may still come, for suggestions."""

    def changed_definitions(self) -> list[str]:
        """Which tools are not the ones that were agreed to, for `health`."""


def unknown_tool(name: str, known: Iterable[str], pending: PendingTools | None) -> CallError:
    """Why there is no tool of that name, with names that may have been meant."""
    if type(name) is not str:
        return UnknownToolError(f"Tool {show(name)} not found", detail="The name of a tool must be a string.")
    reason = pending.unavailable(name) if pending is not None else ""
    if reason:
        return UnavailableError(
            f"Tool '{shown_name(name)}' is not available: {reason}", side_effects=SideEffects.NOT_STARTED
        )
    names = [*known, *(pending.names() if pending is not None else ())]
    ending = f".{name}"  # `slow` of `photos.slow`
    close = [it for it in names if it.endswith(ending)] or close_names(name, names)
    every = f"Known tools: {', '.join(names[:50])}" if names else "There are no tools."
    hint = f"Did you mean {' or '.join(close)}?" if close else every
    missing = pending.missing() if pending is not None else ""
    return UnknownToolError(f"Tool '{shown_name(name)}' not found", detail=f"{hint}\n{missing}" if missing else hint)


def lacking_secret(tool: str, secret: str, reason: str) -> UnavailableError:
    """The tool must not start without what it was granted."""
    grant = f"remove '{secret}' from the secrets of {section('tool', tool)}"
    return UnavailableError(
        f"Tool '{tool}' needs the secret '{secret}', which is not set: {reason}",
        side_effects=SideEffects.NOT_STARTED,
        detail=f"Set it as [secrets] in toolrun.toml says, or {grant}.",
    )
