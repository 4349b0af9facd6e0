"""Runs something in a child of the test that is forked without exec, as `multiprocessing` may."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def in_a_child(work: Callable[[], object]) -> str:
    """What `work` returns in a process that was forked from this one."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = "nothing"
        try:
            signal.alarm(20)
            answer = str(work())
        except BaseException as error:  # noqa: BLE001  the parent must hear of it
            answer = repr(error)
        finally:
            os.write(writing, answer.encode()[:4000])
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:  # noqa: PTH123  a descriptor
        said = file.read().decode()
    os.waitpid(pid, 0)
    return said
