"""The memory of requests that have arrived in part or wait to be handled: queued.max.request.bytes.

Theory of operation. A request that arrives whole is handled in the buffer that all connections read into, and
costs nothing here. Only buffers of a connection's own count: a frame under construction, frames that were set
aside behind a request that is being answered, and a frame of its own while that one is answered. A frame
counts with the bytes that it has room for, which grow with the bytes that arrive. (Kafka counts the size that
a client claims, so that a few sizes without bytes shut out all other clients.)

When there is no room for more, the frame that wants to grow waits, and its connection is not read from. The
others are read from in small pieces: a heartbeat, a commit or a fetch that comes whole is still answered.
Room goes to the oldest frame first, so that frames are finished one after the other instead of all being
begun; the oldest may go over the limit by the size of one request, so that it can be finished whatever the
others hold.

A sender that stops in the middle would hold its share for ever, and so would one that sends a large request
behind another that waits for days. So while connections wait, a client that has held its bytes for
PATIENCE_SECONDS without a step forward loses its connection, and sooner the more of them wait for each that
holds. No client is hurried while there is room.
"""

from __future__ import annotations

from typing import Final, Protocol

PATIENCE_SECONDS: Final = 10.0


class Holder(Protocol):
    """A connection with bytes of its own."""

    held_since: float
    """When it last got room, or set something aside, in the loop's time."""

    def memory_granted(self, size: int) -> None:
        """The `size` bytes that its frame waits for are there and counted."""

    def hang_up_on_slow_request(self) -> None:
        """Close: others wait for the bytes that it holds."""


class RequestMemory:
    """Counts, and makes connections wait for each other."""

    def __init__(self, limit_bytes: int, max_request_bytes: int) -> None:
        self._limit_bytes = limit_bytes if limit_bytes > 0 else float("inf")
        self._limit_of_oldest = self._limit_bytes + max_request_bytes
        self._building: dict[Holder, None] = {}  # the oldest first
        self._aside: dict[Holder, None] = {}
        self._waiting: dict[Holder, int] = {}
        self.held_bytes = 0
        self.short = False
        """Whether a connection waits."""

    def begin(self, holder: Holder, size: int) -> bool:
        """`holder` begins a frame and wants room for it. False: it gets that later, see `memory_granted`."""
        self._building[holder] = None
        return self.grow(holder, size)

    def grow(self, holder: Holder, size: int) -> bool:
        """The same for a frame that it has begun."""
        if self._fits(holder, size, not self._waiting):
            self.held_bytes += size
            return True
        self._waiting[holder] = size
        self.short = True
        return False

    def complete(self, holder: Holder) -> None:
        """The frame is whole; its bytes go back when it is handled."""
        self._building.pop(holder, None)
        if self._waiting:
            self._grant()  # another one is the oldest

    def set_aside(self, holder: Holder, size: int) -> None:
        """`holder` keeps frames for later, of which `size` bytes were not counted yet."""
        self._aside[holder] = None
        self.held_bytes += size

    def take_up(self, holder: Holder) -> None:
        """`holder` handles the frames that it kept."""
        self._aside.pop(holder, None)

    def take(self, size: int) -> None:
        """Count bytes that have arrived already."""
        self.held_bytes += size

    def give_back(self, size: int) -> None:
        """`size` bytes are needed no more."""
        self.held_bytes -= size
        if self._waiting:
            self._grant()

    def forget(self, holder: Holder, size: int) -> None:
        """The connection is gone, and with it `size` bytes."""
        self._building.pop(holder, None)
        self._aside.pop(holder, None)
        self._waiting.pop(holder, None)
        self.held_bytes -= size
        self._grant()

    def hurry(self, now: float) -> None:
        """Hang up on connections that keep others waiting, see the module's text."""
        if not self._waiting:
            return
        holders = [each for each in self._building if each not in self._waiting]
        holders += self._aside
        if not holders:
            return  # the request that holds them is being answered
        patience = PATIENCE_SECONDS / (1 + len(self._waiting) / len(holders))
        for holder in holders:
            if now - holder.held_since > patience:
                holder.hang_up_on_slow_request()

    def _fits(self, holder: Holder, size: int, in_turn: bool) -> bool:
        held = self.held_bytes + size
        if held <= self._limit_bytes and in_turn:
            return True
        return held <= self._limit_of_oldest and next(iter(self._building)) is holder

    def _grant(self) -> None:
        for holder in [each for each in self._building if each in self._waiting]:
            size = self._waiting[holder]
            if not self._fits(holder, size, in_turn=True):
                break
            del self._waiting[holder]
            self.held_bytes += size
            holder.memory_granted(size)
        self.short = bool(self._waiting)
