"""Keeps the memory of this process from others of the same user while it holds secrets (Linux: PR_SET_DUMPABLE).

Without it any process of the user can read the memory of this one (`/proc/PID/mem`), its environment and its open
files, or attach to it. With it nobody but root can; nor is there a core dump. It is not undone when the last secret is
let go of: what was in memory stays there until something else is written over it.

A child that is forked inherits it, a program that is started does not: workers, servers and uv are as they were. Others
may still read of this process what everybody may: its state, its memory use, its command line. They cannot read its
status file (`status_file.py`), unless they are root: `toolrun workers` then knows the workers, but not their calls.
"""

from __future__ import annotations

import sys
from typing import Final

_GET_DUMPABLE: Final = 3
_SET_DUMPABLE: Final = 4


def forbid_dumps() -> bool:
    """Whether the memory of this process is out of reach of others from now on."""
    if sys.platform != "linux":
        return False
    try:
        import _ctypes  # all of ctypes would take 3 ms instead of 0.5

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is what ctypes passes
        _ctypes.call_function(prctl, (_SET_DUMPABLE, 0, 0, 0, 0))
        return bool(_ctypes.call_function(prctl, (_GET_DUMPABLE, 0, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, OSError):
        return False
