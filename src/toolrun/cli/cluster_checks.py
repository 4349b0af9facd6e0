"""What `toolrun doctor` says of a cluster: whether it can be used from here, step by step, and what to do if not.

A step that needs an earlier one is left out if that one failed.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from toolrun.cli.doctor_check import OK, PROBLEM, DoctorCheck
from toolrun.cluster.head_address import parse_head_address
from toolrun.cluster.inspection import inspect_cluster
from toolrun.config.model import Config
from toolrun.errors import ConfigError
from toolrun.text import plural

_CONNECT: Final = 3.0
_BY_TIME: Final = (9, 10)
"""What OpenSSL calls X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""
_CLOCKS: Final = (
    "correct the clocks; a certificate that has expired is made again by toolrun cluster invite, on the head"
)
_ENVIRONMENT: Final = 'run: set -a; eval "$(toolrun cluster env)"; set +a'


def _step(is_ok: bool, message: str, advice: str = "") -> DoctorCheck:
    return DoctorCheck(OK if is_ok else PROBLEM, "cluster", message, advice)


def uses_cluster(config: Config) -> bool:
    """Whether any script runs on a cluster."""
    return "ray" in (config.workers.engine, *(it.engine for it in config.tool.values()))


def cluster_checks(config: Config) -> list[DoctorCheck]:
    """All of it at once; nothing if no script runs on a cluster."""
    return list(examine_cluster(config)) if uses_cluster(config) else []


def examine_cluster(config: Config, environ: Mapping[str, str] = os.environ) -> Iterator[DoctorCheck]:
    """The steps, in order."""
    if find_spec("ray") is None or find_spec("cryptography") is None:
        yield _step(False, "Ray or cryptography is not installed", "pip install 'toolrun[ray]'")
        return
    address = config.workers.address or environ.get("RAY_ADDRESS", "")
    if not address:
        yield _step(
            False, "no address", 'set [workers] address = "HOST:6379" or RAY_ADDRESS to the head of the cluster'
        )
        return
    try:
        head = parse_head_address(address)
    except ConfigError as error:
        yield _step(False, str(error), "write the address of the head as HOST:PORT")
        return
    encrypted = _tls(head, address, environ)
    yield encrypted
    if encrypted.status == PROBLEM:
        return
    token = _token(address, config.workers.allow_cluster_without_token)
    yield token
    if token.status == OK:
        yield from _members(config, inspect_cluster(address))


def _tls(head: tuple[str, int], address: str, environ: Mapping[str, str]) -> DoctorCheck:
    """Whether the head answers, and speaks TLS if and only if this program does."""
    from toolrun.processes.ray.cluster_check import any_certificate

    wants_tls = environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    try:
        context = _context(environ) if wants_tls else any_certificate()
        problem = _own_certificate(environ) if wants_tls else None
    except (OSError, ValueError) as error:  # of ssl as well
        return _step(False, f"the certificate of this machine cannot be used: {error}", _ENVIRONMENT)
    if problem is not None:
        return problem
    try:
        with socket.create_connection(head, _CONNECT) as plain:
            try:
                with context.wrap_socket(plain, server_hostname=head[0]) as it:
                    version = it.version()
            except ssl.SSLCertVerificationError as error:
                if error.verify_code in _BY_TIME:
                    about = f"the certificate of {address} is not valid now: {error.verify_message}"
                    return _step(False, about, _CLOCKS)
                return _step(
                    False,
                    f"the certificate of {address} is not one of this cluster: {error.verify_message}",
                    "copy the folder that toolrun cluster invite makes on this head",
                )
            except OSError as error:
                if wants_tls:
                    about = f"the head at {address} does not speak TLS ({error})"
                    return _step(False, about, "start all nodes with toolrun cluster head and toolrun cluster node")
                return _step(True, f"{address} answers, without TLS: what Ray's processes say can be read by others")
    except OSError as error:
        reason = error.strerror or str(error)
        advice = "start the head: toolrun cluster head; or correct [workers] address, or the firewall between"
        return _step(False, f"nothing answers at {address}: {reason}", advice)
    if not wants_tls:
        return _step(False, f"the head at {address} requires TLS, and this program does not use it", _ENVIRONMENT)
    return _step(True, f"{address} answers with {version}")


