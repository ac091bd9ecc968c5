"""The requests to other nodes that are under way, and the addresses that a node pauses requests to."""

from __future__ import annotations

from typing import NamedTuple

from ottla.core.quorum.api import NO_NODE, Address
from ottla.protocol.schema import Message

MAX_PAUSES = 1000
LONGEST_PAUSE_MS = 500
MAX_DOUBLINGS = 10


class Sent(NamedTuple):
    """A request as it was sent. An answer that no longer fits the node's state is ignored."""

    request: Message
    to: Address
    epoch: int
    node_id: int = NO_NODE
    fetch_offset: int = -1


class Connections:
    """Requests under way by id: one to an address at a time, none during the pause after a failure."""

    __slots__ = ("_failures", "_last_id", "_pauses", "_sent")

    def __init__(self) -> None:
        self._last_id = 0
        self._sent: dict[int, Sent] = {}
        self._pauses: dict[Address, int] = {}
        self._failures: dict[Address, int] = {}

    def begin(self, sent: Sent) -> int:
        """Add a request; return its id."""
        self._last_id += 1
        self._sent[self._last_id] = sent
        return self._last_id

    def end(self, request_id: int) -> Sent | None:
        """Remove a request that was answered or failed; None if it had been forgotten before."""
        return self._sent.pop(request_id, None)

    def forget_requests(self) -> None:
        """The node has a new role or epoch: ignore the answers to earlier requests, end all pauses."""
        self._sent.clear()
        self._pauses.clear()
        self._failures.clear()

    def busy(self, to: Address) -> bool:
        """Whether a request to an address is under way."""
        return any(sent.to == to for sent in self._sent.values())

    def under_way(self, kind: type[Message] | tuple[type[Message], ...]) -> bool:
        """Whether a request of one of these types is under way."""
        return any(isinstance(sent.request, kind) for sent in self._sent.values())

    def pause(self, to: Address, now_ms: int, first_pause_ms: int) -> None:
        """Send no request to an address for a while; longer after each failure until it answers."""
        if len(self._pauses) >= MAX_PAUSES:
            self._pauses.clear()
            self._failures.clear()
        failures = self._failures[to] = self._failures.get(to, -1) + 1
        longest_ms = max(first_pause_ms, LONGEST_PAUSE_MS)
        self._pauses[to] = now_ms + min(first_pause_ms << min(failures, MAX_DOUBLINGS), longest_ms)

    def answered(self, by: Address) -> None:
        """The address has answered: the next pause is a short one again."""
        self._failures.pop(by, None)

    def paused_until(self, to: Address, now_ms: int) -> int | None:
        """The time until which requests to an address are paused; None if they are not."""
        until_ms = self._pauses.get(to)
        return until_ms if until_ms is not None and until_ms > now_ms else None
