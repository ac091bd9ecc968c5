"""Who may read a process's metrics: users by password, holders of tokens, or everybody, as its settings say.

Passwords and tokens are stored as hashes that take a tenth of a second to check. One that was right is
therefore known again by a keyed digest for as long as its file is unchanged; of all others one is checked
at a time, in a thread, and few may wait.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
from collections import OrderedDict
from pathlib import Path
from typing import Final

from ottla.config.errors import ConfigError
from ottla.metrics.settings import OPEN, TOKENS_FILE, USERS_FILE, EndpointOptions
from ottla.security.realm_file import Realm, UnusableRealm, read_realm
from ottla.security.watched_files import WatchedFiles

KEPT: Final = 64
MOST_WAITING: Final = 4
MOST_CHARACTERS: Final = 2_048


class Busy(Exception):
    """Too many wrong credentials are being checked."""


class Access:
    """Decides by the header Authorization."""

    def __init__(self, options: EndpointOptions) -> None:
        """Raises ConfigError for files that can't be used."""
        self._realms: dict[str, WatchedFiles[Realm]] = {}
        for scheme, setting, location in (
            ("basic", USERS_FILE.name, options.users_file),
            ("bearer", TOKENS_FILE.name, options.tokens_file),
        ):
            if location is None:
                continue
            path = Path(location)
            try:
                realm = WatchedFiles(setting, [path], lambda path=path: read_realm(path))  # type: ignore[misc]
            except UnusableRealm as problem:
                raise ConfigError(f"{setting}: {problem}") from None
            if not realm.value.users:
                raise ConfigError(f"{setting}: {path} names nobody")
            self._realms[scheme] = realm
        self._known: OrderedDict[bytes, Realm] = OrderedDict()
        self._key = secrets.token_bytes(32)
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    @property
    def asks(self) -> bool:
        """Whether callers have to prove who they are."""
        return bool(self._realms)

    @property
    def challenge(self) -> str:
        """The header WWW-Authenticate of a refusal."""
        return ", ".join(f'{scheme.capitalize()} realm="ottla metrics"' for scheme in self._realms)

    def refresh(self) -> None:
        """Read files that have changed; blocks."""
        for realm in self._realms.values():
            realm.refresh()

    async def allows(self, authorization: str) -> bool:
        """Whether these are the credentials of a reader. Raises Busy."""
        if not self._realms:
            return True
        scheme, _, rest = authorization.partition(" ")
        scheme, rest = scheme.lower(), rest.strip()
        watched = self._realms.get(scheme)
        if watched is None or not rest or len(rest) > MOST_CHARACTERS:
            return False
        realm = watched.value
        digest = hmac.digest(self._key, f"{scheme} {rest}".encode("utf-8", "surrogateescape"), "sha256")
        if self._known.get(digest) is realm:
            self._known.move_to_end(digest)
            return True
        if self._waiting >= MOST_WAITING:
            raise Busy
        self._waiting += 1
        try:
            async with self._turn:
                check = _holds_password if scheme == "basic" else _holds_token
                if not await asyncio.to_thread(check, realm, rest):
                    return False
        finally:
            self._waiting -= 1
        self._known[digest] = realm
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return True


def _holds_password(realm: Realm, text: str) -> bool:
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except ValueError:
        return False
    return bool(colon) and realm.verified(name, password) is not None


def _holds_token(realm: Realm, token: str) -> bool:
    # Every one is compared, so that the time does not tell which came near.
    return sum(realm.verified(name, token) is not None for name in realm.users) > 0


def require_known_readers(
    program: str, options: EndpointOptions, *, is_loopback: bool, asks_for_certificates: bool
) -> None:
    """Refuse to serve other machines without asking who they are, unless the settings say so.

    Raises ConfigError.
    """
    known = options.users_file or options.tokens_file or asks_for_certificates
    if is_loopback or options.is_open or known:
        return
    raise ConfigError(
        f"{program} would serve its metrics at {options.address.url} to any machine that reaches it: set "
        f"{USERS_FILE.name} or {TOKENS_FILE.name}, or {OPEN.name}=true if anybody may read them"
    )
