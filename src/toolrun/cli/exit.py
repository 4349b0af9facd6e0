"""How the process ends: its exit codes, and an end that waits for no tool.

Imported by `toolrun --help`, so it imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Final

OK: Final = 0
FAILED: Final = 1
"""The command ran, and its answer is a failure: of a tool, a model, a script, a check."""
USAGE: Final = 2
"""Wrong usage, or a configuration that cannot be used. Nothing was run."""
UNEXPECTED: Final = 70
"""A bug (EX_SOFTWARE of sysexits.h)."""
INTERRUPTED: Final = 130
"""What a shell reports for a program that SIGINT has ended."""
READER_GONE: Final = 141
"""What a shell reports for a program that SIGPIPE has ended."""

_PATIENCE: Final = 0.5
"""Seconds that threads get to end."""


def end_process(code: int, *, is_stuck: bool) -> None:
    """End the process here if a tool could keep it alive for ever; otherwise return.

    A thread that hangs in a tool cannot be ended, and the interpreter waits for some threads. The answer is out by now,
    so nobody needs them. `is_stuck`: tasks are left that do not end.
    """
    deadline = time.monotonic() + _PATIENCE
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    for thread in others:
        thread.join(max(0.0, deadline - time.monotonic()))
    if is_stuck or any(thread.is_alive() for thread in others):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it
                stream.flush()
        os._exit(code)
