"""What a tool prints, what it does not read, and what nobody reads."""

from __future__ import annotations

import hashlib
import logging
import os
import signal

import pytest

from faults.bench import Project, is_gone, is_lost, is_timeout, reported, until

LARGE = "0123456789" * 1_000_000


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("print('{line}')", id="print"),
        pytest.param("os.write(1, b'{line}\\n')", id="to the descriptor"),
        pytest.param("os.system('echo {line}')", id="by a child"),
        pytest.param("import ctypes; ctypes.CDLL(None).puts(b'{line}'); ctypes.CDLL(None).fflush(None)", id="in C"),
        pytest.param(
            "import multiprocessing as it; it.get_context('fork').Process(target=print, args=['{line}']).start()",
            id="by a fork",
        ),
    ],
)
async def test_what_a_tool_prints_is_log_and_never_an_answer(
    project: Project, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    caplog.set_level(logging.INFO, "toolrun.worker")
    line = '{"id": 1, "result": "printed", "error": null}'.replace('"', '"' if "echo" not in code else '\\\\"')
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            assert (await tools.run(code.replace("{line}", line))).result == first
            assert await tools.works() == first
            await until(lambda: "printed" in caplog.text, "the line in the log")


@pytest.mark.parametrize(
    ("flood", "size"),
    [
        pytest.param("(b'x' * 9_999 + b'\\n') * 100", 100_000_000, id="of lines"),
        pytest.param("b'x' * 1_000_000", 100_000_000, id="without an end of line"),
        pytest.param("b'\\xff\\x00\\r\\n' * 10_000", 2_000_000, id="of rubbish in half a million lines"),
    ],
)
async def test_a_flood_on_stderr_does_not_block_the_worker(
    project: Project, caplog: pytest.LogCaptureFixture, flood: str, size: int
) -> None:
    caplog.set_level(logging.CRITICAL, "toolrun.worker")
    async with project.open() as tools:
        first = await tools.works()
        async with tools.bystander():
            code = f"""
                flood, left = {flood}, {size}
                while left > 0:
                    left -= os.write(2, flood)
            """
            assert (await tools.run(code)).result == first


async def test_only_the_end_of_a_flood_is_told_when_its_worker_dies(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "toolrun.worker")
    async with project.open() as tools:
        await tools.works()
        lost = await tools.fault(
            "for number in range(100): os.write(2, b'%d ' % number + b'x' * 9_999 + b'\\n')\nos._exit(3)"
        )
        assert is_lost(lost)
        assert "99 x" in lost.detail
        assert "79 x" not in lost.detail
        assert len(lost.detail) < 200_000
        await tools.works()


async def test_ten_megabytes_for_a_worker_that_has_stopped_reading_hold_up_nobody(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        os.kill(first, signal.SIGSTOP)
        late = await tools.fault("", data=LARGE, timeout=0.5)
        assert is_timeout(late)
        await until(lambda: is_gone(first), "the end of the worker")
        assert await tools.works() != first


async def test_ten_megabytes_for_a_busy_worker_arrive_when_it_has_time(project: Project) -> None:
    project.write("subject", concurrency=2)
    async with project.open(max_workers=1) as tools:
        first = await tools.works()
        async with tools.bystander():
            busy = await reported(
                lambda report: tools.run("progress(1); answer = sum(range(2 * 10**7))", on_progress=report)
            )
            code = "import hashlib; answer = [hashlib.sha256(data.encode()).hexdigest(), data]"
            large = await tools.run(code, data=LARGE)
            assert large.result == [hashlib.sha256(LARGE.encode()).hexdigest(), LARGE]
            assert (await busy).result == sum(range(2 * 10**7))
        assert await tools.works() == first
