"""What leaves the program does not show the project's secrets: results, failures and progress.

The program that makes a call gets the tool's data as they are, in `result.result`: it may have asked for a signed URL.
A model, a client, an envelope gets `result.shown` and the other fields, where secrets are hidden. What is large is
looked through in a thread (`finalise`), everything else here, when the answer is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import islice
from typing import Any, Final

from toolrun.redaction import HIDDEN, Redactor
from toolrun.result import RedactedResult, ToolResult, dumps_rendered, is_small
from toolrun.tools.context import OnProgress, Progress

_PIECE: Final = 1000
"""Members of a large value that are looked at together, if they are small."""


def redact(result: ToolResult, redactor: Redactor) -> ToolResult:
    """The answer with its secrets hidden in all that is not for the program alone."""
    if result.error is not None:
        result.error = redactor.hide_cut(result.error)
        result.detail = redactor.hide_cut(result.detail)
    if result.edited is not None:
        result.edited = hide_secrets(result.edited, redactor)
    if result.executed is not None:
        result.executed = hide_secrets(result.executed, redactor)
    if result.rendered is not None:
        return result  # it comes from a thread, which has looked at everything
    if result.content:
        result.content = tuple(hide_secrets(list(result.content), redactor))
    if result.meta is not None:
        result.meta = hide_secrets(result.meta, redactor)
    shown = hide_secrets(result.result, redactor)
    return result if shown is result.result else with_shown(result, shown)


def with_shown(result: ToolResult, shown: Any) -> RedactedResult:
    given = {field.name: getattr(result, field.name) for field in fields(ToolResult)}
    redacted = RedactedResult(**given)
    redacted.shown = shown
    return redacted


def hide_progress(on_progress: OnProgress, redactor: Redactor) -> OnProgress:
    def tell(progress: Progress) -> None:
        on_progress(Progress(progress.progress, progress.total, redactor.hide_values(progress.message)))

    return tell


def hide_secrets(value: Any, redactor: Redactor) -> Any:
    """JSON data of any size without the values of known secrets; the same object if there is none in it."""
    try:
        return _without(value, redactor)
    except (RecursionError, ValueError):  # nested as deeply as Python can read it; an integer of over 4300 digits
        return HIDDEN


def _without(value: Any, redactor: Redactor) -> Any:
    kind = type(value)
    if kind is str:
        return redactor.hide_values(value)
    if kind is int or kind is float:
        return HIDDEN if redactor.has_secret(str(value)) else value
    if kind is dict or kind is list:
        pieces = [_without_piece(it, redactor) for it in _pieces(value.items() if kind is dict else value)]
        return kind(it for _, piece in pieces for it in piece) if any(is_new for is_new, _ in pieces) else value
    return value


def _pieces(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while piece := list(islice(rest, _PIECE)):
        yield piece


def _without_piece(piece: list[Any], redactor: Redactor) -> tuple[bool, list[Any]]:
    """Items of a list, or names with their values; and whether one is new. Mostly one look at their text suffices."""
    if is_small(piece) and not redactor.has_secret(dumps_rendered(piece).decode()):
        return False, piece
    shown = [_without_member(it, redactor) if type(it) is tuple else _without(it, redactor) for it in piece]
    return any(new is not old for new, old in zip(shown, piece, strict=True)), shown


def _without_member(member: tuple[Any, Any], redactor: Redactor) -> tuple[Any, Any]:
    name, value = redactor.hide_values(member[0]), _without(member[1], redactor)
    return member if name is member[0] and value is member[1] else (name, value)
