"""The keys of one identity provider, kept up to date, and tokens checked by them.

The keys are read before they are needed, and again as often as was set; an attempt that fails is repeated
sooner, after pauses that grow. A token of an unknown key has them read again, but at most once in
UNKNOWN_KEY_SECONDS, and all such tokens wait for the same attempt: a flood of them costs the provider
nothing, and a key that was changed is found without waiting for the next regular look. Keys in a file are
read again when it changes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from ottla.security.bearer_tokens import TokenHolder, TokenKeys, TokenRules, UnknownKey, check
from ottla.security.key_set_source import KeySetSource, KeysUnreachable
from ottla.security.watched_files import WATCH_SECONDS, WatchedFiles

log = logging.getLogger("ottla.security")

UNKNOWN_KEY_SECONDS: Final = 10.0
FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 60.0


class ProviderKeys:
    """Checks bearer tokens by the keys of a provider. Used on one event loop; `run` keeps it up to date."""

    def __init__(
        self,
        source: KeySetSource,
        rules: TokenRules,
        refresh_seconds: float,
        *,
        first_retry_seconds: float = FIRST_RETRY_SECONDS,
        longest_retry_seconds: float = LONGEST_RETRY_SECONDS,
        now_seconds: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises KeysUnreachable where the keys are in a file that can't be used."""
        self._source = source
        self._rules = rules
        self._refresh_seconds = refresh_seconds
        self._first_retry_seconds = first_retry_seconds
        self._longest_retry_seconds = longest_retry_seconds
        self._now_seconds = now_seconds
        self._clock = clock
        self._file: WatchedFiles[TokenKeys] | None = None
        if source.path is not None:
            self._file = WatchedFiles("the file of tokens' keys", [source.path], source.fetch)
        self._keys: TokenKeys | None = None if self._file is None else self._file.value
        self._tried_at = -UNKNOWN_KEY_SECONDS if self._keys is None else clock()
        self._reading: asyncio.Task[None] | None = None

    async def check(self, token: str) -> TokenHolder:
        """The holder of a token. Raises BadToken, or KeysUnreachable while there are no keys."""
        if self._keys is None:
            await self._read_again()
        try:
            return self._checked(token)
        except UnknownKey:
            await self._read_again()
            return self._checked(token)

    def _checked(self, token: str) -> TokenHolder:
        if self._keys is None:
            raise KeysUnreachable("The keys of the identity provider can't be read")
        return check(token, self._keys, self._rules, self._now_seconds())

    async def _read_again(self) -> None:
        """Read the keys, unless that was tried just now."""
        if self._reading is None and self._clock() - self._tried_at >= UNKNOWN_KEY_SECONDS:
            self._tried_at = self._clock()
            self._begin_reading()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _begin_reading(self) -> asyncio.Task[None]:
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
            await asyncio.wait([self._reading or self._begin_reading()])
        retry_seconds = self._first_retry_seconds
        while True:
            before = self._keys
            self._tried_at = self._clock()
            await asyncio.wait([self._reading or self._begin_reading()])
            if self._keys is before:
                await asyncio.sleep(retry_seconds)
                retry_seconds = min(2 * retry_seconds, self._longest_retry_seconds)
            else:
                retry_seconds = self._first_retry_seconds
                await asyncio.sleep(self._refresh_seconds)
