"""The process that runs a script's functions, in the script's own environment. This docstring is the wire contract.

usage: PYTHON [-S] worker/__main__.py [--sandbox] SCRIPT [--source BYTES] [--concurrency N] [--describe]
       PYTHON -S worker/__main__.py --sandbox -- PROGRAM [ARGUMENT…]

Standard library only, Python 3.9 or newer; the script need not import anything of ours. Standard input and output are
the protocol: one JSON object a line, UTF-8, strict (no NaN, no lone surrogates). The worker moves them to private
descriptors before it loads the script, so that what the script and its children print goes to standard error.

With --sandbox the process first puts itself behind walls, as a plan says (`sandbox.py`). With -S the environment's own
`.pth` files and `sitecustomize` run afterwards. The second form starts any program behind the walls, and leaves it the
pipes as they are.

Host → worker, first, with --sandbox: the plan, as eight digits that say how long it is, and a JSON object of so many
bytes, without an end of line.

Host → worker, then, with --source: the content of the script, as so many bytes. The worker then runs what the host has
read, and not what is in the file when the worker starts. Without, it reads the file.

Worker → host, first:
    {"ready": {"pid": 123, "python": "3.11.7", "sha256": "<of the script's bytes>", "functions": ["add", …]}}
  with --describe, and then the process ends with exit code 0:
    {"ready": {…, "functions": [{"name", "description", "schema", "async"}, …],
               "skipped": [{"name", "reason"}, …], "warnings": ["…", …]}}
  if the script cannot be loaded, and then the process ends with exit code 1:
    {"ready": {"error": "ValueError: the reason (line 3)"}}
  if the walls cannot be put up, and then the process ends with exit code 1; nothing of the script has run:
    {"ready": {"sandbox": "unshare: Operation not permitted"}}

Host → worker:
    {"id": 7, "key": "5f0c…", "function": "add", "kwargs": {…}, "config": {…}, "secrets": {…}}
    {"id": 7, "cancel": true}
  `id` is an integer that the host does not use twice. `key` is what the destination of the call may know it by: the
  same if the host makes the same call again. A call that is traced has "trace" as well, {"traceparent": "00-…"} and
  perhaps "tracestate" and "baggage"; where N is 1, they are environment variables while it runs. A cancellation is
  best effort, and only where N is above 1: an async function is cancelled, a call that waits for a thread is not
  started; both are answered.

Worker → host, for each request:
    {"id": 7, "progress": {"progress": 1, "total": 2, "message": ""}}        any number of times
    {"id": 7, "raised": ["builtins.ConnectionRefusedError", "builtins.ConnectionError", …]}     before an error
    {"id": 7, "result": <JSON>, "error": null}  or  {"id": 7, "result": null, "error": "message"}      exactly once
  `raised` has the classes of the exception, the most specific first; before them, for an OSError that has a number,
  its name ("errno.EHOSTUNREACH"). If the worker itself refuses the request, it is one of "toolrun.InvalidArguments",
  "toolrun.UnknownFunction" and "toolrun.InvalidRequest", and the tool has not run.

A line that is not a request gets an error answer if its id can be read, otherwise a line on standard error. At the end
of its input the process gives `atexit` handlers two seconds and ends, whatever is running. N is how many requests the
host sends before it has the answers; with 1 they run one after the other in the main thread, with more they overlap:
async functions on one event loop, others in threads. On Linux the process is killed when the thread that started it
ends.

Lines on standard error that are {"level", "message", "fields"} are log records: with "call", the id of the request that
they belong to, while one runs, and some with a "traceback". Any other line is text.

This file is short because Python compiles it anew at every start; the modules that it imports are cached as bytecode.
"""

from __future__ import annotations

import os
import sys


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
    codec = __import__("toolrun_worker.codec", fromlist=["codec"])
    sandbox = __import__("toolrun_worker.sandbox", fromlist=["sandbox"])
    try:
        sandbox.enter(codec.decode(plan), _nothing if is_program else import_own)
    except Exception as error:  # noqa: BLE001  without the walls nothing may run
        os.write(answers, codec.encode({"ready": {"sandbox": str(error)}}) + b"\n")
        os.write(2, b"the sandbox cannot be set up: " + str(error).encode("utf-8", "replace") + b"\n")
        os._exit(1)


def import_own() -> None:
    """What is needed behind the walls in any case. Nothing of the script's environment is run."""
    __import__("site")
    __import__("toolrun_worker.serve")


def _nothing() -> None:
    """A program is all that is run."""


def main() -> None:
    arguments = sys.argv[1:]
    is_program = arguments[:2] == ["--sandbox", "--"]
    descriptors = (0, 2) if is_program else redirect_stdio()
    die_with_parent()
    here = os.path.dirname(os.path.abspath(__file__))
    # Our modules are a package under a name that no script uses, so that they do not shadow the script's.
    package = type(sys)("toolrun_worker")
    package.__path__ = [here]
    sys.modules["toolrun_worker"] = package
    sys.path[:] = [path for path in sys.path if path != here]
    if arguments[0] == "--sandbox":
        enter_sandbox(*descriptors, is_program)
        del arguments[0]
    if is_program:
        os.execvp(arguments[1], arguments[1:])
    if sys.flags.no_site:
        __import__("site").main()
    sys.path.append(os.path.join(here, "sdk"))  # last: for `import toolrun_sdk`
    __import__("toolrun_worker.serve", fromlist=["main"]).main(arguments, *descriptors)


if __name__ == "__main__":
    main()
