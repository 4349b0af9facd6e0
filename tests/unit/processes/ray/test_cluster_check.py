"""Whether a cluster is used, by what its head says to somebody with a wrong token and to us."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

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
