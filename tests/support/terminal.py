"""A program on a terminal of its own, typed at and read like somebody would. Every wait has a limit."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.console import LIMIT, environment, status_lines, without_status

CTRL_C, CTRL_D = "\x03", "\x04"

# Makes the terminal the one that Ctrl-C comes from, then becomes the program.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """What stands on the terminal, and the keyboard."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self._descriptor = descriptor
        self._raw = b""
        self._read_until = 0
        self.process = process

    @property
    def raw(self) -> str:
        """All that was written, with escape sequences."""
        return self._raw.decode(errors="replace").replace("\r\n", "\n")

    @property
    def text(self) -> str:
        """All that was written, without status lines, colours and what readline does."""
        return _STYLE.sub("", without_status(self.raw)).replace("\r", "")

    @property
    def status(self) -> list[str]:
        """The status lines that were drawn, without colours."""
        return [_STYLE.sub("", line) for line in status_lines(self.raw)]

    def type(self, line: str) -> None:
        self.press(f"{line}\n")

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def expect(self, text: str) -> str:
        """Wait until a text stands after what was expected last, and return everything up to it."""
        deadline = time.monotonic() + LIMIT
        while (found := self.text.find(text, self._read_until)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} did not come; there was: {self.text!r}")
        start, self._read_until = self._read_until, found + len(text)
        return self.text[start : self._read_until]

    def expect_status(self, text: str) -> str:
        """Wait for a status line with a text, and return the line."""
        deadline = time.monotonic() + LIMIT
        while not (found := [line for line in self.status if text in line]):
            if not self._read(deadline):
                raise AssertionError(f"no status line with {text!r}; there was: {self.raw!r}")
        return found[-1]

    def interrupt_prompt(self) -> None:
        """Press Ctrl-C once the program waits for a key: readline does not notice one that comes while it is busy."""
        deadline = time.monotonic() + LIMIT
        status = Path(f"/proc/{self.process.pid}/stat")
        while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline, "the program does not come to rest"
            time.sleep(0.01)
        self.press(CTRL_C)

    def ends(self) -> int:
        """Wait for the end, and return the exit code."""
        deadline = time.monotonic() + LIMIT
        while self._read(deadline):
            pass
        return self.process.wait(LIMIT)

    def _read(self, deadline: float) -> bool:
        if not select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            chunk = os.read(self._descriptor, 65536)
        except OSError:  # Linux: EIO once nobody has the other side open
            return False
        self._raw += chunk
        return bool(chunk)


@contextmanager
def terminal(*command: str, cwd: Path, env: Mapping[str, str] | None = None, columns: int = 80) -> Iterator[Terminal]:
    """The command on a terminal; killed if the test leaves it running."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, *command],
        cwd=cwd,
        env=environment(env),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait(LIMIT)
        os.close(ours)
