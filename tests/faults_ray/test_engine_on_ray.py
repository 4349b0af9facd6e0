"""The contract of engines, over the nodes of a real cluster: the tests of `contract/test_engine.py`, in one gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contract import test_engine as contract
from support.engine_world import Ears, World, open_world
from support.ray_cluster import RayCluster
from toolrun.processes.ray.ray_engine import RayEngine

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ray"), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(started_ray_cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    started_ray_cluster.repair()
    folder = tmp_path_factory.mktemp("ray")
    with started_ray_cluster.entered():
        async with open_world("ray", folder) as opened:
            first = await opened.start(Ears())  # with it, the processes start that stay for all tests
            await first.close(5.0)
            yield opened


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def no_workers_left(world: World) -> AsyncIterator[None]:
    """The tests leave that to the engine, which stays here."""
    yield
    assert isinstance(world.engine, RayEngine)
    for worker in world.engine.workers:
        worker.kill()
        await worker.wait()


test_answers = contract.test_a_worker_answers_what_it_is_sent
test_order = contract.test_what_is_sent_in_pieces_and_together_arrives_in_its_order
test_long_messages = contract.test_a_long_message_arrives_whole_in_both_directions
test_logs = contract.test_what_it_logs_comes_line_by_line
test_kill = contract.test_a_worker_that_is_killed_ends_once_and_takes_nothing_more
test_end = contract.test_an_end_has_the_code_and_the_last_words
test_close = contract.test_close_lets_it_end_by_itself_and_returns_after_its_end
test_hang = contract.test_a_worker_that_hangs_is_killed_in_the_middle_of_it
test_flood = contract.test_a_flood_of_log_lines_ends_and_leaves_the_worker_as_it_was
test_fault_in_script = contract.test_a_script_that_cannot_be_loaded_says_so_first
test_end_of_all = contract.test_the_end_of_the_engine_is_that_of_all_workers  # the last: it closes the engine
