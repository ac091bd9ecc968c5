"""The events that wait to be written to the audit log: bounded, and none of them dropped without a count.

Logins and refusals come as often as clients like. The first of a kind waits to be written at once; others
like it within the second are counted, and told by one more record at its end. Kinds that are told apart are
bounded too: beyond `MOST_KINDS` in a second, what clients choose (names of resources, addresses) is left out.
While the queue is full they are counted on.

Administrative changes are each told by a record of their own. One that finds the queue full is counted as
lost, which the next record tells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.security.audit_chain import AUTHENTICATION, EVENTS_LOST, UNKNOWN, AuditEvent, TimedEvent

WINDOW_MS: Final = 1_000
MOST_KINDS: Final = 1_000
MOST_QUEUED: Final = 10_000
#: The details of an event that stands for several kinds.
_PLACEHOLDER: Final = (("merged", True),)


@dataclass(slots=True)
class _Window:
    """Events of a kind that were not queued, in the second that ends at `ends_at_ms`."""

    ends_at_ms: int
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0


class PendingEvents:
    """See the module's text. Times are in ms, of a clock that may go back."""

    def __init__(self, most_queued: int = MOST_QUEUED, most_kinds: int = MOST_KINDS) -> None:
        self._most_queued = most_queued
        self._most_kinds = most_kinds
        self._queue: deque[TimedEvent] = deque()
        self._windows: dict[AuditEvent, _Window] = {}
        self._coarse: dict[AuditEvent, _Window] = {}
        self._lost = 0
        self._first_lost_ms = 0
        self._last_lost_ms = 0
        self._taken = 0
        self._added = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def has_room(self) -> bool:
        """Whether another event can be queued."""
        return len(self._queue) < self._most_queued

    @property
    def counting(self) -> bool:
        """Whether events are counted, or have been lost, that no record tells yet."""
        return bool(self._windows or self._coarse or self._lost)

    @property
    def lost(self) -> int:
        """The events that were lost since the last record that tells of such."""
        return self._lost

    @property
    def untold(self) -> int:
        """The events that no dropped record tells."""
        queued = sum(each.count for each in self._queue)
        counted = sum(each.count for windows in (self._windows, self._coarse) for each in windows.values())
        return queued + counted + self._lost

    @property
    def last_ticket(self) -> int:
        """The ticket of the last queued event, for `is_taken`."""
        return self._added

    def is_taken(self, ticket: int) -> bool:
        """Whether the event with this ticket was dropped from the queue, so it is written."""
        return ticket <= self._taken

    # -- events in --------------------------------------------------------------------------------------

    def count(self, event: AuditEvent, now_ms: int) -> bool:
        """An event that may come in floods. Returns whether a record was queued."""
        windows = self._windows
        window = windows.get(event)
        if window is None and len(windows) >= self._most_kinds:
            windows, event = self._coarse, _merged(event)
            window = windows.get(event)
            if window is None and len(windows) >= self._most_kinds:
                event = AuditEvent(event.event, event.outcome, details=_PLACEHOLDER)
                window = windows.get(event)
        if window is None:
            window = windows[event] = _Window(now_ms + WINDOW_MS)
            if self.has_room:
                self._queue_up(TimedEvent(event, now_ms))
                return True
        if window.count == 0:
            window.first_ms = now_ms
        window.count += 1
        window.last_ms = now_ms
        return False

    def add(self, event: AuditEvent, now_ms: int) -> bool:
        """An event that gets a record of its own. Returns whether there was room for it."""
        if not self.has_room:
            self.lose(1, now_ms)
            return False
        self._queue_up(TimedEvent(event, now_ms))
        return True

    def lose(self, count: int, now_ms: int) -> None:
        """Events that can't be written."""
        if self._lost == 0:
            self._first_lost_ms = now_ms
        self._lost += count
        self._last_lost_ms = now_ms

    def _queue_up(self, timed: TimedEvent) -> None:
        self._queue.append(timed)
        self._added += 1

    # -- time -------------------------------------------------------------------------------------------

    def end_windows(self, now_ms: int, *, all_of_them: bool = False) -> bool:
        """Queue the counts of the seconds that are over, as far as there is room.

        Returns whether any were queued.
        """
        before = self._added
        if self._lost and self.has_room:
            self._tell_lost()
        for windows in (self._windows, self._coarse):
            due = [
                (event, window)
                for event, window in windows.items()
                # A clock that was put back must not keep a window open.
                if all_of_them or not window.ends_at_ms - WINDOW_MS <= now_ms < window.ends_at_ms
            ]
            for event, window in due:
                if not window.count:
                    del windows[event]
                elif self.has_room:
                    self._queue_up(TimedEvent(event, window.first_ms, window.count, window.last_ms))
                    # Counting goes on at once: a flood is one record a second.
                    windows[event] = _Window(now_ms + WINDOW_MS)
        return self._added > before

    def _tell_lost(self) -> None:
        event = AuditEvent(EVENTS_LOST, UNKNOWN)
        until_ms = self._last_lost_ms if self._lost > 1 else None
        self._queue_up(TimedEvent(event, self._first_lost_ms, self._lost, until_ms))
        self._lost = 0

    # -- events out -------------------------------------------------------------------------------------

    def first(self, limit: int) -> Sequence[TimedEvent]:
        """The next events to write; they stay until they are dropped."""
        return [self._queue[at] for at in range(min(limit, len(self._queue)))]

    def drop(self, count: int) -> None:
        """The first events are written."""
        for _ in range(count):
            self._queue.popleft()
        self._taken += count


def _merged(event: AuditEvent) -> AuditEvent:
    """The event without what clients can choose freely; an authentication's principal is one such thing."""
    return replace(
        event,
        principal=None if event.event == AUTHENTICATION else event.principal,
        host=None,
        client_id=None,
        resource_name=None,
        details=_PLACEHOLDER,
    )
