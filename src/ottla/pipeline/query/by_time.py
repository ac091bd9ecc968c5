"""Where a batch of several partitions ends, if it takes records by time: no I/O in here.

Kafka Streams takes the earliest of its partitions' next records, again and again. A record's turn comes when
the others have *reached* its time: at the largest timestamp that its own partition had until then. So a batch
that leaves records behind ends at one time in all partitions, each before its first record that is later.
Then no record of a later batch was to be taken before one of this batch, however large batches are.

A limit is met by the time of the record at which a source's share would end. Where so many records have the
same time that no batch ends before them, sources are taken in their order, each up to its limit: tables come
before streams, so a record finds the rows of its own time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

_SMALL_PART: Final = 10
"""A batch of less than this part of a limit is worth a closer look."""


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Span(NamedTuple):
    """Offsets of one partition, from `start` to the one before `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)


Spans = Mapping[Place, Span]


@dataclass(frozen=True, slots=True)
class Unread:
    """The offsets that a source has not read yet. limit: about so many of them are a batch's most."""

    spans: Spans
    limit: int | None = None

    @property
    def size(self) -> int:
        return sum(span.size for span in self.spans.values())

    @property
    def is_over_its_limit(self) -> bool:
        return self.limit is not None and self.size > self.limit


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of each source's part of a batch. until_ms: the batch has no later record; None: it may."""

    ends: Sequence[Mapping[Place, int]]
    until_ms: int | None = None


class Timestamps(Protocol):
    """The times of records, as the cluster tells them."""

    def next_times(self, spans: Spans) -> Mapping[Place, int | None]:
        """The timestamp of the first record of each span; None where it has none."""
        ...

    def first_later(self, spans: Spans, time_ms: int) -> Mapping[Place, int]:
        """The offset of the partition's first record, read or unread, that is later; the span's end if none.

        No later than the span's end; before its start if the partition had such a record before.
        """
        ...

    def times(self, place: Place, span: Span) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of each record of the span."""
        ...


def batch_end(sources: Sequence[Unread], timestamps: Timestamps, until_ms: int | None = None) -> BatchEnd:
    """The end of the next batch: all that is unread, or, by a limit or `until_ms`, up to one time.

    sources: those that come first at equal times are named first. until_ms: no later record may be read yet.
    """
    everything = BatchEnd([{place: span.end for place, span in source.spans.items()} for source in sources])
    limited = [source for source in sources if source.is_over_its_limit]
    if not limited and until_ms is None:
        return everything
    # Records of the time at which a share ends may be many: the batch ends before that time.
    found = timestamps.next_times(
        {place: rest for each in limited for place, (_, rest) in _cut(each).items()}
    )
    times = [time_ms - 1 for time_ms in found.values() if time_ms is not None]
    times += [] if until_ms is None else [until_ms]
    if not times:
        return everything
    batch = _BatchUntil(sources, timestamps, min(times))
    enough = min((source.limit or 0 for source in limited), default=0) // _SMALL_PART
    if batch.size > enough:
        return batch.end
    first = _beginning(sources, timestamps, until_ms)
    if first is None:
        return everything
    if first.size > max(enough, batch.size) or not limited:
        return first.end
    # A partition whose times go up and down is read ahead, for the latest of its share.
    times = [] if until_ms is None else [until_ms]
    for each in limited:
        for place, (share, _) in _cut(each).items():
            times.append(max((time_ms for _, time_ms in timestamps.times(place, share)), default=0) - 1)
    far = _BatchUntil(sources, timestamps, min(times))
    if far.size > max(batch.size, first.size):
        return far.end
    return batch.end if batch.size > first.size else first.end


def shares(source: Unread) -> Mapping[Place, int]:
    """Where each partition's part of the source's limit ends, in proportion to all that is unread."""
    if source.limit is None or not source.is_over_its_limit:
        return {place: span.end for place, span in source.spans.items()}
    limit, size = source.limit, source.size
    return {
        place: span.start + min(span.size, max(1, span.size * limit // size)) if span.size else span.start
        for place, span in source.spans.items()
    }


def _cut(source: Unread) -> dict[Place, tuple[Span, Span]]:
    """The unread part of each partition as its share of the limit, and the rest."""
    ends = shares(source)
    return {
        place: (Span(span.start, ends[place]), Span(ends[place], span.end))
        for place, span in source.spans.items()
        if span.size
    }


@dataclass(frozen=True, slots=True)
class _Sized:
    """A batch, and how many offsets are in it."""

    end: BatchEnd
    size: int


def _beginning(sources: Sequence[Unread], timestamps: Timestamps, until_ms: int | None) -> _Sized | None:
    """The records of the earliest time, in the order of the sources, up to the limit of one of them.

    None where no record is left, for all that is unread are marks of transactions.
    """
    unread = {place: span for source in sources for place, span in source.spans.items() if span.size}
    firsts = [time_ms for time_ms in timestamps.next_times(unread).values() if time_ms is not None]
    if not firsts:
        return None
    starts = [{place: span.start for place, span in source.spans.items()} for source in sources]
    if until_ms is not None and min(firsts) > until_ms:
        return _Sized(BatchEnd(starts, until_ms), 0)
    batch = _BatchUntil(sources, timestamps, min(firsts))
    ends = list(batch.end.ends)
    for number, source in enumerate(sources):
        part = Unread(
            {p: Span(span.start, ends[number][p]) for p, span in source.spans.items()}, source.limit
        )
        if part.is_over_its_limit:
            ends[number] = shares(part)
            ends[number + 1 :] = starts[number + 1 :]
            break
    size = sum(end - starts[at][place] for at, each in enumerate(ends) for place, end in each.items())
    return _Sized(BatchEnd(ends, min(firsts)), size)


class _BatchUntil:
    """The batch of the records that have their turn until a time."""

    def __init__(self, sources: Sequence[Unread], timestamps: Timestamps, until_ms: int) -> None:
        self._until_ms = until_ms
        self._timestamps = timestamps
        unread = {place: span for source in sources for place, span in source.spans.items() if span.size}
        self._cuts = dict(timestamps.first_later(unread, until_ms))
        for source in sources:
            self._cuts |= self._behind(source)
        ends = [{p: self._cuts.get(p, span.start) for p, span in each.spans.items()} for each in sources]
        self.end = BatchEnd(ends, until_ms)
        self.size = sum(self._cuts[place] - span.start for place, span in unread.items())

    def _behind(self, source: Unread) -> dict[Place, int]:
        """The cuts of partitions that had a later record before: what is unread is looked at one by one.

        No more than a record beyond the limit: none is read where there are so many.
        """
        behind = {
            place: span
            for place, span in source.spans.items()
            if span.size and self._cuts[place] < span.start
        }
        found: dict[Place, int] = {}
        for place, time_ms in self._timestamps.next_times(behind).items() if behind else ():
            start, end = behind[place]
            if time_ms is None or time_ms > self._until_ms:
                found[place] = end if time_ms is None else start
                continue
            looked_at = Span(start, end if source.limit is None else min(end, start + source.limit + 1))
            later = (at for at, each in self._timestamps.times(place, looked_at) if each > self._until_ms)
            found[place] = next(later, looked_at.end)
        return found
