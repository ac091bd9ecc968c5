"""The names in a certificate: its subject, and its alternative names.

cryptography is imported when the first certificate is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509


class MalformedCertificate(ValueError):
    """The bytes are no certificate, or one whose names can't be read."""


class CertificateNames(NamedTuple):
    """The subject in DER; the alternative names as texts of kind and value, and the URIs among them."""

    subject: bytes
    uris: tuple[str, ...]
    alternative_names: frozenset[str]


def names_of_der(certificate: bytes) -> CertificateNames:
    """The names in a certificate in DER. Raises MalformedCertificate."""
    from cryptography import x509

    try:
        return _names(x509.load_der_x509_certificate(certificate))
    except ValueError as problem:
        raise MalformedCertificate(str(problem)) from problem


def names_of_pem(chain: bytes) -> CertificateNames:
    """The names in the first certificate of a PEM text. Raises MalformedCertificate."""
    from cryptography import x509

    try:
        return _names(x509.load_pem_x509_certificate(chain))
    except ValueError as problem:
        raise MalformedCertificate(str(problem)) from problem


def _names(certificate: x509.Certificate) -> CertificateNames:
    from cryptography import x509

    subject = certificate.subject.public_bytes()
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return CertificateNames(subject, (), frozenset())
    uris = tuple(found.get_values_for_type(x509.UniformResourceIdentifier))
    return CertificateNames(
        subject, uris, frozenset(f"{type(each).__name__}: {each.value}" for each in found)
    )
