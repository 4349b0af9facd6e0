"""The cluster that the other tests stand on does what they ask of it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from support.ray_cluster import RayCluster, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ray")]


def test_all_machines_are_nodes_of_the_cluster(ray_cluster: RayCluster) -> None:
    assert ray_cluster.alive() == sorted(ray_cluster.address_of(name) for name in ray_cluster.machines)


@pytest.mark.usefixtures("two_machines")
def test_a_machine_that_is_killed_leaves_no_process_and_comes_back(ray_cluster: RayCluster) -> None:
    before = ray_cluster.processes("node")
    ray_cluster.kill("node")
    assert before
    assert not [it for it in before if Path(f"/proc/{it.pid}").exists()]
    ray_cluster.start("node")
    assert {it.pid for it in ray_cluster.processes("node")}.isdisjoint(it.pid for it in before)
    wait_until(lambda: ray_cluster.alive() == ["10.77.0.1", "10.77.0.2"])


@pytest.mark.usefixtures("two_machines")
def test_a_cable_that_is_cut_carries_nothing_until_it_is_healed(ray_cluster: RayCluster) -> None:
    def answers() -> bool:
        with ray_cluster.entered(), socket.socket() as it:
            it.settimeout(1)
            try:
                it.connect((ray_cluster.address_of("node"), 1))
            except ConnectionRefusedError:
                return True
            except OSError:
                return False
        return True

    assert answers()
    ray_cluster.cut("node")
    assert not answers()
    ray_cluster.heal("node")
    wait_until(answers)


def test_the_thread_that_entered_the_network_of_the_driver_leaves_it_again(ray_cluster: RayCluster) -> None:
    here = Path("/proc/thread-self/ns/net").readlink()
    with ray_cluster.entered():
        host, _, port = ray_cluster.address.rpartition(":")
        socket.create_connection((host, int(port)), 5).close()
        assert os.environ["RAY_ADDRESS"] == ray_cluster.address
    assert Path("/proc/thread-self/ns/net").readlink() == here
    assert "RAY_ADDRESS" not in os.environ
