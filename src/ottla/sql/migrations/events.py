"""The log of migrations, and what is to be concluded from it: which versions are applied, and by which run.

The truth is the stream of events alone, in the order of its one partition. A run that begins a version writes
RUNNING with a word of its own; of two the first one in the stream has the version until MIGRATED or ERROR. A
run that is killed leaves RUNNING behind. Another one may take that over by naming the run that it takes the
place of: of two that do, again the first in the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

CURRENT: Final = "CURRENT"
"""The key of the events that tell which version was applied last, beside those of each version."""


class State(Enum):
    """Of a version. PENDING: nothing is known of it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    MIGRATED = "MIGRATED"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the stream. Times are milliseconds since 1970, 0 for none. reason: of ERROR.

    run: the word of the run that writes RUNNING; after: the word of the run whose place it takes.
    """

    key: str
    version: int
    name: str
    state: State
    checksum: str
    started_on: int = 0
    completed_on: int = 0
    previous: int | None = None
    reason: str | None = None
    run: str | None = None
    after: str | None = None


@dataclass(slots=True)
class Standing:
    """Where a version stands. holder: the run that has it while it is RUNNING."""

    version: int
    last: Event
    state: State
    holder: str | None = None

    def take(self, event: Event) -> None:
        """The next event of the version; behind MIGRATED there is none.

        A run that looked before another one began may write RUNNING when that has ended.
        """
        if self.state is State.MIGRATED:
            return
        match event.state:
            case State.RUNNING:
                if self.state is State.RUNNING and event.after != self.holder:
                    return  # it came second
                self.holder = event.run or ""
            case _:
                self.holder = None
        self.state, self.last = event.state, event


@dataclass(slots=True)
class History:
    """All versions that the log knows."""

    standings: dict[int, Standing] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """From the events in the order of the stream."""
        found = cls()
        for event in events:
            if event.key == CURRENT:
                continue  # it repeats what the version's own events say
            standing = found.standings.get(event.version)
            if standing is None:
                standing = found.standings[event.version] = Standing(event.version, event, State.PENDING)
            standing.take(event)
        return found

    def state(self, version: int) -> State:
        """A version's state."""
        standing = self.standings.get(version)
        return State.PENDING if standing is None else standing.state

    @property
    def current(self) -> int | None:
        """The largest version that is applied, None if there is none."""
        return max((each.version for each in self.of_state(State.MIGRATED)), default=None)

    def of_state(self, state: State) -> list[Standing]:
        """The versions of a state, in their order."""
        found = (each for each in self.standings.values() if each.state is state)
        return sorted(found, key=lambda each: each.version)

    def is_held_by(self, version: int, run: str) -> bool:
        """Whether this run is the one that may carry the version out."""
        standing = self.standings.get(version)
        return standing is not None and standing.state is State.RUNNING and standing.holder == run
