"""Whether a cluster is used, by what its head says to somebody with a wrong token and to us."""

from __future__ import annotations

import pytest

from toolrun.processes.ray.cluster_check import ClusterError, judge_answers

GONE = "error RpcError: gone"
OPEN, TOKEN, SILENT = "it asks for no token", "refuses this program's token", "does not answer: RpcError: gone"


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
