"""A script whose header names `verify`: a function of its own that finds out what a worker did before it died."""

from __future__ import annotations

import asyncio

import pytest

from faults.bench import LIMIT, Project, is_gone, until
from toolrun import ErrorKind, Runtime
from toolrun.journal.history import open_history
from toolrun.json import JSON

BODY = """
import os, time
from pathlib import Path
from toolrun_sdk import Done, NotDone

_root = Path(__file__).parent.parent

def bank(euros: int, how: str) -> str:
    'Pay.'
    if how == "warms up":
        return ""
    with (_root / "tries").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    is_first = len((_root / "tries").read_text().split()) == 1
    if how == "acts" and is_first:
        (_root / "paid").write_text(str(euros))
    if is_first and how != "raises":
        time.sleep(600)
    if is_first:
        raise KeyError("the answer")
    return "paid now"

async def was_paid(key: str, arguments: dict):
    (_root / "asked").write_text(f"{key} {arguments['euros']}")
    return Done({"key": key}) if (_root / "paid").exists() else (NotDone if arguments["how"] == "hangs" else NotDone())
"""


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize(("how", "tries"), [("acts", 1), ("hangs", 2), ("raises", 2)])
async def test_a_script_is_asked_about_a_call_whose_worker_was_killed(
    project: Project, how: str, tries: int, concurrency: int
) -> None:
    project.write("bank", BODY, effects="once", verify="was_paid", concurrency=concurrency)
    async with project.open() as tools:
        executor = tools.runtime.executor
        arguments: dict[str, JSON] = {"euros": 5, "how": how}
        assert [tool.name for tool in tools.runtime.manager if tool.name.startswith("bank")] == ["bank"]
        assert (await executor.execute("bank", {"euros": 0, "how": "warms up"}, timeout=LIMIT)).success
        first = await executor.execute("bank", arguments, key="k", timeout=2.0)
        assert first.error_kind is (ErrorKind.TOOL_ERROR if how == "raises" else ErrorKind.TIMEOUT)
        again = await executor.execute("bank", arguments, key="k", timeout=LIMIT)
        if again.error_kind is ErrorKind.IN_DOUBT:  # the worker is not reaped yet
            worker = int((project.root / "tries").read_text().split()[0])
            await until(lambda: is_gone(worker), "the end of the worker")
            await _until_ended(tools.runtime)
            again = await executor.execute("bank", arguments, key="k", timeout=LIMIT)
        key = (project.root / "asked").read_text().split()[0]
        assert again.result == ({"key": key} if how == "acts" else "paid now"), again.error
        assert again.replayed is (how == "acts")
        assert len((project.root / "tries").read_text().split()) == tries


async def _until_ended(runtime: Runtime) -> None:
    assert runtime.journal is not None
    async with asyncio.timeout(LIMIT):
        while True:
            await runtime.journal.drain()
            with open_history(runtime.journal.path) as history:
                if all(call.ended_at for call in history.in_doubt()):
                    return


async def test_a_header_that_names_no_function_is_a_problem_of_the_file(project: Project) -> None:
    project.write("bank", BODY, effects="once", verify="nobody")
    async with project.open() as tools:
        problems = [str(it) for it in tools.runtime.problems]
        assert any("has no public function 'nobody'" in it for it in problems), problems
        assert tools.runtime.manager.get("bank") is None
