"""A program that uses toolrun, as some user: makes the calls that it reads from standard input, and writes the answers.

usage: host.py PROJECT RUNG ABI, where RUNG is what its workers are to be walled in by, and ABI the version of Landlock
to use, or 0.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from toolrun import Runtime
from toolrun.config.load import load_config
from toolrun.processes.sandbox import system_support


def answer(number: int, **parts: Any) -> None:
    os.write(1, json.dumps({"number": number, **parts}).encode() + b"\n")


async def make(runtime: Runtime, request: dict[str, Any]) -> None:
    result = await runtime.executor.execute(request["tool"], request["arguments"], timeout=request["timeout"])
    kind = result.error_kind and result.error_kind.value
    text = "\n".join(str(part) for part in (result.error, result.detail) if part)
    answer(request["number"], result=result.result, kind=kind, error=text)


async def main(project: Path, rung: str, abi: int) -> None:
    config = load_config(project / "toolrun.toml", environ=os.environ)
    if rung != "off":
        forced = system_support.SystemSupport(rung, abi or system_support.landlock_abi())
        system_support.probe = lambda: forced  # also after a start that failed, and has toolrun look again
        system_support.remember_support(Path(config.workers.cache), forced)
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with Runtime.open(config) as runtime, asyncio.TaskGroup() as group:
        answer(0, result=[str(problem) for problem in runtime.problems], kind=None, error="")
        while line := await reader.readline():
            group.create_task(make(runtime, json.loads(line)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
