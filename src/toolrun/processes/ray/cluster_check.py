"""Whether a cluster may be used: there is a head at its address, it knows our token, and it refuses others.

A cluster that asks for no token runs what anybody sends to it, and Ray connects to it without a word, also with one. So
somebody with a wrong token is sent first, in a process of its own: Ray reads its token once.
"""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Final

from toolrun.cluster.head_address import parse_head_address
from toolrun.processes.engine import describe_exit

_CONNECT: Final = 3.0
_PROBE: Final = 30.0
_INSIDE: Final = ("in", "elsewhere")
"""What the probe says of somebody whom the head lets in."""
_TOKEN_VARIABLES: Final = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE")


class ClusterError(Exception):
    """The cluster cannot be used: the message says why, and what to do."""


class NotANodeError(ClusterError):
    """All is well, but Ray wants one of its processes on the machine of whoever uses it."""


def check_cluster(address: str, allow_without_token: bool) -> None:
    """Raises ClusterError."""
    _reach(address)
    own = {name: value for name, value in os.environ.items() if name not in _TOKEN_VARIABLES}
    wrong = _start(address, {**own, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})
    right = _start(address, dict(os.environ))
    judge_answers(address, _word(wrong), _word(right), allow_without_token)


def judge_answers(address: str, stranger: str, we: str, allow_without_token: bool) -> None:
    """What the head said to somebody with a wrong token, and to us. Raises ClusterError."""
    if stranger in _INSIDE and not allow_without_token:
        raise ClusterError(
            f"the cluster at {address} lets in whoever can reach it: it asks for no token. Start all its nodes with "
            "RAY_AUTH_MODE=token and the same RAY_AUTH_TOKEN, or set [workers] allow_cluster_without_token = true"
        )
    if we == "missing":
        raise ClusterError(
            f"this program has no token for the cluster at {address}. Set RAY_AUTH_TOKEN_PATH to a file with the token "
            "that the nodes were started with"
        )
    if we == "refused":
        raise ClusterError(
            f"the cluster at {address} refuses this program's token. Set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to "
            "the token that the nodes were started with"
        )
    for word in (we, stranger):
        if word not in (*_INSIDE, "refused"):
            why = word.removeprefix("error ").rstrip(".")
            raise ClusterError(f"the head of the cluster at {address} does not answer: {why}")
    if we == "elsewhere":
        raise NotANodeError(
            f"this machine is not a node of the cluster at {address}. Make it one: "
            f"toolrun cluster node {address} --cpus 0"
        )


def _reach(address: str) -> None:
    """Whether anything listens there, and speaks TLS if we do: Ray itself would try for most of a minute."""
    uses_tls = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    try:
        with socket.create_connection(parse_head_address(address), _CONNECT) as connection:
            speaks_tls = _speaks_tls(connection)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ClusterError(
            f"nothing answers at {address}, where [workers] address, or RAY_ADDRESS, says that the head is: {reason}"
        ) from None
    if speaks_tls is True and not uses_tls:
        raise ClusterError(
            f"the head of the cluster at {address} requires TLS, and this program does not use it. Run it with the "
            "variables that toolrun cluster env prints"
        )
    if speaks_tls is False and uses_tls:
        raise ClusterError(
            f"the head of the cluster at {address} does not speak TLS, and this program requires it. Start all nodes "
            "with toolrun cluster head and toolrun cluster node, or unset RAY_USE_TLS"
        )


def any_certificate() -> ssl.SSLContext:
    """To see whether TLS is spoken at all. Nothing is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _speaks_tls(connection: socket.socket) -> bool | None:
    """None: it did not say."""
    try:
        with any_certificate().wrap_socket(connection):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # that of somebody who wants a certificate first
    except TimeoutError:
        return None
    except OSError:
        return False


def _start(address: str, variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", Path(__file__).with_name("probe.py"), address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # where Ray complains of the wrong token
        text=True,
        env=variables,
    )


def _word(probe: subprocess.Popen[str]) -> str:
    try:
        output, _ = probe.communicate(timeout=_PROBE)
    except subprocess.TimeoutExpired:
        probe.kill()
        probe.communicate()
        return "error no answer"
    return output.strip() or f"error the probe {describe_exit(probe.returncode)}"
