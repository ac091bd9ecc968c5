"""A partition that this broker leads or follows: its log, its high watermark, and the requests that wait on
it.

The produce and fetch paths run through here, on the event loop and without awaiting: an append is one write
to the page cache, a fetch one pread. Waiters are woken once per turn of the loop, however many appends the
turn brought (measured: one wake per append costs a tenth of the small-batch rate):

    readers         consumers, for the high watermark to move
    followers       for the log's end to move (`add_append_waiter`)
    commit waits    acks=all producers and coordinators, answered one by one as the high watermark passes

Waiters are woken too when the partition changes its role; they look again then, and are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import add
from typing import NamedTuple
from uuid import UUID

from ottla.core.replica import reading
from ottla.core.replica.follower import PartitionFollower
from ottla.core.replica.leader import PartitionLeader, last_stable_offset
from ottla.protocol.errors import ErrorCode, NotLeaderOrFollower
from ottla.protocol.record_batch import LOG_OVERHEAD_BYTES, BatchHeader, patch_base_offset_and_epoch
from ottla.storage.log import AppendResult, Log, LogSlice

Waiter = Callable[[], None]
NO_LEADER = -1


class Traffic(NamedTuple):
    """The counters of a partition's replica on this broker."""

    messages_in: int = 0
    """Records appended by this broker as the leader, those of coordinators and markers among them."""
    bytes_in: int = 0
    """The size of their batches."""
    bytes_out: int = 0
    """The size of the batches that consumers were sent."""
    appends: int = 0
    fetches: int = 0
    """How often consumers' fetches looked for records in the log."""
    replicated_bytes_in: int = 0
    replicated_bytes_out: int = 0
    rejected_bytes: int = 0
    """The size of the produced records that were refused because a batch was too large."""

    def plus(self, other: Traffic) -> Traffic:
        """The sum of both, counter by counter."""
        return Traffic(*map(add, self, other))


class CommitWait:
    """A wait for the commit of all records below an offset."""

    __slots__ = ("_partition", "_timer", "done", "end_offset")

    def __init__(self, partition: Partition, end_offset: int, done: Callable[[ErrorCode], None]) -> None:
        self.end_offset = end_offset
        self.done = done
        self._partition = partition
        self._timer: asyncio.TimerHandle | None = None

    def time_out_after(self, timer: asyncio.TimerHandle) -> None:
        self._timer = timer

    def cancel(self) -> None:
        """End the wait without an answer."""
        self._partition.forget_commit_wait(self)
        if self._timer is not None:
            self._timer.cancel()

    def answer(self, code: ErrorCode) -> None:
        self.cancel()
        self.done(code)

    def time_out(self) -> None:
        self.answer(ErrorCode.REQUEST_TIMED_OUT)


