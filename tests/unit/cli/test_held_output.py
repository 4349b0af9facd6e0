"""Output waits while a question stands on the terminal."""

from __future__ import annotations

import io
import logging

import pytest

from toolrun.cli.held_output import HeldOutput
from toolrun.cli.held_output import held_output as that_of_stderr
from toolrun.cli.log_handler import StderrHandler
from toolrun.cli.output import complain, inform, print_on_stderr


def test_what_is_written_comes_after_the_block_in_its_order() -> None:
    output, written = HeldOutput(), list[str]()
    output.write(lambda: written.append("before"))
    with output.held():
        output.write(lambda: written.append("first"))
        output.write(lambda: written.append("second"))
        assert written == ["before"]
    assert written == ["before", "first", "second"]
    output.write(lambda: written.append("after"))
    assert written[-1] == "after"


def test_it_is_written_also_if_the_block_fails() -> None:
    output, written = HeldOutput(), list[str]()

    def fail() -> None:
        with output.held():
            output.write(lambda: written.append("late"))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert written == ["late"]


def test_lines_complaints_and_the_log_wait_and_the_question_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    handler = StderrHandler()
    with that_of_stderr.held():
        inform("progress")
        complain("a problem")
        handler.handle(logging.LogRecord("x", logging.ERROR, "", 0, "logged", None, None))
        print_on_stderr("Allow? ")
        assert capsys.readouterr().err == "Allow? "
    assert capsys.readouterr().err == "progress\ntoolrun: a problem\nlogged\n"


def test_the_status_line_goes_away_before_anything_is_written_and_during_a_question() -> None:
    output, stream = HeldOutput(), io.StringIO()
    output.show_status("1/2", stream)
    output.write(lambda: stream.write("a line\n"))
    output.show_status("2/2", stream)
    with output.held():
        stream.write("Allow? ")
        output.show_status("not now", stream)
    assert stream.getvalue() == "\x1b[2K\r1/2\x1b[2K\r\x1b[Ka line\n\x1b[2K\r2/2\x1b[2K\r\x1b[KAllow? "
    output.show_status("again", stream)
    assert stream.getvalue().endswith("again")


def test_the_status_line_does_not_stand_behind_half_a_line() -> None:
    output, stream = HeldOutput(), io.StringIO()
    with output.above_status("half"):
        stream.write("half")
    output.show_status("1/2", stream)
    assert stream.getvalue() == "half"
    with output.above_status(" a line\n"):
        stream.write(" a line\n")
    output.show_status("2/2", stream)
    assert stream.getvalue() == "half a line\n\x1b[2K\r2/2"
