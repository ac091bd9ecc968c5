"""A share partition's leader in any order of events: no record is lost, or with two members at once.

A model remembers the members' records and the answers to them. Writes to the coordinator may succeed, fail,
or be written without a report; the leader may be lost at any moment, and another one continues from the
written state. The same with a dead-letter queue: no record is done without a member's word or a dead letter.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.share.acquisition import (
    AcquireMode,
    FetchedBatch,
    Wanted,
    acquire,
)
from ottla.core.share.dead_letters import DeadLetter, DeadLetterReason
from ottla.core.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    SharePartition,
    SharePartitionSettings,
    Write,
)
from ottla.core.share.state_batches import StateBatch, combine
from ottla.protocol.errors import InvalidRecordState, InvalidRequest
from support.exploration import examples

MEMBERS = ("ann", "bob", "cid")
SETTINGS = SharePartitionSettings(lock_duration_ms=1_000, delivery_count_limit=4, max_record_locks=25)
WITH_DEAD_LETTERS = replace(SETTINGS, delivery_count_limit=2, dead_letters_enabled=True)
KINDS = (GAP, ACCEPT, RELEASE, REJECT, RENEW)
members = st.sampled_from(MEMBERS)


@dataclass
class Held:
    """A member's acquisition of one offset, as it was answered."""

    member: str
    deadline_ms: int
    delivery_count: int


@dataclass
class Pending:
    """A change that was decided, and the effect of its end: offset -> whether the record is done."""

    write: Write
    offsets: dict[int, bool] = field(default_factory=dict)


