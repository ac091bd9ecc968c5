"""Finds out who sent a request: by the certificate of its connection, a password, or a bearer token.

Theory of operation. This is done before a byte of the request's body is read. A password that is stored as a
slow hash is checked in one of HASH_THREADS threads; a right one is remembered by a keyed hash, until the file
of users changes, as clients send theirs with each request. Concurrent requests with the same one share a
check. When too many different ones wait, further ones are refused (503): those who guess are in the way of
each other, and of clients that log in for the first time, but not of those that are known.

The keys of an identity provider are read before they are needed. A token of an unknown key has them read
again, at most every UNKNOWN_KEY_SECONDS, so a flood of such tokens costs the provider nothing. Keys in a file
are read again when it changes.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.security.bearer_tokens import BadToken, TokenHolder, TokenKeys, TokenRules, UnknownKey, check
from ottla.security.distinguished_names import MalformedName, rfc2253_name
from ottla.security.key_set_source import KeySetSource, KeysUnreachable
from ottla.security.principal_mapping import InvalidPrincipal, PrincipalMapper, certificate_name
from ottla.security.realm_file import Realm, User
from ottla.security.watched_files import WATCH_SECONDS, WatchedFiles
from ottla.web.callers import BasicCredentials, Caller

log = logging.getLogger("ottla.web")

HASH_THREADS: Final = 2
MAX_WAITING_CHECKS: Final = 64
"""Different passwords that wait for their checks; at 50 ms each that is 1.6 s."""
KEPT_PASSWORDS: Final = 1_024
KEPT_CERTIFICATES: Final = 1_024
UNKNOWN_KEY_SECONDS: Final = 10.0
FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 60.0
MAX_CREDENTIALS_CHARACTERS: Final = 8 << 10
USER: Final = "User:"


class Unauthenticated(Exception):
    """The client has not proved who it is; the reason is told to it."""

    def __init__(self, reason: str, *, status: int = 401) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class CertificateNames:
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
        from cryptography import x509

        try:
            read = x509.load_der_x509_certificate(certificate)
            subject = rfc2253_name(read.subject.public_bytes())
            try:
                names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
                uris = names.get_values_for_type(x509.UniformResourceIdentifier)
            except x509.ExtensionNotFound:
                uris = []
            return certificate_name(subject, uris, self._mapper, use_spiffe_id=self._use_spiffe_id)
        except (ValueError, MalformedName, InvalidPrincipal) as problem:
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

    def __init__(
        self,
        source: KeySetSource,
        rules: TokenRules,
        refresh_ms: int,
        now_seconds: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises KeysUnreachable where the keys are in a file that can't be used."""
        self._source = source
        self._rules = rules
        self._refresh_seconds = refresh_ms / 1000
        self._now_seconds = now_seconds
        self._clock = clock
        self._file: WatchedFiles[TokenKeys] | None = None
        if source.path is not None:
            self._file = WatchedFiles("the file of tokens' keys", [source.path], source.fetch)
        self._keys: TokenKeys | None = None if self._file is None else self._file.value
        self._tried_at = -UNKNOWN_KEY_SECONDS if self._keys is None else clock()
        self._reading: asyncio.Task[None] | None = None

    async def caller(self, token: str) -> Caller:
        """The holder of a token. Raises Unauthenticated."""
        if self._keys is None:
            await self._read_again()
        try:
            holder = self._holder(token)
        except UnknownKey:
            await self._read_again()
            try:
                holder = self._holder(token)
            except BadToken as problem:
                raise Unauthenticated(str(problem)) from None
        except BadToken as problem:
            raise Unauthenticated(str(problem)) from None
        return Caller(USER + holder.name, holder.roles)

    def _holder(self, token: str) -> TokenHolder:
        if self._keys is None:
            raise Unauthenticated("The keys of the identity provider can't be read", status=503)
        return check(token, self._keys, self._rules, self._now_seconds())

    async def _read_again(self) -> None:
        """Read the keys, unless that was tried just now."""
        if self._reading is None and self._clock() - self._tried_at >= UNKNOWN_KEY_SECONDS:
            self._begin_reading()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _begin_reading(self) -> asyncio.Task[None]:
        self._tried_at = self._clock()
        self._reading = asyncio.create_task(self._read(), name="identity provider's keys")
        return self._reading

    async def _read(self) -> None:
        try:
            self._keys = await asyncio.to_thread(self._fetched)
        except KeysUnreachable as problem:
            kept = "" if self._keys is None else ", the former ones stay"
            log.warning("the keys of the identity provider can't be read%s: %s", kept, problem)
        finally:
            self._reading = None

    def _fetched(self) -> TokenKeys:
        if self._file is None:
            return self._source.fetch()
        self._file.refresh()
        return self._file.value

    async def run(self) -> None:
        """Read the keys now, and again and again; a failed attempt sooner, and a file when it changes."""
        while self._file is not None:
            await asyncio.sleep(WATCH_SECONDS)
            self._keys = await asyncio.to_thread(self._fetched)
        retry_seconds = FIRST_RETRY_SECONDS
        while True:
            before = self._keys
            await asyncio.wait([self._reading or self._begin_reading()])
            if self._keys is before:
                await asyncio.sleep(retry_seconds)
                retry_seconds = min(2 * retry_seconds, LONGEST_RETRY_SECONDS)
            else:
                retry_seconds = FIRST_RETRY_SECONDS
                await asyncio.sleep(self._refresh_seconds)


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
