"""Who is let into a cluster: tokens, certificates, and the files that they are in."""

from __future__ import annotations

import ipaddress
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from toolrun.cluster.credentials import Credentials, invite, make_head_credentials, read_credentials
from toolrun.errors import ConfigError


@pytest.fixture
def head(tmp_path: Path) -> Credentials:
    return make_head_credentials(tmp_path / "head", "10.0.0.1")


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def names(made: Credentials) -> x509.SubjectAlternativeName:
    return certificate(made.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_the_certificates_of_all_machines_are_signed_by_the_head_and_are_for_their_addresses(head: Credentials) -> None:
    node = invite(head.folder, "10.0.0.2", ["node.example"])
    authority = certificate(head.authority)
    for made, address in ((head, "10.0.0.1"), (node, "10.0.0.2")):
        certificate(made.certificate).verify_directly_issued_by(authority)
        assert ipaddress.ip_address(address) in names(made).get_values_for_type(x509.IPAddress)
    assert "node.example" in names(node).get_values_for_type(x509.DNSName)
    assert "node.example" not in names(head).get_values_for_type(x509.DNSName)


def test_a_certificate_of_a_machine_cannot_sign_others(head: Credentials) -> None:
    made = certificate(head.certificate)
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert isinstance(made.public_key(), ec.EllipticCurvePublicKey)


def test_all_machines_have_one_token_and_a_key_of_their_own(head: Credentials) -> None:
    node = invite(head.folder, "10.0.0.2")
    assert node.token.read_text() == head.token.read_text()
    assert len(head.token.read_text()) == 64
    assert node.key.read_bytes() != head.key.read_bytes()


def test_two_clusters_have_different_tokens(tmp_path: Path, head: Credentials) -> None:
    assert make_head_credentials(tmp_path / "other", "10.0.0.1").token.read_text() != head.token.read_text()


def test_nobody_else_can_read_any_of_it(head: Credentials) -> None:
    node = invite(head.folder, "10.0.0.2")
    for folder in (head.folder, node.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for file in folder.iterdir():
            if file.is_file():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_the_key_that_signs_never_leaves_the_head(head: Credentials) -> None:
    node = invite(head.folder, "10.0.0.2")
    assert sorted(file.name for file in node.folder.iterdir()) == [
        "address",
        "authority.crt",
        "machine.crt",
        "machine.key",
        "token",
    ]


def test_the_folder_of_a_head_is_kept(head: Credentials) -> None:
    before = {file.name: file.read_bytes() for file in head.folder.iterdir()}
    assert make_head_credentials(head.folder, "10.0.0.1") == head
    assert {file.name: file.read_bytes() for file in head.folder.iterdir()} == before


def test_the_folder_of_a_head_is_for_one_address(head: Credentials) -> None:
    with pytest.raises(ConfigError, match=r"is the folder of a head at 10\.0\.0\.1, not at 10\.0\.0\.9"):
        make_head_credentials(head.folder, "10.0.0.9")


def test_the_folder_of_a_node_does_not_become_that_of_a_head(head: Credentials) -> None:
    node = invite(head.folder, "10.0.0.2")
    token = node.token.read_bytes()
    with pytest.raises(ConfigError, match="is the folder of a node"):
        make_head_credentials(node.folder, "10.0.0.2")
    assert node.token.read_bytes() == token


def test_a_folder_that_was_copied_is_complete(tmp_path: Path, head: Credentials) -> None:
    node = invite(head.folder, "10.0.0.2")
    assert read_credentials(node.folder) == node


@pytest.mark.parametrize("name", ["token", "machine.key"])
def test_a_secret_that_others_can_read_is_refused(head: Credentials, name: str) -> None:
    (head.folder / name).chmod(0o644)
    with pytest.raises(ConfigError, match=f"others can read .*{name}: chmod 600"):
        read_credentials(head.folder)


@pytest.mark.parametrize("name", ["token", "authority.crt", "machine.crt", "machine.key", "address"])
def test_what_is_missing_is_named_with_the_command_that_makes_it(head: Credentials, name: str) -> None:
    (head.folder / name).unlink()
    with pytest.raises(ConfigError, match=rf"{name} cannot be read: .*toolrun cluster invite"):
        read_credentials(head.folder)


def test_only_a_head_invites(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="machines are invited on the head"):
        invite(tmp_path, "10.0.0.2")


@pytest.mark.parametrize("address", ["", "head", "10.0.0", "10.0.0.1:6379", "0.0.0.0", "224.0.0.1", "../x"])
def test_an_address_that_no_machine_can_have_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConfigError, match="a machine"):
        make_head_credentials(tmp_path / "head", address)
    assert not (tmp_path / "head").exists()


def test_a_machine_with_an_address_of_version_6(head: Credentials) -> None:
    node = invite(head.folder, "FD00::0002")
    assert node.address == "fd00::2"
    assert ipaddress.ip_address("fd00::2") in names(node).get_values_for_type(x509.IPAddress)
