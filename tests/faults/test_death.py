"""Workers that die: of a signal, of their own will, of a bug, of a limit."""

from __future__ import annotations

import os
import signal

from faults.bench import Project, is_gone, is_lost, reported, until
from toolrun import ErrorKind, SideEffects


async def test_a_worker_that_is_killed_while_it_is_idle_costs_no_call(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            os.kill(first, signal.SIGKILL)
            await until(lambda: is_gone(first), "the end of the worker")
            assert await tools.works() != first


async def test_a_call_in_the_moment_in_which_its_worker_is_killed_has_one_answer(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            os.kill(first, signal.SIGKILL)
            result = await tools.run()
        assert result.success or is_lost(result)
        assert await tools.works() != first


async def test_a_worker_that_is_killed_mid_call_is_named_with_its_signal(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            call = await reported(lambda report: tools.run("progress(1); time.sleep(60)", on_progress=report))
            os.kill(first, signal.SIGKILL)
            lost = await call
        assert is_lost(lost)
        assert "was killed by SIGKILL (out of memory" in (lost.error or "")
        assert await tools.works() != first


async def test_a_worker_that_exits_is_named_with_its_code_and_its_last_words(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        lost = await tools.fault("print('the end is near'); os._exit(3)")
        assert is_lost(lost)
        assert "exit code 3" in (lost.error or "")
        assert "the end is near" in lost.detail
        assert await tools.works() != first


async def test_a_segmentation_fault_is_one_of_the_worker_alone(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        lost = await tools.fault("import ctypes; ctypes.string_at(0)")
        assert is_lost(lost)
        assert "SIGSEGV" in (lost.error or "")
        assert await tools.works() != first


async def test_memory_beyond_the_limit_is_refused_to_the_tool_and_to_nobody_else(project: Project) -> None:
    project.write("subject", memory_mb=200)
    async with project.open() as tools:
        await tools.works()
        refused = await tools.fault("hoard = [bytes(10_000_000) for _ in range(100)]")
        assert (refused.error_kind, refused.side_effects) == (ErrorKind.TOOL_ERROR, SideEffects.FAILED)
        assert "ran out of memory" in (refused.error or "")
        await tools.works()
