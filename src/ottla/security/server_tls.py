"""An SSLContext for a server's listener, from stores and the words of Kafka's settings.

Python's contexts read a server's key from files alone, so it goes through a file in memory, or where there is
none through one that only this user can read. Renegotiation is off: a client could ask for it without end.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.security.key_stores import (
    NO_STORE,
    Identity,
    KeyStoreError,
    Store,
    read_authorities,
    read_identity,
)

DEFAULT_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_VERSIONS: Final = {
    "TLSv1": (ssl.TLSVersion.TLSv1, ssl.OP_NO_TLSv1),
    "TLSv1.1": (ssl.TLSVersion.TLSv1_1, ssl.OP_NO_TLSv1_1),
    "TLSv1.2": (ssl.TLSVersion.TLSv1_2, ssl.OP_NO_TLSv1_2),
    "TLSv1.3": (ssl.TLSVersion.TLSv1_3, ssl.OP_NO_TLSv1_3),
}
PROTOCOLS: Final = tuple(_VERSIONS)
_SUITES_OF_13: Final = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
_SUITE: Final = re.compile(r"TLS_(?:(?P<exchange>\w+?)_WITH_)(?P<cipher>\w+)_(?P<hash>SHA\d*)")


class ClientAuthentication(enum.StrEnum):
    """Whether clients show a certificate, in Kafka's words."""

    NONE = "NONE"
    REQUESTED = "REQUESTED"
    REQUIRED = "REQUIRED"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The TLS of a listener. cipher_suites: none for OpenSSL's own choice."""

    identity: Store
    authorities: Store = NO_STORE
    client_authentication: ClientAuthentication = ClientAuthentication.NONE
    protocols: Sequence[str] = DEFAULT_PROTOCOLS
    cipher_suites: Sequence[str] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of which the context is made."""
        return self.identity.paths + self.authorities.paths

    def context(self) -> ssl.SSLContext:
        """A new context of what the files hold now. Raises KeyStoreError."""
        if not self.identity.is_given:
            raise KeyStoreError(
                "TLS needs ssl.keystore.location, or the PEM of ssl.keystore.certificate.chain"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        _limit_protocols(context, self.protocols)
        if self.cipher_suites:
            _limit_suites(context, self.cipher_suites)
        _show(context, read_identity(self.identity), self.identity.location or "ssl.keystore.key")
        if self.client_authentication is not ClientAuthentication.NONE:
            _ask_for_certificates(context, self.authorities, self.client_authentication)
        return context

    def peer_context(self, *, checks_host: bool) -> ssl.SSLContext:
        """A new context to connect to servers of the same kind, with the same certificate and authorities.

        Without a certificate none is shown; without authorities those of the system are trusted. Raises
        KeyStoreError.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.options |= ssl.OP_NO_RENEGOTIATION
        if self.authorities.is_given:
            _trust(context, self.authorities)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        context.check_hostname = checks_host
        _limit_protocols(context, self.protocols)
        if self.cipher_suites:
            _limit_suites(context, self.cipher_suites)
        if self.identity.is_given:
            _show(context, read_identity(self.identity), self.identity.location or "ssl.keystore.key")
        return context


def _limit_protocols(context: ssl.SSLContext, protocols: Sequence[str]) -> None:
    unknown = [each for each in protocols if each not in _VERSIONS]
    if unknown or not protocols:
        raise KeyStoreError(f"ssl.enabled.protocols: one of {', '.join(PROTOCOLS)}, not {', '.join(unknown)}")
    context.minimum_version = min(_VERSIONS[each][0] for each in protocols)
    context.maximum_version = max(_VERSIONS[each][0] for each in protocols)
    for name, (version, without) in _VERSIONS.items():
        if name not in protocols and context.minimum_version < version < context.maximum_version:
            context.options |= without


def _limit_suites(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """The suites by Java's names or OpenSSL's. Those of TLS 1.3 can't be chosen one by one in Python."""
    of_13 = _SUITES_OF_13.intersection(suites)
    if of_13 and of_13 != _SUITES_OF_13:
        missing = ", ".join(sorted(_SUITES_OF_13 - of_13))
        raise KeyStoreError(
            f"ssl.cipher.suites: the suites of TLS 1.3 can only be had together; it lacks {missing}"
        )
    if not of_13 and context.maximum_version == ssl.TLSVersion.TLSv1_3:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    older = [_openssl_name(each) for each in suites if each not in _SUITES_OF_13]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        raise KeyStoreError(f"ssl.cipher.suites: OpenSSL knows none of {', '.join(suites)}") from None


def _openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384, and without RSA AES256-…"""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return suite
    cipher = re.sub(r"(AES|ARIA|CAMELLIA)_(\d+)", r"\1\2", found["cipher"]).replace("_CBC", "")
    exchange = "" if found["exchange"] == "RSA" else found["exchange"] + "-"
    digest = "" if cipher.startswith("CHACHA20") else "-" + found["hash"]
    return f"{exchange}{cipher}{digest}".replace("_", "-")


def _show(context: ssl.SSLContext, identity: Identity, place: str) -> None:
    # Without a password OpenSSL would ask for one at the terminal.
    with _as_file(identity.pem) as path:
        try:
            context.load_cert_chain(path, password=identity.password)
        except (ssl.SSLError, ValueError) as problem:
            raise KeyStoreError(
                f"{place}: the key can't be used with its certificate and password: {problem}"
            ) from None


def _ask_for_certificates(
    context: ssl.SSLContext, authorities: Store, authentication: ClientAuthentication
) -> None:
    if not authorities.is_given:
        raise KeyStoreError(
            f"certificates of clients are {authentication.lower()}, which needs their authorities: "
            "ssl.truststore.location, or the PEM of ssl.truststore.certificates"
        )
    _trust(context, authorities)
    required = authentication is ClientAuthentication.REQUIRED
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL


def _trust(context: ssl.SSLContext, authorities: Store) -> None:
    try:
        context.load_verify_locations(cadata=read_authorities(authorities))
    except ssl.SSLError as problem:
        place = authorities.location or "ssl.truststore.certificates"
        raise KeyStoreError(f"{place}: the certificates can't be used: {problem}") from None


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ottla-key")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        Path(path).unlink()
