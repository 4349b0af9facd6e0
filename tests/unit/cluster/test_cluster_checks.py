"""What `toolrun doctor` says of a cluster that cannot be used, without one."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from toolrun.cli.cluster_checks import _members, examine_cluster, uses_cluster
from toolrun.cluster import credentials
from toolrun.cluster.credentials import Credentials, invite, make_head_credentials
from toolrun.cluster.inspection import is_own_address
from toolrun.cluster.ray_start import ray_variables
from toolrun.config.model import Config, ToolSettings, WorkerSettings

RESOURCES = {"CPU": 4.0, "memory": 1e9, "node:10.0.0.2": 1.0}
ALIVE = {"address": "10.0.0.2", "is_alive": True, "is_here": True, "resources": RESOURCES}
CLUSTER = {"python": "3.11.7", "ray": "2.60.0", "own_python": "3.11.7", "own_ray": "2.60.0", "nodes": [ALIVE]}


def config(address: str = "", **tools: ToolSettings) -> Config:
    return Config(path=None, root=Path("/"), workers=WorkerSettings(engine="ray", address=address), tool=tools)


@contextmanager
def listening(own: Credentials | None) -> Iterator[str]:
    """A head that speaks TLS, or says nothing sensible."""
    context = None
    if own is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own.certificate, own.key)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                connection.settimeout(5)
                with connection, suppress(OSError):
                    if context is None:
                        connection.sendall(b"no TLS here\n")
                    else:
                        context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.close()
            thread.join(10)


@pytest.fixture
def head(tmp_path: Path) -> Credentials:
    return make_head_credentials(tmp_path / "head", "127.0.0.1")


def last(found: Config, environ: dict[str, str]) -> str:
    *_, it = examine_cluster(found, environ)
    assert it.status == "problem"
    assert it.advice, "each failing check says what to do"
    return f"{it.message} → {it.advice}"


def test_without_an_engine_ray_there_is_nothing_to_say() -> None:
    assert not uses_cluster(Config(path=None, root=Path("/")))
    assert uses_cluster(config())
    assert uses_cluster(Config(path=None, root=Path("/"), tool={"one": ToolSettings(engine="ray")}))


def test_an_address_is_needed() -> None:
    assert "set [workers] address" in last(config(), {})


def test_a_head_that_is_not_there_is_to_be_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = last(config(), {"RAY_ADDRESS": f"127.0.0.1:{port}"})
    assert f"nothing answers at 127.0.0.1:{port}: Connection refused" in said
    assert "toolrun cluster head" in said


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:x", "auto", "ray://10.0.0.1:10001"])
def test_an_address_that_is_not_host_and_port_is_named(address: str) -> None:
    said = last(config(address), {})
    assert "HOST:PORT" in said
    assert f"is '{address}'" in said


def test_a_head_with_tls_is_not_used_without_it(head: Credentials) -> None:
    with listening(head) as address:
        said = last(config(address), {})
    assert "requires TLS, and this program does not use it" in said
    assert 'eval "$(toolrun cluster env)"' in said


def test_a_head_of_another_cluster_is_named(tmp_path: Path, head: Credentials) -> None:
    other = make_head_credentials(tmp_path / "other", "127.0.0.1")
    with listening(other) as address:
        said = last(config(address), ray_variables(head))
    assert "is not one of this cluster" in said


def test_a_head_without_tls_is_not_used_with_it(head: Credentials) -> None:
    with listening(None) as address:
        said = last(config(address), ray_variables(head))
    assert "does not speak TLS" in said


def test_certificates_that_are_not_there_are_named(tmp_path: Path, head: Credentials) -> None:
    head.certificate.unlink()
    with listening(None) as address:
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))).close()
        said = last(config(address), ray_variables(head))
    assert "the certificate of this machine cannot be used" in said


def test_a_certificate_of_another_authority_beside_the_right_one_is_named(tmp_path: Path, head: Credentials) -> None:
    """The head accepts the handshake and closes the connection: nobody would learn why."""
    other = make_head_credentials(tmp_path / "other", "127.0.0.1")
    mixed = {**ray_variables(other), "RAY_TLS_CA_CERT": str(head.authority)}
    with listening(head) as address:
        said = last(config(address), mixed)
        assert last(config(address), ray_variables(head) | {"RAY_USE_TLS": "0"})  # the one connection that is served
    assert "another authority has signed it" in said


@pytest.mark.parametrize("days", [-4000, 5])
def test_a_certificate_of_this_machine_that_is_not_valid_now_is_named_with_its_time(
    tmp_path: Path, days: int, head: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has expired, or the clock of the machine on which it was made runs ahead."""
    monkeypatch.setattr(credentials, "datetime", _Shifted(days))
    made = invite(head.folder, "127.0.0.1")
    monkeypatch.undo()
    with listening(head) as address:
        said = last(config(address), ray_variables(made))
        assert last(config(address), ray_variables(head) | {"RAY_USE_TLS": "0"})
    assert "the certificate of this machine is valid from" in said
    assert "toolrun cluster invite" in said


