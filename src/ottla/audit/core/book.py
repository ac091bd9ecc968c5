"""The book of an audit: folds reports and deltas in any order and number, and says what is in each bucket.

Theory of operation. Reports count by the largest number of their stream and bucket; a delta counts only where
it goes on at its partition's position (delta.py says why). A bucket is judged in a tier when that tier's
counter has caught up with all that lay there at a time when the bucket was due: its end and the allowed
lateness behind it. Before that, what is missing is pending. So a counter that is away, or a producer that was
killed before it could report, raises no alarm.

A topic of another tier is a copy if it has the same name, or ends in a dot and that name, as mirrors name it,
and has shown at least one record of the topic: from then on all of the topic is expected there.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from ottla.audit.core.delta import Bucket, CaughtUp, Delta, Mode, StreamCounts
from ottla.audit.core.id_counts import IdCounts, Range, length_of
from ottla.audit.core.rows import MOST_RANGES, PERCENTS, HostShare, NamedRange, Row, State, named
from ottla.client.audit.mark import StreamBucket
from ottla.client.audit.reports import DEFAULT_BUCKET_MS, Report

DEFAULT_LATENESS_MS: Final = 60_000
MOST_STEPS: Final = 64
"""Of a bucket's growth that are kept, to tell its delay."""


class Place(NamedTuple):
    """A topic in a tier."""

    tier: str
    topic: str


class _Source(NamedTuple):
    """Where an instance's stream is sent, and from which host: any of its reports tells."""

    place: Place
    host: str


