"""Acts towards the cluster as the caller of each request: a proxy a caller, made when it first comes.

Theory of operation. A caller's name and password are tried on a broker before clients are made with them, so
a wrong password is answered with 401. The clients of a caller stay until it was idle for
`ottla.rest.caller.idle.ms` and has no consumer instance; at most `ottla.rest.callers` have any, and a new one
takes the place of the one that was idle the longest. Callers are known again by a keyed hash of both name
and password: who knows only the name of another gets none of its clients. A password that the cluster no
longer takes is good for as long as the brokers let its open connections be.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser
from ottla.client.errors import ClientOptionError
from ottla.config.settings import Settings
from ottla.protocol.errors import ProtocolError
from ottla.rest.proxy import Proxy
from ottla.rest.settings import (
    ADMIN_PREFIX,
    BOOTSTRAP_SERVERS,
    CALLER_IDLE_MS,
    CALLERS,
    CLIENT_PREFIX,
    CONSUMER_PREFIX,
    PRODUCER_PREFIX,
    PROPAGATE_METHOD,
)
from ottla.web.authentication import Unauthenticated
from ottla.web.authentication_settings import METHOD, Method
from ottla.web.callers import BasicCredentials
from ottla.web.errors import ApiError, ServiceError

log = logging.getLogger("ottla.rest")

LOGINS_AT_A_TIME: Final = 8
MAX_WAITING_LOGINS: Final = 64
LOGIN_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 1.0
_IDENTITY: Final = (
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.mechanisms",
    "security.protocol",
)

MakeProxy = Callable[[BasicCredentials], Proxy]
Login = Callable[[BasicCredentials], Awaitable[None]]


class _Kept:
    """The proxy of one caller. users: requests under way. has_place: whether its login was good."""

    __slots__ = ("has_place", "last_used", "proxy", "started", "users")

    def __init__(self, started: asyncio.Task[Proxy]) -> None:
        self.started = started
        self.proxy: Proxy | None = None
        self.users = 0
        self.has_place = False
        self.last_used = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it can be ended without breaking anything off."""
        return self.proxy is not None and not self.users and not self.proxy.instances.any