@pytest.mark.parametrize(("days", "why"), [(-4000, "expired"), (5, "not yet valid")])
def test_a_head_whose_certificate_is_not_valid_now_is_not_taken_for_that_of_another_cluster(
    tmp_path: Path, days: int, why: str, head: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "datetime", _Shifted(days))
    shifted = invite(head.folder, "127.0.0.1")
    monkeypatch.undo()
    with listening(shifted) as address:
        said = last(config(address), ray_variables(head))
    assert "is not valid now" in said
    assert why in said
    assert "correct the clocks" in said


class _Shifted:
    """A clock that is wrong by so many days."""

    def __init__(self, days: int) -> None:
        self._days = days

    def now(self, zone: tzinfo) -> datetime:
        return datetime.now(zone) + timedelta(days=self._days)


@pytest.mark.parametrize(("which", "name"), [("python", "Python"), ("ray", "Ray")])
def test_another_version_is_a_problem_to_the_patch_level(which: str, name: str) -> None:
    said = [it for it in _members(config(), {**CLUSTER, which: "3.11.6"}) if it.status == "problem"]
    assert [it.message.split(" is ")[0] for it in said] == [name]
    assert "3.11.6 on the cluster" in said[0].message
    assert f"install {name} 3.11.6 here" in said[0].advice


def test_nodes_are_shown_with_what_they_have() -> None:
    dead = {**ALIVE, "address": "10.0.0.3", "is_alive": False}
    messages = [it.message for it in _members(config(), {**CLUSTER, "nodes": [ALIVE, dead]})]
    assert messages == ["Python 3.11.7, as on the cluster", "Ray 2.60.0, as on the cluster", "1 node: 10.0.0.2 (CPU 4)"]


def test_a_machine_that_is_no_node_itself_is_told_how_to_become_one() -> None:
    """Ray wants one of its processes beside whoever uses it."""
    *_, it = _members(config(), {**CLUSTER, "nodes": [{**ALIVE, "is_here": False}]})
    assert (it.status, it.message) == ("problem", "this machine is not a node of the cluster")
    assert "toolrun cluster node" in it.advice


@pytest.mark.parametrize(("address", "is_own"), [("127.0.0.1", True), ("203.0.113.7", False), ("2001:db8::1", False)])
def test_a_node_is_here_if_its_address_is_one_of_this_machine(address: str, is_own: bool) -> None:
    assert is_own_address(address) is is_own


def test_no_node_is_a_problem() -> None:
    *_, it = _members(config(), {**CLUSTER, "nodes": []})
    assert (it.status, it.message) == ("problem", "no node is alive")


def test_a_tool_that_fits_on_no_node_is_named() -> None:
    found = config(big=ToolSettings(resources={"CPU": 2, "GPU": 1}), small=ToolSettings(resources={"CPU": 4}))
    [bad] = [it for it in _members(found, CLUSTER) if it.status == "problem"]
    assert bad.message == "big needs CPU 2, GPU 1 on one node, and no node has that"


def test_memory_that_no_node_has_is_named() -> None:
    [bad] = [it for it in _members(config(big=ToolSettings(resources={"memory": 2e9})), CLUSTER) if it.advice]
    assert bad.message == "big needs memory 2e+09 on one node, and no node has that"


def test_a_cluster_that_says_nothing_is_a_problem() -> None:
    [it] = _members(config(), {"error": "RpcError: gone"})
    assert (it.status, "RpcError: gone" in it.message) == ("problem", True)