class Deliveries(RuleBasedStateMachine):
    settings = SETTINGS

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.last_word: int | None = ACCEPT
        """The answer of all members to all records at the end of the run; None for none."""
        self.log: list[FetchedBatch] = []
        self.log_start = self.log_end = 0
        self.partition = SharePartition(self.settings)
        self.partition.load(0, ())
        self.written_start = 0
        self.written: tuple[StateBatch, ...] = ()
        self.held: dict[int, Held] = {}
        self.done: set[int] = set()
        """Offsets that are done: acknowledged to a member, delivered too often, or gone from the log."""
        self.perhaps_done: set[int] = set()
        """Acknowledged, but perhaps not written."""
        self.last_count: dict[int, int] = {}
        self.waiting: deque[Pending] = deque()
        self.on_its_way: list[Pending] = []
        self.sent: tuple[int, list[StateBatch]] = (0, [])
        self.accepted: set[int] = set()
        """Offsets that a member has accepted at least once, or found to have no record."""
        self.rejected: set[int] = set()
        self.lost_to_the_log: set[int] = set()
        self.letters: list[DeadLetter] = []
        """Dead letters on the way to the queue."""
        self.queue: set[int] = set()

    # -- the log ----------------------------------------------------------------------------------

    @initialize(
        sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
        last_word=st.sampled_from((ACCEPT, RELEASE, REJECT, None)),
    )
    def begin(self, sizes: list[int], last_word: int | None) -> None:
        self.append(sizes)
        self.last_word = last_word

    @rule(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3))
    def append(self, sizes: list[int]) -> None:
        for size in sizes:
            self.log.append(FetchedBatch(self.log_end, self.log_end + size - 1))
            self.log_end += size

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        most = min(self.log_start + 4, self.log_end)
        self.log_start = data.draw(st.integers(self.log_start, most), "log start")
        self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]
        self.gone(range(self.log_start))

    @precondition(lambda self: len(self.log) > 1)
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Remove a batch other than the last."""
        batch = self.log.pop(data.draw(st.integers(0, len(self.log) - 2), "compacted"))
        self.gone(range(batch.base_offset, batch.last_offset + 1))

    def gone(self, offsets: range) -> None:
        self.perhaps_done.update(offsets)
        self.lost_to_the_log.update(offsets)

    # -- members ----------------------------------------------------------------------------------

    @rule(
        member=members,
        max_records=st.integers(0, 12),
        batch_size=st.integers(1, 8),
        mode=st.sampled_from(AcquireMode),
        batches_read=st.integers(1, 4),
    )
    def fetch(
        self, member: str, max_records: int, batch_size: int, mode: AcquireMode, batches_read: int
    ) -> None:
        self.take(Wanted(member, max_records, batch_size, mode), batches_read)

    def take(self, wanted: Wanted, batches_read: int) -> int:
        """Fetch as the broker does; return the number of acquired records."""
        partition = self.partition
        if not partition.can_acquire():
            return 0
        offset = partition.next_fetch_offset()
        if offset < self.log_start:
            partition.log_start_moved(self.log_start)
            return 0
        read = [batch for batch in self.log if batch.last_offset >= offset][:batches_read]
        ranges = acquire(partition, wanted, offset, read, (), self.now_ms)
        assert [each for each in ranges if each.first_offset > each.last_offset] == []
        for first, last, count in ranges:
            assert count <= self.settings.delivery_count_limit
            for taken in range(first, last + 1):
                assert taken not in self.done, f"{taken} was done, and is delivered again"
                holder = self.held.get(taken)
                assert holder is None or holder.deadline_ms <= self.now_ms, f"{taken} is with {holder}"
                assert taken < self.log_end
                self.held[taken] = Held(wanted.member_id, self.now_ms + self.settings.lock_duration_ms, count)
                self.last_count[taken] = count
        total = sum(last - first + 1 for first, last, _ in ranges)
        if wanted.mode is AcquireMode.RECORD_LIMIT:
            assert total <= wanted.max_records
        return total

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """A member acknowledges offsets close to acquired ones, perhaps another member's."""
        first = data.draw(st.sampled_from(sorted(self.held)), "first")
        last = first + data.draw(st.integers(0, 8), "more")
        member = data.draw(st.sampled_from([self.held[first].member, *MEMBERS]), "member")
        kinds = st.sampled_from(KINDS)
        if data.draw(st.booleans(), "each its own"):
            types = data.draw(st.lists(kinds, min_size=last - first + 1, max_size=last - first + 1), "types")
        else:
            types = [data.draw(kinds, "type")]
        self.say(member, first, last, types)

    @precondition(lambda self: self.held)
    @rule(kind=st.sampled_from((ACCEPT, RELEASE, RELEASE, REJECT)), data=st.data())
    def acknowledge_one_of_its_own(self, kind: int, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.held)), "offset")
        self.say(self.held[offset].member, offset, offset, [kind])

    def say(self, member: str, first: int, last: int, types: list[int]) -> None:
        before = self.deliveries()
        try:
            write = self.partition.acknowledge(member, [Acknowledgement(first, last, types)], self.now_ms)
        except (InvalidRecordState, InvalidRequest):
            if RENEW not in types:
                assert self.deliveries() == before, "a refused acknowledgement has changed something"
            return
        pending = Pending(write)
        in_flight = {offset for offset, *_ in before}
        for index, offset in enumerate(range(first, last + 1)):
            if offset < self.partition.start_offset or offset not in in_flight:
                continue  # done already, or a hole that compaction made
            kind = types[index] if len(types) > 1 else types[0]
            self.said(offset, kind)
            holder = self.held.get(offset)
            assert holder is not None and holder.member == member, f"{offset} was not {member}'s"
            if kind == RENEW:
                holder.deadline_ms = self.now_ms + self.settings.lock_duration_ms
            else:
                exhausted = holder.delivery_count >= self.settings.delivery_count_limit
                pending.offsets[offset] = kind != RELEASE or exhausted
        if write.batches:
            self.waiting.append(pending)

    def said(self, offset: int, kind: int) -> None:
        if kind in (ACCEPT, GAP):
            self.accepted.add(offset)
        elif kind == REJECT:
            self.rejected.add(offset)

    @rule(member=members)
    def member_leaves(self, member: str) -> None:
        self.let_go(self.partition.release(member))

    @rule(milliseconds=st.sampled_from((1, 500, 1_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        wake_ms = self.partition.next_wake_ms()
        if wake_ms is not None and wake_ms <= self.now_ms:
            write = self.partition.expire(self.now_ms)
            for first, last, _, _ in write.batches:
                for offset in range(first, last + 1):
                    assert self.held[offset].deadline_ms <= self.now_ms, f"{offset} was taken too early"
                    self.expired(offset)
            if write.batches:
                self.waiting.append(Pending(write))

    def let_go(self, write: Write) -> None:
        pending = Pending(write)
        for first, last, _, _ in write.batches:
            for offset in range(first, last + 1):
                holder = self.held[offset]
                pending.offsets[offset] = holder.delivery_count >= self.settings.delivery_count_limit
        if write.batches:
            self.waiting.append(pending)

    def expired(self, offset: int) -> None:
        del self.held[offset]
        if self.last_count[offset] >= self.settings.delivery_count_limit:
            self.perhaps_done.add(offset)

    # -- the queue --------------------------------------------------------------------------------

    @precondition(lambda self: self.partition.has_dead_letters)
    @rule()
    def take_dead_letters(self) -> None:
        letters = self.partition.take_dead_letters()
        for first, last, delivery, reason in letters:
            assert self.settings.dead_letters_enabled
            for offset in range(first, last + 1):
                assert offset not in self.held or delivery.member_id == ""
                if reason is DeadLetterReason.REJECTED:
                    assert offset in self.rejected, f"{offset} was not rejected"
                else:
                    assert self.last_count[offset] >= self.settings.delivery_count_limit
                assert delivery.delivery_count <= self.last_count[offset]
        self.letters += letters

    @precondition(lambda self: self.letters)
    @rule(data=st.data())
    def write_dead_letters(self, data: st.DataObject) -> None:
        """The first of the letters are in the queue; the leader may be lost before it knows."""
        count = data.draw(st.integers(1, len(self.letters)), "letters")
        self.bury(count, is_known=data.draw(st.booleans(), "is known"))

    def bury(self, count: int, *, is_known: bool) -> None:
        done = self.letters[:count]
        self.queue.update(offset for first, last, *_ in done for offset in range(first, last + 1))
        if not is_known:
            return
        del self.letters[:count]
        write = self.partition.archive_dead_letters(done)
        offsets = {offset: True for first, last, *_ in done for offset in range(first, last + 1)}
        self.perhaps_done.update(offsets)
        self.waiting.append(Pending(write, offsets))

    @invariant()
    def the_start_passes_no_record_without_a_word_or_a_dead_letter(self) -> None:
        if self.settings.dead_letters_enabled:
            told = self.accepted | self.queue | self.lost_to_the_log
            for batch in self.log:
                for offset in range(batch.base_offset, batch.last_offset + 1):
                    assert offset >= self.partition.start_offset or offset in told, f"{offset} was lost"

    # -- the coordinator --------------------------------------------------------------------------

    @precondition(lambda self: self.waiting and not self.on_its_way)
    @rule()
    def send(self) -> None:
        """Send the decided changes to the coordinator together, with the present start offset."""
        self.on_its_way, self.waiting = list(self.waiting), deque()
        batches = [batch for pending in self.on_its_way for batch in pending.write.batches]
        self.sent = (self.partition.start_offset, batches)

    @precondition(lambda self: self.waiting and not self.on_its_way)
    @rule()
    def sent_and_written(self) -> None:
        self.send()
        self.written_and_told()

    @precondition(lambda self: self.on_its_way)
    @rule()
    def written_and_told(self) -> None:
        self.persist()
        for pending in self.on_its_way:
            self.partition.write_ended(pending.write, committed=True, now_ms=self.now_ms)
            for offset, is_done in pending.offsets.items():
                self.held.pop(offset, None)
                if is_done:
                    self.done.add(offset)
        self.on_its_way = []

    @precondition(lambda self: self.on_its_way)
    @rule(was_written=st.booleans())
    def failed(self, was_written: bool) -> None:
        """The write was refused, or its result is unknown."""
        if was_written:
            self.persist()
        for pending in self.on_its_way:
            self.partition.write_ended(pending.write, committed=False, now_ms=self.now_ms)
            for offset, is_done in pending.offsets.items():
                if was_written and is_done:
                    self.perhaps_done.add(offset)
                holder = self.held.get(offset)
                if holder is not None and holder.deadline_ms <= self.now_ms:
                    self.expired(offset)
        self.on_its_way = []

    def persist(self) -> None:
        self.written_start, batches = self.sent
        self.written = combine(self.written, batches, self.written_start)

    @rule(on_the_way_arrives=st.booleans())
    def leader_is_lost(self, on_the_way_arrives: bool) -> None:
        """A crash: another leader begins with the written state."""
        if self.on_its_way and on_the_way_arrives:
            self.persist()
            self.perhaps_done.update(
                offset for pending in self.on_its_way for offset, done in pending.offsets.items() if done
            )
        self.held.clear()
        self.waiting.clear()
        self.letters = []
        self.on_its_way = []
        self.partition = SharePartition(self.settings)
        self.partition.load(self.written_start, self.written)

    # -- invariants -------------------------------------------------------------------------------

    def deliveries(self) -> list[tuple[int, int, str, bool]]:
        return [
            (offset, delivery.state, delivery.member_id, delivery.before is not None)
            for batch in self.partition.in_flight
            for first, last, delivery in batch.deliveries()
            for offset in range(first, last + 1)
        ]

    @invariant()
    def start_passes_nothing_that_is_not_done(self) -> None:
        live = {offset for batch in self.log for offset in range(batch.base_offset, batch.last_offset + 1)}
        for offset in live:
            if offset < self.partition.start_offset and offset >= self.log_start:
                assert offset in self.done | self.perhaps_done, f"{offset} was passed over"

    @invariant()
    def offsets_not_in_flight_are_not_acquired(self) -> None:
        """Offsets before the start may be dropped while a member still considers them acquired."""
        in_flight = {offset for offset, *_ in self.deliveries()}
        for offset in set(self.held) - in_flight:
            assert offset < self.partition.start_offset
            del self.held[offset]

    @invariant()
    def batches_are_in_order(self) -> None:
        last = -1
        for batch in self.partition.in_flight:
            assert last < batch.first_offset <= batch.last_offset
            last = batch.last_offset
        # A hole that compaction made before a fetch, behind records that hold the start, may come to it.
        records = sum(offset >= self.partition.start_offset for offset, *_ in self.deliveries())
        assert records <= self.settings.max_record_locks + 12 + 6

    @invariant()
    def what_is_held_can_time_out(self) -> None:
        if any(holder.deadline_ms > self.now_ms for holder in self.held.values()):
            assert self.partition.next_wake_ms() is not None or self.on_its_way or self.waiting

    def teardown(self) -> None:
        """Without further failures, everything is delivered and the start reaches the end."""
        idle = 0
        for _ in range(4_000):
            if self.waiting and not self.on_its_way:
                self.send()
            if self.on_its_way:
                self.written_and_told()
            self.offsets_not_in_flight_are_not_acquired()
            self.time_passes(1_000)
            taken = self.take(Wanted("ann", 100, 100), 100)
            self.letters += self.partition.take_dead_letters()
            if self.letters:
                self.bury(len(self.letters), is_known=True)
            idle = 0 if taken or self.waiting or self.held else idle + 1
            if idle == 3:
                break
            held = sorted(offset for offset, holder in self.held.items() if holder.member == "ann")
            unsettled = {offset for each in (*self.waiting, *self.on_its_way) for offset in each.offsets}
            for offset in held:
                if offset not in unsettled and self.last_word is not None:
                    self.say("ann", offset, offset, [self.last_word])
                    if offset < self.partition.start_offset:
                        del self.held[offset]
        else:
            raise AssertionError("there is no end to it")
        for batch in self.log:
            for offset in range(max(batch.base_offset, self.log_start), batch.last_offset + 1):
                assert offset in self.done | self.perhaps_done, f"{offset} was never delivered to the end"
                if self.settings.dead_letters_enabled:
                    told = self.accepted | self.queue | self.lost_to_the_log
                    assert offset in told, f"{offset} has no dead letter"


class DeliveriesWithDeadLetters(Deliveries):
    settings = WITH_DEAD_LETTERS


RUNS = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
Deliveries.TestCase.settings = RUNS
DeliveriesWithDeadLetters.TestCase.settings = RUNS
TestDeliveries = Deliveries.TestCase
TestDeliveriesWithDeadLetters = DeliveriesWithDeadLetters.TestCase
