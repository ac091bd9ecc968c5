"""How long elections, appends and commits of the metadata take on this node, over the last minute or so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.core.quorum.api import Role

WINDOW_SECONDS: Final = 30.0
MOST_UNCOMMITTED: Final = 10_000
_ELECTION: Final = frozenset({Role.PROSPECTIVE, Role.CANDIDATE})
NO_LEADER: Final = -1


class Window:
    """Values of the running half minute and of the one before it."""

    __slots__ = ("_began", "_former", "_now", "_running")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        # (number, sum, largest)
        self._running = (0, 0.0, 0.0)
        self._former = (0, 0.0, 0.0)

    def add(self, value: float, count: int = 1) -> None:
        """Count a value, or `count` of this sum."""
        self._turn()
        number, total, largest = self._running
        self._running = number + count, total + value, max(largest, value)

    def _turn(self) -> None:
        passed = self._now() - self._began
        if passed < WINDOW_SECONDS:
            return
        self._former = self._running if passed < 2 * WINDOW_SECONDS else (0, 0.0, 0.0)
        self._running = (0, 0.0, 0.0)
        self._began = self._now() - passed % WINDOW_SECONDS

    @property
    def mean(self) -> float:
        """The mean of the values; 0 without any."""
        self._turn()
        number = self._running[0] + self._former[0]
        return (self._running[1] + self._former[1]) / number if number else 0.0

    @property
    def largest(self) -> float:
        """The largest value; 0 without any."""
        self._turn()
        return max(self._running[2], self._former[2])

    @property
    def per_second(self) -> float:
        """How many values a second."""
        self._turn()
        seconds = WINDOW_SECONDS + self._now() - self._began
        return (self._running[0] + self._former[0]) / seconds


class QuorumTimes:
    """What one node's part in the quorum takes. Latencies are in milliseconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is the steady clock, in seconds."""
        self.now = now
        self.elections = 0
        self.requests = 0
        """Those of this node to others."""
        self.responses = 0
        self.election_ms = Window(now)
        self.append_ms = Window(now)
        self.appended_records = Window(now)
        self.fetched_records = Window(now)
        self.commit_ms = Window(now)
        self._leader_answered = now()
        self._election_began: float | None = None
        self._uncommitted: deque[tuple[int, float]] = deque(maxlen=MOST_UNCOMMITTED)

    def appended(self, end_offset: int, records: int, began: float) -> None:
        """The leader has appended records up to `end_offset`, which it began at `began`."""
        now = self.now()
        self.append_ms.add((now - began) * 1000)
        self.appended_records.add(0.0, records)
        self._uncommitted.append((end_offset, began))

    def committed(self, high_watermark: int) -> None:
        """Everything below is committed."""
        now = self.now()
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            self.commit_ms.add((now - self._uncommitted.popleft()[1]) * 1000)

    def leader_answered(self) -> None:
        """A leader has answered a fetch."""
        self._leader_answered = self.now()

    @property
    def silence_seconds(self) -> float:
        """How long ago a leader answered last, or since the start."""
        return self.now() - self._leader_answered

    def fetched(self, records: int) -> None:
        """Records of the leader were appended."""
        self.fetched_records.add(0.0, records)

    def became(self, role: Role, leader_id: int) -> None:
        """The role, the epoch or the leader has changed."""
        if role is not Role.LEADER:
            self._uncommitted.clear()
        if role in _ELECTION:
            if self._election_began is None:
                self._election_began = self.now()
        elif leader_id != NO_LEADER and self._election_began is not None:
            self.elections += 1
            self.election_ms.add((self.now() - self._election_began) * 1000)
            self._election_began = None
