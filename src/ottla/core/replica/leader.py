"""A partition's leader: who is in sync, and up to where the log is committed.

Theory of operation. The high watermark is the smallest log end offset among the replicas that may be in
sync; it never moves back within a leader's life, and moves only while the in-sync set (ISR) has at least
min.insync.replicas members, so that what is committed is on that many. The shell reports appends,
followers' fetches, metadata and the time; each may move the high watermark.

    ISR          as the controller last said. Only the controller changes it; the leader asks (AlterPartition)
    maximal ISR  the ISR and who was asked to be added: the controller may have agreed already, and elect the
                 newcomer, so it counts at once (KIP-497). A replica that was asked to go counts until the
                 controller says that it went: until then it may be elected.
    joining      a replica outside that keeps up also holds the high watermark back, or it would never reach
                 it under load

One update of the ISR is under way at a time. A follower joins when it has caught up to the high watermark and
to where this leader's epoch began, and its broker is active and has the epoch that fetched. It goes when it
has not caught up to the log's end for replica.lag.time.max.ms.

A follower's fetch offset counts only after its epochs were compared (`reading.py`): everything below it is
then the leader's own log, so a replica that is in the maximal ISR holds all that is committed, and any of
them may be the next leader.

A new leader begins with the high watermark that it knew as a follower, which may be behind what was told to
clients. It is settled once the high watermark has reached the start of its epoch; until then it does not say
where the log ends, and consumers read below its high watermark only.

Times are a steady clock's milliseconds.
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
"""The epoch of an active broker (registered, unfenced, not shutting down); None for any other."""


def nobody_is_eligible(_node_id: int) -> int | None:
    """For leaders that have no followers."""
    return None


class InSyncMember(NamedTuple):
    """A replica of the ISR and its broker's epoch, -1 if it is not known."""

    node_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class InSyncUpdate:
    """An ISR that the controller is to be asked for, with AlterPartition."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[InSyncMember, ...]


@dataclass(slots=True)
class FetcherTimes:
    """When a follower's fetcher last came, for all the partitions that it had nothing new to say of.

    A fetch that leaves a partition out says that the follower is where it was: at the end, if it was there.
    """

    last_fetch_ms: int = _LONG_AGO_MS


@dataclass(slots=True)
class FollowerState:
    """What the leader knows of a follower from its fetches."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    last_caught_up_ms: int = _LONG_AGO_MS
    """When it last had everything that the leader had at that time."""
    last_fetch_ms: int = _LONG_AGO_MS
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    fetcher: FetcherTimes | None = None

    def caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether it has everything, or had not long ago."""
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
"""The partition has changed: the metadata will say how."""
_REFUSED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""Nothing has changed: the ISR is what it was."""


class PartitionLeader:
    """Leader state of one partition for one leader epoch."""

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
        eligible: EligibleEpoch = nobody_is_eligible,
        now_ms: int = 0,
    ) -> None:
        """`replicas`: all of the partition's (the ISR's if it is not given)."""
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
            if node_id in self._committed_isr:  # it gets the time to show that it follows this leader
                follower.last_caught_up_ms = now_ms
        self._move_high_watermark()

    # -- state --------------------------------------------------------------------------------------

    @property
    def isr(self) -> frozenset[int]:
        """The in-sync replicas' node ids as the controller last said, the leader's own among them."""
        return self._committed_isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Everybody whom the controller may hold in sync by now."""
        return self._maximal_isr

    @property
    def update_under_way(self) -> InSyncUpdate | None:
        """What the controller was asked for and has not answered."""
        return self._update

    @property
    def has_followers(self) -> bool:
        """Whether the partition has other replicas."""
        return bool(self._followers)

    @property
    def settled(self) -> bool:
        """Whether all that the log had when this leader began is committed (see the module)."""
        return self.high_watermark >= self.epoch_start_offset

    @property
    def min_insync_replicas(self) -> int:
        """How many replicas must be in sync; never more than there are."""
        return min(self._min_insync_replicas, len(self._followers) + 1)

    @property
    def has_enough_replicas(self) -> bool:
        """Whether acks=all may append (NOT_ENOUGH_REPLICAS otherwise)."""
        return not self._followers or len(self._committed_isr) >= self.min_insync_replicas

    def acknowledgement(self, end_offset: int) -> ErrorCode | None:
        """What to tell an acks=all producer of what ends at `end_offset`; None: that it has to wait."""
        if self.high_watermark < end_offset:
            return None
        if len(self._maximal_isr) < self.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def follower(self, node_id: int) -> FollowerState | None:
        """What is known of a follower; None for whoever is none."""
        return self._followers.get(node_id)

    def low_watermark(self, log_start_offset: int, alive: Callable[[int], bool]) -> int:
        """Below which offset no replica of an alive broker has records (DeleteRecords, KIP-107)."""
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
        if len(self._maximal_isr) == 1:  # else the others are behind
            self._move_high_watermark()
        return self.high_watermark

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

        Moves the high watermark. Returns an update to ask the controller for. Strangers count nothing.
        `fetcher` goes on telling of fetches that leave the partition out.
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
        """An update to ask for if followers may join.

        Also to be called when brokers became active, and when an update has ended: fetches may say nothing
        of a follower that has everything.
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
        """Time has passed, say half of replica.lag.time.max.ms. Returns an update to ask for."""
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
        """What the metadata says of the partition in this leader epoch; older news are passed over."""
        if partition_epoch < self.partition_epoch:
            return
        self._assign(replicas)
        if partition_epoch > self.partition_epoch:
            self._commit(partition_epoch, frozenset(isr))
        self._move_high_watermark()

    def on_update_answered(
        self, update: InSyncUpdate, *, leader_epoch: int, partition_epoch: int, isr: Iterable[int]
    ) -> None:
        """The controller has agreed, and says what the partition has become."""
        if update is not self._update or leader_epoch != self.leader_epoch:
            return  # of what was under way the metadata has told, or will tell
        if partition_epoch >= self.partition_epoch:
            self._commit(partition_epoch, frozenset(isr))
            self._move_high_watermark()

    def on_update_refused(self, update: InSyncUpdate, code: ErrorCode) -> bool:
        """The controller has said no. Whether to ask again, after a pause."""
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
        """To the smallest end of all that are or may be in sync, or are about to join; never back."""
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
    """Up to where read_committed may read (exclusive)."""
    if first_unstable_offset is None or first_unstable_offset > high_watermark:
        return high_watermark
    return first_unstable_offset
