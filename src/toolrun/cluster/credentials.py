"""What a machine needs to be let into a cluster: the token of the cluster, and a certificate of its own, in one folder.

The folder of the head has the key that signs certificates as well (`authority.key`). It makes a folder for each other
machine (`machines/10.0.0.2/`), which is to be copied there; the key that signs never leaves the head. Whoever has such
a folder can run anything on the cluster, so all of it is for its owner alone.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolrun.errors import ConfigError
from toolrun.extra import missing
from toolrun.regular_file import read_regular_file

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_TOKEN: Final = "token"
_AUTHORITY: Final = "authority.crt"
_AUTHORITY_KEY: Final = "authority.key"
_CERTIFICATE: Final = "machine.crt"
_KEY: Final = "machine.key"
_ADDRESS: Final = "address"
_MACHINES: Final = "machines"
_VALID: Final = timedelta(days=3650)
"""Ray reads a certificate when it starts, so a shorter time would end a cluster that runs."""
_SKEW: Final = timedelta(days=2)
"""By which the clocks of two machines may differ."""
_MAX_FILE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Credentials:
    """The folder of one machine."""

    folder: Path
    address: str
    """The machine's own, which its certificate is for."""

    @property
    def token(self) -> Path:
        return self.folder / _TOKEN

    @property
    def authority(self) -> Path:
        """The certificate that all others are signed with."""
        return self.folder / _AUTHORITY

    @property
    def certificate(self) -> Path:
        return self.folder / _CERTIFICATE

    @property
    def key(self) -> Path:
        return self.folder / _KEY


def read_credentials(folder: Path) -> Credentials:
    """Raises ConfigError: something is missing, or others can read it."""
    for name in (_TOKEN, _AUTHORITY, _CERTIFICATE, _KEY, _ADDRESS):
        try:
            mode = (folder / name).stat().st_mode
        except OSError as error:
            raise ConfigError(
                f"{folder / name} cannot be read: {error.strerror}. On the head, toolrun cluster head --address IP "
                "makes this folder; for another machine, toolrun cluster invite makes it there, and you copy it"
            ) from None
        if name in (_TOKEN, _KEY) and stat.S_IMODE(mode) & 0o077:
            raise ConfigError(f"others can read {folder / name}: chmod 600 {folder / name}")
    return Credentials(folder, _parse_address(_read(folder / _ADDRESS)))


def make_head_credentials(folder: Path, address: str) -> Credentials:
    """The folder of a new head. One that is there already is kept. Raises ConfigError."""
    address = _parse_address(address)
    if (folder / _AUTHORITY_KEY).exists():
        known = read_credentials(folder)
        if known.address != address:
            raise ConfigError(
                f"{folder} is the folder of a head at {known.address}, not at {address}: start the head without "
                "--address, or choose another --folder for another cluster"
            )
        return known
    if (folder / _TOKEN).exists():
        raise ConfigError(f"{folder} is the folder of a node, made by another head: a head needs another --folder")
    serialization, key, name = _serialization(), _new_key(), _name("toolrun cluster")
    certificate = _builder(name, name, key).add_extension(_x509().BasicConstraints(ca=True, path_length=0), True)
    signed = certificate.sign(key, _sha256())
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder / _TOKEN, secrets.token_hex(32).encode())
        _write(folder / _AUTHORITY, signed.public_bytes(serialization.Encoding.PEM))
        _issue(folder, address, signed, key)
        _write(folder / _AUTHORITY_KEY, _pem(key))  # last: with it, the folder is complete
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None
    return Credentials(folder, address)


def invite(folder: Path, address: str, names: Sequence[str] = ()) -> Credentials:
    """A folder for one more machine, within that of the head. `names`: of DNS, by which others reach it as well.

    Raises ConfigError.
    """
    address = _parse_address(address)
    if not (folder / _AUTHORITY_KEY).exists():
        raise ConfigError(
            f"{folder / _AUTHORITY_KEY} does not exist: machines are invited on the head, after its first "
            "toolrun cluster head"
        )
    serialization, x509 = _serialization(), _x509()
    key = serialization.load_pem_private_key(_read(folder / _AUTHORITY_KEY).encode(), None)
    authority = x509.load_pem_x509_certificate(_read(folder / _AUTHORITY).encode())
    made = folder / _MACHINES / address.replace(":", "-")
    try:
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in (_TOKEN, _AUTHORITY):
            _write(made / name, (folder / name).read_bytes())
        _issue(made, address, authority, key, names)
    except OSError as error:
        raise ConfigError(f"{made} cannot be written: {error.strerror}") from None
    return Credentials(made, address)


def _issue(
    folder: Path,
    address: str,
    authority: x509.Certificate,
    signer: ec.EllipticCurvePrivateKey,
    dns: Sequence[str] = (),
) -> None:
    x509, serialization = _x509(), _serialization()
    key = _new_key()
    names = [x509.IPAddress(ipaddress.ip_address(address)), *map(x509.DNSName, ("localhost", *dns))]
    if address != "127.0.0.1":
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))  # Ray's processes of one machine
    certificate = (
        _builder(_name(address), authority.subject, key)
        .add_extension(x509.SubjectAlternativeName(names), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .sign(signer, _sha256())
    )
    _write(folder / _KEY, _pem(key))
    _write(folder / _CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))
    _write(folder / _ADDRESS, address.encode())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> Any:
    x509, moment = _x509(), datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - _SKEW)
        .not_valid_after(moment + _VALID)
    )


def _name(text: str) -> Any:
    x509 = _x509()
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _new_key() -> ec.EllipticCurvePrivateKey:
    _x509()  # says what is missing
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    it = _serialization()
    return key.private_bytes(it.Encoding.PEM, it.PrivateFormat.PKCS8, it.NoEncryption())


def _parse_address(text: str) -> str:
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        raise ConfigError(f"a machine is named by its IP address in the network of the cluster; got {text!r}") from None
    if address.is_unspecified or address.is_multicast:
        raise ConfigError(f"the address of a machine is one that others reach it at; got {text}")
    return str(address)


def _read(path: Path) -> str:
    try:
        return read_regular_file(path, _MAX_FILE).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _write(path: Path, content: bytes) -> None:
    """For its owner alone, from its first byte on, and complete if it is there at all."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123  it is open already
        file.write(content)
    new.rename(path)


def _x509() -> Any:
    try:
        from cryptography import x509
    except ImportError as error:
        raise missing("ray", error, "a certificate") from None
    return x509


def _serialization() -> Any:
    _x509()
    from cryptography.hazmat.primitives import serialization

    return serialization


def _sha256() -> Any:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256()
