"""Lines are read from a terminal in a way that can be given up."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator

import pytest

from toolrun.cli.terminal_line import discard_typed, is_interactive, read_line

LIMIT = 30.0
CTRL_D = b"\x04"


@pytest.fixture
def typed() -> Iterator[tuple[int, int]]:
    """The keyboard, and the terminal of the program."""
    keyboard, terminal = pty.openpty()
    try:
        yield keyboard, terminal
    finally:
        os.close(keyboard)
        os.close(terminal)


async def read(terminal: int) -> str | None:
    async with asyncio.timeout(LIMIT):
        return await read_line(terminal)


async def test_one_line_at_a_time(typed: tuple[int, int]) -> None:
    keyboard, terminal = typed
    os.write(keyboard, "één\ntwo\n".encode())
    assert [await read(terminal), await read(terminal)] == ["één", "two"]


async def test_ctrl_d_is_no_line_and_the_next_one_is(typed: tuple[int, int]) -> None:
    keyboard, terminal = typed
    os.write(keyboard, CTRL_D)
    assert await read(terminal) is None
    os.write(keyboard, b"more\n")
    assert await read(terminal) == "more"


async def test_a_read_that_was_given_up_takes_no_line(typed: tuple[int, int]) -> None:
    keyboard, terminal = typed
    reading = asyncio.create_task(read_line(terminal))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    os.write(keyboard, b"for the next\n")
    assert await read(terminal) == "for the next"


async def test_what_was_typed_before_can_be_discarded(typed: tuple[int, int]) -> None:
    keyboard, terminal = typed
    os.write(keyboard, b"y\nhalf a li")
    discard_typed(terminal)
    os.write(keyboard, b"new\n")
    assert await read(terminal) == "new"


async def test_a_terminal_that_has_gone_has_no_lines() -> None:
    keyboard, terminal = pty.openpty()
    os.close(keyboard)
    try:
        assert await read(terminal) is None
        discard_typed(terminal)
    finally:
        os.close(terminal)


def test_nobody_can_be_asked_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_interactive()
    monkeypatch.setattr("sys.stdin", None)
    assert not is_interactive()
