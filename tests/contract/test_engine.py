"""What every engine promises, over all of them: in memory, on this machine, on a node.

`node` is a replica of the cluster's kind, with its actor and its TLS connection, placed without Ray;
`faults_ray/test_engine_on_ray.py` runs these tests over the nodes of a real cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.direct_cluster import is_alive
from support.engine_world import Ears, World, open_world
from toolrun.processes.engine import Exit

ENGINES = ("memory", "local", "node")


@pytest_asyncio.fixture(params=ENGINES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(request.param, tmp_path) as opened:
        yield opened


def only_with_processes(world: World) -> None:
    if not world.has_processes:
        pytest.skip("it has no processes")


async def test_a_worker_answers_what_it_is_sent(world: World) -> None:
    ears = Ears()
    worker = await world.start(ears)
    assert worker.send(world.request("add", a=1, b=2))
    assert (await ears.message(0))["result"] == 3


async def test_what_is_sent_in_pieces_and_together_arrives_in_its_order(world: World) -> None:
    ears = Ears()
    worker = await world.start(ears)
    for number in range(50):
        assert worker.send(world.request("add", a=number, b=0), coalesce=number % 3 > 0)
    await ears.message(49)
    assert [message["result"] for message in ears.messages] == list(range(50))


async def test_a_long_message_arrives_whole_in_both_directions(world: World) -> None:
    ears, text = Ears(), "abcdefghij" * 400_000
    worker = await world.start(ears)
    assert worker.send(world.request("echo", text=text))
    assert (await ears.message(0))["result"] == text


async def test_what_it_logs_comes_line_by_line(world: World) -> None:
    ears = Ears()
    worker = await world.start(ears)
    worker.send(world.request("say", text="hello"))
    await ears.until(lambda: "hello" in ears.lines)


async def test_a_worker_that_is_killed_ends_once_and_takes_nothing_more(world: World) -> None:
    ears = Ears()
    worker = await world.start(ears)
    worker.kill()
    worker.kill()
    assert (await ears.end()).code == -9
    assert not worker.send(world.request("add", a=1, b=2))
    worker.kill()
    await worker.close(0.1)
    assert len(ears.ends) == 1
    assert not ears.after_end


async def test_an_end_has_the_code_and_the_last_words(world: World) -> None:
    ears = Ears()
    worker = await world.start(ears)
    worker.send(world.request("leave", code=3))
    exit = await ears.end()
    assert (exit.code, exit.lost) == (3, "")
    assert "the end is near" in exit.tail


async def test_close_lets_it_end_by_itself_and_returns_after_its_end(world: World) -> None:
    ears = Ears()
    worker = await world.start(ears)
    await worker.close(5.0)
    assert ears.ends == [Exit(0, "")]


async def test_the_end_of_the_engine_is_that_of_all_workers(world: World) -> None:
    all_ears = [Ears(), Ears()]
    for ears in all_ears:
        await world.start(ears)
    await world.engine.close()
    assert [len(ears.ends) for ears in all_ears] == [1, 1]


async def test_its_workers_belong_to_one_event_loop(world: World) -> None:
    only_with_processes(world)
    worker = await world.start(Ears())
    with pytest.raises(AssertionError, match="the workers of an engine belong to one event loop"):
        await asyncio.to_thread(asyncio.run, _start_another(world))
    assert worker.send(world.request("add", a=1, b=2))


async def _start_another(world: World) -> None:
    await world.start(Ears())


async def test_a_kill_ends_whatever_the_worker_has_started(world: World, process_tag: str) -> None:
    """The fixture finds what is left."""
    only_with_processes(world)
    ears = Ears()
    worker = await world.start(ears)
    worker.send(world.request("family", path=""))
    assert (await ears.message(0))["result"] > 0
    worker.kill()
    await ears.end()


async def test_a_worker_that_hangs_is_killed_in_the_middle_of_it(world: World) -> None:
    only_with_processes(world)
    ears = Ears()
    worker = await world.start(ears)
    worker.send(world.request("hang", seconds=600))
    worker.kill()
    assert (await ears.end()).code == -9


async def test_it_says_which_process_it_is_and_what_it_uses(world: World) -> None:
    only_with_processes(world)
    ears = Ears()
    worker = await world.start(ears)
    worker.send(world.request("add", a=1, b=2))
    await ears.message(0)
    async with asyncio.timeout(10):
        while not worker.describe().memory:  # noqa: ASYNC110  a node tells it now and then
            await asyncio.sleep(0.01)
    info = worker.describe()
    assert is_alive(int(info.place.removeprefix("pid ")))
    assert info.sandbox


async def test_a_flood_of_log_lines_ends_and_leaves_the_worker_as_it_was(world: World) -> None:
    only_with_processes(world)
    ears = Ears()
    worker = await world.start(ears)
    worker.send(world.request("flood", megabytes=8))
    assert (await ears.message(0))["result"] == 8
    worker.send(world.request("add", a=1, b=2))
    assert (await ears.message(1))["result"] == 3


async def test_a_script_that_cannot_be_loaded_says_so_first(world: World) -> None:
    only_with_processes(world)
    ears = Ears()
    world.engine.start(
        await world.spec(b"# /// script\n# dependencies = []\n# ///\nimport nothing_of_that_name\n"), ears
    )
    assert "nothing_of_that_name" in (await ears.message(0))["ready"]["error"]
    assert (await ears.end()).code == 1
