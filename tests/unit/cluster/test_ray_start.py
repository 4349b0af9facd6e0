"""How Ray is started: safely, and so that dead machines are noticed soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolrun.cli.commands.cluster import _with_port
from toolrun.cluster.credentials import Credentials
from toolrun.cluster.ray_start import head_command, node_command, ray_variables
from toolrun.errors import UsageError

HERE = Credentials(Path("/c"), "10.0.0.7")


def test_ray_asks_for_the_token_and_for_certificates() -> None:
    variables = ray_variables(HERE)
    assert variables["RAY_AUTH_MODE"] == "token"
    assert variables["RAY_AUTH_TOKEN_PATH"] == "/c/token"
    assert variables["RAY_USE_TLS"] == "1"
    assert (variables["RAY_TLS_CA_CERT"], variables["RAY_TLS_SERVER_CERT"], variables["RAY_TLS_SERVER_KEY"]) == (
        "/c/authority.crt",
        "/c/machine.crt",
        "/c/machine.key",
    )


def test_a_dead_node_is_noticed_after_three_seconds_and_nothing_is_reported_to_anybody() -> None:
    variables = ray_variables(HERE)
    period, failures = (int(variables[f"RAY_health_check_{it}"]) for it in ("period_ms", "failure_threshold"))
    assert period * failures == 3000
    assert variables["RAY_health_check_timeout_ms"] == variables["RAY_health_check_initial_delay_ms"] == "1000"
    assert variables["RAY_USAGE_STATS_ENABLED"] == "0"


def test_the_head_has_no_dashboard_and_the_users_own_options_come_last() -> None:
    command = head_command(HERE, 7000, ["--num-cpus=0", "--object-store-memory=5"])
    assert {"start", "--head", "--block", "--port=7000", "--include-dashboard=false"} <= set(command)
    assert "--node-ip-address=10.0.0.7" in command
    assert command[-2:] == ["--num-cpus=0", "--object-store-memory=5"]


def test_a_node_knows_the_head() -> None:
    command = node_command(HERE, "10.0.0.1:6379", ["--num-cpus=4"])
    assert "--head" not in command
    assert {"--address=10.0.0.1:6379", "--node-ip-address=10.0.0.7", "--block", "--num-cpus=4"} <= set(command)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("10.0.0.1", "10.0.0.1:6379"),
        ("10.0.0.1:7000", "10.0.0.1:7000"),
        ("head.example", "head.example:6379"),
        ("fd00::1", "[fd00::1]:6379"),
        ("[fd00::1]:7000", "[fd00::1]:7000"),
    ],
)
def test_the_address_of_a_head_has_a_port(given: str, address: str) -> None:
    assert _with_port(given) == address


@pytest.mark.parametrize("given", [":6379", "10.0.0.1:", "10.0.0.1:x", "10.0.0.1:0", "10.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="HEAD is an IP address"):
        _with_port(given)