class CallerProxies:
    """The proxies of callers, at most `most` of them. login: raises Unauthenticated, ApiError."""

    def __init__(self, make: MakeProxy, login: Login, most: int, idle_seconds: float) -> None:
        self._make = make
        self._login = login
        self._most = most
        self._idle_seconds = idle_seconds
        self._key = secrets.token_bytes(32)
        self._kept: dict[bytes, _Kept] = {}
        self._logins = asyncio.Semaphore(LOGINS_AT_A_TIME)
        self._waiting = 0
        self._watchers: set[asyncio.Task[None]] = set()

    @property
    def proxies(self) -> list[Proxy]:
        """Those of the callers that have clients now."""
        return [kept.proxy for kept in self._kept.values() if kept.proxy is not None]

    @asynccontextmanager
    async def of(self, credentials: BasicCredentials) -> AsyncIterator[Proxy]:
        """The proxy of a caller, which stays for the length of the block.

        Raises Unauthenticated for credentials that the cluster refuses, ApiError 503 when there are too many.
        """
        both = f"{credentials.name}\0{credentials.password}".encode("utf-8", "surrogateescape")
        digest = hmac.digest(self._key, both, "sha256")
        kept = self._kept.get(digest)
        if kept is None:
            starting = asyncio.create_task(self._started(digest, credentials), name="a caller's proxy")
            kept = self._kept[digest] = _Kept(starting)
        kept.users += 1
        try:
            # Another request may wait for the same start.
            yield await asyncio.shield(kept.started)
        finally:
            kept.users -= 1
            kept.last_used = asyncio.get_running_loop().time()

    async def failed(self) -> str:
        """End proxies that are idle, for as long as the service runs; never returns."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before = asyncio.get_running_loop().time() - self._idle_seconds
            for digest, kept in list(self._kept.items()):
                if kept.is_idle and kept.last_used < before:
                    self._end(digest, kept)

    def end_requests(self) -> None:
        """See `Service`."""
        for kept in self._kept.values():
            if kept.proxy is not None:
                kept.proxy.end_requests()

    async def stop(self) -> None:
        """End all proxies."""
        starting: list[asyncio.Task[Proxy]] = []
        for digest, kept in list(self._kept.items()):
            if not kept.started.done():
                kept.started.cancel()
                starting.append(kept.started)
            self._end(digest, kept)
        await asyncio.gather(*starting, *self._watchers, return_exceptions=True)

    def _make_room(self) -> None:
        """End the proxy that was idle the longest, if there is no place left. Raises ApiError 503."""
        if sum(kept.has_place for kept in self._kept.values()) < self._most:
            return
        idle = [(kept.last_used, digest) for digest, kept in self._kept.items() if kept.is_idle]
        if not idle:
            raise ApiError(503, 503, f"{self._most} callers use this proxy ({CALLERS.name}): try again later")
        _, digest = min(idle)
        self._end(digest, self._kept[digest])

    async def _started(self, digest: bytes, credentials: BasicCredentials) -> Proxy:
        try:
            await self._logged_in(credentials)
            # Only now: wrong passwords must not end the clients of others.
            self._make_room()
            self._kept[digest].has_place = True
            proxy = self._make(credentials)
            try:
                await proxy.start()
            except BaseException:
                await proxy.stop()
                raise
        except ServiceError as problem:
            self._kept.pop(digest, None)
            raise ApiError(500, 50002, str(problem)) from None
        except BaseException:
            self._kept.pop(digest, None)
            raise
        kept = self._kept[digest]
        kept.proxy = proxy
        watching = asyncio.create_task(self._watch(digest, kept, proxy), name="watch a caller's proxy")
        self._watchers.add(watching)
        watching.add_done_callback(self._watchers.discard)
        return proxy

    async def _logged_in(self, credentials: BasicCredentials) -> None:
        if self._waiting >= MAX_WAITING_LOGINS:
            raise ApiError(503, 503, "Too many logins wait for the cluster: try again later")
        self._waiting += 1
        try:
            async with self._logins:
                await self._login(credentials)
        finally:
            self._waiting -= 1

    async def _watch(self, digest: bytes, kept: _Kept, proxy: Proxy) -> None:
        """End a proxy with its failure, or when it is taken out."""
        failing = asyncio.create_task(proxy.failed())
        try:
            while self._kept.get(digest) is kept:
                done, _ = await asyncio.wait([failing], timeout=LOOK_SECONDS / 4)
                if done:
                    log.error("the clients of a caller have failed: %s", failing.result())
                    self._kept.pop(digest, None)
        finally:
            failing.cancel()
            await proxy.stop()

    def _end(self, digest: bytes, kept: _Kept) -> None:
        """Take a proxy out; `_watch` stops it."""
        if self._kept.get(digest) is kept:
            del self._kept[digest]


def caller_settings(settings: Settings, credentials: BasicCredentials) -> Settings:
    """The settings of a proxy that acts as this caller."""
    own = {"sasl.username": credentials.name, "sasl.password": credentials.password}
    left_out = tuple(f"{CLIENT_PREFIX}{name}" for name in ("sasl.jaas.config", "ottla.sasl.tokenauth"))
    return settings.changed({CLIENT_PREFIX + name: text for name, text in own.items()}, left_out)


def login_of(settings: Settings) -> Login:
    """Tries the credentials of a caller on a broker. Raises ConfigError for settings without any."""
    _require_passwords(settings)

    async def login(credentials: BasicCredentials) -> None:
        own = caller_settings(settings, credentials)
        access = ClusterAccess(own[BOOTSTRAP_SERVERS], own.with_prefix(CLIENT_PREFIX))
        connection = access.connection()
        for address in access.addresses():
            try:
                async with asyncio.timeout(LOGIN_SECONDS):
                    opened = await NodeConnection.to(address, connection)
            except NodeRefusesUser:
                raise Unauthenticated("The cluster does not take the name or the password") from None
            except (ConnectionLost, ProtocolError, OSError, TimeoutError):
                continue
            await opened.close()
            return
        raise ApiError(503, 50003, "No broker can be reached to check the password")

    return login


def _require_passwords(settings: Settings) -> None:
    """Raises ConfigError where callers have no passwords, or the cluster takes none."""
    asked = PROPAGATE_METHOD.name
    if settings[METHOD] is not Method.BASIC:
        raise settings.refusal(asked, f"it needs {METHOD.name}=BASIC, with which callers have passwords")
    for prefix in (PRODUCER_PREFIX, CONSUMER_PREFIX, ADMIN_PREFIX):
        for name in _IDENTITY:
            if settings.is_given(prefix + name):
                raise settings.refusal(prefix + name, f"with {asked} callers act as themselves: leave it out")
    own = caller_settings(settings, BasicCredentials("name", "password"))
    access = ClusterAccess(own[BOOTSTRAP_SERVERS], own.with_prefix(CLIENT_PREFIX))
    try:
        by_password = access.connection().by_password
    except ClientOptionError as problem:
        raise settings.refusal(asked, f"the settings {CLIENT_PREFIX}*: {problem}") from None
    if not by_password:
        protocol, mechanism = f"{CLIENT_PREFIX}security.protocol", f"{CLIENT_PREFIX}sasl.mechanism"
        needed = f"{protocol}=SASL_SSL or SASL_PLAINTEXT, and {mechanism}=PLAIN or SCRAM"
        raise settings.refusal(asked, f"it needs {needed}, by which passwords go to the brokers")


def caller_proxies(settings: Settings, make: Callable[[Settings], Proxy]) -> CallerProxies:
    """The proxies of the callers of a service with these settings. Raises ConfigError."""
    return CallerProxies(
        lambda credentials: make(caller_settings(settings, credentials)),
        login_of(settings),
        settings[CALLERS],
        settings[CALLER_IDLE_MS] / 1000,
    )
