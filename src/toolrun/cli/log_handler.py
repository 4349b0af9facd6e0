"""The log of the command line: one handler on stderr, with lines for people or one JSON object per line.

This is the only module that configures `logging`; the others only log.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

from toolrun.cli.output import paint, terminal_safe
from toolrun.config.model import LogSettings

_LEVELS: Final = {0: logging.CRITICAL, 1: logging.INFO, 2: logging.DEBUG}
_COLOURS: Final = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}


def set_up_log(config: LogSettings, verbosity: int) -> None:
    """Log to stderr from the configured level, or from a lower one if -v asks for it."""
    configured: int = logging.getLevelNamesMapping()[config.level.upper()]
    level = min(configured, _LEVELS[min(verbosity, 2)])
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter() if config.format == "json" else LineFormatter(level))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.raiseExceptions = False  # no tracebacks for log lines that cannot be written
    if level > logging.INFO:
        # The commands print the outcome of the call themselves.
        logging.getLogger("toolrun.call").setLevel(logging.CRITICAL)


class LineFormatter(logging.Formatter):
    """`warning: tools/x.py: cannot be imported`, with the time if much is logged. Tracebacks only at level debug."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def format(self, record: logging.LogRecord) -> str:
        word = paint(record.levelname.lower(), _COLOURS.get(record.levelno, "blue"))
        message = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            if self._level <= logging.DEBUG:
                message += f"\n{self.formatException(record.exc_info)}"
            else:
                message += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        if self._level > logging.INFO:
            return f"{word}: {terminal_safe(message)}"
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        return f"{time} {word} {record.name}: {terminal_safe(message)}"


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
        return json.dumps(fields, ensure_ascii=False, default=str)
