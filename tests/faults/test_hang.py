"""Workers that do not come to an end, and such that do not come to a beginning."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from faults.bench import LIMIT, Project, is_gone, is_lost, is_timeout, is_unavailable, reported, until
from toolrun import ErrorKind, SideEffects

HOLD = "while (_root / 'hold').exists(): time.sleep(0.005)"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("time.sleep(60)", id="sleeping"),
        pytest.param("sum(range(10**12))", id="in C with the GIL"),
        pytest.param("import re; re.match('(a+)+b', 'a' * 60)", id="in a regular expression"),
        pytest.param(
            """
            import signal
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number, signal.SIG_IGN)
            while True:
                time.sleep(60)
            """,
            id="ignoring SIGTERM and all the rest",
        ),
    ],
)
async def test_a_worker_that_hangs_is_killed_at_the_deadline(project: Project, code: str) -> None:
    async with project.open() as tools:
        first = await tools.works()
        late = await tools.fault(code, timeout=0.5)
        assert is_timeout(late)
        assert "timed out after 0.5 s" in (late.error or "")
        assert "still" not in late.text, "its process is gone: it does not run any more"
        await until(lambda: is_gone(first), "the end of the worker")
        assert await tools.works() != first


async def test_a_stopped_worker_is_killed_at_the_deadline(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        os.kill(first, signal.SIGSTOP)
        late = await tools.fault("", timeout=0.5)
        assert is_timeout(late)
        await until(lambda: is_gone(first), "the end of the worker")
        assert await tools.works() != first


async def test_a_worker_that_stops_itself_mid_call_is_killed_at_the_deadline(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        late = await tools.fault("import signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout=0.5)
        assert is_timeout(late)
        assert await tools.works() != first


async def test_a_caller_that_goes_away_takes_the_worker_with_it(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            call = await reported(lambda report: tools.run("progress(1); time.sleep(60)", on_progress=report))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: is_gone(first), "the end of the worker")
        assert await tools.works() != first


async def test_a_call_that_hangs_when_all_is_closed_is_answered_and_its_worker_killed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolrun.sources.project._DRAIN", 0.2)
    code = """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        progress(1)
        while True:
            time.sleep(60)
    """
    async with project.elsewhere():
        async with project.open() as tools:
            call = await reported(lambda report: tools.run(code, on_progress=report))
        assert is_lost(await call)


async def test_a_worker_that_is_never_ready_is_killed_and_the_call_has_not_begun(project: Project) -> None:
    async with project.open() as tools:
        project.at_import("time.sleep(60)")
        pool = tools.pool()
        patient, pool.limits = pool.limits, replace(pool.limits, start_timeout=0.5)
        refused = await tools.fault("")
        assert is_unavailable(refused)
        assert "not ready within 0.5 s" in (refused.error or "")
        project.at_import("")
        pool.limits = patient
        assert await tools.works() == project.starts()[-1]


async def test_a_script_that_is_never_ready_to_be_described_is_a_problem_that_is_named(project: Project) -> None:
    async with project.elsewhere():  # so that of the two other scripts there are descriptions already
        path = project.write("endless", "import time\ntime.sleep(60)\n")
        async with project.open(start_timeout=0.5) as tools:
            [problem] = tools.runtime.problems
            assert str(path) in str(problem)
            assert "not ready within 0.5 s" in str(problem)
            tools.pool().limits = replace(tools.pool().limits, start_timeout=LIMIT)
            await tools.works()


async def test_a_slow_start_is_not_helped_by_a_second_worker(project: Project) -> None:
    async with project.open() as tools:
        project.at_import(HOLD)
        hold, before = project.root / "hold", len(project.starts())
        hold.touch()
        impatient = await tools.fault("", timeout=0.3)
        assert (impatient.error_kind, impatient.side_effects) == (ErrorKind.TIMEOUT, SideEffects.NOT_STARTED)
        assert "before it began: its worker was not ready" in (impatient.error or "")
        async with tools.bystander():
            patient = asyncio.create_task(tools.run())
            await until(lambda: len(project.starts()) > before, "the start of a worker")
            hold.unlink()
            assert [(await patient).result] == project.starts()[before:]


async def test_a_script_that_keeps_dying_is_not_started_again_until_it_has_cooled_down(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("toolrun.scripts.pool.monotonic", lambda: now)
    async with project.open() as tools:
        before = len(project.starts())
        async with tools.bystander():
            for _ in range(5):
                assert is_lost(await tools.run("os._exit(3)"))
            refused = await tools.run()
        assert is_unavailable(refused)
        assert "keeps dying" in (refused.error or "")
        assert len(project.starts()) == before + 5
        now += 31
        first = await tools.works()
        assert is_lost(await tools.run("os._exit(3)"))
        assert await tools.works() != first, "one answer has made all deaths before it forgotten"


async def test_a_script_that_dies_before_it_is_ready_is_started_five_times(project: Project) -> None:
    async with project.open() as tools:
        project.at_import("os._exit(4)")
        before = len(project.starts())
        async with tools.bystander():
            results = [await tools.run() for _ in range(6)]
        for result in results[:5]:
            assert (result.error_kind, result.side_effects) == (ErrorKind.WORKER_LOST, SideEffects.NOT_STARTED)
            assert "exit code 4" in (result.error or "")
        assert is_unavailable(results[5])
        assert len(project.starts()) == before + 5


COOPERATIVE = '''
    """Async functions that share a worker."""

    import asyncio
    from pathlib import Path

    from toolrun_sdk import progress


    async def hang(log: str) -> None:
        """Wait for ever, and write down that it was stopped."""
        progress(1)
        try:
            await asyncio.sleep(600)
        finally:
            Path(log).write_text("stopped")


    async def wait_for(path: str) -> str:
        """Wait until a file is there."""
        progress(1)
        while not Path(path).exists():
            await asyncio.sleep(0.005)
        return "not disturbed"
'''


async def test_a_call_that_is_given_up_stops_while_others_go_on_in_its_worker(project: Project) -> None:
    """The worker is killed when the others have ended; until then the call must not go on acting."""
    project.write("shared", COOPERATIVE, concurrency=2)
    log, gate, under_way = project.root / "log", project.root / "gate", asyncio.Event()
    async with project.open(max_workers=1) as tools:
        execute = tools.runtime.executor.execute
        other = asyncio.create_task(
            execute("shared.wait_for", {"path": str(gate)}, on_progress=lambda _: under_way.set())
        )
        await asyncio.wait_for(under_way.wait(), LIMIT)
        assert is_timeout(await execute("shared.hang", {"log": str(log)}, timeout=0.5))
        await until(lambda: log.exists() and log.read_text() == "stopped", "the end of the call in the worker")
        assert not other.done()
        gate.touch()
        assert (await other).result == "not disturbed"
