"""The memory of answers that their clients do not read: a bound over all connections.

Theory of operation. An answer that the socket takes at once costs nothing here. One that it does not take
waits in the connection's write buffer; above WRITE_HIGH_WATER_BYTES the connection handles no further
request, and its waiting bytes are counted here. One fetch answer has up to fetch.max.bytes (55 MiB), so the
connections together would still hold all that their clients leave unread. (Kafka's answers refer to files,
ours have the bytes.)

While more than LIMIT_BYTES wait, fetches of every kind wait before they are handled, those of brokers too:
their answers are the large ones. Above twice of that all requests wait. So the bytes are bounded by the limit
and one answer. Fetches that were waiting for records already may all be answered in one turn of the loop,
before any is seen unread: they `expect` their bytes, and read no more than there is room for, but one batch
each.

Clients that read, however slowly, make room in time. One that takes no byte for PATIENCE_SECONDS while others
wait loses its connection, and sooner the more of them wait for each that holds: behind a crowd of deaf
clients every client gets a turn within seconds. No client is hurried while there is room; then
connections.max.idle.ms closes those that read nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from ottla.protocol.apis import ApiKey

LIMIT_BYTES: Final = 256 * 1024 * 1024
PATIENCE_SECONDS: Final = 3.0
_LARGE = frozenset({ApiKey.FETCH.value, ApiKey.SHARE_FETCH.value, ApiKey.FETCH_SNAPSHOT.value})


class Holder(Protocol):
    """A connection whose client does not read its answers, or one that waits for such clients."""

    def unread_bytes(self) -> int:
        """The bytes that wait in its write buffer."""

    def answers_granted(self) -> None:
        """The connection may handle the request that it has held back."""

    def hang_up_on_deaf_client(self) -> None:
        """Close at once; the waiting bytes are dropped."""


class _Unread:
    """The bytes that one connection has waiting, and since when the client took none of them."""

    __slots__ = ("since", "size")

    def __init__(self, size: int, since: float) -> None:
        self.size = size
        self.since = since


class AnswerMemory:
    """Counts unread answers, and holds requests back while there are too many."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int = LIMIT_BYTES) -> None:
        self._loop = loop
        self._now: Callable[[], float] = loop.time
        self._limit_bytes = limit_bytes
        self._unread: dict[Holder, _Unread] = {}
        self._waiting: dict[Holder, None] = {}
        self._resuming = False
        self._expected_bytes = 0
        self.held_bytes = 0
        self.over = False
        """Whether large answers have to wait."""

    @property
    def room_bytes(self) -> int:
        """The bytes that a fetch that has waited may read for its answer now."""
        return max(0, self._limit_bytes - self.held_bytes - self._expected_bytes)

    def expect(self, size: int) -> None:
        """An answer of this size has been made, and is sent before the next turn of the loop ends."""
        self._expected_bytes += size
        self._loop.call_soon(self._sent, size)

    def _sent(self, size: int) -> None:
        self._expected_bytes -= size

    def must_wait(self, frame: memoryview) -> bool:
        """Whether this request has to wait; asked only while `over`."""
        api_key = int.from_bytes(frame[:2])
        return api_key in _LARGE or self.held_bytes > 2 * self._limit_bytes

    def wait(self, holder: Holder) -> None:
        """`holder` has a request that must wait; it is told when to go on."""
        self._waiting[holder] = None

    def unread(self, holder: Holder) -> None:
        """The client of `holder` does not take its answers."""
        self.read(holder)
        size = holder.unread_bytes()
        self._unread[holder] = _Unread(size, self._now())
        self._count(size)

    def read(self, holder: Holder) -> None:
        """The client of `holder` has taken nearly all of it."""
        entry = self._unread.pop(holder, None)
        if entry is not None:
            self._count(-entry.size)

    def forget(self, holder: Holder) -> None:
        """The connection is gone."""
        self._waiting.pop(holder, None)
        self.read(holder)

    def hurry(self, now: float) -> None:
        """Note the bytes read meanwhile; hang up on deaf clients while others wait, see the module's text."""
        for holder, entry in self._unread.items():
            size = holder.unread_bytes()
            if size < entry.size:
                self._count(size - entry.size)
                entry.size, entry.since = size, now
        if not self.over or not self._waiting:
            return
        patience = PATIENCE_SECONDS / (1 + len(self._waiting) / len(self._unread))
        deaf = [holder for holder, entry in self._unread.items() if now - entry.since > patience]
        for holder in deaf:
            holder.hang_up_on_deaf_client()
            self.read(holder)

    def _count(self, size: int) -> None:
        self.held_bytes += size
        self.over = self.held_bytes > self._limit_bytes
        if self._waiting and not self.over and not self._resuming:
            self._resuming = True
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        """Let one go on, and the next in another turn: the answer of this one may be too much again."""
        self._resuming = False
        if self._waiting and not self.over:
            holder = next(iter(self._waiting))
            del self._waiting[holder]
            holder.answers_granted()
            self._count(0)
