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

The rest is in `start.py`: Python compiles this file anew at every start, and caches the modules that it imports.
"""

import os
import sys


def main() -> None:
    """Our modules are a package under a name that no script uses, so that they do not shadow the script's."""
    here = os.path.dirname(os.path.abspath(__file__))
    package = sys.modules["toolrun_worker"] = type(sys)("toolrun_worker")
    package.__path__ = [here]
    sys.path[:] = [path for path in sys.path if path != here]
    __import__("toolrun_worker.start", fromlist=["start"]).start(here)


if __name__ == "__main__":
    main()
