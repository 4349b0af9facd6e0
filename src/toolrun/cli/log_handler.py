"""The log of the command line: one handler on stderr, with lines for people or one JSON object per line.

This is the only module that configures `logging`; the others only log.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from functools import partial
from textwrap import dedent
from typing import Final, TextIO

from toolrun.cli.held_output import held_output
from toolrun.cli.output import paint
from toolrun.config.model import LogSettings
from toolrun.logger import Indented, clean, format_exception
from toolrun.text import one_line

_LEVELS: Final = {0: logging.CRITICAL, 1: logging.INFO, 2: logging.DEBUG}
_COLOURS: Final = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}


def set_up_log(config: LogSettings, verbosity: int) -> None:
    """Log to stderr from the configured level, or from a lower one if -v asks for it."""
    configured: int = logging.getLevelNamesMapping()[config.level.upper()]
    level = min(configured, _LEVELS[min(verbosity, 2)])
    handler = StderrHandler()
    handler.setFormatter(JSONFormatter() if config.format == "json" else LineFormatter(level))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.raiseExceptions = False  # no tracebacks for log lines that cannot be written
    if level > logging.INFO:
        # The commands print the outcome of the call themselves.
        logging.getLogger("toolrun.call").setLevel(logging.CRITICAL)


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes records to stderr, later if a question stands there."""

    def emit(self, record: logging.LogRecord) -> None:
        held_output.write(partial(super().emit, record))


class LineFormatter(logging.Formatter):
    """`warning: tools/x.py: cannot be imported`, with the time if much is logged. Tracebacks only at level debug."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def format(self, record: logging.LogRecord) -> str:
        word = paint(record.levelname.lower(), _COLOURS.get(record.levelno, "blue"))
        message = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            is_long = self._level <= logging.DEBUG
            message += f"\n{format_exception(error)}" if is_long else f" ({type(error).__name__}: {clean(error)})"
        message = _with_indented_rest(message)
        if self._level > logging.INFO:
            return f"{word}: {message}"
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        return f"{time} {word} {record.name}: {message}"


def _with_indented_rest(message: str) -> str:
    """Only the first line starts at the margin: no other can be taken for a record, whichever library logs it."""
    first, _, rest = message.partition("\n")
    return one_line(first) + Indented(dedent(rest))


class JSONFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the data of the call if the line is about one."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        call = getattr(record, "call", None)
        if call is not None:
            fields["call"] = call
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        text = json.dumps(fields, ensure_ascii=False, default=str)
        return text if text.isprintable() else _UNPRINTABLE.sub(_escaped, text)


_UNPRINTABLE: Final = re.compile(
    r"[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""What JSON leaves as it is, although it colours, hides or reorders text, or cannot be encoded."""


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


class Collector(logging.Handler):
    """Collects log messages while the tools are loaded, to show them among the checks."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not any(
            hasattr(record, it) for it in ("secret", "server", "journal", "pins", "file")
        ):  # those have their own checks
            self.messages.append(record.getMessage())
