"""A share partition's leader: deliveries to members, acknowledgements, time limits, persistence (KIP-932).

Theory of operation. Records from `start_offset` to `end_offset` are in flight. Each is AVAILABLE, ACQUIRED by
a member until its lock times out, ACKNOWLEDGED or ARCHIVED (rejected, delivered too often, or gone from the
log). The start moves past the records that are done, the end moves with each fetch; between them are at most
`max_record_locks` records. A record is with one member at a time.

An acquisition is not persisted: after a crash the acquired records are available again. All other changes
are: acknowledgement, release and expiry make a `Write`, which the shell sends to the share coordinator and
whose end it reports. Until then an acknowledged record is neither available nor done; if the write fails it
is as it was before. So a member that was answered with success has its acknowledgement on disk, and one that
was not still holds the record, or it will be delivered again. The writes of a share partition must end in the
order in which they were made.

With a dead-letter queue (KIP-1191) a record that a member rejects, or that is let go after its last delivery,
is ARCHIVING first, which is persisted. It is a dead letter then, which `take_dead_letters` gives to the
shell. Once that has written it to the queue, or knows that it never can, `archive_dead_letters` makes it
ARCHIVED, and only then the start may pass it. A state that is loaded with ARCHIVING records makes them dead
letters again: so a record that was rejected gets to the queue at least once, however often leaders end.

A state that was loaded may have gaps: offsets without an acknowledgement between acknowledged ones. They are
filled by fetches from the start on; until the last is filled the start does not pass the first of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.share.dead_letters import DeadLetter, DeadLetterReason
from ottla.core.share.in_flight import Delivery, DeliveryLimit, InFlightBatch, InFlightBatches
from ottla.core.share.state_batches import RecordState, StateBatch, combine
from ottla.protocol.errors import InvalidRecordState, InvalidRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
"""The acknowledgement types. A gap is an offset at which the member found no record."""

MAX_COUNT = (1 << 31) - 1

STATE_AFTER = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


@dataclass(frozen=True, slots=True)
class SharePartitionSettings:
    """The delivery settings of the group, or else of the broker."""

    lock_duration_ms: int = 30_000  # group.share.record.lock.duration.ms
    delivery_count_limit: int = 5  # group.share.delivery.count.limit
    max_record_locks: int = 2_000  # group.share.partition.max.record.locks
    renew_enabled: bool = True  # share.renew.acknowledge.enable
    dead_letters_enabled: bool = False  # errors.deadletterqueue.topic.name, from share.version 2 on

    @property
    def delivery_limit(self) -> DeliveryLimit:
        """The number of deliveries of a record, and its state after the last one."""
        return DeliveryLimit(
            self.delivery_count_limit,
            RecordState.ARCHIVING if self.dead_letters_enabled else RecordState.ARCHIVED,
        )


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A member's acknowledgement of a range of offsets: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Waiting(NamedTuple):
    """A delivery that waits for the end of its write, its offsets, and why it may become a dead letter."""

    first_offset: int
    last_offset: int
    delivery: Delivery
    reason: DeadLetterReason


@dataclass(slots=True)
class Write:
    """A change to persist, with the deliveries that wait for its end; see `write_ended`.

    `dead_letters` become ones when the write has ended, however that was.
    """

    batches: list[StateBatch] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)


class SharePartition:
    """The state machine of one share partition, for one leader epoch and one state epoch."""

    def __init__(self, settings: SharePartitionSettings) -> None:
        self.settings = settings
        self.start_offset = 0
        self.end_offset = 0
        """The last offset in flight; if none is, the next offset to fetch."""
        self.in_flight = InFlightBatches()
        self.may_look_back = False
        """Whether a record before the end may be available; if not, the next fetch begins after the end."""
        self._gap_start = 0
        self._gap_end: int | None = None
        """The end offset of the loaded state; the loaded gaps count until the end moves."""
        self._wake_ms: int | None = None
        self._dead_letters: list[DeadLetter] = []

    # -- loading ------------------------------------------------------------------------------------

    def load(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        """Begin with the state that the coordinator has kept."""
        self.start_offset = self.end_offset = start_offset
        gap_start = None
        next_offset = start_offset
        for batch in combine((), batches, start_offset):
            if gap_start is None and batch.first_offset > next_offset:
                gap_start = next_offset
            next_offset = batch.last_offset + 1
            state = RecordState(batch.delivery_state)
            if state is RecordState.ACQUIRED:
                state = RecordState.AVAILABLE  # no member has acquired a record yet
            delivery = Delivery(state, batch.delivery_count)
            self.in_flight.add(InFlightBatch(batch.first_offset, batch.last_offset, delivery))
            if state is RecordState.ARCHIVING:
                used_up = batch.delivery_count >= self.settings.delivery_count_limit
                reason = DeadLetterReason.DELIVERY_COUNT_EXCEEDED if used_up else DeadLetterReason.REJECTED
                self._dead_letters.append(DeadLetter(batch.first_offset, batch.last_offset, delivery, reason))
        if self.in_flight:
            self.may_look_back = True
            self.end_offset = self.in_flight.last.last_offset
            if gap_start is not None:
                self._gap_start, self._gap_end = gap_start, self.end_offset
            self._advance_start()

    # -- the fetch offset ---------------------------------------------------------------------------

    @property
    def gap_start(self) -> int | None:
        """The first offset of the loaded gaps; None when all are filled."""
        return self._gap_start if self._gap_end is not None and self._gap_end == self.end_offset else None

    @property
    def is_empty(self) -> bool:
        """Whether no record is in flight."""
        return not self.in_flight or self.start_offset > self.in_flight.last.last_offset

    @property
    def in_flight_count(self) -> int:
        """The number of offsets in flight."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    def can_acquire(self) -> bool:
        """Whether a fetch could acquire records: released ones, or new ones within the limit."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.in_flight_count < self.settings.max_record_locks

    def next_fetch_offset(self) -> int:
        """The first available offset."""
        if self.is_empty:
            self.may_look_back = False
            return self.end_offset
        if self.may_look_back:
            found = self._first_available()
            if found is not None:
                return found
            self.may_look_back = False
        return self.end_offset + 1

    def _first_available(self) -> int | None:
        gap_start = self.gap_start
        for batch in self.in_flight:
            if gap_start is not None:
                if batch.first_offset > gap_start:
                    return gap_start
                gap_start = max(batch.last_offset + 1, gap_start)
            for first, last, delivery in batch.deliveries():
                if delivery.is_available and last >= self.start_offset:
                    return max(first, self.start_offset)
        return None

    def fill_gap(self, next_offset: int) -> None:
        """Note that everything before `next_offset` has been fetched."""
        if self._gap_end is None:
            return
        if self._gap_end == self.end_offset and next_offset <= self._gap_end:
            self._gap_start = next_offset
        else:
            self._gap_end = None

    # -- acknowledgements ---------------------------------------------------------------------------

    def acknowledge(self, member_id: str, acknowledgements: Iterable[Acknowledgement], now_ms: int) -> Write:
        """Take a member's acknowledgements of records that it holds.

        Raises InvalidRecordState or InvalidRequest; then nothing has changed, but for renewed locks.
        """
        write = Write()
        try:
            for each in acknowledgements:
                if each.last_offset >= self.start_offset:
                    for batch in self._acknowledged_batches(each):
                        self._acknowledge_batch(member_id, each, batch, write, now_ms)
        except (InvalidRecordState, InvalidRequest):
            self._take_back(write, now_ms)
            raise
        return write

    def _acknowledged_batches(self, acknowledgement: Acknowledgement) -> list[InFlightBatch]:
        first, last = acknowledgement.first_offset, acknowledgement.last_offset
        floor = self.in_flight.floor(first)
        if floor is None and first < self.start_offset <= last:
            floor = self.in_flight.floor(self.start_offset)
        if floor is None:
            raise InvalidRecordState("Records that are not in flight cannot be acknowledged.")
        batches = self.in_flight.between(floor.first_offset, last)
        if batches[-1].last_offset < first or last > batches[-1].last_offset:
            raise InvalidRequest("Records that were not acquired cannot be acknowledged.")
        return batches

    def _acknowledge_batch(
        self,
        member_id: str,
        acknowledgement: Acknowledgement,
        batch: InFlightBatch,
        write: Write,
        now_ms: int,
    ) -> None:
        if batch.last_offset < self.start_offset:
            return
        first, last, types = acknowledgement.first_offset, acknowledgement.last_offset, acknowledgement.types
        if batch.whole is not None:
            _check_held(batch.whole, member_id)
            if len(types) == 1 and batch.is_within(first, last) and not batch.is_cut_by(self.start_offset):
                self._settle(batch.first_offset, batch.last_offset, batch.whole, types[0], write, now_ms)
                return
            batch.divide()
        for offset, delivery in batch.offsets(max(first, self.start_offset), last):
            _check_held(delivery, member_id)
            kind = types[offset - first] if len(types) > 1 else types[0]
            self._settle(offset, offset, delivery, kind, write, now_ms)

    def _settle(
        self, first: int, last: int, delivery: Delivery, kind: int, write: Write, now_ms: int
    ) -> None:
        if kind == RENEW:
            if not self.settings.renew_enabled:
                raise InvalidRecordState("The group does not allow its members to renew acquisition locks.")
            delivery.lock_deadline_ms = self.lock_deadline_ms(now_ms)
            return
        state = STATE_AFTER.get(kind)
        if state is None:
            raise InvalidRequest(f"There is no acknowledge type {kind}.")
        reason = DeadLetterReason.DELIVERY_COUNT_EXCEEDED
        if kind == REJECT and self.settings.dead_letters_enabled:
            state, reason = RecordState.ARCHIVING, DeadLetterReason.REJECTED
        self._begin(Waiting(first, last, delivery, reason), state, write)

    # -- release and expiry -------------------------------------------------------------------------

    def release(self, member_id: str) -> Write:
        """A member has left: make all the records that it holds available again."""
        write = Write()
        for batch in self.in_flight:
            whole = batch.whole
            if whole is not None and _is_held(whole, member_id) and batch.is_cut_by(self.start_offset):
                batch.divide()
            for first, last, delivery in batch.deliveries():
                if _is_held(delivery, member_id):
                    before_start = last < self.start_offset
                    state = RecordState.ARCHIVED if before_start else RecordState.AVAILABLE
                    reason = DeadLetterReason.DELIVERY_COUNT_EXCEEDED
                    self._begin(Waiting(first, last, delivery, reason), state, write)
        return write

    def expire(self, now_ms: int) -> Write:
        """Release the records whose lock has expired; at once, however the write ends."""
        write = Write()
        self._wake_ms = None
        for batch in self.in_flight:
            whole = batch.whole
            if whole is not None and _is_expired(whole, now_ms) and batch.is_cut_by(self.start_offset):
                batch.divide()
            for first, last, delivery in batch.deliveries():
                if _is_expired(delivery, now_ms):
                    before_start = last < self.start_offset
                    state = RecordState.ARCHIVED if before_start else RecordState.AVAILABLE
                    delivery.let_go(state, self.settings.delivery_limit)
                    delivery.lock_deadline_ms = None
                    self.may_look_back = self.may_look_back or delivery.is_available
                    write.batches.append(_state_batch(first, last, delivery))
                    if delivery.state is RecordState.ARCHIVING:
                        write.dead_letters.append(
                            DeadLetter(first, last, delivery, DeadLetterReason.DELIVERY_COUNT_EXCEEDED)
                        )
                elif delivery.lock_deadline_ms is not None and delivery.lock_deadline_ms > now_ms:
                    self._wake_by(delivery.lock_deadline_ms)
        return write

    def next_wake_ms(self) -> int | None:
        """The time of the next `expire` at the latest; None while no record is acquired."""
        return self._wake_ms

    def lock_deadline_ms(self, now_ms: int) -> int:
        """The deadline of a lock that is acquired or renewed now."""
        deadline_ms = now_ms + self.settings.lock_duration_ms
        self._wake_by(deadline_ms)
        return deadline_ms

    def _wake_by(self, deadline_ms: int) -> None:
        if self._wake_ms is None or deadline_ms < self._wake_ms:
            self._wake_ms = deadline_ms

    # -- persistence --------------------------------------------------------------------------------

    @property
    def delivery_complete_count(self) -> int:
        """The number of records from the start on that need
        no delivery any more, as written with a change: at most what its field holds.
        """
        count = 0
        for batch in self.in_flight:
            for first, last, delivery in batch.deliveries():
                if delivery.state.is_terminal and last >= self.start_offset:
                    count += last - max(first, self.start_offset) + 1
        return min(count, MAX_COUNT)

    def write_ended(self, write: Write, *, committed: bool, now_ms: int) -> bool:
        """A change is durable, or was refused. Whether waiting fetches may get records now."""
        self._dead_letters += write.dead_letters
        freed = self._end_waiting(write, committed=committed, now_ms=now_ms)
        return self._advance_start() or freed

    def _take_back(self, write: Write, now_ms: int) -> None:
        self._end_waiting(write, committed=False, now_ms=now_ms)

    def _end_waiting(self, write: Write, *, committed: bool, now_ms: int) -> bool:
        """End the changes of the deliveries that wait for a write. Whether records became available."""
        freed = False
        for first, last, delivery, reason in write.waiting:
            if delivery.before is None:
                continue  # ended or divided by offsets meanwhile
            delivery.end(committed=committed, now_ms=now_ms, limit=self.settings.delivery_limit)
            freed = freed or delivery.is_available
            if delivery.state is RecordState.ARCHIVING:
                if not committed:  # the lock has expired during the write, after the last delivery
                    reason = DeadLetterReason.DELIVERY_COUNT_EXCEEDED
                self._dead_letters.append(DeadLetter(first, last, delivery, reason))
        self.may_look_back = self.may_look_back or freed
        return freed

    def _begin(self, change: Waiting, state: RecordState, write: Write) -> None:
        first, last, delivery, _ = change
        delivery.begin(state, self.settings.delivery_limit)
        write.waiting.append(change)
        write.batches.append(_state_batch(first, last, delivery))

    # -- dead letters -------------------------------------------------------------------------------

    @property
    def has_dead_letters(self) -> bool:
        """Whether there are dead letters to take."""
        return bool(self._dead_letters)

    def take_dead_letters(self) -> list[DeadLetter]:
        """The dead letters whose turn it is to be written to the queue; they are the caller's from now on."""
        taken, self._dead_letters = self._dead_letters, []
        return taken

    def archive_dead_letters(self, letters: Iterable[DeadLetter]) -> Write:
        """The letters are in the queue, or never will be: they need no delivery any more, however the write
        ends. Until that is durable, a new leader writes them to the queue again.
        """
        write = Write()
        for first, last, delivery, _ in letters:
            delivery.state = RecordState.ARCHIVED
            write.batches.append(_state_batch(first, last, delivery))
        return write

    def _advance_start(self) -> bool:
        """Move the start past the records that are done. Whether it moved."""
        done_to = self._done_to()
        if done_to < self.start_offset:
            return False
        if done_to == self.in_flight.last.last_offset:
            self.in_flight.clear()
            self.start_offset = self.end_offset = done_to + 1
            return True
        self.in_flight.drop_to(done_to)
        first = self.in_flight.first.first_offset
        self.start_offset = max(self.start_offset, done_to + 1, first)
        if self.gap_start is not None:
            self.start_offset = min(self.start_offset, self.gap_start)
        return True

    def _done_to(self) -> int:
        """The last offset up to which everything from the start on is done; -1 if the first offset is not."""
        done_to = -1
        for batch in self.in_flight:
            if self.gap_start is not None and batch.last_offset >= self.gap_start:
                break
            for _, last, delivery in batch.deliveries():
                if not delivery.is_done and last >= self.start_offset:
                    return done_to
                done_to = last
        return done_to

    # -- the log ------------------------------------------------------------------------------------

    def log_start_moved(self, log_start_offset: int) -> None:
        """The records before `log_start_offset` are gone (retention, DeleteRecords)."""
        if log_start_offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = log_start_offset
            return
        if self.archive(self.start_offset, log_start_offset - 1, RecordState.AVAILABLE):
            self.may_look_back = True
        if self._gap_start < log_start_offset:
            self.fill_gap(log_start_offset)  # a gap before the start would be searched for again and again
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)

    def compacted_away(self, first_offset: int, last_offset: int) -> None:
        """A fetch from `first_offset` on found no records in this range, so they are archived.

        The start moves on at once: offsets without records must not use up the limit of those in flight.
        """
        if not self.in_flight:
            return
        if self.archive(first_offset, last_offset, RecordState.AVAILABLE):
            self.may_look_back = True
        if self._gap_start <= last_offset:
            self.fill_gap(last_offset + 1)
        self._advance_start()

    def archive(self, first_offset: int, last_offset: int, state: RecordState) -> bool:
        """Archive the offsets that are in `state` for good. Whether there were any."""
        archived = False
        for batch in self.in_flight.overlapping(first_offset, last_offset):
            if batch.whole is not None:
                if batch.whole.state is not state:
                    continue
                if batch.is_within(first_offset, last_offset):
                    batch.whole.archive()
                    archived = True
                    continue
                batch.divide()
            for _, delivery in batch.offsets(first_offset, last_offset):
                if delivery.state is state:
                    delivery.archive()
                    archived = True
        return archived


def _check_held(delivery: Delivery, member_id: str) -> None:
    if delivery.before is not None:
        raise InvalidRecordState("An acknowledgement of the record is being written already.")
    if delivery.state is not RecordState.ACQUIRED:
        raise InvalidRecordState("A record that is not acquired cannot be acknowledged.")
    if delivery.member_id != member_id:
        raise InvalidRecordState("The record is held by another member.")


def _is_held(delivery: Delivery, member_id: str) -> bool:
    return (
        delivery.state is RecordState.ACQUIRED and delivery.before is None and delivery.member_id == member_id
    )


def _is_expired(delivery: Delivery, now_ms: int) -> bool:
    return (
        delivery.state is RecordState.ACQUIRED
        and delivery.before is None
        and delivery.lock_deadline_ms is not None
        and delivery.lock_deadline_ms <= now_ms
    )


def _state_batch(first: int, last: int, delivery: Delivery) -> StateBatch:
    return StateBatch(first, last, delivery.state, delivery.delivery_count)