def _own_certificate(environ: Mapping[str, str]) -> DoctorCheck | None:
    """What others will not accept in the certificate of this machine: they say so only after the handshake."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    own, authority = (
        x509.load_pem_x509_certificate(Path(environ.get(name, "")).read_bytes())
        for name in ("RAY_TLS_SERVER_CERT", "RAY_TLS_CA_CERT")
    )
    try:
        own.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        about = "the certificate of this machine is not one of this cluster: another authority has signed it"
        return _step(False, about, "copy the whole folder that toolrun cluster invite makes on the head")
    moment = datetime.now(UTC)
    if not own.not_valid_before_utc <= moment <= own.not_valid_after_utc:
        span = f"{own.not_valid_before_utc:%Y-%m-%d} to {own.not_valid_after_utc:%Y-%m-%d}"
        about = f"the certificate of this machine is valid from {span}, and its clock says {moment:%Y-%m-%d}"
        return _step(False, about, _CLOCKS)
    return None


def _context(environ: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=environ.get("RAY_TLS_CA_CERT", ""))
    context.load_cert_chain(environ.get("RAY_TLS_SERVER_CERT", ""), environ.get("RAY_TLS_SERVER_KEY", ""))
    context.set_alpn_protocols(["h2"])
    return context


def _token(address: str, allow_without_token: bool) -> DoctorCheck:
    from toolrun.processes.ray.cluster_check import ClusterError, NotANodeError, check_cluster

    try:
        check_cluster(address, allow_without_token)
    except NotANodeError:
        pass  # said of the nodes, below
    except ClusterError as error:
        return _step(False, str(error), _ENVIRONMENT)
    if allow_without_token:
        return _step(True, "usable; [workers] allow_cluster_without_token lets any token in")
    return _step(True, "the token is accepted, and a wrong one is refused")


def _members(config: Config, found: Mapping[str, Any]) -> Iterator[DoctorCheck]:
    if "error" in found:
        yield _step(False, f"the cluster does not report its nodes: {found['error']}")
        return
    for name, own, other in (
        ("Python", found["own_python"], found["python"]),
        ("Ray", found["own_ray"], found["ray"]),
    ):
        if other is not None and own != other:
            advice = f"install {name} {other} here, or {name} {own} on all nodes: they must be the same"
            yield _step(False, f"{name} is {own} here, and {other} on the cluster", advice)
        else:
            yield _step(True, f"{name} {own}, as on the cluster")
    alive = [it for it in found["nodes"] if it["is_alive"]]
    about = ", ".join(f"{it['address']} ({_amounts(it['resources'])})" for it in alive)
    if not alive:
        yield _step(False, "no node is alive", "start one: toolrun cluster node HEAD")
        return
    yield _step(True, f"{plural(len(alive), 'node')}: {about}")
    if not any(it["is_here"] for it in alive):
        yield _step(False, "this machine is not a node of the cluster", "run here: toolrun cluster node HEAD --cpus 0")
    yield from _places(config, alive)


def _places(config: Config, alive: list[Mapping[str, Any]]) -> Iterator[DoctorCheck]:
    """Tools that fit on no node, however idle it is."""
    for name, settings in config.tool.items():
        wanted = settings.resources
        if (settings.engine or config.workers.engine) != "ray" or not wanted:
            continue
        if not any(all(it["resources"].get(key, 0) >= _number(need) for key, need in wanted.items()) for it in alive):
            needs = _amounts({key: _number(need) for key, need in wanted.items()}, with_rays_own=True)
            advice = "start a node that has it, or ask for less: [tool.NAME] resources"
            yield _step(False, f"{name} needs {needs} on one node, and no node has that", advice)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _amounts(resources: Mapping[str, float], *, with_rays_own: bool = False) -> str:
    """CPUs first; those that every node has of Ray only if they are asked for."""
    own = {
        name: value
        for name, value in resources.items()
        if with_rays_own or not name.startswith(("node:", "memory", "object_store_memory"))
    }
    return ", ".join(f"{name} {own[name]:g}" for name in sorted(own, key=lambda it: (it != "CPU", it))) or "no CPU"
