"""Changes under the feet of calls: the script is edited, everybody comes at once, the clock jumps."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import shutil
import time
import weakref
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import uv

import toolrun
from faults.bench import SUBJECT, Project, is_gone, is_timeout, reported, until
from toolrun import ErrorKind, SideEffects
from toolrun.tools.protocol import Tool, schema_of

OTHER = SUBJECT.replace('"""Run some code.', '"""Run some code in the new version.')


@pytest.fixture(autouse=True)
def edits_are_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not only after a millisecond."""
    monkeypatch.setattr("toolrun.scripts.source._LOOK_EVERY", 0.0)


async def test_a_call_that_runs_while_its_script_is_edited_ends_in_the_old_version(project: Project) -> None:
    async with project.open() as tools:
        first, gate = await tools.works(), project.root / "gate"
        code = f"progress(1)\nwhile not Path({str(gate)!r}).exists(): time.sleep(0.005)"
        async with tools.bystander():
            running = await reported(lambda report: tools.run(code, on_progress=report))
            project.write("subject", OTHER)
            second = await tools.works()
            assert second != first
            assert not is_gone(first), "it has a call to finish"
            gate.touch()
            assert (await running).result == first
            await until(lambda: is_gone(first), "the end of the old worker")
            assert await tools.works() == second
        await until(
            lambda: "new version" in tools.runtime.manager.by_name["subject"].description, "the new description"
        )


async def test_calls_that_wait_for_a_worker_while_their_script_is_edited_run_in_the_new_version(
    project: Project,
) -> None:
    async with project.open(max_workers=1) as tools:
        hold, before = project.root / "hold", len(project.starts())
        hold.touch()
        project.at_import("while (_root / 'hold').exists(): time.sleep(0.005)")
        async with tools.bystander():
            waiting = [asyncio.create_task(tools.run()) for _ in range(3)]
            await until(lambda: len(project.starts()) > before, "the start of the old version")
            old = project.starts()[-1]
            project.at_import("")
            project.write("subject", OTHER)
            new = await tools.works()
            assert new != old
            assert [(await call).result for call in waiting] == [new, new, new]
            await until(lambda: is_gone(old), "the end of the old worker")


async def test_a_script_that_is_edited_again_while_it_is_described_is_described_by_its_last_version(
    project: Project,
) -> None:
    async with project.open() as tools:
        await tools.works()
        hold = project.root / "hold"
        hold.touch()
        project.at_import(
            """
            if b"--describe" in Path("/proc/self/cmdline").read_bytes():
                while (_root / "hold").exists():
                    time.sleep(0.005)
            """
        )
        async with tools.bystander():
            for version in ("second", "third"):
                project.write("subject", OTHER.replace("in the new", f"in the {version}"))
                await tools.works()
            hold.unlink()
            await until(lambda: "third" in tools.runtime.manager.by_name["subject"].description, "the new description")


async def test_a_script_that_is_edited_into_nonsense_says_so_until_it_is_mended(project: Project) -> None:
    async with project.open() as tools:
        await tools.works()
        project.write("subject", "def subject(code: str):\n    return (\n")
        broken = await tools.fault("")
        assert (broken.error_kind, broken.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)
        assert "SyntaxError" in (broken.error or "")
        project.write("subject", OTHER)
        await tools.works()


def cut_short(path: Path, body: str) -> None:
    """Save it in place, but only as far as it is a valid script without its function."""
    with path.open("w", encoding="utf-8") as file:
        file.write(body.partition("def subject(")[0])


async def test_a_script_that_is_saved_in_place_never_answers_for_half_of_itself(project: Project) -> None:
    path = project.root / "tools" / "subject.py"
    async with project.open() as tools:
        pids, descriptions = {await tools.works()}, set[str]()
        for number in range(4):
            whole = path.read_text().replace("Run some code", f"Run some code, {number}", 1)
            calls = []
            for part in ("", whole[:40], whole.partition("def subject(")[0], whole[: whole.index("exec(code")]):
                path.write_text(part)
                calls.append(asyncio.create_task(tools.works()))
                await asyncio.sleep(0)  # each call notices another part
            path.write_text(whole)
            pids |= set(await asyncio.gather(*calls))
            shown = f"code, {number}"
            await until(
                lambda: shown in tools.runtime.manager.by_name["subject"].description,  # noqa: B023  awaited here
                "the new description",
            )
            descriptions.add(tools.runtime.manager.by_name["subject"].description)
        assert len(descriptions) == 4


async def test_a_script_that_is_saved_slowly_is_waited_for(project: Project) -> None:
    path = project.root / "tools" / "subject.py"
    async with project.open() as tools, tools.bystander():
        first, whole = await tools.works(), path.read_text()
        starts = len(project.starts())
        cut_short(path, whole)
        call = asyncio.create_task(tools.works())
        await until(lambda: len(project.starts()) > starts, "a worker with half of the script")
        assert "subject" in tools.runtime.manager, "half a file takes no tool away"
        path.write_text(whole.replace("Run some", "Run any"))
        assert await call != first


