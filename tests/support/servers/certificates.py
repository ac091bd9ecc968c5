"""Certificates for tests: authorities, and servers and clients whose certificates they sign."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KEY_PASSWORD = 'key "\\ password'


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its key, as files and as text."""

    certificate: str
    key: str
    encrypted_key: str


class Authority:
    """Signs certificates for `broker.test` and 127.0.0.1. `pem`: its own certificate."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pem = self._signed(self._name, self._key.public_key(), authority=True)

    def identity(self, name: str) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        forms = (
            serialization.NoEncryption(),
            serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
        )
        plain, encrypted = (
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, form).decode()
            for form in forms
        )
        return Identity(self._signed(subject, key.public_key(), authority=False), plain, encrypted)

    def _signed(self, subject: x509.Name, key: Any, *, authority: bool) -> str:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            names = [x509.DNSName("broker.test"), x509.IPAddress(ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        own = x509.SubjectKeyIdentifier.from_public_key(key)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(own, critical=False).add_extension(issuer, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()
