"""The loggers of this package. What they log cannot be forged or coloured by the text of a model, a tool or a server.

A record is one line of printable characters, whatever its parts hold: names of tools and arguments, exceptions, lines
of a server's stderr. Programs have their own handlers and formatters, so the text is clean in the record itself. A
filter does that, on each logger: a filter on the common parent would not see the records of its children. A traceback
stands below the line, indented, so that none of its lines can be taken for a record.

Secrets are hidden in every record for as long as somebody in this process holds them (`hold_secrets`): loggers belong
to the process, and a line of a worker may show what another tool was granted.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final
from weakref import ref

from toolrun.redaction import Redactor
from toolrun.text import logged, one_line

_INDENT: Final = "\n    "
_MAX: Final = 20_000
"""Characters of one part of a line."""


_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({})))
"""What every record has."""
_held: Final[list[ref[Redactor]]] = []
"""Those that know the secrets which this process holds."""


def hold_secrets(secrets: Iterable[str]) -> Redactor | None:
    """What hides these secrets. No logger shows them as long as it is there. None if there are none to hide."""
    redactor = Redactor(secrets)
    if not redactor:
        return None
    _held.append(ref(redactor, _held.remove))
    return redactor


class Indented(str):
    """Lines below a log line, each printable and indented."""

    __slots__ = ()

    def __new__(cls, text: str) -> Indented:
        lines = _without_secrets(text).split("\n") if text else []
        return super().__new__(cls, "".join(_INDENT + one_line(line) for line in lines))


def get_logger(name: str) -> logging.Logger:
    """The logger of that name; the same each time. Its children are such loggers, too."""
    logger = logging.getLogger(name)
    logger.addFilter(_CLEAN)  # at most once
    if "getChild" not in vars(logger):  # not by a class of our own: the program may have chosen one for all loggers
        logger.getChild = partial(_child, name)  # type: ignore[method-assign]  # as said above
    return logger


def _child(name: str, suffix: str) -> logging.Logger:
    return get_logger(f"{name}.{suffix}")


class _Clean(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if _held:
            _hide_extra(record)
        record.name = one_line(record.name)  # of a child, which a tool may call as it likes
        record.msg = clean(record.msg)
        if record.args:
            if isinstance(record.args, Mapping):
                record.args = {key: clean(value) for key, value in record.args.items()}
            else:
                record.args = tuple(map(clean, record.args))
        if record.exc_info and record.exc_info[1] is not None:
            # Formatters use this text instead of making their own.
            text = format_exception(record.exc_info[1])
            record.exc_text = Indented(text).removeprefix("\n")
            if _without_secrets(text) != text:  # some formatters do make their own
                record.exc_info = None
        if record.stack_info:
            record.stack_info = Indented(record.stack_info).removeprefix("\n")
        return True


_CLEAN: Final = _Clean()


def _without_secrets(text: str) -> str:
    """Whoever wrote the text may have cut it in the middle of a secret."""
    for reference in tuple(_held):
        redactor = reference()
        if redactor is not None:
            text = redactor.hide_cut(text)
    return text


def _hide_extra(record: logging.LogRecord) -> None:
    """What was logged beside the line, for formatters that write JSON."""
    for name in record.__dict__.keys() - _ATTRIBUTES:
        value = record.__dict__[name]
        for reference in tuple(_held):
            redactor = reference()
            if redactor is not None and isinstance(value, str | dict | list | tuple):
                value = redactor.hide_cut(value) if isinstance(value, str) else redactor.value(value)
        record.__dict__[name] = value


def clean(value: object) -> object:
    """Numbers as they are, for %d; anything else as a text."""
    if type(value) in (int, float, bool, Indented):
        return value
    try:
        text = value if isinstance(value, str) else str(value)
    except BaseException:  # noqa: BLE001  the __str__ of a foreign object
        return f"<{type(value).__name__}>"
    if _held:
        text = _without_secrets(text)
    return logged(text, _MAX)


def format_exception(error: BaseException) -> str:
    """The traceback of an exception, even if the exception cannot be shown."""
    try:
        return "".join(traceback.format_exception(error)).rstrip()
    except BaseException:  # noqa: BLE001  its own __str__ or __repr__
        return f"{type(error).__name__} (its text cannot be shown)"
