"""The records between a share partition's start and end: their delivery states, by batch or by offset.

A batch holds the offsets that one member got in one piece; while all of its records have the same state it
has one `Delivery`, and from the first difference on one for each offset (gaps of the log included).

A change that has to be persisted is made at once and remembered with the state before it, until its write has
ended (`end`): meanwhile the record can be neither acquired nor acknowledged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ottla.core.share.state_batches import RecordState

NOBODY = ""


class DeliveryLimit(NamedTuple):
    """How often a record may be delivered, and its state after the last delivery if that came to nothing."""

    deliveries: int
    state_after: RecordState = RecordState.ARCHIVED


@dataclass(slots=True)
class Delivery:
    """The delivery state of one record, or of a batch of records with the same state.

    `member_id` holds it while it is ACQUIRED, until `lock_deadline_ms` (steady clock).
    """

    state: RecordState
    delivery_count: int
    member_id: str = NOBODY
    lock_deadline_ms: int | None = None
    before: tuple[RecordState, str] | None = None
    """State and member before the change whose write has not ended."""
    is_settled: bool = False
    """Whether the record stays archived, however a write under way ends."""

    @property
    def is_available(self) -> bool:
        """Whether the record may be acquired."""
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_done(self) -> bool:
        """Whether the record will certainly never be delivered again."""
        return self.state.is_terminal and self.before is None

    def acquire(self, member_id: str, deadline_ms: int) -> None:
        assert self.is_available
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.lock_deadline_ms = deadline_ms

    def let_go(self, state: RecordState, limit: DeliveryLimit) -> None:
        """End the acquisition in this state; a record without
        deliveries left gets the limit's state instead of becoming available.
        """
        assert self.state is RecordState.ACQUIRED and self.before is None
        exhausted = state is RecordState.AVAILABLE and self.delivery_count >= limit.deliveries
        self.state = limit.state_after if exhausted else state
        self.member_id = NOBODY

    def begin(self, state: RecordState, limit: DeliveryLimit) -> None:
        """`let_go`, to be confirmed or reverted by `end`."""
        before = (self.state, self.member_id)
        self.let_go(state, limit)
        self.before = before

    def end(self, *, committed: bool, now_ms: int, limit: DeliveryLimit) -> None:
        """The write of the change that `begin` made has ended."""
        if self.before is None:
            return  # ended or divided by offsets meanwhile
        state, member_id = self.before
        self.before = None
        if not committed and not self.is_settled:
            self.state, self.member_id = state, member_id
            if self.lock_deadline_ms is None or self.lock_deadline_ms > now_ms:
                return
            # The lock expired during the write, when it could not be released.
            self.let_go(RecordState.AVAILABLE, limit)
        self.lock_deadline_ms = None

    def archive(self) -> None:
        """Never deliver the record again, without a write: the log no longer has it."""
        self.state = RecordState.ARCHIVED
        self.member_id = NOBODY
        self.lock_deadline_ms = None
        self.is_settled = True


@dataclass(slots=True)
class InFlightBatch:
    """The offsets from `first_offset` to `last_offset`, with one delivery (`whole`) or one each."""

    first_offset: int
    last_offset: int
    whole: Delivery | None
    by_offset: list[Delivery] | None = None

    def divide(self) -> list[Delivery]:
        """Make a delivery for each offset."""
        if self.by_offset is None:
            assert self.whole is not None
            whole, self.whole = self.whole, None
            self.by_offset = [
                Delivery(
                    whole.state,
                    whole.delivery_count,
                    whole.member_id,
                    whole.lock_deadline_ms,
                    is_settled=whole.is_settled,
                )
                for _ in range(self.first_offset, self.last_offset + 1)
            ]
        return self.by_offset

    def offsets(self, first_offset: int, last_offset: int) -> Iterator[tuple[int, Delivery]]:
        """The divided batch's deliveries of these offsets."""
        assert self.by_offset is not None
        first = max(first_offset, self.first_offset)
        for offset in range(first, min(last_offset, self.last_offset) + 1):
            yield offset, self.by_offset[offset - self.first_offset]

    def deliveries(self) -> Iterator[tuple[int, int, Delivery]]:
        """(first offset, last offset, delivery) of every part."""
        if self.whole is not None:
            yield self.first_offset, self.last_offset, self.whole
        else:
            for offset, delivery in self.offsets(self.first_offset, self.last_offset):
                yield offset, offset, delivery

    def is_within(self, first_offset: int, last_offset: int) -> bool:
        return first_offset <= self.first_offset and self.last_offset <= last_offset

    def is_cut_by(self, offset: int) -> bool:
        """Whether `offset` lies inside the batch, after its first offset."""
        return self.first_offset < offset <= self.last_offset


class InFlightBatches:
    """Batches in the order of their offsets; none overlap."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        index = self._index_after(batch.first_offset)
        assert index == 0 or self._batches[index - 1].last_offset < batch.first_offset
        assert index == len(self._batches) or batch.last_offset < self._batches[index].first_offset
        self._batches.insert(index, batch)

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before `offset`."""
        index = self._index_after(offset)
        return self._batches[index - 1] if index else None

    def between(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches whose first offset is from `first_offset` to `last_offset`, both included."""
        return self._batches[self._index_after(first_offset - 1) : self._index_after(last_offset)]

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches with any of these offsets."""
        floor = self.floor(first_offset)
        if floor is not None and floor.last_offset >= first_offset:
            first_offset = floor.first_offset
        return self.between(first_offset, last_offset)

    def drop_to(self, offset: int) -> None:
        """Forget the batches that end at or before `offset`."""
        index = self._index_after(offset)
        if index and self._batches[index - 1].last_offset > offset:
            index -= 1
        del self._batches[:index]

    def clear(self) -> None:
        self._batches.clear()

    def _index_after(self, offset: int) -> int:
        return bisect_right(self._batches, offset, key=lambda batch: batch.first_offset)
