"""Writing with offsets kept by the other system: nothing is written twice, and other writers are found out.

The next offset of each partition lies in the other system and is written with the data, in one transaction
that reads it first. Where it is not the one that this task has read or written before, another task has
taken the partition over, and this one ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from ottla.connect.connectors.batches import made_of
from ottla.connect.connectors.common import Superseded
from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.plugins.api import RetriableError


class Placed(Protocol):
    """Something to write that comes of a record."""

    @property
    def place(self) -> TopicPartition: ...

    @property
    def offset(self) -> int: ...


C = TypeVar("C", bound=Placed)


@dataclass(frozen=True, slots=True)
class Batch(Generic[C]):
    """Changes in their order, and the next offsets that are to be kept with them."""

    changes: Sequence[C]
    ends: Mapping[TopicPartition, int]


Plan = Callable[[Mapping[TopicPartition, int]], Batch[C]]
"""Makes a batch from the next offsets that the other system has now. Raises Superseded."""


class LedgerStore(Protocol[C]):
    """A system that is written to. It raises RetriableError where it can't be used now."""

    keeps_offsets: ClassVar[bool]
    """Whether offsets are written with the data, in one transaction."""

    def offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offsets that are kept with the data; none where none are kept."""

    def write(self, places: Sequence[TopicPartition], plan: Plan[C]) -> None:
        """Read the offsets, plan with them and write the batch; in one transaction where there are any."""

    def close(self) -> None:
        """Release it. Safe to call twice."""


class LedgerWriting(Generic[C]):
    """A sink task's store, opened when it is needed, and the offsets in it as the task knows them."""

    def __init__(self, opened: Callable[[], LedgerStore[C]]) -> None:
        """opened: opens the store. Raises RetriableError where that can't be done now."""
        self._opened = opened
        self._store: LedgerStore[C] | None = None
        self._next: dict[TopicPartition, int] = {}
        """The next offsets that this task has read or written."""
        self._tried: dict[TopicPartition, int] = {}
        """The next offsets of a batch that failed, and that may have been committed all the same."""

    def open(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The next offsets in the store."""
        found = self.opened_store().offsets(places)
        self.lose(places)
        self._next.update(found)
        return found

    def lose(self, places: Sequence[TopicPartition]) -> None:
        """Other tasks write these partitions now."""
        for place in places:
            self._next.pop(place, None)
            self._tried.pop(place, None)

    def write(self, records: Sequence[SinkRecord], change: Callable[[SinkRecord], C]) -> None:
        """Write the changes that records are, in their order, those alone that the store has not.

        change: raises DataError. Raises RecordError for the first record that is none, when what is before it
        is written; Superseded.
        """
        self.opened_store()
        changes, refusal = made_of(records, change)
        self.write_changes(changes)
        if refusal is not None:
            raise refusal

    def close(self) -> None:
        """Release the store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def opened_store(self) -> LedgerStore[C]:
        """The store. Raises RetriableError where it can't be opened now."""
        if self._store is None:
            self._store = self._opened()
        return self._store

    def write_changes(self, changes: Sequence[C]) -> None:
        """Write changes in their order, those alone that the store has not. Raises Superseded."""
        if not changes:
            return
        store = self.opened_store()
        ends = {each.place: each.offset + 1 for each in changes}
        written: dict[TopicPartition, int] = {}

        def plan(now: Mapping[TopicPartition, int]) -> Batch[C]:
            for place in ends:
                if now.get(place) != self._next.get(place) and now.get(place) != self._tried.get(place):
                    raise Superseded(
                        f"{place.topic}-{place.partition}: another task has written up to {now.get(place)}"
                    )
            written.update({place: max(end, now.get(place, 0)) for place, end in ends.items()})
            return Batch([each for each in changes if each.offset >= now.get(each.place, 0)], written)

        try:
            store.write(list(ends), plan)
        except RetriableError:
            self._tried.update(written)
            raise
        if store.keeps_offsets:
            self._next.update(written)
        for place in ends:
            self._tried.pop(place, None)
