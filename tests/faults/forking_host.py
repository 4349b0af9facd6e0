"""A program that uses toolrun and forks without exec, to be killed by a test while its child lives on.

usage: forking_host.py CONFIGURATION CODE DIRECTORY MOMENT

`MOMENT` says when it forks: `on the loop` or `in a thread` after a call that runs the code, or `at a start`: in a
thread, in the middle of each start of a process for that call. Each child writes a file with its number as name to the
directory. When a call has been answered after the fork, the numbers of all children are written to `children`. All wait
to be killed, for up to two minutes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import NoReturn

from toolrun import Runtime

forked = threading.Event()
children: list[int] = []


def live_on(directory: Path) -> NoReturn:
    """The rest of a child's life, from which nothing of the parent's program returns."""
    signal.alarm(120)
    (directory / str(os.getpid())).touch()
    while True:
        signal.pause()


def fork(directory: Path) -> None:
    pid = os.fork()
    if pid == 0:
        live_on(directory)
    children.append(pid)
    forked.set()


def fork_in_each_start(directory: Path) -> None:
    """Python tells of the start of a process when its pipes are made, and nobody but `Popen` knows them."""

    def on_event(event: str, _: object) -> None:
        if event == "subprocess.Popen":
            forked.clear()
            threading.Thread(target=fork, args=(directory,), daemon=True).start()
            forked.wait(0.3)  # a fork that must wait for the start does not come meanwhile, one that need not does

    sys.addaudithook(on_event)


async def main(configuration: str, code: str, directory: Path, moment: str) -> None:
    signal.alarm(120)
    async with Runtime.open(configuration) as runtime:
        if moment == "at a start":
            fork_in_each_start(directory)
        await runtime.executor.execute("subject", {"code": code})
        if moment == "on the loop":
            fork(directory)
        elif moment == "in a thread":
            await asyncio.to_thread(fork, directory)
        forked.wait()
        if (await runtime.executor.execute("subject", {"code": ""})).success:
            (directory / "draft").write_text(" ".join(map(str, children)))
            (directory / "draft").rename(directory / "children")
        await asyncio.sleep(300)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