class Partition:
    """One partition held by this broker. Exactly one of leader and follower is there at any time."""

    __slots__ = (
        "_append_waiters",
        "_append_wake_scheduled",
        "_bytes_in",
        "_commit_waits",
        "_fetch_waiters",
        "_leader",
        "_led_from",
        "_loop",
        "_messages_in",
        "_seen_high_watermark",
        "_shared_reads",
        "_waiters",
        "_wake_scheduled",
        "appends",
        "fetched_bytes",
        "fetches",
        "follower",
        "index",
        "is_replicated",
        "log",
        "rejected_bytes",
        "replicated_bytes_in",
        "replicated_bytes_out",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log,
        role: PartitionLeader | PartitionFollower,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.follower: PartitionFollower | None = None
        self.is_replicated = False
        """Whether this broker leads it and others follow."""
        self._loop = loop
        self._leader: PartitionLeader | None = None
        self._waiters: dict[Waiter, None] = {}
        self._wake_scheduled = False
        self._append_waiters: dict[Waiter, None] = {}
        self._append_wake_scheduled = False
        self._fetch_waiters: dict[Waiter, None] = {}
        self._commit_waits: dict[CommitWait, None] = {}
        self._seen_high_watermark = -1
        self._shared_reads: dict[LogSlice, bytes] | None = None
        # Counted since the replica was opened here; `traffic` has them together.
        self.appends = 0
        self.fetches = 0
        self.fetched_bytes = 0
        self.replicated_bytes_in = 0
        self.replicated_bytes_out = 0
        self.rejected_bytes = 0
        self._messages_in = 0
        self._bytes_in = 0
        self._led_from: tuple[int, int] | None = None
        if isinstance(role, PartitionLeader):
            self.lead(role)
        else:
            self.follow(role)

    # -- roles --------------------------------------------------------------------------------------

    def lead(self, leader: PartitionLeader) -> None:
        """Begin a leader epoch."""
        self._leader, self.follower = leader, None
        self.is_replicated = leader.has_followers
        if self._led_from is None:
            self._led_from = self.log.log_end_offset, self.log.appended_bytes
        self._role_changed(ErrorCode.NONE)

    def follow(self, follower: PartitionFollower) -> None:
        """Another broker leads, or none does."""
        self._messages_in, self._bytes_in = self._appended()
        self._led_from = None
        self._leader, self.follower = None, follower
        self.is_replicated = False
        self._role_changed(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def let_go(self) -> None:
        """The partition is gone from this broker: refuse requests that wait, and those that come later."""
        self.follow(
            PartitionFollower(
                leader_id=NO_LEADER,
                leader_epoch=self.leader_epoch,
                log=self.log,
                high_watermark=self.high_watermark,
            )
        )

    def _role_changed(self, code: ErrorCode) -> None:
        self._seen_high_watermark = -1
        if code is not ErrorCode.NONE:
            for waiting in tuple(self._commit_waits):
                waiting.answer(code)
        self.on_progress()
        self.wake_all()

    @property
    def leader(self) -> PartitionLeader:
        """The state of this broker as the leader. Raises NotLeaderOrFollower where another broker leads."""
        leader = self._leader
        if leader is None:
            raise NotLeaderOrFollower()
        return leader

    @property
    def is_leader(self) -> bool:
        return self._leader is not None

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch that this broker has heard of."""
        role = self._leader or self.follower
        assert role is not None
        return role.leader_epoch

    @property
    def high_watermark(self) -> int:
        """The first offset that is not known to be committed."""
        role = self._leader or self.follower
        assert role is not None
        return role.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The first offset that read_committed may not read."""
        unstable = self.log.producers.first_unstable_offset
        high_watermark = self.high_watermark
        if unstable is None:
            return high_watermark
        return last_stable_offset(high_watermark, max(unstable, self.log.log_start_offset))

    def check_leader_epoch(self, leader_epoch: int) -> None:
        """KIP-320. Raises FencedLeaderEpoch or UnknownLeaderEpoch; -1 is not checked."""
        if leader_epoch >= 0:
            reading.check_leader_epoch(self.leader_epoch, leader_epoch)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(largest epoch at or below `leader_epoch`, its end offset); (-1, -1) when there is none."""
        if self._leader is not None and leader_epoch == self._leader.leader_epoch == self.log.latest_epoch:
            # A mirror's log need not have its leader's epoch: one that a follower has was cut here.
            return leader_epoch, self.log.log_end_offset
        return self.log.end_offset_for_epoch(leader_epoch)

    # -- counters -----------------------------------------------------------------------------------

    @property
    def traffic(self) -> Traffic:
        """The partition's counters; they only grow while the replica is here."""
        messages_in, bytes_in = self._appended()
        return Traffic(
            messages_in,
            bytes_in,
            self.fetched_bytes,
            self.appends,
            self.fetches,
            self.replicated_bytes_in,
            self.replicated_bytes_out,
            self.rejected_bytes,
        )

    def _appended(self) -> tuple[int, int]:
        """(messages, bytes) appended by this broker as the leader.

        Nothing counts them append by append: as long as it leads, the log's end moves by them alone.
        """
        if self._led_from is None:
            return self._messages_in, self._bytes_in
        offset, size_bytes = self._led_from
        messages = self.log.log_end_offset - offset
        return self._messages_in + messages, self._bytes_in + self.log.appended_bytes - size_bytes

    # -- appends ------------------------------------------------------------------------------------

    def append(self, batches: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> AppendResult:
        """As the leader, give the batches their offsets and epoch in place and append them verbatim.

        `batches` must be writable. Raises NotLeaderOrFollower, or OSError when the disk refuses.
        """
        leader = self._leader
        if leader is None:
            raise NotLeaderOrFollower()
        offset = self.log.log_end_offset
        position = 0
        epoch = leader.leader_epoch
        placed: list[BatchHeader] = []
        for header in headers:
            patch_base_offset_and_epoch(batches, position, offset, epoch)
            placed.append(header.placed(offset, epoch))
            offset += header.last_offset_delta + 1
            position += header.batch_length + LOG_OVERHEAD_BYTES
        result = self.log.append(batches, placed, now_ms=now_ms)
        self.appends += 1
        high_watermark = leader.on_append(offset)
        if self.is_replicated:
            self.on_progress()
            if self._append_waiters and not self._append_wake_scheduled:
                self._append_wake_scheduled = True
                self._loop.call_soon(self._wake_append_waiters)
            return result
        self.log.producers.on_high_watermark(high_watermark)
        if self._waiters and not self._wake_scheduled:
            self._wake_scheduled = True
            self._loop.call_soon(self._wake)
        return result

    def append_mirrored(
        self, batches: memoryview, headers: Sequence[BatchHeader], now_ms: int
    ) -> AppendResult:
        """As the leader of a mirror, append batches of its source as they are, with the source's epochs.

        Raises NotLeaderOrFollower, ValueError for offsets before the log's end, or OSError when the disk
        refuses.
        """
        leader = self._leader
        if leader is None:
            raise NotLeaderOrFollower()
        result = self.log.append(batches, headers, now_ms=now_ms)
        self.appends += 1
        self.log.producers.on_high_watermark(leader.on_append(result.last_offset + 1))
        self.on_progress()
        if self._append_waiters and not self._append_wake_scheduled:
            self._append_wake_scheduled = True
            self._loop.call_soon(self._wake_append_waiters)
        return result

    def on_mirror_cut(self) -> None:
        """The log of a mirror led here was cut as its source's was: followers cut theirs when they fetch."""
        self.leader.on_mirror_cut(self.log.log_end_offset)
        if self._led_from is not None:  # the counters must not go back
            self._led_from = self.log.log_end_offset, self.log.appended_bytes
        self.on_truncated()

    def on_progress(self) -> None:
        """The high watermark or the in-sync set may have changed: wake readers, answer waits for commits."""
        high_watermark = self.high_watermark
        if high_watermark != self._seen_high_watermark:
            self._seen_high_watermark = high_watermark
            self.log.producers.on_high_watermark(high_watermark)
            if self._waiters and not self._wake_scheduled:
                self._wake_scheduled = True
                self._loop.call_soon(self._wake)
        if self._commit_waits and self._leader is not None:
            self._answer_commit_waits(self._leader)

    def on_truncated(self) -> None:
        """The log was cut, its producers' state made again from the rest: wake all waiters."""
        self._seen_high_watermark = -1
        self.on_progress()
        self.wake_all()

    # -- waiting for the commit ---------------------------------------------------------------------

    def when_committed(
        self, end_offset: int, timeout_ms: int, done: Callable[[ErrorCode], None]
    ) -> CommitWait:
        """Call `done` once everything below `end_offset` is committed, or with the reason why it is not.

        At once if that is known. REQUEST_TIMED_OUT after `timeout_ms`; the records may be committed later.
        """
        waiting = CommitWait(self, end_offset, done)
        leader = self._leader
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if leader is None else leader.acknowledgement(end_offset)
        if code is not None:
            waiting.answer(code)
            return waiting
        self._commit_waits[waiting] = None
        waiting.time_out_after(self._loop.call_later(max(0, timeout_ms) / 1000, waiting.time_out))
        return waiting

    async def committed(self, end_offset: int, timeout_ms: int) -> ErrorCode:
        """`when_committed` to await."""
        answer: asyncio.Future[ErrorCode] = self._loop.create_future()

        def done(code: ErrorCode) -> None:
            if not answer.done():
                answer.set_result(code)

        waiting = self.when_committed(end_offset, timeout_ms, done)
        try:
            return await answer
        finally:
            waiting.cancel()

    def forget_commit_wait(self, waiting: CommitWait) -> None:
        """Forget a wait; an unknown one is no error."""
        self._commit_waits.pop(waiting, None)

    def _answer_commit_waits(self, leader: PartitionLeader) -> None:
        high_watermark = leader.high_watermark
        for waiting in tuple(self._commit_waits):
            if waiting.end_offset <= high_watermark:
                code = leader.acknowledgement(waiting.end_offset)
                assert code is not None
                waiting.answer(code)

    # -- waiting readers ----------------------------------------------------------------------------

    @property
    def waiter_count(self) -> int:
        """How many fetches wait here."""
        return len(self._waiters) + len(self._append_waiters)

    @property
    def commit_wait_count(self) -> int:
        """How many producers and coordinators wait here for the commit of their records."""
        return len(self._commit_waits)

    def add_waiter(self, waiter: Waiter) -> None:
        """Call `waiter` when the high watermark has moved, once a turn of the loop, until it is removed."""
        self._waiters[waiter] = None

    def add_append_waiter(self, waiter: Waiter) -> None:
        """Call `waiter` after the next append to a replicated partition, as `add_waiter`."""
        self._append_waiters[waiter] = None

    def add_fetch_waiter(self, waiter: Waiter) -> None:
        """Call `waiter` after each follower's fetch, until it is removed."""
        self._fetch_waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        """Forget `waiter`; unknown ones are no error."""
        self._waiters.pop(waiter, None)
        self._append_waiters.pop(waiter, None)
        self._fetch_waiters.pop(waiter, None)

    def wake_all(self) -> None:
        """The partition changed in another way (role, deleted, truncated): wake the waiting fetches."""
        self._wake()
        self._wake_append_waiters()
        self.on_followers_fetch()

    def wake_followers(self) -> None:
        """Wake the fetches of followers: a fact for them has changed, such as the log's start."""
        self._wake_append_waiters()

    def on_followers_fetch(self) -> None:
        """A follower has fetched: its log's end and start are known better."""
        if self._fetch_waiters:
            for waiter in tuple(self._fetch_waiters):
                waiter()

    def _wake(self) -> None:
        self._wake_scheduled = False
        waiters = tuple(self._waiters)
        if len(waiters) == 1:
            waiters[0]()
            return
        self._shared_reads = {}
        try:
            for waiter in waiters:
                waiter()
        finally:
            self._shared_reads = None

    def read_slice(self, piece: LogSlice) -> bytes:
        """The bytes of a slice of this log; fetches that are woken together share equal slices.

        A thousand consumers that wait for the next record then cost one read, and one copy in memory. The log
        does not change between the fetches that are woken in one go.
        """
        shared = self._shared_reads
        if shared is None:
            return piece.read()
        data = shared.get(piece)
        if data is None:
            data = shared[piece] = piece.read()
        return data

    def _wake_append_waiters(self) -> None:
        self._append_wake_scheduled = False
        for waiter in tuple(self._append_waiters):
            waiter()
