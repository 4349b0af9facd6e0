"""The loggers of this package. What they log cannot be forged or coloured by the text of a model, a tool or a server.

A record is one line of printable characters, whatever its parts hold: names of tools and arguments, exceptions, lines
of a server's stderr. Programs have their own handlers and formatters, so the text is clean in the record itself. A
filter does that, on each logger: a filter on the common parent would not see the records of its children. A traceback
stands below the line, indented, so that none of its lines can be taken for a record.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Final

from toolrun.text import one_line

_INDENT: Final = "\n    "
_MAX: Final = 20_000
"""Characters of one part of a line."""


class Indented(str):
    """Lines below a log line, each printable and indented."""

    __slots__ = ()

    def __new__(cls, text: str) -> Indented:
        lines = text.split("\n") if text else []
        return super().__new__(cls, "".join(_INDENT + one_line(line) for line in lines))


def get_logger(name: str) -> logging.Logger:
    """The logger of that name; the same each time."""
    logger = logging.getLogger(name)
    logger.addFilter(_CLEAN)  # at most once
    return logger


class _Clean(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = clean(record.msg)
        if isinstance(record.args, Mapping):
            record.args = {key: clean(value) for key, value in record.args.items()}
        elif record.args:
            record.args = tuple(map(clean, record.args))
        if record.exc_info and record.exc_info[1] is not None:
            # Formatters use this text instead of making their own.
            record.exc_text = Indented(format_exception(record.exc_info[1])).removeprefix("\n")
        if record.stack_info:
            record.stack_info = Indented(record.stack_info).removeprefix("\n")
        return True


_CLEAN: Final = _Clean()


def clean(value: object) -> object:
    """Numbers as they are, for %d; anything else as a text."""
    if type(value) in (int, float, bool, Indented):
        return value
    try:
        text = value if isinstance(value, str) else str(value)
    except BaseException:  # noqa: BLE001  the __str__ of a foreign object
        return f"<{type(value).__name__}>"
    if len(text) > _MAX:
        return f"{one_line(text[:_MAX])}… ({len(text):,} characters)"
    return one_line(text)


def format_exception(error: BaseException) -> str:
    """The traceback of an exception, even if the exception cannot be shown."""
    try:
        return "".join(traceback.format_exception(error)).rstrip()
    except BaseException:  # noqa: BLE001  its own __str__ or __repr__
        return f"{type(error).__name__} (its text cannot be shown)"