async def test_a_function_that_was_deleted_is_missed_once_the_file_has_settled(project: Project) -> None:
    path = project.root / "tools" / "subject.py"
    async with project.open() as tools:
        await tools.works()
        path.write_text(path.read_text().replace("def subject(", "def go("))
        gone = await tools.fault("")
        assert gone.side_effects is SideEffects.NOT_STARTED
        assert "no function 'subject'" in (gone.error or "")


def definition(tool: Tool) -> tuple[object, ...]:
    """What a client of `toolrun serve` pins."""
    return tool.name, tool.description, schema_of(tool)


async def test_a_function_keeps_its_name_and_its_journal_when_others_are_added_around_it(project: Project) -> None:
    before, after = (f'def {it}() -> None:\n    "Do it."\n' for it in ("first", "second"))
    head, _, rest = dedent(SUBJECT).partition("def _protocol")
    more = f"{head}\n{before}\ndef _protocol{rest}\n{after}"
    async with project.open() as tools:
        by_name, execute = tools.runtime.manager.by_name, tools.runtime.executor.execute
        told = (await execute("subject", {"code": ""}, key="k")).result
        agreed = definition(by_name["subject"])
        project.write("subject", more)
        assert await tools.works() != told, "it is the new version"
        await until(lambda: "subject.second" in by_name, "the new tools")
        assert sorted(name for name in by_name if name != "bystander") == ["subject", "subject.first", "subject.second"]
        assert definition(by_name["subject"]) == agreed, "nobody is asked to agree again"
        assert (await execute("subject", {"code": ""}, key="k")).result == told, "it is the call that was made"
        project.write("subject", SUBJECT)
        await tools.works()
        await until(lambda: sorted(by_name) == ["bystander", "subject"], "the end of the other tools")


async def test_a_script_that_is_replaced_by_a_named_pipe_goes_on_as_it_was(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    path = project.root / "tools" / "subject.py"
    async with project.open(idle_timeout=0.05) as tools:
        first = await tools.works()
        path.unlink()
        os.mkfifo(path)
        async with tools.bystander():
            await tools.works()
            await until(lambda: is_gone(first), "the end of the first worker")
            assert await tools.works() != first, "a new worker has the content that was read before"
            await until(lambda: "is a named pipe" in caplog.text, "the warning")


async def test_edits_leave_nothing_behind(project: Project) -> None:
    async with project.open() as tools:
        pools = []
        for number in range(6):
            await tools.works()
            pools.append(weakref.ref(tools.pool()))
            project.write("subject", SUBJECT + f"\n    # edit {number}\n")
        await tools.works()

        def all_gone() -> bool:
            gc.collect()
            return not any(pool() for pool in pools)

        await until(all_gone, "the end of the retired pools")


async def test_fifty_first_calls_at_once_make_one_environment_and_no_more_workers_than_allowed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.cache, find_uv = project.root / "cache", uv.find_uv_bin
    runs: list[str] = []

    def find_and_count() -> str:
        runs.append("uv")
        return find_uv()

    async with project.open(max_workers=3) as tools, tools.bystander():
        shutil.rmtree(project.cache / "environments")
        monkeypatch.setattr("uv.find_uv_bin", find_and_count)
        before = len(project.starts())
        results = await asyncio.gather(
            *(tools.run("answer = [data, os.getpid()]", data=str(number)) for number in range(50))
        )
        answers: list[Any] = [result.result for result in results]
        assert [data for data, _ in answers] == [str(number) for number in range(50)]
        assert {pid for _, pid in answers} <= set(project.starts()[before:])
        assert len(project.starts()[before:]) <= 3
        assert runs == ["uv"]


async def test_a_jump_of_the_clock_changes_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    day, real = 86_400.0, time.time
    async with project.open(idle_timeout=60.0, max_age=3600.0) as tools:
        first = await tools.works()
        async with tools.bystander():
            gate = project.root / "gate"
            code = f"progress(1)\nwhile not Path({str(gate)!r}).exists(): time.sleep(0.005)"
            running = await reported(lambda report: tools.run(code, on_progress=report))
            monkeypatch.setattr(time, "time", lambda: real() + day)
            gate.touch()
            assert (await running).result == first
            monkeypatch.setattr(time, "time", lambda: real() - day)
            assert await tools.works() == first, "neither idle nor old"
            assert is_timeout(await tools.run("time.sleep(60)", timeout=0.3))
        await tools.works()


def test_nothing_that_measures_time_uses_a_clock_that_can_jump() -> None:
    wall_clock = re.compile(r"\btime\.time\(|from time import .*\btime\b|datetime\.now\(|utcnow\(")
    package = Path(toolrun.__file__).parent
    files = [path for path in package.rglob("*.py") if "builtins" not in path.parts]  # a tool may tell the time
    using = [
        path.relative_to(package).as_posix() for path in files if wall_clock.search(path.read_text(encoding="utf-8"))
    ]
    shown = {
        "cli/recorded_call.py",
        "journal/moment.py",
        "trust/pins.py",
        "voice/mqtt.py",
    }  # to people, in a file, in messages
    valid = {  # for how long a certificate is
        "cli/cluster_checks.py",
        "cluster/credentials.py",
        "processes/ray/certificates.py",
    }
    ages = {"cli/commands/cache.py"}  # of files, which the same clock has stamped
    assert set(using) == shown | valid | ages