class Key(NamedTuple):
    """A row's place and bucket."""

    tier: str
    topic: str
    bucket_start_ms: int


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition was counted."""

    offset: int
    watermark_ms: int


@dataclass(slots=True)
class _Span:
    """A span that was counted from headers: what to take away when it is counted again."""

    start: int
    stop: int
    buckets: dict[int, Bucket]


@dataclass(slots=True)
class _BucketOfPlace:
    """What was seen of one bucket in one place."""

    streams: dict[StreamBucket, StreamCounts] = field(default_factory=dict)
    plain: Bucket = field(default_factory=Bucket)
    partitions: dict[int, int] = field(default_factory=dict)
    steps: list[tuple[int, int]] = field(default_factory=list)
    seen: int = 0


@dataclass(slots=True)
class _Counted:
    """What was seen in one place. holes: by their first and last bucket. spans: by headers, of partitions."""

    positions: dict[tuple[str, int], Position] = field(default_factory=dict)
    buckets: dict[int, _BucketOfPlace] = field(default_factory=dict)
    holes: dict[tuple[int, int], int] = field(default_factory=dict)
    spans: dict[int, list[_Span]] = field(default_factory=dict)
    origins: set[Place] = field(default_factory=set)
    bucket_ms: int = DEFAULT_BUCKET_MS


class Book:
    """All that is known of some tiers. `changed` has the rows that may differ since it was last cleared."""

    def __init__(self, lateness_ms: int = DEFAULT_LATENESS_MS) -> None:
        self.changed: set[Key] = set()
        self.caught_up_ms: dict[str, int] = {}
        self._lateness_ms = lateness_ms
        self._sent: dict[StreamBucket, Report] = {}
        self._sources: dict[tuple[uuid.UUID, int], _Source] = {}
        self._sent_to: dict[Place, dict[int, set[StreamBucket]]] = {}
        self._counted: dict[Place, _Counted] = {}
        self._copies: dict[Place, set[Place]] = {}
        self._waiting: set[Key] = set()
        """Rows that were not judged when they last changed."""
        self._forgotten_ms = 0

    # -- events ----------------------------------------------------------------------------------------------

    def report(self, report: Report) -> None:
        """A producer has reported; repeated, older and mirrored reports change nothing."""
        of = report.of
        if of.bucket_start_ms < self._forgotten_ms:
            return
        known = self._sent.get(of)
        if known is not None:
            if report.number <= known.number:
                return
            if report.sent <= known.sent:  # told again: it was sent when it was told first
                report = replace(report, sent=known.sent, at_ms=known.at_ms)
        self._sent[of] = report
        origin = Place(report.tier, report.topic)
        self._sent_to.setdefault(origin, {}).setdefault(of.bucket_start_ms, set()).add(of)
        self._touch(Key(*origin, of.bucket_start_ms))
        for copy in self._copies.get(origin, ()):
            self._touch(Key(*copy, of.bucket_start_ms))
        if (of.instance, of.stream) not in self._sources:
            self._sources[of.instance, of.stream] = _Source(origin, report.host)
            # records may have been seen before the first report told what they are
            for place, counted in self._counted.items():
                for start_ms, bucket in counted.buckets.items():
                    if any(one[:2] == of[:2] for one in bucket.streams):
                        self._touch(Key(*place, start_ms))
                        self._learn_origin(place, counted, of)

    def counts(self, delta: Delta) -> bool:
        """A counter has counted; False for a delta that does not go on at its partition's position."""
        place = Place(delta.tier, delta.topic)
        counted = self._counted.get(place)
        if counted is None:
            counted = self._counted[place] = _Counted()
        counted.bucket_ms = delta.bucket_ms
        if delta.mode is Mode.RECOUNT:
            if not self._take_back(counted, delta):
                return False
        else:
            # the deltas before the first one that is left may have been removed with age
            at = counted.positions.get((delta.topic_id, delta.partition))
            if at is not None and delta.start != at.offset:
                return False
            watermark_ms = -1 if at is None else at.watermark_ms
            counted.positions[delta.topic_id, delta.partition] = Position(
                delta.stop, max(watermark_ms, delta.watermark_ms)
            )
            if delta.mode is Mode.HEADERS and delta.stop > delta.start:
                span = _Span(delta.start, delta.stop, dict(delta.buckets))
                counted.spans.setdefault(delta.partition, []).append(span)
        self._add(place, counted, delta)
        return True

    def caught_up(self, news: CaughtUp) -> None:
        """A counter has seen all that its tier had at a time."""
        if news.at_ms <= self.caught_up_ms.get(news.tier, -1):
            return
        self.caught_up_ms[news.tier] = news.at_ms
        due = [key for key in self._waiting if key.tier == news.tier and self._due_ms(key) <= news.at_ms]
        self._waiting.difference_update(due)
        self.changed.update(due)

    # -- answers ---------------------------------------------------------------------------------------------

    def position(self, tier: str, topic: str, partition: int, topic_id: str = "") -> Position:
        """Where the counting of a partition goes on."""
        counted = self._counted.get(Place(tier, topic))
        nothing = Position(0, -1)
        return nothing if counted is None else counted.positions.get((topic_id, partition), nothing)

    def keys(self) -> Iterator[Key]:
        """All rows' keys, in no order."""
        found: set[Key] = set()
        for place, buckets in self._sent_to.items():
            for to in (place, *self._copies.get(place, ())):
                found.update(Key(to.tier, to.topic, start_ms) for start_ms in buckets)
        for place, counted in self._counted.items():
            found.update(Key(*place, start_ms) for start_ms in counted.buckets)
        yield from found

    def rows(self, keys: Iterable[Key] | None = None) -> list[Row]:
        """What is in each bucket, by tier, topic and time."""
        return [self.row(key) for key in sorted(self.keys() if keys is None else keys)]

    def oldest(self) -> Iterator[Key]:
        """The key of the oldest row of each place, at least."""
        for place, counted in self._counted.items():
            if counted.buckets:
                yield Key(place.tier, place.topic, min(counted.buckets))
        for place, buckets in self._sent_to.items():
            if buckets:
                yield Key(place.tier, place.topic, min(buckets))

    def row(self, key: Key) -> Row:
        """What is in one bucket of one topic in one tier."""
        place = Place(key.tier, key.topic)
        counted = self._counted.get(place)
        bucket = None if counted is None else counted.buckets.get(key.bucket_start_ms)
        streams = self._expected(place, counted, key.bucket_start_ms)
        if bucket is not None:
            streams.update(of for of in bucket.streams if self._belongs(place, of))
        is_judged = counted is not None and self.caught_up_ms.get(key.tier, -1) >= self._due_ms(key)
        if counted is not None and self._has_spans(counted, key.bucket_start_ms):
            return self._row_of_sums(key, streams, bucket, is_judged)
        bucket_ms = self._bucket_ms(streams, counted)
        found = _Sums()
        for of in sorted(streams):
            self._weigh(found, of, None if bucket is None else bucket.streams.get(of), key)
        holes = 0 if counted is None else _holes(counted, key.bucket_start_ms)
        unknown = min(found.missing, holes)
        missing = found.missing - unknown
        state = State.PENDING if not is_judged else State.INCOMPLETE if missing else State.COMPLETE
        return Row(
            key.topic,
            key.tier,
            key.bucket_start_ms,
            bucket_ms,
            state,
            sent=found.sent,
            counted=found.occurrences,
            lost=missing if is_judged else 0,
            pending=0 if is_judged else missing,
            unknown=unknown,
            doubled=found.occurrences - found.seen,
            remirrored=found.remirrored,
            late=found.late + (0 if bucket is None else bucket.plain.late),
            unreported=found.unreported,
            unmarked=0 if bucket is None else bucket.plain.counted,
            lost_ranges=tuple(found.lost_ranges) if is_judged and missing else (),
            doubled_ranges=tuple(found.doubled_ranges),
            hosts=found.hosts,
            partitions={} if bucket is None else dict(bucket.partitions),
            delays_ms=self._delays(key, found, bucket),
        )

    def to_recount(self, tier: str) -> Iterator[tuple[str, int, int, int]]:
        """The spans (topic, partition, start, stop) of judged buckets of the tier whose sums differ."""
        told = set()
        for place, counted in self._counted.items():
            if place.tier != tier or not any(counted.spans.values()):
                continue
            for start_ms in sorted(counted.buckets):
                if self.row(Key(*place, start_ms)).state is not State.RECOUNT:
                    continue
                for partition, spans in counted.spans.items():
                    for span in spans:
                        one = (place.topic, partition, span.start, span.stop)
                        if self._touches(counted, span, start_ms) and one not in told:
                            told.add(one)
                            yield one

    def forget(self, before_ms: int) -> list[Row]:
        """The last word on all buckets that began earlier, which are then forgotten."""
        old = [key for key in self.keys() if key.bucket_start_ms < before_ms]
        rows = self.rows(old)
        for counted in self._counted.values():
            for start_ms in [one for one in counted.buckets if one < before_ms]:
                del counted.buckets[start_ms]
            counted.holes = {span: n for span, n in counted.holes.items() if span[1] >= before_ms}
            for partition, spans in counted.spans.items():
                counted.spans[partition] = [
                    one for one in spans if any(start_ms >= before_ms for start_ms in one.buckets)
                ]
        for buckets in self._sent_to.values():
            for start_ms in [one for one in buckets if one < before_ms]:
                for of in buckets.pop(start_ms):
                    self._sent.pop(of, None)
        self.changed = {key for key in self.changed if key.bucket_start_ms >= before_ms}
        self._waiting = {key for key in self._waiting if key.bucket_start_ms >= before_ms}
        self._forgotten_ms = max(self._forgotten_ms, before_ms)
        self._forget_sources()
        return rows

    def _forget_sources(self) -> None:
        """Forget the streams of which nothing is kept any more."""
        kept = {of[:2] for of in self._sent}
        for counted in self._counted.values():
            for bucket in counted.buckets.values():
                kept.update(of[:2] for of in bucket.streams)
        self._sources = {stream: source for stream, source in self._sources.items() if stream in kept}

    # -- folding ---------------------------------------------------------------------------------------------

    def _add(self, place: Place, counted: _Counted, delta: Delta) -> None:
        for of, each in delta.streams.items():
            if of.bucket_start_ms < self._forgotten_ms:
                continue
            bucket = self._bucket(place, counted, of.bucket_start_ms)
            mine = bucket.streams.get(of)
            if mine is None:
                mine = bucket.streams[of] = StreamCounts()
                self._learn_origin(place, counted, of)
            for number, page in each.counts.pages.items():
                mine.counts.add_page(number, bytes(page))
            mine.late += each.late
            occurrences = each.counts.occurrences()
            bucket.partitions[delta.partition] = bucket.partitions.get(delta.partition, 0) + occurrences
            bucket.seen = sum(one.counts.seen() for one in bucket.streams.values())
            _step(bucket, delta.counted_at_ms)
        for start_ms, one in delta.buckets.items():
            if start_ms < self._forgotten_ms:
                continue
            bucket = self._bucket(place, counted, start_ms)
            plain = bucket.plain
            bucket.plain = Bucket(
                plain.counted + one.counted, plain.late + one.late, plain.estimated + one.estimated
            )
            bucket.partitions[delta.partition] = bucket.partitions.get(delta.partition, 0) + one.counted
        for low, high, count in delta.holes:
            counted.holes[low, high] = counted.holes.get((low, high), 0) + count
            for start_ms in counted.buckets:
                if low <= start_ms <= high:
                    self._touch(Key(*place, start_ms))

    def _bucket(self, place: Place, counted: _Counted, start_ms: int) -> _BucketOfPlace:
        bucket = counted.buckets.get(start_ms)
        if bucket is None:
            bucket = counted.buckets[start_ms] = _BucketOfPlace()
        self._touch(Key(*place, start_ms))
        return bucket

    def _take_back(self, counted: _Counted, delta: Delta) -> bool:
        """Take away what headers said of a span that was counted again; False if nothing did."""
        spans = counted.spans.get(delta.partition, [])
        for span in spans:
            if (span.start, span.stop) != (delta.start, delta.stop):
                continue
            spans.remove(span)
            for start_ms, one in span.buckets.items():
                bucket = counted.buckets.get(start_ms)
                if bucket is None:
                    continue
                plain = bucket.plain
                bucket.plain = Bucket(
                    plain.counted - one.counted, plain.late - one.late, plain.estimated - one.estimated
                )
                left = bucket.partitions.get(delta.partition, 0) - one.counted
                bucket.partitions[delta.partition] = left
                self._touch(Key(delta.tier, delta.topic, start_ms))
            return True
        return False

    def _learn_origin(self, place: Place, counted: _Counted, of: StreamBucket) -> None:
        """Note that a place has copies of a topic, of which all is expected from now on."""
        source = self._source(of)
        if source is None:
            return
        origin = source.place
        if origin == place or origin in counted.origins or not is_copy(origin.topic, place.topic):
            return
        counted.origins.add(origin)
        self._copies.setdefault(origin, set()).add(place)
        for start_ms in self._sent_to.get(origin, {}):
            self._touch(Key(*place, start_ms))

    def _touch(self, key: Key) -> None:
        self.changed.add(key)
        self._waiting.add(key)

    # -- weighing --------------------------------------------------------------------------------------------

    def _expected(self, place: Place, counted: _Counted | None, start_ms: int) -> set[StreamBucket]:
        """The streams that ought to be in a bucket of a place."""
        origins = [place, *(counted.origins if counted is not None else ())]
        return {of for origin in origins for of in self._sent_to.get(origin, {}).get(start_ms, ())}

    def _belongs(self, place: Place, of: StreamBucket) -> bool:
        """Whether a stream that was seen is of this topic, not of one from which records were derived."""
        source = self._source(of)
        return source is None or is_copy(source.place.topic, place.topic)

    def _source(self, of: StreamBucket) -> _Source | None:
        return self._sources.get((of.instance, of.stream))

    def _bucket_ms(self, streams: Iterable[StreamBucket], counted: _Counted | None) -> int:
        """The length of a bucket: its producers', else its counter's."""
        lengths = [report.bucket_ms for of in streams if (report := self._sent.get(of)) is not None]
        return max(lengths, default=DEFAULT_BUCKET_MS if counted is None else counted.bucket_ms)

    def _end_ms(self, key: Key) -> int:
        place = Place(key.tier, key.topic)
        counted = self._counted.get(place)
        streams = self._expected(place, counted, key.bucket_start_ms)
        return key.bucket_start_ms + self._bucket_ms(streams, counted)

    def _due_ms(self, key: Key) -> int:
        """When a bucket's records ought to be there: behind its end, and behind the newest report of them."""
        place = Place(key.tier, key.topic)
        streams = self._expected(place, self._counted.get(place), key.bucket_start_ms)
        told_ms = max((self._sent[of].at_ms for of in streams), default=0)
        return max(self._end_ms(key), told_ms) + self._lateness_ms

    def _weigh(self, found: _Sums, of: StreamBucket, seen: StreamCounts | None, key: Key) -> None:
        report = self._sent.get(of)
        sent = 0 if report is None else report.sent
        source = self._source(of)
        counts = IdCounts() if seen is None else seen.counts
        host = "" if source is None else source.host
        missing = list(counts.missing(max(sent, counts.end)))
        missing_count = length_of(missing)
        below = sent - length_of((first, min(last, sent - 1)) for first, last in missing if first < sent)
        seen_count = counts.seen()
        found.sent += sent
        found.seen += seen_count
        found.occurrences += counts.occurrences()
        found.missing += missing_count
        found.unreported += seen_count - below
        found.late += 0 if seen is None else seen.late
        share = found.hosts.setdefault(host, HostShare())
        share.sent += sent
        share.missing += missing_count
        share.unreported += seen_count - below
        instance, room = str(of.instance), MOST_RANGES - len(found.lost_ranges)
        found.lost_ranges += named(host, instance, of.stream, missing, room)
        repeated = list(counts.repeated())
        if repeated:
            room = MOST_RANGES - len(found.doubled_ranges)
            found.doubled_ranges += named(host, instance, of.stream, repeated, room)
            if source is not None and source.place.tier != key.tier:
                found.remirrored += self._on_the_way(of, source.place, counts, repeated)

    def _on_the_way(self, of: StreamBucket, sent_to: Place, counts: IdCounts, repeated: list[Range]) -> int:
        """How many repeats came between the producer's tier and this one."""
        origin = self._counted.get(sent_to)
        bucket = None if origin is None else origin.buckets.get(of.bucket_start_ms)
        there = None if bucket is None else bucket.streams.get(of)
        return sum(
            max(counts.times(sequence) - max(1, 0 if there is None else there.counts.times(sequence)), 0)
            for first, last in repeated
            for sequence in range(first, last + 1)
        )

    def _delays(self, key: Key, found: _Sums, bucket: _BucketOfPlace | None) -> tuple[int | None, ...]:
        if bucket is None or not found.sent:
            return (None,) * len(PERCENTS)
        end_ms = self._end_ms(key)
        expected = found.seen + found.missing
        delays: list[int | None] = []
        for percent in PERCENTS:
            wanted = math.ceil(expected * percent / 100)
            at_ms = next((at for at, seen in bucket.steps if seen >= wanted), None)
            delays.append(None if at_ms is None else max(at_ms - end_ms, 0))
        return tuple(delays)

    # -- sums from headers -----------------------------------------------------------------------------------

    def _has_spans(self, counted: _Counted, start_ms: int) -> bool:
        return any(
            self._touches(counted, span, start_ms) for spans in counted.spans.values() for span in spans
        )

    @staticmethod
    def _touches(counted: _Counted, span: _Span, start_ms: int) -> bool:
        """Whether a span may have records of the bucket: a batch's time may be that of a neighbour."""
        lowest, highest = min(span.buckets, default=0), max(span.buckets, default=-1)
        return lowest - counted.bucket_ms <= start_ms <= highest + counted.bucket_ms

    def _row_of_sums(
        self,
        key: Key,
        streams: set[StreamBucket],
        bucket: _BucketOfPlace | None,
        is_judged: bool,
    ) -> Row:
        sent = sum(report.sent for of in streams if (report := self._sent.get(of)) is not None)
        plain = Bucket() if bucket is None else bucket.plain
        counted = plain.counted
        if bucket is not None:
            counted += sum(each.counts.occurrences() for each in bucket.streams.values())
        state = State.PENDING if not is_judged else State.COMPLETE if counted == sent else State.RECOUNT
        return Row(
            key.topic,
            key.tier,
            key.bucket_start_ms,
            self._bucket_ms(streams, self._counted.get(Place(key.tier, key.topic))),
            state,
            sent=sent,
            counted=counted,
            pending=max(sent - counted, 0),
            late=plain.late,
            estimated=True,
            partitions={} if bucket is None else dict(bucket.partitions),
        )


@dataclass(slots=True)
class _Sums:
    """The sums of a row over its streams."""

    sent: int = 0
    seen: int = 0
    occurrences: int = 0
    missing: int = 0
    unreported: int = 0
    late: int = 0
    remirrored: int = 0
    lost_ranges: list[NamedRange] = field(default_factory=list)
    doubled_ranges: list[NamedRange] = field(default_factory=list)
    hosts: dict[str, HostShare] = field(default_factory=dict)


def is_copy(origin: str, topic: str) -> bool:
    """Whether a topic has the name of the other one, or that which a mirror gives to its copy."""
    return topic == origin or topic.endswith(f".{origin}")


def _holes(counted: _Counted, start_ms: int) -> int:
    return sum(count for (low, high), count in counted.holes.items() if low <= start_ms <= high)


def _step(bucket: _BucketOfPlace, at_ms: int) -> None:
    steps = bucket.steps
    if steps and steps[-1][0] >= at_ms:
        steps[-1] = (steps[-1][0], bucket.seen)
        return
    if len(steps) == MOST_STEPS:
        del steps[MOST_STEPS // 2]
    steps.append((at_ms, bucket.seen))
