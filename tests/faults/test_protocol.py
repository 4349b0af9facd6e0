"""Workers that say something else than one answer to each call. Their tools write to the protocol themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from faults.bench import Project, Tools, is_gone, is_lost, is_protocol_error, is_timeout, reported, until
from toolrun import ErrorKind, SideEffects
from toolrun.scripts.wire import MAX_LINE

WAIT_FOR = "while not Path({path!r}).exists(): time.sleep(0.005)"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(r"say(b'Traceback (most recent call last):\n')", "not JSON", id="garbage"),
        pytest.param(r"say(b'\n')", "not JSON", id="an empty line"),
        pytest.param(
            r"say(b'{\"id\":%d,\"result\":\"\xff\xfe\",\"error\":null}\n' % number())", "not JSON", id="not UTF-8"
        ),
        pytest.param(r"say(b'{\"id\":%d,\"result\":NaN,\"error\":null}\n' % number())", "not JSON", id="NaN"),
        pytest.param(r"say(b'[' * 100_000 + b'\n')", "not JSON", id="deep"),
        pytest.param(r"say(b'{\"id\":%d,\"result\":1}\n' % number())", "an unknown message", id="half an answer"),
        pytest.param(
            r"say(b'{\"id\":\"%d\",\"result\":1,\"error\":null}\n' % number())", "an unknown message", id="id as text"
        ),
        pytest.param(f"say(b'x' * {MAX_LINE + 1})", "a line of more than", id="a line over the cap"),
        pytest.param(f"say(b'x' * {MAX_LINE + 1} + b'\\n')", "a line of more than", id="a whole line over the cap"),
    ],
)
async def test_what_is_no_message_costs_the_worker_its_life(project: Project, code: str, said: str) -> None:
    async with project.open() as tools:
        first = await tools.works()
        refused = await tools.fault(f"{code}; time.sleep(60)")
        assert is_protocol_error(refused)
        assert said in (refused.error or "")
        assert await tools.works() != first
        await until(lambda: is_gone(first), "the end of the worker")


async def test_calls_that_wait_are_not_sent_to_a_worker_that_talks_rubbish(project: Project) -> None:
    async with project.open(max_workers=1) as tools:
        await tools.works()
        gate = project.root / "gate"
        code = f"progress(1)\n{WAIT_FOR.format(path=str(gate))}\nsay(b'rubbish\\n')"
        async with tools.bystander():
            call = await reported(lambda report: tools.run(code, on_progress=report))
            waiting = [asyncio.create_task(tools.run("answer = data", data=str(number))) for number in range(5)]
            await until(lambda: len(tools.pool()._state._waiting) == 5, "the calls that wait")
            gate.touch()
            assert is_protocol_error(await call)
            assert [(await it).result for it in waiting] == ["0", "1", "2", "3", "4"]


async def test_rubbish_while_no_call_runs_costs_none(project: Project) -> None:
    async with project.open() as tools:
        gate = project.root / "gate"
        code = f"""
            import threading
            def rubbish():
                {WAIT_FOR.format(path=str(gate))}
                say(b"rubbish\\n")
            threading.Thread(target=rubbish, daemon=True).start()
        """
        first: Any = (await tools.run(code)).result
        async with tools.bystander():
            gate.touch()
            await until(lambda: is_gone(first), "the end of the worker")
            assert await tools.works() != first


async def test_rubbish_instead_of_a_start_means_that_the_tool_has_not_begun(project: Project) -> None:
    async with project.open() as tools:
        project.at_import("_say(b'hello\\n')")
        refused = await tools.fault("")
        assert (refused.error_kind, refused.side_effects) == (ErrorKind.PROTOCOL, SideEffects.NOT_STARTED)
        project.at_import("")
        await tools.works()


async def test_half_a_line_before_its_death_is_no_answer(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        lost = await tools.fault("""say(b'{"id":%d,"result":"almost","error":nul' % number()); os._exit(3)""")
        assert is_lost(lost)
        assert await tools.works() != first


async def test_a_whole_line_before_its_death_is_an_answer(project: Project) -> None:
    async with project.open() as tools:
        await tools.works()
        async with tools.bystander():
            answered = await tools.run("""say(b'{"id":%d,"result":"done","error":null}\\n' % number()); os._exit(3)""")
        assert answered.result == "done"
        # Until its death is noticed, a call could still be sent to it, and would be lost with it.
        await until(lambda: not tools.pool().workers, "the death of the worker")
        await tools.works()


async def test_an_answer_may_come_byte_by_byte(project: Project) -> None:
    async with project.open() as tools:
        code = """
            for byte in b'{"id":%d,"result":"bit by bit","error":null}\\n' % number():
                say(bytes([byte]))
        """
        async with tools.bystander():
            assert (await tools.run(code)).result == "bit by bit"
        await tools.works()


async def test_two_answers_may_come_in_one_write(project: Project) -> None:
    project.write("subject", concurrency=2)
    async with project.open(max_workers=1) as tools:
        await tools.works()
        note = project.root / "note"
        async with tools.bystander():
            other = await reported(
                lambda report: tools.run(
                    f"Path({str(note)!r}).write_text(str(number())); progress(1); time.sleep(60)", on_progress=report
                )
            )
            code = f"""
                lines = b'{{"id":%d,"result":"mine","error":null}}\\n{{"id":%s,"result":"yours","error":null}}\\n'
                say(lines % (number(), Path({str(note)!r}).read_bytes()))
            """
            assert (await tools.run(code)).result == "mine"
            assert (await other).result == "yours"


@pytest.mark.parametrize("other", ["0", "-1", "1", "10**12", "number() + 1", "number() - 50", "10**18 - 1"])
@pytest.mark.parametrize("size", [10, 600_000])
async def test_an_answer_to_a_call_that_it_did_not_get_is_no_answer_and_its_end(
    project: Project, other: str, size: int
) -> None:
    async with project.open() as tools:
        first = await tools.works()
        text = f"[{'0,' * size}0]" if size > 10 else '"stolen"'
        code = f"""
            say(b'{{"id":%d,"result":%s,"error":null}}\\n' % ({other}, {text!r}.encode()))
            time.sleep(60)
        """
        async with tools.bystander():
            refused = await tools.run(code)
        assert (refused.error_kind, refused.side_effects) == (ErrorKind.PROTOCOL, SideEffects.UNKNOWN)
        assert "an answer to a call that it did not get" in str(refused.error)
        assert await tools.works() != first


async def test_the_numbers_of_calls_cannot_be_guessed(project: Project) -> None:
    async with project.open() as tools:
        starts = []
        for _ in range(3):
            starts.append((await tools.run("answer = number()")).result)
            assert is_lost(await tools.fault("os._exit(3)"))
        assert all(isinstance(start, int) and start.bit_length() > 32 for start in starts)
        assert len({int(str(start)) >> 20 for start in starts}) == 3


async def test_a_call_that_was_answered_may_be_answered_again_to_no_effect(project: Project) -> None:
    async with project.open() as tools:
        first = await tools.works()
        code = """
            for other in (number() - 1, number() - 1):
                say(b'{"id":%d,"result":"again","error":null}\\n' % other)
        """
        async with tools.bystander():
            assert (await tools.run(code)).result == first
        assert await tools.works() == first, "it does no harm, so it may live"


async def test_of_two_answers_to_a_call_the_first_counts_and_the_next_call_gets_its_own(project: Project) -> None:
    async with project.open() as tools:
        await tools.works()
        async with tools.bystander():
            for number in range(3):
                code = """say(b'{"id":%d,"result":"first","error":null}\\n' % number()); answer = "second" """
                assert (await tools.run(code)).result == "first"
                assert (await tools.run("answer = data", data=str(number))).result == str(number)


@pytest.mark.parametrize("by", ["its deadline", "its caller"])
async def test_an_answer_after_the_call_was_given_up_is_ignored(project: Project, by: str) -> None:
    project.write("subject", concurrency=2)
    async with project.open(max_workers=1) as tools:
        first = await tools.works()
        late, end = project.root / "late", project.root / "end"
        async with tools.bystander():
            other = await reported(
                lambda report: tools.run(
                    f"progress(1)\n{WAIT_FOR.format(path=str(end))}\nanswer = 'mine'", on_progress=report
                )
            )
            code = f"progress(1)\n{WAIT_FOR.format(path=str(late))}\nPath({str(end)!r}).touch()\nanswer = 'too late'"
            if by == "its deadline":
                assert is_timeout(await tools.run(code, timeout=0.3))
            else:
                given_up = await reported(lambda report: tools.run(code, on_progress=report))
                given_up.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await given_up
            late.touch()
            assert (await other).result == "mine"
        assert await tools.works() != first
        await until(lambda: is_gone(first), "the end of the worker")


async def test_an_answer_at_the_deadline_is_that_of_its_call_or_none(project: Project) -> None:
    async with project.open() as tools:
        async with tools.bystander():
            for number in range(12):
                await tools.works()
                result = await tools.run(
                    "time.sleep(0.1); answer = data", data=str(number), timeout=0.1 + 0.0005 * number
                )
                assert result.result == str(number) if result.success else is_timeout(result)
        await tools.works()


@pytest.mark.parametrize(
    ("code", "result"),
    [
        pytest.param("answer = [float('nan'), float('inf'), 1.5]", [None, None, 1.5], id="NaN"),
        pytest.param("answer = {1: {2, 3}}", {"1": [2, 3]}, id="not quite JSON"),
        pytest.param("answer = 'a\\ud800b'", "a\ufffdb", id="half a character"),
        pytest.param("answer = 2**64 - 1", 2**64 - 1, id="a large number"),
    ],
)
async def test_a_result_that_is_not_json_is_made_such(project: Project, code: str, result: object) -> None:
    async with project.open() as tools:
        assert await _result(tools, code) == result
        await tools.works()


async def test_a_result_that_has_no_form_in_json_is_its_text(project: Project) -> None:
    async with project.open() as tools:
        assert "object object at" in str(await _result(tools, "answer = object()"))
        assert await _result(tools, "answer = (it for it in [1])") == [1], "what it yields has a form"
        assert "…" in str(await _result(tools, "answer = []; answer.append(answer)"))
        angry = """
            class Angry:
                def __str__(self): raise ValueError("no")
                __repr__ = __getattr__ = __iter__ = __str__
            answer = {"it": Angry()}
        """
        assert "Angry" in str(await _result(tools, angry))
        await tools.works()


async def _result(tools: Tools, code: str) -> object:
    async with tools.bystander():
        answered = await tools.run(code)
    assert answered.success, answered.error
    return answered.result
