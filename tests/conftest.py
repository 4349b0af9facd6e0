"""What every test gets: nothing may be left behind, and nothing may reach the user's own configuration."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest
import pytest_asyncio

pytest.register_assert_rewrite("faults.bench", "support.leftovers")

from support.leftovers import Existing  # noqa: E402  after the line that makes its asserts speak
from support.ray_cluster import ray_cluster, started_ray_cluster, two_machines  # noqa: E402, F401  fixtures
from toolrun import ToolExecutor, ToolManager  # noqa: E402

# Machines may be busy: how long an example takes, or making one, says nothing about the code.
hypothesis.settings.register_profile(
    "patient",
    hypothesis.settings(),  # those for CI, if this is one
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # In a background job, under nohup and in many CI runners. A process that the tests start would ignore the signal,
    # too; one that is handled here is back at its default there.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Kept from run to run like the environments of scripts, and not among the files of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = str(Path(__file__).parents[1] / ".pytest_cache" / "state")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that wait for real time run only if they are asked for: `-m real_time`."""
    if "real_time" in config.getoption("markexpr"):
        return
    waiting = [item for item in items if item.get_closest_marker("real_time")]
    if waiting:
        config.hook.pytest_deselected(items=waiting)
        items[:] = [item for item in items if item not in waiting]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TOOLRUN_"):
            monkeypatch.delenv(name)


@pytest.fixture
def process_tag() -> str:
    """Put into the environment of all processes that a test starts (`TAG`), it makes the check below find them."""
    return secrets.token_hex(8)


@pytest.fixture(scope="session", autouse=True)
def background_loop() -> None:
    """`execute_sync` makes one event loop for the whole process, which stays. So it is there before the first test."""
    ToolExecutor(ToolManager()).execute_sync("any")


@pytest_asyncio.fixture
async def loop_of_the_test() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves tasks, processes, threads or file descriptors behind, as support/leftovers.py says.

    It is the first fixture of every test, so that it ends when the other ones have cleaned up. It asks for an event
    loop only if the test runs on one, because making one takes longer than most tests.
    """
    loop = request.getfixturevalue("loop_of_the_test") if pytest_asyncio.is_async_test(request.node) else None
    tag = request.getfixturevalue("process_tag") if "process_tag" in request.fixturenames else None
    existing = Existing.now()
    yield
    existing.check_nothing_more(loop, tag)


@pytest_asyncio.fixture
async def executor() -> AsyncIterator[ToolExecutor]:
    """An executor with no tools yet, closed at the end."""
    made = ToolExecutor(ToolManager(), timeout=5.0)
    yield made
    await made.close()
