"""A cache of answers, kept for good or for a while, bounded in number and in size. For many threads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Found]):
    found: Found | Exception
    characters: int
    until: float | None


class Cache(Generic[Found]):
    """The `limit` objects that were asked for last, of at most `limit_characters` together.

    A single object may be larger. `clock` gives seconds.
    """

    def __init__(
        self,
        limit: int,
        limit_characters: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._limit_characters = limit_characters
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Kept[Found]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def recall(self, key: Hashable) -> Found | None:
        """The object under a key, None if there is none. Raises the exception that is kept in its place."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            if kept.until is not None and kept.until < self._clock():
                self._forget(key)
                return None
            self._kept.move_to_end(key)
        if isinstance(kept.found, Exception):
            # otherwise its traceback would grow each time
            raise kept.found.with_traceback(None)
        return kept.found

    def keep(
        self, key: Hashable, found: Found | Exception, seconds: float | None = None, characters: int = 0
    ) -> None:
        """Keep an object or an exception under a key, for so many seconds or for good."""
        until = None if seconds is None else self._clock() + seconds
        with self._lock:
            self._forget(key)
            self._kept[key] = _Kept(found, characters, until)
            self._characters += characters
            while len(self._kept) > 1 and self._is_full():
                self._forget(next(iter(self._kept)))

    def _is_full(self) -> bool:
        too_long = self._limit_characters is not None and self._characters > self._limit_characters
        return too_long or len(self._kept) > self._limit

    def _forget(self, key: Hashable) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._characters -= kept.characters
