"""How a worker begins: its pipes, its end with its host, its walls, then the script. The contract is in `__main__.py`.

Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import os
import sys

from . import codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def redirect_stdio() -> tuple[int, int]:
    """Move the protocol to descriptors that children do not inherit (those of `dup` are so); stdout becomes stderr."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, even while a function hangs."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    try:
        import _ctypes  # all of ctypes would take 3 ms instead of 0.5

        this_program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is what ctypes itself passes
        _ctypes.call_function(_ctypes.dlsym(this_program, "prctl"), (1, 9))  # PR_SET_PDEATHSIG, SIGKILL
    except (ImportError, AttributeError, OSError):
        return  # the host has a watchdog too
    if os.getppid() != parent:
        os._exit(1)


def read_exactly(descriptor: int, size: int) -> bytes:
    """What follows is left to others. Ends the process if the input ends before."""
    data = b""
    while len(data) < size:
        chunk = os.read(descriptor, size - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return data


def enter_sandbox(requests: int, answers: int, is_program: bool) -> None:
    """Go on behind walls, or say why that is impossible, and end."""
    plan = read_exactly(requests, int(read_exactly(requests, 8)))
    from . import sandbox

    try:
        sandbox.enter(codec.decode(plan), mount, _nothing if is_program else import_own)
    except Exception as error:  # noqa: BLE001  without the walls nothing may run
        os.write(answers, codec.encode({"ready": {"sandbox": str(error)}}) + b"\n")
        os.write(2, b"the sandbox cannot be set up: " + str(error).encode("utf-8", "replace") + b"\n")
        os._exit(1)


def mount(steps: list[list[Any]]) -> bytes:
    """Build a file system, in a process that does nothing else."""
    from . import mounts

    return mounts.mount(steps)


def import_own() -> None:
    """What is needed behind the walls in any case. Nothing of the script's environment is run."""
    import site  # noqa: F401  see above

    from . import serve  # noqa: F401  see above


def _nothing() -> None:
    """A program is all that is run."""


def start(here: str) -> None:
    """`here` is the directory of our modules."""
    arguments = sys.argv[1:]
    is_program = arguments[:2] == ["--sandbox", "--"]
    descriptors = (0, 2) if is_program else redirect_stdio()
    die_with_parent()
    if arguments[0] == "--sandbox":
        enter_sandbox(*descriptors, is_program)
        del arguments[0]
    if is_program:
        os.execvp(arguments[1], arguments[1:])
    if sys.flags.no_site:
        import site

        site.main()
    sys.path.append(os.path.join(here, "sdk"))  # last: for `import toolrun_sdk`
    from . import serve

    serve.main(arguments, *descriptors)
