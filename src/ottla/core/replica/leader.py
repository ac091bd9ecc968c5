"""A partition's leader: the in-sync set, and the high watermark.

Theory of operation. The high watermark is the smallest log end offset among the replicas that may be in sync;
it never moves back while this leader leads, and moves only while the in-sync set (ISR) has at least
min.insync.replicas members, so that committed records are on that many replicas. The shell reports appends,
followers' fetches, metadata and the time; each may move the high watermark.

    ISR          the set in the metadata. Only the controller changes it, on the leader's AlterPartition
    maximal ISR  the ISR and the replica to be added: the controller may have agreed already, and elect the
                 newcomer, so it counts at once (KIP-497). A replica to be removed counts until the
                 controller has removed it: until then it may be elected.
    joining      a replica outside that keeps up holds the high watermark back too, or it would never reach
                 it under load

One update of the ISR is under way at a time. A follower may join when it has caught up to the high watermark
and to the start of this leader's epoch, and its broker is active with the epoch that fetched. It is removed
when it has not caught up to the log's end for replica.lag.time.max.ms.

A follower's fetch offset counts only after the epochs were compared (`reading.py`): everything below it is
then the same as in the leader's log, so a replica in the maximal ISR holds all committed records, and any of
them may be the next leader.

A new leader begins with the high watermark that it knew as a follower, which may be behind the one that
clients have seen. It is settled once the high watermark has reached the start of its epoch; until then it
does not tell clients the log's end, and consumers read only below its high watermark.

Times are milliseconds of a steady clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.protocol.errors import ErrorCode

UNKNOWN_OFFSET: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
DEFAULT_LAG_TIME_MAX_MS: Final = 30_000
_LONG_AGO_MS: Final = -(2**62)

EligibleEpoch = Callable[[int], int | None]
"""Gives the epoch of an active broker (registered, unfenced, not shutting down), None for any other."""


def no_broker_is_eligible(_node_id: int) -> int | None:
    """For leaders that have no followers."""
    return None


class InSyncMember(NamedTuple):
    """A replica of the ISR and its broker's epoch, -1 if not known."""

    node_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class InSyncUpdate:
    """An ISR to ask the controller for, with AlterPartition."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[InSyncMember, ...]


@dataclass(slots=True)
class FetcherTimes:
    """The last fetch of a follower's fetcher, for all partitions that the fetch left out as unchanged.

    A fetch that leaves a partition out says that the follower's position is unchanged: still at the end, if
    it was there.
    """

    last_fetch_ms: int = _LONG_AGO_MS


@dataclass(slots=True)
class FollowerState:
    """A follower's state as its fetches tell it."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    last_caught_up_ms: int = _LONG_AGO_MS
    """The last time at which the follower had all records that the leader had then."""
    last_fetch_ms: int = _LONG_AGO_MS
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    fetcher: FetcherTimes | None = None

    def caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether the follower has all records, or had them not long ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms


_GIVE_UP: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors after which the metadata will bring the partition's new state."""
_REFUSED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""Errors that leave the ISR as it was."""


class PartitionLeader:
    """The leader's state of one partition in one leader epoch."""

    __slots__ = (
        "_committed_isr",
        "_eligible",
        "_followers",
        "_lag_time_max_ms",
        "_maximal_isr",
        "_min_insync_replicas",
        "_now_ms",
        "_update",
        "epoch_start_offset",
        "high_watermark",
        "leader_epoch",
        "local_id",
        "log_end_offset",
        "partition_epoch",
    )

    def __init__(
        self,
        *,
        local_id: int,
        leader_epoch: int,
        isr: Iterable[int],
        log_end_offset: int,
        high_watermark: int,
        replicas: Iterable[int] | None = None,
        partition_epoch: int = 0,
        min_insync_replicas: int = 1,
        lag_time_max_ms: int = DEFAULT_LAG_TIME_MAX_MS,
        eligible: EligibleEpoch = no_broker_is_eligible,
        now_ms: int = 0,
    ) -> None:
        """`replicas` are all of the partition's, by default the ISR's."""
        self.local_id = local_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset
        self.epoch_start_offset = log_end_offset
        self._eligible = eligible
        self._min_insync_replicas = min_insync_replicas
        self._lag_time_max_ms = lag_time_max_ms
        self._now_ms = now_ms
        self._update: InSyncUpdate | None = None
        self._committed_isr = frozenset(isr)
        self._maximal_isr = self._committed_isr
        self._followers: dict[int, FollowerState] = {}
        self._assign(self._committed_isr if replicas is None else replicas)
        for node_id, follower in self._followers.items():
            if node_id in self._committed_isr:  # it gets a full lag time to show that it follows this leader
                follower.last_caught_up_ms = now_ms
        self._move_high_watermark()

    # -- state --------------------------------------------------------------------------------------

    @property
    def isr(self) -> frozenset[int]:
        """The in-sync replicas' node ids, as the controller set them, with the leader's own."""
        return self._committed_isr

    @property
    def update_under_way(self) -> InSyncUpdate | None:
        """The update that the controller was asked for and has not answered, or None."""
        return self._update

    @property
    def has_followers(self) -> bool:
        """Whether the partition has other replicas."""
        return bool(self._followers)

    @property
    def settled(self) -> bool:
        """Whether everything in the log at the start of this leader's epoch is committed (see the module)."""
        return self.high_watermark >= self.epoch_start_offset

    @property
    def min_insync_replicas(self) -> int:
        """The number of replicas that must be in sync; never more than there are."""
        return min(self._min_insync_replicas, len(self._followers) + 1)

    @property
    def has_enough_replicas(self) -> bool:
        """Whether acks=all may append (NOT_ENOUGH_REPLICAS otherwise)."""
        return not self._followers or len(self._committed_isr) >= self.min_insync_replicas

    def acknowledgement(self, end_offset: int) -> ErrorCode | None:
        """The answer to an acks=all producer whose records end at `end_offset`; None if it has to wait."""
        if self.high_watermark < end_offset:
            return None
        if len(self._maximal_isr) < self.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def follower(self, node_id: int) -> FollowerState | None:
        """The state of a follower, or None if the node is not a follower."""
        return self._followers.get(node_id)

    def low_watermark(self, log_start_offset: int, alive: Callable[[int], bool]) -> int:
        """The offset below which no replica on an alive broker has records (DeleteRecords, KIP-107)."""
        for node_id, follower in self._followers.items():
            if follower.log_start_offset < log_start_offset and alive(node_id):
                log_start_offset = follower.log_start_offset
        return log_start_offset

    # -- progress -----------------------------------------------------------------------------------

    def on_append(self, log_end_offset: int) -> int:
        """The leader's log now ends at `log_end_offset`; returns the high watermark."""
        before, self.log_end_offset = self.log_end_offset, log_end_offset
        if not self._followers:  # the common single-replica case, on the produce path
            self.high_watermark = log_end_offset
            return log_end_offset
        for follower in self._followers.values():
            fetcher = follower.fetcher
            if (
                fetcher is not None
                and follower.log_end_offset == before
                and fetcher.last_fetch_ms > follower.last_caught_up_ms
            ):
                follower.last_caught_up_ms = fetcher.last_fetch_ms
        if len(self._maximal_isr) == 1:  # otherwise the followers are behind
            self._move_high_watermark()
        return self.high_watermark

    def on_mirror_cut(self, log_end_offset: int) -> None:
        """The log of a mirror was cut as its source's was, and ends at `log_end_offset`.

        The one way by which a high watermark goes back under a leader. Below the new end followers have what
        this log has; the rest they cut when they compare epochs, which a fetch does before it counts.
        """
        self.log_end_offset = log_end_offset
        self.high_watermark = min(self.high_watermark, log_end_offset)
        self.epoch_start_offset = min(self.epoch_start_offset, log_end_offset)
        for follower in self._followers.values():
            follower.log_end_offset = min(follower.log_end_offset, log_end_offset)
            follower.leader_end_at_last_fetch = min(follower.leader_end_at_last_fetch, log_end_offset)

    def on_follower_fetch(
        self,
        node_id: int,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        now_ms: int,
        fetcher: FetcherTimes | None = None,
    ) -> InSyncUpdate | None:
        """A follower holds everything below `fetch_offset`; its epochs were compared (see the module).

        Moves the high watermark. Returns an update to ask the controller for, or None. Nodes that are not
        replicas have no effect. `fetcher` counts later fetches that leave the partition out.
        """
        follower = self._followers.get(node_id)
        if follower is None or broker_epoch < follower.broker_epoch:  # a fetch of an earlier incarnation
            return None
        self._now_ms = max(self._now_ms, now_ms)
        end = self.log_end_offset
        if fetch_offset >= end:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        elif fetch_offset >= follower.leader_end_at_last_fetch >= 0:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        follower.log_end_offset = min(fetch_offset, end)
        follower.log_start_offset = log_start_offset
        follower.broker_epoch = broker_epoch
        follower.last_fetch_ms = now_ms
        follower.leader_end_at_last_fetch = end
        follower.fetcher = fetcher
        update = None if node_id in self._committed_isr else self.expansion()
        self._move_high_watermark()
        return update

    def expansion(self) -> InSyncUpdate | None:
        """An update to ask for if followers may join, or None.

        Also to be called when brokers have become active, and when an update has ended: a follower that has
        all records may send no fetch that names the partition.
        """
        if self._update is not None:
            return None
        joining = {
            node_id
            for node_id, follower in self._followers.items()
            if node_id not in self._committed_isr and self._may_join(node_id, follower)
        }
        if not joining:
            return None
        self._maximal_isr = self._committed_isr | joining
        return self._ask_for(self._maximal_isr)

    def on_tick(self, now_ms: int) -> InSyncUpdate | None:
        """Time has passed, about half of replica.lag.time.max.ms. Returns an update to ask for, or None."""
        self._now_ms = max(self._now_ms, now_ms)
        self._move_high_watermark()
        update = self.expansion()
        if self._update is not None:
            return update
        lagging = {
            node_id
            for node_id, follower in self._followers.items()
            if node_id in self._committed_isr
            and not follower.caught_up(self.log_end_offset, self._now_ms, self._lag_time_max_ms)
        }
        return self._ask_for(self._committed_isr - lagging) if lagging else None

    def on_settings(self, *, min_insync_replicas: int, lag_time_max_ms: int) -> None:
        """Settings have changed; the high watermark may move."""
        self._min_insync_replicas = min_insync_replicas
        self._lag_time_max_ms = lag_time_max_ms
        self._move_high_watermark()

    # -- the in-sync set ----------------------------------------------------------------------------

    def on_metadata(self, *, partition_epoch: int, isr: Iterable[int], replicas: Iterable[int]) -> None:
        """Take the partition's metadata in this leader epoch; older metadata have no effect."""
        if partition_epoch < self.partition_epoch:
            return
        self._assign(replicas)
        if partition_epoch > self.partition_epoch:
            self._commit(partition_epoch, frozenset(isr))
        self._move_high_watermark()

    def on_update_answered(
        self, update: InSyncUpdate, *, leader_epoch: int, partition_epoch: int, isr: Iterable[int]
    ) -> None:
        """The controller has agreed, and answers with the partition's new state."""
        if update is not self._update or leader_epoch != self.leader_epoch:
            return  # the metadata has brought the result of this update, or will
        if partition_epoch >= self.partition_epoch:
            self._commit(partition_epoch, frozenset(isr))
            self._move_high_watermark()

    def on_update_refused(self, update: InSyncUpdate, code: ErrorCode) -> bool:
        """The controller has refused. Whether to ask again, after a pause."""
        if update is not self._update or code in _GIVE_UP:
            return False
        if code in _REFUSED:
            self._update = None
            self._maximal_isr = self._committed_isr
            self._move_high_watermark()
            return False
        return True

    def _commit(self, partition_epoch: int, isr: frozenset[int]) -> None:
        self.partition_epoch = partition_epoch
        self._committed_isr = self._maximal_isr = isr
        self._update = None

    def _assign(self, replicas: Iterable[int]) -> None:
        others = [node_id for node_id in replicas if node_id != self.local_id]
        self._followers = {node_id: self._followers.get(node_id) or FollowerState() for node_id in others}

    def _may_join(self, node_id: int, follower: FollowerState) -> bool:
        return follower.log_end_offset >= max(
            self.high_watermark, self.epoch_start_offset
        ) and self._is_eligible(node_id, follower)

    def _is_eligible(self, node_id: int, follower: FollowerState) -> bool:
        epoch = self._eligible(node_id)
        return epoch is not None and follower.broker_epoch in (UNKNOWN_BROKER_EPOCH, epoch)

    def _ask_for(self, isr: frozenset[int]) -> InSyncUpdate:
        members = []
        for node_id in sorted(isr):
            if node_id == self.local_id:
                own = self._eligible(node_id)
                members.append(InSyncMember(node_id, UNKNOWN_BROKER_EPOCH if own is None else own))
            else:
                follower = self._followers.get(node_id)
                members.append(
                    InSyncMember(node_id, UNKNOWN_BROKER_EPOCH if follower is None else follower.broker_epoch)
                )
        self._update = InSyncUpdate(self.leader_epoch, self.partition_epoch, tuple(members))
        return self._update

    def _move_high_watermark(self) -> None:
        """Advance to the smallest log end of all replicas that may be in sync or are about to join."""
        if not self.has_enough_replicas:
            return
        committed = self.log_end_offset
        for node_id, follower in self._followers.items():
            if follower.log_end_offset < committed and (
                node_id in self._maximal_isr
                or (
                    follower.caught_up(self.log_end_offset, self._now_ms, self._lag_time_max_ms)
                    and self._is_eligible(node_id, follower)
                )
            ):
                committed = follower.log_end_offset
        if committed > self.high_watermark:
            self.high_watermark = committed


def last_stable_offset(high_watermark: int, first_unstable_offset: int | None) -> int:
    """The offset up to which read_committed consumers may read (exclusive)."""
    if first_unstable_offset is None or first_unstable_offset > high_watermark:
        return high_watermark
    return first_unstable_offset
