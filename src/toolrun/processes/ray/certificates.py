"""A key and a certificate for one end of a connection, made where they are used.

The key stays in the memory of its process. The other end is told the certificate, and accepts no other: there is no
authority that could sign a second one.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

_VALID: Final = timedelta(days=3650)
"""Longer than any of them is used: a connection is over when its process is."""
_SKEW: Final = timedelta(days=2)
"""By which the clocks of two machines may differ."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who one end of a connection is."""

    name: str
    """Random: it says nothing of the machine."""
    certificate: str
    """PEM, for everybody to know."""
    key: bytes = field(repr=False)

    def server_context(self, client: str) -> ssl.SSLContext:
        """For the end that accepts connections, from the owner of one certificate alone."""
        context = self._context(ssl.PROTOCOL_TLS_SERVER, client)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self, server: str) -> ssl.SSLContext:
        """For the end that connects, to the owner of one certificate alone. Its name is to be given as well."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT, server)

    def _context(self, protocol: ssl._SSLMethod, other: str) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=other)
        with _file(self.key + self.certificate.encode()) as path:
            context.load_cert_chain(path)
        return context


def new_identity() -> Identity:
    """A fresh key with its certificate. Raises ImportError without the package cryptography."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    name = f"{secrets.token_hex(16)}.toolrun"
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    moment = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - _SKEW)
        .not_valid_after(moment + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Identity(name, certificate.public_bytes(serialization.Encoding.PEM).decode(), private)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A file for OpenSSL, which reads keys from files only: in memory, where the system has that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("toolrun-key")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="toolrun-") as file:
        file.write(content)
        file.flush()
        yield file.name
