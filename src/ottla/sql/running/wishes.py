"""What the host has to be told so that the queries that are wanted run; no I/O, times come from the caller.

A query is in one of these places here: it waits for its time to start (again), starts, runs, or ends. A new
plan of a running query comes in two steps: the old one ends behind a batch, then the new one begins from its
checkpoint, at the offsets where it ended.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.sql.commands.state import PersistentQuery, Wish
from ottla.sql.running.messages import Ended, Progress, Running


class Stage(enum.Enum):
    """Where a query is."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses before a failed query starts again, in seconds: doubled each time."""

    first_seconds: float = 15.0
    longest_seconds: float = 900.0

    def pause_seconds(self, failures: int) -> float:
        """After so many failures in a row."""
        return float(min(self.first_seconds * 2 ** min(failures - 1, 30), self.longest_seconds))


@dataclass(slots=True)
class QueryLife:
    """One query on this server. failures: in a row; positions: where it was when it last told."""

    query_id: str
    stage: Stage = Stage.WAITING
    revision: int = 0
    start_at: float = 0.0
    failures: int = 0
    problem: str | None = None
    is_forgotten: bool = False
    """Whether the host was told to remove what it has left behind."""
    progress: Progress | None = None
    positions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    took_over_at: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Begin:
    """The host is to start this query."""

    query: PersistentQuery


@dataclass(frozen=True, slots=True)
class Finish:
    """The host is to end a query. forget: it is gone for good."""

    query_id: str
    forget: bool


Step = Begin | Finish


class Wishes:
    """The queries that are wanted, and where each of them is in the host."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._wanted: Mapping[str, PersistentQuery] = {}
        self.lives: dict[str, QueryLife] = {}

    def want(self, queries: Mapping[str, PersistentQuery]) -> None:
        """These queries are there now, and no others."""
        self._wanted = queries
        for id in queries:
            self.lives.setdefault(id, QueryLife(id))

    @property
    def unwanted(self) -> Sequence[str]:
        """The queries that are not wanted and have not ended yet."""
        return [each for each in self.lives if each not in self._wanted]

    def steps(self, now: float) -> Sequence[Step]:
        """What is to be done now; the caller does all of it."""
        found: list[Step] = []
        for life in list(self.lives.values()):
            query = self._wanted.get(life.query_id)
            if query is not None and query.wish is Wish.RUN:
                found += self._towards(life, query, now)
            elif life.stage in (Stage.STARTING, Stage.RUNNING):
                life.stage, life.is_forgotten = Stage.ENDING, query is None
                found.append(Finish(life.query_id, forget=query is None))
            elif life.stage is Stage.WAITING and query is None:
                if life.revision and not life.is_forgotten:
                    life.stage, life.is_forgotten = Stage.ENDING, True
                    found.append(Finish(life.query_id, forget=True))
                else:
                    del self.lives[life.query_id]
        return found

    def _towards(self, life: QueryLife, query: PersistentQuery, now: float) -> Sequence[Step]:
        """The step to this plan's run, if there is one."""
        is_other = life.revision != query.revision
        if life.stage is Stage.WAITING and (now >= life.start_at or is_other):
            life.stage, life.revision = Stage.STARTING, query.revision
            return [Begin(query)]
        if life.stage in (Stage.STARTING, Stage.RUNNING) and is_other:
            life.stage = Stage.ENDING
            return [Finish(life.query_id, forget=False)]
        return []

    def next_at(self) -> float | None:
        """When there may be something to do next, if nothing happens before."""
        times = [
            each.start_at
            for each in self.lives.values()
            if each.stage is Stage.WAITING
            and (query := self._wanted.get(each.query_id)) is not None
            and query.wish is Wish.RUN
        ]
        return min(times, default=None)

    def running(self, event: Running) -> None:
        """A query runs."""
        life = self.lives.get(event.query_id)
        if life is not None and life.stage is Stage.STARTING:
            life.stage, life.problem = Stage.RUNNING, None

    def progressed(self, event: Progress) -> None:
        """A query has done a batch, which ends a row of failures."""
        life = self.lives.get(event.query_id)
        if life is not None:
            life.progress, life.positions, life.failures = event, event.positions or life.positions, 0

    def ended(self, event: Ended, now: float) -> None:
        """A query has ended, as it was told to or not. One that is being ended waits for `stopped`."""
        life = self.lives.get(event.query_id)
        if life is None:
            return
        life.positions = event.positions or life.positions
        life.start_at = now
        if event.problem is not None:
            life.failures += 1
            life.problem = event.problem
            life.start_at = now + self._backoff.pause_seconds(life.failures)
        if life.stage is not Stage.ENDING:
            life.stage = Stage.WAITING

    def stopped(self, query_id: str) -> None:
        """Nothing of a query runs any more, as it was asked for."""
        life = self.lives.get(query_id)
        if life is None or life.stage is not Stage.ENDING:
            return
        query = self._wanted.get(query_id)
        if query is not None and query.revision != life.revision:
            life.took_over_at = life.positions
        life.stage = Stage.WAITING

    def host_ended(self, now: float) -> None:
        """Nothing runs any more: all start again in the next host."""
        for life in self.lives.values():
            life.stage, life.start_at = Stage.WAITING, now
