"""What `toolrun doctor` says of a cluster that cannot be used, without one."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from toolrun.cli.cluster_checks import _members, examine_cluster, uses_cluster
from toolrun.cluster.credentials import Credentials, make_head_credentials
from toolrun.cluster.ray_start import ray_variables
from toolrun.config.model import Config, ToolSettings, WorkerSettings

ALIVE = {"address": "10.0.0.2", "is_alive": True, "resources": {"CPU": 4.0, "memory": 1e9, "node:10.0.0.2": 1.0}}
CLUSTER = {"python": "3.11.7", "ray": "2.60.0", "own_python": "3.11.7", "own_ray": "2.60.0", "nodes": [ALIVE]}


def config(address: str = "", **tools: ToolSettings) -> Config:
    return Config(path=None, root=Path("/"), workers=WorkerSettings(engine="ray", address=address), tool=tools)


@contextmanager
def listening(credentials: Credentials | None) -> Iterator[str]:
    """A head that speaks TLS, or says nothing sensible."""
    context = None
    if credentials is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(credentials.certificate, credentials.key)
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


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:x"])
def test_an_address_without_a_port_is_named(address: str) -> None:
    assert f"the address is not HOST:PORT: '{address}'" in last(config(address), {})


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


def test_no_node_is_a_problem() -> None:
    *_, it = _members(config(), {**CLUSTER, "nodes": []})
    assert (it.status, it.message) == ("problem", "no node is alive")


def test_a_tool_that_fits_on_no_node_is_named() -> None:
    found = config(big=ToolSettings(resources={"CPU": 2, "GPU": 1}), small=ToolSettings(resources={"CPU": 4}))
    [bad] = [it for it in _members(found, CLUSTER) if it.status == "problem"]
    assert bad.message == "big needs CPU 2, GPU 1 on one node, and no node has that"


def test_a_cluster_that_says_nothing_is_a_problem() -> None:
    [it] = _members(config(), {"error": "RpcError: gone"})
    assert (it.status, "RpcError: gone" in it.message) == ("problem", True)
