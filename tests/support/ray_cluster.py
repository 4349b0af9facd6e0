"""The cluster that tests share, and what they need to ask for it (examples/cluster/small_cluster.py).

    def test_…(ray_cluster: RayCluster) -> None:
        with ray_cluster.entered(): …             this thread is in that network, and what it starts
        ray_cluster.run("print(…)")               or a program

It is there once for all tests, in the xdist group "ray"; a test gets it whole, whatever the one before did to it. Who
is not root has one node, and tests that ask for `two_machines` are skipped. In CI, root must have the programs for it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator

import pytest
from machines import why_not
from small_cluster import RayCluster as RayCluster


def wait_until(is_so: Callable[[], object], limit: float = 30.0) -> None:
    """Fails after `limit` seconds."""
    until = time.monotonic() + limit
    while not is_so():
        assert time.monotonic() < until, f"not so within {limit:g} s"
        time.sleep(0.02)


def needs_machines() -> None:
    """Skips a test that needs more than one machine where there is one."""
    if reason := why_not():
        _give_up(f"it needs two machines: {reason}", is_wanted=os.geteuid() == 0 and shutil.which("ip") is None)


def _give_up(reason: str, *, is_wanted: bool = True) -> None:
    """Fails the test in CI if it is wanted there, and else skips it."""
    if is_wanted and os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def started_ray_cluster() -> Iterator[RayCluster]:
    try:
        import ray  # noqa: F401
    except ImportError:
        _give_up("ray is not installed: pip install 'toolrun[ray]'")
    with RayCluster() as cluster:
        yield cluster


@pytest.fixture
def ray_cluster(started_ray_cluster: RayCluster) -> RayCluster:
    """The cluster, whole."""
    started_ray_cluster.repair()
    return started_ray_cluster


@pytest.fixture
def two_machines() -> None:
    """For a test that needs a second machine. To be asked for first: the cluster takes a while to start."""
    needs_machines()
