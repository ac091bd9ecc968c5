"""Makes certificates for trying out TLS: an authority, and what it signs for nodes and for clients."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CLOCKS_DIFFER_BY = datetime.timedelta(hours=1)


class UnusableAuthority(ValueError):
    """The text is not that of an authority."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A private key with its certificate, and the certificate of the authority that signed it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    def pem(self) -> bytes:
        """The key and the chain of certificates, as Kafka reads them from one file."""
        return _pem_of_key(self.key) + self.chain_pem()

    def chain_pem(self) -> bytes:
        """The certificate and that of its authority."""
        return _pem(self.certificate) + _pem(self.authority)

    def key_pem(self, password: str | None = None) -> bytes:
        """The key alone, encrypted if there is a password."""
        return _pem_of_key(self.key, password)

    def pkcs12(self, name: str, password: str) -> bytes:
        """A PKCS12 store of the key and the chain."""
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            name.encode(), self.key, self.certificate, [self.authority], encryption
        )


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority that signs certificates."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, name: str, now: datetime.datetime, days: int) -> Authority:
        """A new one, valid from `now` on."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = (
            _builder(subject, subject, key.public_key(), now, days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def read(cls, pem: bytes) -> Authority:
        """The authority of `pem`. Raises UnusableAuthority."""
        try:
            key, certificate = load_pem_private_key(pem, None), x509.load_pem_x509_certificate(pem)
        except (ValueError, TypeError) as problem:
            raise UnusableAuthority(str(problem)) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise UnusableAuthority("its key is not of an elliptic curve")
        return cls(key, certificate)

    def pem(self) -> bytes:
        """The key and the certificate."""
        return _pem_of_key(self.key) + _pem(self.certificate)

    def certificate_pem(self) -> bytes:
        """The certificate, which others trust."""
        return _pem(self.certificate)

    def truststore(self, password: str) -> bytes:
        """A PKCS12 store of the certificate, as Java's clients take it."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"ca")
        return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(password.encode()))

    def issue(
        self,
        name: str,
        now: datetime.datetime,
        days: int,
        *,
        hosts: Sequence[str] = (),
        uri: str | None = None,
    ) -> Issued:
        """A certificate of `CN=name`. With hosts it is a node's, which is a client of other nodes too."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        names: list[x509.GeneralName] = [_host_name(each) for each in hosts]
        if hosts:
            uses.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        if uri is not None:
            names.append(x509.UniformResourceIdentifier(uri))
        issuer = self.certificate.subject
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        builder = (
            _builder(_subject(name), issuer, key.public_key(), now, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Issued(key, builder.sign(self.key, hashes.SHA256()), self.certificate)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER_BY)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey, password: str | None = None) -> bytes:
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
