"""The process that runs a script's functions, in the script's own environment. This docstring is the wire contract.

usage: PYTHON worker/__main__.py SCRIPT [--source BYTES] [--concurrency N] [--describe]

Standard library only, Python 3.9 or newer; the script need not import anything of ours. Standard input and output are
the protocol: one JSON object a line, UTF-8, strict (no NaN, no lone surrogates). The worker moves them to private
descriptors before it loads the script, so that what the script and its children print goes to standard error.

Host → worker, first, with --source: the content of the script, as so many bytes. The worker then runs what the host has
read, and not what is in the file when the worker starts. Without, it reads the file.

Worker → host, first:
    {"ready": {"pid": 123, "python": "3.11.7", "sha256": "<of the script's bytes>", "functions": ["add", …]}}
  with --describe, and then the process ends with exit code 0:
    {"ready": {…, "functions": [{"name", "description", "schema", "async"}, …],
               "skipped": [{"name", "reason"}, …], "warnings": ["…", …]}}
  if the script cannot be loaded, and then the process ends with exit code 1:
    {"ready": {"error": "ValueError: the reason (line 3)"}}

Host → worker:
    {"id": 7, "function": "add", "kwargs": {…}, "config": {…}, "secrets": {…}}
    {"id": 7, "cancel": true}
  `id` is an integer that the host does not use twice. A cancellation is best effort, and only where N is above 1: an
  async function is cancelled, a call that waits for a thread is not started; both are answered.

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

Lines on standard error that are {"level", "message", "fields"} are log records, some with a "traceback"; any other line
is text.

This file is short because Python compiles it anew at every start; the modules that it imports are cached as bytecode.
"""

from __future__ import annotations

import os
import sys


def take_protocol() -> tuple[int, int]:
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


def main() -> None:
    descriptors = take_protocol()
    die_with_parent()
    here = os.path.dirname(os.path.abspath(__file__))
    # Our modules are a package under a name that no script uses, so that they do not shadow the script's.
    package = type(sys)("toolrun_worker")
    package.__path__ = [here]
    sys.modules["toolrun_worker"] = package
    # Last: for `import toolrun_sdk`.
    sys.path[:] = [*(path for path in sys.path if path != here), os.path.join(here, "sdk")]
    __import__("toolrun_worker.serve", fromlist=["main"]).main(sys.argv[1:], *descriptors)


if __name__ == "__main__":
    main()
