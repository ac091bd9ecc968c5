"""Finds out who sent a request: by the certificate of its connection, a password, or a bearer token.

Theory of operation. This is done before a byte of the request's body is read. A password that is stored as a
slow hash is checked in one of HASH_THREADS threads; a right one is remembered by a keyed hash, until the file
of users changes, as clients send theirs with each request. Concurrent requests with the same one share a
check. When too many different ones wait, further ones are refused (503): those who guess are in the way of
each other, and of clients that log in for the first time, but not of those that are known.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.security.bearer_tokens import BadToken
from ottla.security.certificate_names import MalformedCertificate, names_of_der
from ottla.security.distinguished_names import MalformedName, rfc2253_name
from ottla.security.key_set_source import KeysUnreachable
from ottla.security.principal_mapping import InvalidPrincipal, PrincipalMapper, certificate_name
from ottla.security.provider_keys import ProviderKeys
from ottla.security.realm_file import Realm, User
from ottla.security.watched_files import WatchedFiles
from ottla.web.callers import BasicCredentials, Caller

log = logging.getLogger("ottla.web")

HASH_THREADS: Final = 2
MAX_WAITING_CHECKS: Final = 64
"""Different passwords that wait for their checks; at 50 ms each that is 1.6 s."""
KEPT_PASSWORDS: Final = 1_024
KEPT_CERTIFICATES: Final = 1_024
MAX_CREDENTIALS_CHARACTERS: Final = 8 << 10
USER: Final = "User:"


class Unauthenticated(Exception):
    """The client has not proved who it is; the reason is told to it."""

    def __init__(self, reason: str, *, status: int = 401) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class CertificatePrincipals:
    """The principals of clients' certificates."""

    def __init__(self, mapper: PrincipalMapper, *, use_spiffe_id: bool) -> None:
        self._mapper = mapper
        self._use_spiffe_id = use_spiffe_id
        self._kept: OrderedDict[bytes, str] = OrderedDict()

    def principal(self, certificate: bytes) -> str:
        """The principal of a certificate in DER, which TLS has verified. Raises Unauthenticated."""
        found = self._kept.get(certificate)
        if found is None:
            found = self._kept[certificate] = USER + self._name(certificate)
            if len(self._kept) > KEPT_CERTIFICATES:
                self._kept.popitem(last=False)
        return found

    def _name(self, certificate: bytes) -> str:
        try:
            names = names_of_der(certificate)
            subject = rfc2253_name(names.subject)
            return certificate_name(subject, names.uris, self._mapper, use_spiffe_id=self._use_spiffe_id)
        except (MalformedCertificate, MalformedName, InvalidPrincipal) as problem:
            log.warning("a client's certificate gives no principal: %s", problem)
            raise Unauthenticated("The certificate's name gives no principal") from None


class PasswordChecks:
    """Checks names and passwords against a file of users."""

    def __init__(self, realm: WatchedFiles[Realm]) -> None:
        self._realm = realm
        self._known_of = realm.value
        self._known: OrderedDict[bytes, User] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Future[User | None]] = {}
        self._key = secrets.token_bytes(32)
        self._threads = ThreadPoolExecutor(HASH_THREADS, "passwords")

    async def caller(self, credentials: BasicCredentials) -> Caller:
        """The user of these credentials. Raises Unauthenticated."""
        realm = self._realm.value
        if realm.is_slow:
            user = await self._user(realm, credentials)
        else:
            user = realm.verified(credentials.name, credentials.password)
        if user is None:
            raise Unauthenticated("The name or the password is wrong")
        return Caller(USER + user.name, user.roles, credentials)

    async def _user(self, realm: Realm, credentials: BasicCredentials) -> User | None:
        if realm is not self._known_of:
            self._known_of = realm
            self._known.clear()
            self._under_way = {}
        both = f"{credentials.name}\0{credentials.password}".encode("utf-8", "surrogateescape")
        digest = hmac.digest(self._key, both, "sha256")
        user = self._known.get(digest)
        if user is not None:
            self._known.move_to_end(digest)
            return user
        under_way = self._under_way
        checking = under_way.get(digest)
        if checking is None:
            if len(under_way) >= MAX_WAITING_CHECKS:
                raise Unauthenticated("Too many passwords wait for being checked", status=503)
            loop = asyncio.get_running_loop()
            checking = loop.run_in_executor(
                self._threads, realm.verified, credentials.name, credentials.password
            )
            under_way[digest] = checking
            checking.add_done_callback(lambda _: under_way.pop(digest, None))
        user = await asyncio.shield(checking)
        if user is not None and realm is self._known_of:
            self._known[digest] = user
            if len(self._known) > KEPT_PASSWORDS:
                self._known.popitem(last=False)
        return user


class TokenChecks:
    """Checks bearer tokens by the keys of one identity provider, which `run` keeps up to date."""

    def __init__(self, keys: ProviderKeys) -> None:
        self._keys = keys

    async def caller(self, token: str) -> Caller:
        """The holder of a token. Raises Unauthenticated."""
        try:
            holder = await self._keys.check(token)
        except BadToken as problem:
            raise Unauthenticated(str(problem)) from None
        except KeysUnreachable as problem:
            raise Unauthenticated(str(problem), status=503) from None
        return Caller(USER + holder.name, holder.roles)

    async def run(self) -> None:
        """Read the keys, again and again."""
        await self._keys.run()


def authorization_of(headers: Mapping[bytes, bytes]) -> tuple[str, str]:
    """The scheme, in lower case, and the rest of the header Authorization; both empty without one."""
    scheme, _, rest = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return scheme.lower(), rest.strip()


def basic_credentials(text: str) -> BasicCredentials:
    """The credentials behind `Basic` (RFC 7617). Raises Unauthenticated."""
    try:
        if len(text) > MAX_CREDENTIALS_CHARACTERS:
            raise ValueError
        decoded = base64.b64decode(text, validate=True)
        try:
            both = decoded.decode()
        except UnicodeDecodeError:
            both = decoded.decode("latin-1")
        name, colon, password = both.partition(":")
        if not colon or "\0" in both:
            raise ValueError
    except ValueError:
        raise Unauthenticated("The header Authorization can't be read") from None
    return BasicCredentials(name, password)
