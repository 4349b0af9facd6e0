"""Output waits while a question stands on the terminal."""

from __future__ import annotations

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
