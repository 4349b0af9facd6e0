"""The two ends of a connection know each other by their certificates, and nobody else."""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta, tzinfo

import pytest

from toolrun.processes.ray import certificates
from toolrun.processes.ray.certificates import Identity, new_identity


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> str:
    """The version of TLS on which both agree. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    left = list(ends)
    for _ in range(10):
        for end in list(left):
            try:
                end.do_handshake()
                left.remove(end)
            except ssl.SSLWantReadError:
                pass
        if not left:
            return str(ends[1].version())
    raise AssertionError("no end of the handshake")


class _Shifted:
    """A clock that is wrong by so many days."""

    def __init__(self, days: float) -> None:
        self._days = days

    def now(self, zone: tzinfo) -> datetime:
        return datetime.now(zone) + timedelta(days=self._days)


def made_by_a_clock_that_is_wrong(monkeypatch: pytest.MonkeyPatch, days: float) -> Identity:
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "datetime", _Shifted(days))
        return new_identity()


def test_a_gateway_and_its_replica_agree_on_the_newest_tls() -> None:
    gateway, replica = new_identity(), new_identity()
    client, server = gateway.client_context(replica.certificate), replica.server_context(gateway.certificate)
    assert shake_hands(client, server, replica.name) == "TLSv1.3"


@pytest.mark.parametrize("side", ["gateway", "replica"])
@pytest.mark.parametrize(("days", "why"), [(3, "not yet valid"), (-4000, "expired")])
def test_a_certificate_that_is_not_valid_now_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, side: str, days: int, why: str
) -> None:
    wrong = made_by_a_clock_that_is_wrong(monkeypatch, days)
    gateway, replica = (wrong, new_identity()) if side == "gateway" else (new_identity(), wrong)
    client, server = gateway.client_context(replica.certificate), replica.server_context(gateway.certificate)
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        shake_hands(client, server, replica.name)


@pytest.mark.parametrize("days", [-1.5, 1.5])
def test_clocks_may_differ_by_a_day(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    gateway, replica = new_identity(), made_by_a_clock_that_is_wrong(monkeypatch, days)
    client, server = gateway.client_context(replica.certificate), replica.server_context(gateway.certificate)
    assert shake_hands(client, server, replica.name)


def test_a_stranger_is_no_gateway_and_no_replica() -> None:
    gateway, replica, stranger = new_identity(), new_identity(), new_identity()
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE
    for client in (stranger.client_context(replica.certificate), anonymous):
        with pytest.raises(ssl.SSLError):
            shake_hands(client, replica.server_context(gateway.certificate), replica.name)
    impostor = stranger.server_context(gateway.certificate)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(gateway.client_context(replica.certificate), impostor, stranger.name)


def test_a_replica_has_to_be_the_one_that_was_named() -> None:
    """Its certificate is not enough: the names of two replicas could be mixed up."""
    gateway, replica = new_identity(), new_identity()
    client, server = gateway.client_context(replica.certificate), replica.server_context(gateway.certificate)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"[Hh]ostname mismatch"):
        shake_hands(client, server, new_identity().name)


def test_a_key_is_not_in_what_is_shown_of_its_owner() -> None:
    made = new_identity()
    assert b"PRIVATE KEY" in made.key
    assert "PRIVATE" not in repr(made)
