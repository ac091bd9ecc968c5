"""Share sessions: the partitions that a member of a share group fetches from this broker (KIP-932).

Theory of operation. A session is identified by its group and member; a request carries the epoch that it
expects:

    epoch 0      a new session in place of any old one (whose records the member holds until they time out)
    epoch n > 0  the session's next request: names the partitions to add, and those to forget
    epoch -1     the session's last request: the records that the member still holds are released

A response within a session names the partitions that have records or an error, or were just added. Sessions
are never evicted: when there are `max_sessions` of them, no other member can fetch. A session belongs to the
connection that began it and ends with it; a later session of the same connection replaces it as the
connection's session.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.protocol.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1

TopicPartition = tuple[uuid.UUID, int]


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


@dataclass(slots=True)
class ShareSession:
    """One member's partitions, in the order in which they were named."""

    key: SessionKey
    epoch: int
    connection: Hashable
    partitions: dict[TopicPartition, bool] = field(default_factory=dict)
    """The partitions, each with whether the next response must name it."""

    def advance(self) -> None:
        """Expect the next epoch; it wraps to 1, because 0 asks for a new session."""
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def must_name(self, partition: TopicPartition, *, has_records: bool, has_error: bool) -> bool:
        """Whether a response has to name the partition; after an error the next one names it too."""
        is_due = self.partitions.get(partition, False)
        if partition in self.partitions:
            self.partitions[partition] = has_error
        return is_due or has_records or has_error


class ShareSessions:
    """All share sessions of one broker."""

    def __init__(self, max_sessions: int) -> None:
        self.max_sessions = max_sessions
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[Hashable, SessionKey] = {}
        self._members: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def has_members(self, group_id: str) -> bool:
        """Whether a member of the group has a session here."""
        return self._members[group_id] > 0

    def begin(
        self,
        key: SessionKey,
        partitions: Iterable[TopicPartition],
        connection: Hashable,
        *,
        acknowledges: bool,
    ) -> ShareSession:
        """Begin a session (epoch 0). Raises InvalidRequest if the request acknowledges, or
        ShareSessionLimitReached.
        """
        if acknowledges:
            raise InvalidRequest("A session's first request has nothing to acknowledge.")
        self.end(key)
        if len(self._sessions) >= self.max_sessions:
            raise ShareSessionLimitReached()
        session = ShareSession(key, INITIAL_EPOCH + 1, connection, dict.fromkeys(partitions, False))
        self._sessions[key] = session
        self._members[key.group_id] += 1
        self._by_connection[connection] = key
        return session

    def proceed(
        self,
        key: SessionKey,
        epoch: int,
        partitions: Iterable[TopicPartition],
        forgotten: Iterable[TopicPartition],
    ) -> ShareSession:
        """Take a fetch within a session. Raises ShareSessionNotFound or InvalidShareSessionEpoch."""
        session = self._expect(key, epoch)
        for partition in partitions:
            session.partitions.setdefault(partition, True)
        for partition in forgotten:
            session.partitions.pop(partition, None)
        session.advance()
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> None:
        """Take a ShareAcknowledge. Raises ShareSessionNotFound or InvalidShareSessionEpoch."""
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch("An acknowledgement cannot begin a session.")
        if epoch == FINAL_EPOCH:
            self.check(key)
        else:
            self._expect(key, epoch).advance()

    def check(self, key: SessionKey) -> None:
        """Raise ShareSessionNotFound if there is no such session."""
        if key not in self._sessions:
            raise ShareSessionNotFound()

    def end(self, key: SessionKey) -> list[TopicPartition] | None:
        """Forget a session; return its partitions, or None if there was none."""
        session = self._sessions.pop(key, None)
        if session is None:
            return None
        self._members[key.group_id] -= 1
        if not self._members[key.group_id]:
            del self._members[key.group_id]
        return list(session.partitions)

    def connection_closed(self, connection: Hashable) -> ShareSession | None:
        """The session of a closed connection, which the caller has to end.

        None if there is none, or if the member has begun another session over another connection.
        """
        key = self._by_connection.pop(connection, None)
        session = self._sessions.get(key) if key is not None else None
        return session if session is not None and session.connection == connection else None

    def _expect(self, key: SessionKey, epoch: int) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound()
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch()
        return session
