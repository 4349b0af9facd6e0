"""S2.1 and S2.4: scripts run in worker processes that stay, end when they are idle, and are replaced when they die."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from acceptance.clock import Clock
from acceptance.processes import LIMIT, gate, own_workers, watched
from acceptance.project import Project
from toolrun import ErrorKind, Runtime, SideEffects
from toolrun.json import JSON
from toolrun.scripts.pool_state import PoolLimits

COUNTER = '''
    # /// script
    # dependencies = []
    # ///
    import os
    import sys

    calls = 0

    def count() -> dict:
        """Count the calls."""
        global calls
        calls += 1
        return {"pid": os.getpid(), "parent": os.getppid(), "calls": calls, "prefix": sys.prefix}
'''


@pytest.fixture(autouse=True)
def no_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a process has the same number for itself as for others."""
    monkeypatch.setenv("TOOLRUN_WORKERS_SANDBOX", "off")


async def call(runtime: Runtime, name: str, **arguments: JSON) -> dict[str, JSON]:
    result = await runtime.executor.execute(name, arguments)
    assert result.success, result.text
    assert isinstance(result.result, dict)
    return result.result


@pytest.mark.scenario("S2.1.1")
async def test_s2_1_1_worker_startup_on_first_call(project: Project) -> None:
    """The first call starts a process in the environment that uv made of the script's metadata, and it stays."""
    project.write("tools/count.py", COUNTER)
    async with project.open() as runtime:
        assert not own_workers(), "listing the tools starts no worker that stays"
        first = await call(runtime, "count")
        [worker] = own_workers()
        assert (worker.pid, worker.label) == (first["pid"], str(project.root / "tools/count.py"))
        assert first["pid"] != os.getpid()
        watcher = Path(f"/proc/{first['parent']}")
        assert int((watcher / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()
        command = (watcher / "cmdline").read_bytes().split(b"\0")
        assert command[2].endswith(b"worker/__main__.py"), "nothing but our own stands between the worker and its host"
        environment = Path(str(first["prefix"]))
        assert environment.is_relative_to(project.root / "cache" / "environments")
        assert "\nuv = " in (environment / "pyvenv.cfg").read_text(), "uv has made it"
        assert (environment.parent / "script.py").read_text() == "# /// script\n# dependencies = []\n# ///\n"
        second = await call(runtime, "count")
        assert (second["pid"], second["calls"]) == (first["pid"], 2), "it is still there"


@pytest.mark.scenario("S2.1.2")
async def test_s2_1_2_subsequent_calls_use_existing_worker(project: Project) -> None:
    """Calls that come while the worker runs go to it, and no other process is started."""
    project.write("tools/count.py", COUNTER)
    async with project.open() as runtime:
        answers = [await call(runtime, "count") for _ in range(10)]
        assert {answer["pid"] for answer in answers} == {worker.pid for worker in own_workers()}
        assert [answer["calls"] for answer in answers] == list(range(1, 11))
        [worker] = runtime.scripts[0].pool.workers
        assert worker.calls == 10


@pytest.mark.scenario("S2.1.3")
async def test_s2_1_3_worker_idle_timeout(project: Project, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A worker without a call for 10 minutes, or what is configured, ends in good order, and leaves the pool."""
    project.write(
        "tools/count.py",
        COUNTER + f'\n    import atexit, pathlib\n    atexit.register(pathlib.Path("{project.root}/ended").touch)\n',
    )
    assert PoolLimits().idle_timeout == 600, "also for a pool without a configuration"
    for settings, period in (("", 600.0), ("[workers]\nidle_timeout = 90\n", 90.0)):
        project.write("toolrun.toml", settings)
        async with project.open() as runtime:
            pool = runtime.scripts[0].pool
            await call(runtime, "count")
            clock.stop()
            first = await call(runtime, "count")
            (project.root / "ended").unlink(missing_ok=True)  # of the process that described it
            async with watched(int(str(first["pid"]))) as ended:
                await clock.advance(period / 4)
                await call(runtime, "count")
                await clock.advance(period - 0.25)
                assert [worker.pid for worker in own_workers()] == [first["pid"]], "it has its time"
                assert len(pool.workers) == 1
                await clock.advance(0.25)
                assert pool.workers == [], "and not a moment more"
                await ended.wait()
            assert (project.root / "ended").exists(), "it was not killed"
            assert not own_workers()
            again = await call(runtime, "count")
            assert (again["calls"], again["pid"] != first["pid"]) == (1, True), "the next call gets a new one"
        clock.resume()
    assert not [it for it in caplog.records if it.levelno >= logging.WARNING], "nothing has gone wrong"


@pytest.mark.scenario("S2.1.4")
async def test_s2_1_4_session_refresh_on_call(project: Project, clock: Clock) -> None:
    """Each call resets the idle timer: the worker stays for another whole period, as often as that happens."""
    project.write("tools/count.py", COUNTER)
    async with project.open() as runtime:
        pool = runtime.scripts[0].pool
        await call(runtime, "count")
        clock.stop()
        first = await call(runtime, "count")
        async with watched(int(str(first["pid"]))) as ended:
            for number in range(3):
                await clock.advance(599.75)
                assert len(pool.workers) == 1
                answer = await call(runtime, "count")
                assert (answer["pid"], answer["calls"]) == (first["pid"], number + 3)
            assert clock.elapsed == 3 * 599.75, "it has outlived its idle time three times"
            await clock.advance(599.75)
            assert len(pool.workers) == 1, "the period counts from the last call"
            assert not ended.is_set()
            await clock.advance(0.25)
            assert pool.workers == []
            await ended.wait()


@pytest.mark.scenario("S2.4.1")
async def test_s2_4_1_worker_crash_recovery(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    """A worker that dies, with or without a call, is noticed, and the next call gets a new one."""
    project.write(
        "tools/fragile.py",
        COUNTER + '\n    def crash() -> None:\n        """Die."""\n        os.kill(os.getpid(), 9)\n',
    )
    noticed = asyncio.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            noticed.set()

    listener = Listener(logging.WARNING)
    logging.getLogger("toolrun.worker").addHandler(listener)
    try:
        async with project.open() as runtime:
            first = await call(runtime, "fragile.count")
            lost = await runtime.executor.execute("fragile.crash")
            assert (lost.error_kind, lost.side_effects) == (ErrorKind.WORKER_LOST, SideEffects.UNKNOWN)
            assert "SIGKILL" in lost.text
            second = await call(runtime, "fragile.count")
            assert second["pid"] != first["pid"]
            assert second["calls"] == 1, "a new process"

            noticed.clear()
            os.kill(int(str(second["pid"])), signal.SIGKILL)
            await asyncio.wait_for(noticed.wait(), LIMIT)
            assert runtime.scripts[0].pool.workers == []
            third = await call(runtime, "fragile.count")
            assert third["pid"] not in (first["pid"], second["pid"])
            assert [worker.pid for worker in own_workers()] == [third["pid"]]
    finally:
        logging.getLogger("toolrun.worker").removeHandler(listener)
    warnings = [it.getMessage() for it in caplog.records if it.name == "toolrun.worker"]
    assert len(warnings) == 2
    assert all("The worker of 'fragile' was killed by SIGKILL" in warning for warning in warnings)


@pytest.mark.scenario("S2.4.2")
async def test_s2_4_2_graceful_shutdown(project: Project) -> None:
    """At the end running calls are let end, new ones are refused, workers end by themselves, and nothing is left."""
    project.write(
        "tools/work.py",
        f'''
        # /// script
        # dependencies = []
        # ///
        import atexit, os, pathlib
        from toolrun_sdk import progress

        root = pathlib.Path("{project.root}")

        def wait() -> int:
            """Wait until the gate is opened."""
            atexit.register((root / "tidied").touch)
            progress(0, message="waiting")
            (root / "gate").open().readline()
            return os.getpid()

        def idle() -> int:
            """Do nothing."""
            return os.getpid()
        ''',
    )
    with gate(project.root / "gate") as let_go:
        await prove_graceful_shutdown(project, let_go)


async def prove_graceful_shutdown(project: Project, let_go: Callable[[], object]) -> None:
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(project.open())
        waits = asyncio.Event()
        running = asyncio.create_task(runtime.executor.execute("work.wait", on_progress=lambda _: waits.set()))
        await asyncio.wait_for(waits.wait(), LIMIT)
        idle = (await runtime.executor.execute("work.idle")).result
        assert len(own_workers()) == 2, "one is busy, so there is a second"
        closing = asyncio.create_task(stack.pop_all().aclose())
        async with asyncio.timeout(LIMIT):
            while (refused := await runtime.executor.execute("work.idle")).success:
                pass  # the closing is about to begin
        assert (refused.error_kind, refused.side_effects) == (ErrorKind.UNAVAILABLE, SideEffects.NOT_STARTED)
        assert not running.done()
        let_go()
        await asyncio.wait_for(closing, LIMIT)
        result = await asyncio.wait_for(running, LIMIT)
        assert result.success
        assert result.result != idle
        assert (project.root / "tidied").exists(), "it ended by itself: its exit handlers have run"
        assert not own_workers()
