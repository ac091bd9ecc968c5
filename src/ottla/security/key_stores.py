"""Reads keys and certificates as Kafka's settings name them: PEM, in files or in the settings, and PKCS12.

Java's own store, JKS, is not read; the error has the command that converts one. A store is known by its
first bytes, as Java's default type takes PKCS12 too: `ssl.keystore.type` need not be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import pkcs12

MAX_STORE_BYTES: Final = 16 << 20
_PEM_MARK: Final = b"-----BEGIN "
_PEM_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----(?P<body>[A-Za-z0-9+/=\s]+)-----END (?P=kind)-----\s*"
)
_JAVA_STORES: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and of JCEKS."""


class KeyStoreError(ValueError):
    """A store can't be read; one line that names the file, without passwords."""


@dataclass(frozen=True, slots=True)
class Store:
    """Where keys and certificates are: in a file (`location`), or as PEM texts.

    password: of the file. key, key_password: the private key's text, and the password that it is encrypted
    with, in the text or in the file.
    """

    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    @property
    def is_given(self) -> bool:
        """Whether it names anything."""
        return self.location is not None or self.certificates is not None or self.key is not None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files to read."""
        return () if self.location is None else (Path(self.location),)


NO_STORE: Final = Store()


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and the chain of its certificate, as PEM. password: that of the key."""

    pem: bytes = field(repr=False)
    password: str = field(default="", repr=False)


def read_identity(store: Store) -> Identity:
    """The key and the certificates of a store. Raises KeyStoreError."""
    if store.location is not None and (store.certificates is not None or store.key is not None):
        raise KeyStoreError("ssl.keystore.location and ssl.keystore.key are both given: give one of them")
    if store.location is None:
        if store.certificates is None or store.key is None:
            raise KeyStoreError(
                "ssl.keystore.certificate.chain and ssl.keystore.key go together, or ssl.keystore.location"
            )
        texts = _unfolded(store.key), _unfolded(store.certificates)
        return Identity("\n".join(texts).encode(), store.key_password or "")
    data = _read(store.location)
    if _PEM_MARK in data:
        if b"PRIVATE KEY-----" not in data:
            raise KeyStoreError(f"{store.location} has certificates and no private key")
        return Identity(data, store.key_password or store.password or "")
    return _of_pkcs12(store.location, data, store.password)


def read_authorities(store: Store) -> str:
    """The trusted certificates of a store, as PEM. Raises KeyStoreError."""
    if store.location is not None and store.certificates is not None:
        raise KeyStoreError(
            "ssl.truststore.location and ssl.truststore.certificates are both given: give one of them"
        )
    if store.location is None:
        return _unfolded(store.certificates or "")
    data = _read(store.location)
    if _PEM_MARK in data:
        try:
            return data.decode("ascii")
        except UnicodeDecodeError:
            raise KeyStoreError(f"{store.location} has other bytes than PEM's") from None
    from cryptography.hazmat.primitives.serialization import Encoding

    found = _pkcs12(store.location, data, store.password)
    every = [found.cert, *found.additional_certs] if found.cert else found.additional_certs
    if not every:
        raise KeyStoreError(f"{store.location} has no certificate")
    return "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in every)


def _of_pkcs12(location: str, data: bytes, password: str | None) -> Identity:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    found = _pkcs12(location, data, password)
    if found.key is None or found.cert is None:
        raise KeyStoreError(f"{location} has no private key with its certificate")
    parts = [found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    parts += _chain(found.cert.certificate, (each.certificate for each in found.additional_certs))
    return Identity(b"".join(parts))


def _chain(certificate: x509.Certificate, others: Iterable[x509.Certificate]) -> list[bytes]:
    """The certificate and those that signed it, each before its issuer, as clients want them."""
    from cryptography.hazmat.primitives.serialization import Encoding

    left, chain = list(others), [certificate]
    while (issuer := next((each for each in left if each.subject == chain[-1].issuer), None)) is not None:
        left.remove(issuer)
        chain.append(issuer)
    return [each.public_bytes(Encoding.PEM) for each in chain]


def _pkcs12(location: str, data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization import pkcs12

    if data.startswith(_JAVA_STORES):
        raise KeyStoreError(
            f"{location} is a JKS store, which only Java reads: convert it with `keytool -importkeystore "
            f"-srckeystore {location} -destkeystore {Path(location).with_suffix('.p12')} "
            "-deststoretype PKCS12`, and name that file"
        )
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise KeyStoreError(
            f"{location} is neither PEM nor a PKCS12 store that this password opens"
        ) from None


def _read(location: str) -> bytes:
    try:
        with Path(location).open("rb") as file:
            data = file.read(MAX_STORE_BYTES + 1)
    except OSError as problem:
        raise KeyStoreError(f"can't read {location}: {problem.strerror}") from None
    if len(data) > MAX_STORE_BYTES:
        raise KeyStoreError(f"{location} is larger than {MAX_STORE_BYTES} bytes")
    return data


def _unfolded(text: str) -> str:
    """PEM of a setting, which may stand in one line: with spaces, or with `\\n`, for line ends."""
    blocks = _PEM_BLOCK.sub(_rewritten, text.replace("\\n", "\n"))
    return blocks.strip() + "\n"


def _rewritten(block: re.Match[str]) -> str:
    body = "".join(block["body"].split())
    lines = (body[start : start + 64] for start in range(0, len(body), 64))
    return "\n".join((f"-----BEGIN {block['kind']}-----", *lines, f"-----END {block['kind']}-----", ""))
