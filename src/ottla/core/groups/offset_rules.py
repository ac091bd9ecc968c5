"""The interface of each kind of group for committed offsets: commits, reads, deletions, expiry.

Theory of operation. Committed offsets (offsets.py) and deletions (deletion.py) are independent of the kind of
a group. They ask the rules of the group's kind, which the kind's package makes and registers in
`ShardContext.rules`; a group id without a kind has no rules. Rules only read the groups: no record is
appended here. The classic ones are in classic/offset_rules.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.coordinator_records import CommittedOffset
from ottla.protocol.errors import ErrorCode

NO_EPOCH = -1


class Committer(NamedTuple):
    """The sender of an OffsetCommit or TxnOffsetCommit, as the request names it."""

    member_id: str
    instance_id: str | None
    epoch: int
    """The generation or the member epoch; negative if the committer is not a member."""
    transactional: bool
    api_version: int
    """The version of OffsetCommit, or of TxnOffsetCommit if `transactional`."""

    @property
    def is_no_member(self) -> bool:
        """Whether the committer claims no membership: a producer before KIP-447
        commits so in a transaction.
        """
        return self.epoch < 0 and not self.member_id and self.instance_id is None


Target: TypeAlias = tuple[str, uuid.UUID, int]
"""A partition of a commit: topic, topic id (zero if the topic does not exist), partition."""

ExpiryBase: TypeAlias = Callable[[CommittedOffset], int]
"""Gives the time (ms, wall clock) from which the retention of an offset counts."""


class OffsetRules(Protocol):
    """The rules of one kind of group. `group_id` is always a group of that kind."""

    def check_commit(self, group_id: str, committer: Committer, targets: Iterable[Target]) -> ErrorCode:
        """Whether the committer may commit for these partitions; an error refuses the whole request.

        For a transactional commit below version 6 the caller replaces STALE_MEMBER_EPOCH by
        ILLEGAL_GENERATION.
        """

    def on_commit(self, group_id: str, committer: Committer) -> None:
        """A plain commit was allowed: keep its member alive, if commits do so in this kind."""

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether this member may read the offsets (OffsetFetch 9 and later name a member; KIP-848).

        GROUP_ID_NOT_FOUND means that the group has no offsets, and is not an error to the client.
        """

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        """Whether single offsets may be deleted (KIP-496)."""

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        """Whether a member reads the topic: its offsets then neither expire nor can be deleted."""

    def expiry_base(self, group_id: str) -> ExpiryBase | None:
        """The time from which the retention of the group's offsets counts; None if they do not expire now."""

    def with_expiring_offsets(self) -> list[str]:
        """The groups to check when offsets expire: all of the kind, if its groups have offsets here."""

    def may_end(self, group_id: str) -> bool:
        """Whether the group ends with its last offset: it has no members, and its kind allows that."""

    def check_delete(self, group_id: str) -> ErrorCode:
        """Whether the group may be deleted by an administrator: NON_EMPTY_GROUP while it has members."""

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """The records that remove the group itself; its offsets' tombstones come
        before these in the append.
        """

    def begin_end(self, group_id: str) -> Callable[[], None]:
        """The tombstones are on their way; the result reverts the changes made here if the append fails.

        The group has the turn until they are in the log (coordination/turns.py): a kind whose decisions all
        take turns has nothing to do here.
        """
