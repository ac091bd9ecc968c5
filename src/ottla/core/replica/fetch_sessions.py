"""Incremental fetch sessions (KIP-227): the partitions that a consumer fetches, so that it names them once.

Theory of operation. A request carries (session id, session epoch):

    id 0, epoch -1   sessionless full fetch: every partition is named, nothing is kept
    id *, epoch 0    full fetch that asks for a new session (and drops session `id`)
    id n, epoch e>0  incremental: only changed partitions are named; e must be the next epoch
    id n, epoch -1   drop session n, answer as a full fetch

An incremental response names only partitions with news: records, an error, or a changed high watermark, log
start offset or last stable offset. The cache holds at most `max_sessions`; a new session takes the place of
the least recently used one that has been idle for `min_eviction_ms`, otherwise it is not kept and the client
goes on with full fetches. A session that has forgotten its last partition ends. The caller supplies random
session ids.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
MAX_EPOCH = 2**31 - 1

#: A topic as the client names it: by name before Fetch v13, by id since.
TopicKey = str | uuid.UUID
PartitionKey = tuple[TopicKey, int]


@dataclass(slots=True)
class FetchedPartition:
    """A partition of a session: its fetch position and limits, and the values last sent to the client."""

    topic: TopicKey
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    sent_high_watermark: int = -1
    sent_last_stable_offset: int = -1
    sent_log_start_offset: int = -1

    @property
    def key(self) -> PartitionKey:
        """(topic name or id, partition index)"""
        return (self.topic, self.partition)


class SessionCompanion(Protocol):
    """An object that a caller attaches to a session, closed with it."""

    def close(self) -> None:
        """The session has ended."""


@dataclass(slots=True)
class FetchSession:
    """One client's session: its partitions in the order of the answers."""

    session_id: int
    epoch: int
    last_used_ms: int
    uses_topic_ids: bool
    partitions: OrderedDict[PartitionKey, FetchedPartition] = field(default_factory=OrderedDict)
    watch: SessionCompanion | None = None

    def advance(self) -> None:
        """Expect the next epoch; it wraps to 1, because 0 asks for a new session."""
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1


@dataclass(slots=True)
class FetchPlan:
    """The partitions that one fetch request reads, and the session of its answer."""

    session_id: int
    partitions: Iterable[FetchedPartition]
    session: FetchSession | None
    incremental: bool


class SessionNotFound(Exception):
    """The client's session does not exist (FETCH_SESSION_ID_NOT_FOUND)."""


class WrongSessionEpoch(Exception):
    """The request is not the session's next (INVALID_FETCH_SESSION_EPOCH)."""


class MixedTopicIds(Exception):
    """A session changed between topic names and topic ids (FETCH_SESSION_TOPIC_ID_ERROR)."""


class FetchSessionCache:
    """All fetch sessions of one broker."""

    def __init__(self, max_sessions: int, min_eviction_ms: int) -> None:
        self.max_sessions = max_sessions
        self.min_eviction_ms = min_eviction_ms
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.evictions = 0
        """Sessions that were ended to make room."""

    @property
    def sessions(self) -> Collection[FetchSession]:
        """The sessions, the one used longest ago first."""
        return self._sessions.values()

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        session_id: int,
        epoch: int,
        partitions: list[FetchedPartition],
        forgotten: list[PartitionKey],
        *,
        uses_topic_ids: bool,
        now_ms: int,
        random_id: Callable[[], int],
    ) -> FetchPlan:
        """Decide which partitions the request reads.

        Raises SessionNotFound, WrongSessionEpoch or MixedTopicIds; the state is unchanged then.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self.drop(session_id)
            if epoch == FINAL_EPOCH:
                return FetchPlan(NO_SESSION, partitions, None, incremental=False)
            return self._open(partitions, uses_topic_ids, now_ms, random_id)
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        if session.epoch != epoch:
            raise WrongSessionEpoch(session_id)
        if session.uses_topic_ids != uses_topic_ids:
            raise MixedTopicIds(session_id)
        self._update(session, partitions, forgotten)
        if not session.partitions:
            self.drop(session_id)
            return FetchPlan(NO_SESSION, (), None, incremental=False)
        session.advance()
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return FetchPlan(session_id, session.partitions.values(), session, incremental=True)

    def _open(
        self,
        partitions: list[FetchedPartition],
        uses_topic_ids: bool,
        now_ms: int,
        random_id: Callable[[], int],
    ) -> FetchPlan:
        """A full fetch: begin a session if there is room, otherwise answer without one."""
        if not partitions or not self._make_room(now_ms):
            return FetchPlan(NO_SESSION, partitions, None, incremental=False)
        session_id = random_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = random_id()
        session = FetchSession(session_id, INITIAL_EPOCH + 1, now_ms, uses_topic_ids)
        session.partitions.update((partition.key, partition) for partition in partitions)
        self._sessions[session_id] = session
        return FetchPlan(session_id, session.partitions.values(), session, incremental=False)

    def _make_room(self, now_ms: int) -> bool:
        if self.max_sessions <= 0:
            return False
        if len(self._sessions) < self.max_sessions:
            return True
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms < self.min_eviction_ms:
            return False
        self.drop(oldest.session_id)
        self.evictions += 1
        return True

    def drop(self, session_id: int) -> None:
        """End a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None and session.watch is not None:
            session.watch.close()

    @staticmethod
    def _update(
        session: FetchSession, partitions: list[FetchedPartition], forgotten: list[PartitionKey]
    ) -> None:
        for key in forgotten:
            session.partitions.pop(key, None)
        for wanted in partitions:
            known = session.partitions.get(wanted.key)
            if known is None:
                session.partitions[wanted.key] = wanted
            else:
                known.fetch_offset = wanted.fetch_offset
                known.max_bytes = wanted.max_bytes
                known.current_leader_epoch = wanted.current_leader_epoch
                known.last_fetched_epoch = wanted.last_fetched_epoch
                known.log_start_offset = wanted.log_start_offset


def move_served_to_end(session: FetchSession, served: list[PartitionKey]) -> None:
    """Let partitions whose records were sent come last next time, so that full responses starve none."""
    for key in served:
        if key in session.partitions:
            session.partitions.move_to_end(key)
