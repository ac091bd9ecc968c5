"""The progress of a view: written by the thread that reads its topic, read and awaited by any other."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


class ViewState(Enum):
    """Where a view is in its life."""

    RESTORING = "restoring"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """A view's progress, as it is told to users.

    positions: the next offset by partition. lag: records (and transactions' marks) up to the topic's end when
    it was last asked for. age_ms: how long ago the view was last known to be at the end, None when it never
    was. without_key: records that were left out because a row has a key.
    """

    state: ViewState
    positions: Mapping[int, int]
    ends: Mapping[int, int]
    lag: int
    age_ms: int | None
    without_key: int
    error: str | None


@dataclass(frozen=True, slots=True)
class _Read:
    """Offsets by partition, and the number of records without a key."""

    positions: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    without_key: int = 0


class Progress:
    """How far a view is. `current_at`: when it was last known to be at the end, in s since 1970; 0: never."""

    def __init__(self) -> None:
        self.state = ViewState.RESTORING
        self.current_at = 0.0
        self._read = _Read()
        self._error: str | None = None
        self._changed = threading.Condition()

    @property
    def status(self) -> ViewStatus:
        """The progress now."""
        with self._changed:
            read = self._read
            lag = sum(max(0, end - read.positions.get(p, 0)) for p, end in read.ends.items())
            age_ms = int((time.time() - self.current_at) * 1000) if self.current_at else None
            if age_ms is None and not read.ends and self.state is ViewState.RUNNING:
                age_ms = 0
            return ViewStatus(
                self.state, read.positions, read.ends, lag, age_ms, read.without_key, self._error
            )

    @property
    def ends(self) -> Mapping[int, int]:
        """Where the topic ended when it was last asked for."""
        return self._read.ends

    def begin(self, positions: Mapping[int, int], current_at: float) -> None:
        """The view restores from these offsets on."""
        with self._changed:
            self._read = replace(self._read, positions=dict(positions))
            self.current_at = current_at
            self.state = ViewState.RESTORING

    def ends_at(self, ends: Mapping[int, int]) -> None:
        """The topic ends there now."""
        with self._changed:
            self._read = replace(self._read, ends=dict(ends))

    def read_to(self, positions: Mapping[int, int], without_key: int) -> None:
        """Records up to these offsets are in the store; so many had no key."""
        with self._changed:
            read = self._read
            self._read = replace(
                read, positions={**read.positions, **positions}, without_key=read.without_key + without_key
            )
            self._changed.notify_all()

    def note_whether_current(self, now: float) -> bool:
        """Whether everything up to the topic's end has been read; then the view can be asked."""
        with self._changed:
            # A partition that never had a record has no position.
            if any(self._read.positions.get(p, 0) < end for p, end in self._read.ends.items()):
                return False
            self.current_at = now
            self.state = ViewState.RUNNING
            self._changed.notify_all()
        return True

    def fail(self, error: str) -> None:
        """The view has ended by an error."""
        with self._changed:
            self.state, self._error = ViewState.FAILED, error
            self._changed.notify_all()

    def wait_until_read(self, positions: Mapping[int, int], timeout_seconds: float) -> bool:
        """Wait until everything up to these offsets is read, or the view has failed; whether it is read."""

        def reached() -> bool:
            return all(self._read.positions.get(p, 0) >= offset for p, offset in positions.items())

        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or reached(), timeout_seconds)
            return self._error is None and reached()

    def wait_until_running(self, timeout_seconds: float) -> bool:
        """Wait until the view can be asked, or has failed; whether it can be asked."""
        with self._changed:
            self._changed.wait_for(lambda: self.state is not ViewState.RESTORING, timeout_seconds)
            return self.state is ViewState.RUNNING
