"""Whether a cluster is used, by what its head says to somebody with a wrong token and to us."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from toolrun.cluster.credentials import make_head_credentials
from toolrun.processes.ray import cluster_check
from toolrun.processes.ray.cluster_check import ClusterError, check_cluster, judge_answers

GONE = "error RpcError: gone"
OPEN, TOKEN, NONE = "it asks for no token", "refuses this program's token", "this program has no token"
SILENT = "does not answer: RpcError: gone"


@pytest.mark.parametrize(
    ("stranger", "we", "allows", "why"),
    [
        ("refused", "in", False, ""),
        ("refused", "in", True, ""),
        ("in", "in", True, ""),
        ("in", "in", False, OPEN),
        ("in", "refused", False, OPEN),
        ("in", "refused", True, TOKEN),
        ("refused", "refused", False, TOKEN),
        ("refused", "refused", True, TOKEN),
        ("refused", "elsewhere", False, "this machine is not a node of the cluster"),
        ("elsewhere", "elsewhere", False, OPEN),
        ("elsewhere", "elsewhere", True, "this machine is not a node of the cluster"),
        ("refused", "missing", False, NONE),
        ("in", "missing", True, NONE),
        ("refused", GONE, False, SILENT),
        (GONE, "in", False, SILENT),  # nobody knows whether it refuses others
        (GONE, GONE, True, SILENT),
        ("refused", "what?", False, "does not answer: what?"),
    ],
)
def test_a_cluster_is_used_only_if_it_refuses_others_and_not_us(stranger: str, we: str, allows: bool, why: str) -> None:
    if why:
        with pytest.raises(ClusterError, match=why.replace("?", r"\?")):
            judge_answers("10.0.0.1:6379", stranger, we, allows)
    else:
        judge_answers("10.0.0.1:6379", stranger, we, allows)


@pytest.mark.parametrize("path", ["", "nowhere", "empty"])
def test_a_token_that_is_not_there_is_named_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Ray would end the process with a stack trace."""
    (tmp_path / "empty").write_text("\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / path) if path else "")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    probe = Path(cluster_check.__file__).with_name("probe.py")
    done = subprocess.run([sys.executable, "-P", probe, "127.0.0.1:1"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("missing\n", 0)


def test_an_address_at_which_nothing_listens_is_named_without_starting_anything() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ClusterError, match=f"nothing answers at 127.0.0.1:{port}, where .* Connection refused"):
        check_cluster(f"127.0.0.1:{port}", False)


@contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[str]:
    """A head that speaks TLS, or plain HTTP/2 as Ray does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            connection.settimeout(10)
            with connection, suppress(OSError):
                if context is None:
                    connection.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
                else:
                    context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            thread.join(20)


@pytest.mark.parametrize("wants_certificate", [False, True])
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_head_with_tls_is_named_to_a_program_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: ssl.TLSVersion, wants_certificate: bool
) -> None:
    """Who forgets the variables of `toolrun cluster env` need not wait for a minute to learn nothing."""
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    head = make_head_credentials(tmp_path / "head", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    context.load_cert_chain(head.certificate, head.key)
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(head.authority)
    with listening(context) as address, pytest.raises(ClusterError, match=r"requires TLS.* toolrun cluster env"):
        check_cluster(address, False)


def test_a_head_without_tls_is_named_to_a_program_that_requires_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USE_TLS", "1")
    with listening(None) as address, pytest.raises(ClusterError, match="does not speak TLS"):
        check_cluster(address, False)
