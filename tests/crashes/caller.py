"""A program that makes calls with keys, to be killed. Started again, it makes all of them again with the same keys.

It reads requests as JSON lines, and answers each with the pid of a forked process that does it: importing toolrun a
thousand times would take longer than the trials. `{"calls": …}` makes calls, `{"command": …}` runs `toolrun`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolrun import Runtime


async def make_calls(request: dict[str, Any]) -> None:
    """Make every call, so many at once, and append each answer to the report. What failed may be repeated."""
    calls: list[dict[str, Any]] = list(request["calls"])
    if request["seed"] is not None:
        random.Random(request["seed"]).shuffle(calls)
    Path(request["report"]).with_name("host").write_text(str(os.getpid()))  # for a server that cannot know it
    async with Runtime.open(request["configuration"]) as runtime:
        await runtime.ready()
        report = os.open(request["report"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        todo = iter(calls)

        async def work() -> None:
            for call in todo:
                for _ in range(1 + request.get("repeats", 0)):
                    result = await runtime.executor.execute(
                        call["tool"], call["arguments"], key=call["key"], timeout=request.get("timeout")
                    )
                    kind = None if result.error_kind is None else result.error_kind.value
                    side_effects = None if result.side_effects is None else result.side_effects.value
                    line = {"key": call["key"], "kind": kind, "side_effects": side_effects, "result": result.result}
                    os.write(report, json.dumps(line).encode() + b"\n")
                    if kind is None or side_effects == "done":
                        break
                    await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            for _ in range(request["at_once"]):
                group.create_task(work())
        os.write(report, b'{"end": true}\n')


def run_command(request: dict[str, Any]) -> None:
    from toolrun.cli.program import main

    os.dup2(os.open(request["report"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    os.chdir(request["directory"])
    sys.argv = ["toolrun", *request["command"]]
    raise SystemExit(main())


def serve() -> None:
    import toolrun.cli.program
    import toolrun.journal.recorder
    import toolrun.sources.project  # noqa: F401  loaded once, for all that are forked

    for line in sys.stdin:
        request = json.loads(line)
        while _reap():
            pass
        pid = os.fork()
        if pid == 0:
            _finish(run_command if "command" in request else lambda it: asyncio.run(make_calls(it)), request)
        print(pid, flush=True)


def _reap() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _finish(function: Callable[[dict[str, Any]], None], request: dict[str, Any]) -> None:
    status = 0
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.dup2(os.open(f"{request['report']}.log", os.O_WRONLY | os.O_CREAT, 0o600), 2)
        function(request)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  whatever it is, the forked process must end here
        traceback.print_exc()
        status = 70
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
