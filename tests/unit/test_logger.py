"""The text of a record, whatever a model, a tool or a server puts into it."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolrun
from toolrun.cli.log_handler import JSONFormatter, LineFormatter
from toolrun.cli.output import complain
from toolrun.logger import Indented, get_logger

FORGED = "12:00:00.000 error toolrun.call: pay ok 1 ms"
HOSTILE = f"x\r\n{FORGED}\n\x1b[31mred\x9b2J\x07\t\u202e\u2066\u200b\u2028\ufeff\ud800\x00"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger("toolrun.test")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)


def is_safe(text: str) -> bool:
    first, *rest = text.split("\n")
    return first.isprintable() and all(line.startswith("    ") and line.isprintable() for line in rest)


@pytest.mark.parametrize(
    "value", [HOSTILE, Exception(HOSTILE), Path(HOSTILE.replace("\0", "")), [HOSTILE], Unspeakable()]
)
def test_a_message_is_one_printable_line_whatever_its_parts_are(kept: Kept, value: object) -> None:
    logger = get_logger("toolrun.test")
    logger.info("%s: %s, %d of %.1f", "name", value, 3, 4.0)
    logger.info("%(value)s", {"value": value})
    logger.info(value)
    for record in kept.records:
        assert record.getMessage().isprintable()
    assert kept.records[0].getMessage().endswith("3 of 4.0")


def test_the_children_of_a_logger_clean_as_well(kept: Kept) -> None:
    logger = get_logger("toolrun.test")
    for child in (logger.getChild("sub"), logger.getChild("a.b"), logger.getChild("sub").getChild("below")):
        child.info("say %s", HOSTILE)
    assert [record.name for record in kept.records] == [
        "toolrun.test.sub",
        "toolrun.test.a.b",
        "toolrun.test.sub.below",
    ]
    assert all(record.getMessage().isprintable() for record in kept.records)
    assert logger.getChild("sub") is logging.getLogger("toolrun.test.sub")
    logger.getChild(HOSTILE).info("said")
    assert kept.records[-1].name.isprintable()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_complaint_of_the_command_line_is_printable_and_none_of_its_further_lines_looks_like_ours(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setenv("NO_COLOR", "1")
    complain(f"one\n{HOSTILE}\ntoolrun: forged\nwarning: forged\nlast")
    first, *rest = written.getvalue().removesuffix("\n").split("\n")
    assert (first, rest[-1]) == ("toolrun: one", "last")
    assert rest[-3:-1] == ["  toolrun: forged", "  warning: forged"]
    assert f"  {FORGED}" in rest
    assert all(line.isprintable() for line in rest)


@pytest.mark.parametrize("error", [ValueError(HOSTILE), Unspeakable(HOSTILE)])
@pytest.mark.parametrize(
    "formatter", [logging.Formatter("%(asctime)s %(message)s"), LineFormatter(logging.DEBUG), LineFormatter(30)]
)
def test_no_line_of_a_traceback_can_be_taken_for_a_record(
    kept: Kept, error: Exception, formatter: logging.Formatter
) -> None:
    try:
        raise error
    except (ValueError, Unspeakable):
        get_logger("toolrun.test").exception("it failed", stack_info=True)
    [record] = kept.records
    assert is_safe(formatter.format(record))


@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING])
def test_the_command_line_indents_the_lines_of_other_libraries_too(level: int) -> None:
    record = logging.makeLogRecord({"name": "library", "msg": "first\n%s\n%s", "args": (FORGED, HOSTILE)})
    assert is_safe(LineFormatter(level).format(record))


def test_a_json_line_is_printable_and_can_be_encoded() -> None:
    record = logging.makeLogRecord({"name": "library", "msg": HOSTILE, "call": {"arguments": HOSTILE}})
    line = JSONFormatter().format(record)
    assert line.isprintable()
    line.encode()


def test_a_long_text_is_cut(kept: Kept) -> None:
    get_logger("toolrun.test").info("%s", "x" * 10_000_000)
    assert kept.records[0].getMessage().endswith("x… (10,000,000 characters)")
    assert len(kept.records[0].getMessage()) < 30_000


def test_lines_on_purpose_are_indented() -> None:
    assert Indented(f"a\n{FORGED}\x1b") == f"\n    a\n    {FORGED}\\x1b"
    assert Indented("") == ""


def test_no_module_logs_through_a_logger_that_does_not_clean() -> None:
    package = Path(toolrun.__file__).parent
    using = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"getLogger\(", path.read_text(encoding="utf-8"))
    }
    commands = {f"cli/commands/{name}.py" for name in ("doctor", "serve", "sync")}
    configuring = {"cli/log_handler.py", "cli/running_server.py", "telemetry/exporting.py"}
    assert using == {"logger.py"} | configuring | commands, "which set levels and handlers, and log nothing"
