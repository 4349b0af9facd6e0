"""How Ray is started on a machine, and which variables it and those who use the cluster need. Pure.

With Ray's own settings a dead node is noticed after 14 seconds, and a node whose cable was pulled not within 50; with
these, after 3 and 6. toolrun's calls do not pass through Ray's object store, so it gets little memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from toolrun.cluster.credentials import Credentials

PORT: Final = 6379

HEALTH_CHECKS: Final = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "1000",
}
_OBJECT_STORE: Final = 100_000_000
"""Bytes of shared memory. Ray refuses less than 75 MB."""


def ray_variables(credentials: Credentials) -> dict[str, str]:
    """What every process of Ray needs, and every program that uses the cluster."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(credentials.token),
        "RAY_USE_TLS": "1",
        "RAY_TLS_CA_CERT": str(credentials.authority),
        "RAY_TLS_SERVER_CERT": str(credentials.certificate),
        "RAY_TLS_SERVER_KEY": str(credentials.key),
        "RAY_USAGE_STATS_ENABLED": "0",
        **HEALTH_CHECKS,
    }


def head_command(credentials: Credentials, port: int, options: Sequence[str]) -> list[str]:
    """The program that is the head for as long as it runs. The dashboard is off: it runs code for whoever asks."""
    return _start(
        credentials, ["--head", f"--port={port}", "--include-dashboard=false", "--disable-usage-stats", *options]
    )


def node_command(credentials: Credentials, head: str, options: Sequence[str]) -> list[str]:
    """The program that is a node for as long as it runs."""
    return _start(credentials, [f"--address={head}", *options])


def _start(credentials: Credentials, options: Sequence[str]) -> list[str]:
    return [
        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block"),
        f"--node-ip-address={credentials.address}",
        f"--object-store-memory={_OBJECT_STORE}",
        *options,
    ]
