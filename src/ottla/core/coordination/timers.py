"""Named deadlines of one shard, in one heap.

Theory of operation. A heartbeat moves a session's deadline further away, thousands of times for each time
that a session really expires. So moving a deadline later only notes the new one; the heap keeps the old
entry, and when that comes up it is put back at the real deadline. Moving a deadline earlier pushes a second
entry, and the outdated one is skipped when it comes up.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple


class TimerKey(NamedTuple):
    """The name of a deadline: its kind, and the group and member that it belongs to."""

    kind: str
    group_id: str = ""
    member_id: str = ""
    number: int = 0


class Timers:
    """Deadlines by key; all times are milliseconds of the events' steady clock."""

    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, int] = {}
        self._queued: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._sequence = 0

    def set(self, key: TimerKey, deadline_ms: int) -> None:
        """Give `key` this deadline in place of any earlier one."""
        self._deadlines[key] = deadline_ms
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._push(key, deadline_ms)

    def cancel(self, key: TimerKey) -> None:
        """Forget `key`'s deadline, if it has one."""
        self._deadlines.pop(key, None)

    def deadline_of(self, key: TimerKey) -> int | None:
        return self._deadlines.get(key)

    def next_wake_ms(self) -> int | None:
        """The time to look again: never later than the next deadline, possibly earlier."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> TimerKey | None:
        """Take the earliest key whose deadline has come, or None. The key then has no deadline any more."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(heap)
            if self._queued.get(key) != queued_ms:
                continue
            del self._queued[key]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._push(key, deadline_ms)
                continue
            del self._deadlines[key]
            return key
        return None

    def __len__(self) -> int:
        return len(self._deadlines)

    def _push(self, key: TimerKey, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))
