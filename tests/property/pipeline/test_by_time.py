"""Batches by time, against a merge of partitions that takes the earliest next record again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.query.by_time import Place, Span, Spans, Unread, batch_end


@dataclass(slots=True)
class Topics:
    """The times of all records of some sources' partitions, and how far each partition is read."""

    sources: list[list[Place]]
    times_ms: dict[Place, list[int]] = field(default_factory=dict)
    read: dict[Place, int] = field(default_factory=dict)

    def unread(self, limits: list[int | None]) -> list[Unread]:
        return [
            Unread({place: Span(self.read[place], len(self.times_ms[place])) for place in places}, limit)
            for places, limit in zip(self.sources, limits, strict=True)
        ]

    # As `Timestamps`

    def next_times(self, spans: Spans) -> Mapping[Place, int | None]:
        return {
            place: self.times_ms[place][span.start] if span.size else None for place, span in spans.items()
        }

    def first_later(self, spans: Spans, time_ms: int) -> Mapping[Place, int]:
        """As brokers tell it: of the whole partition, not of the part that is unread."""
        return {
            place: min(span.end, next((at for at, each in self._all(place) if each > time_ms), span.end))
            for place, span in spans.items()
        }

    def times(self, place: Place, span: Span) -> Iterator[tuple[int, int]]:
        return (each for each in self._all(place) if span.start <= each[0] < span.end)

    def _all(self, place: Place) -> Iterator[tuple[int, int]]:
        return iter(enumerate(self.times_ms[place]))

    def turns(self) -> list[tuple[int, int, Place, int]]:
        """Each unread record: when its turn comes, its source, its place. A turn is a time of the merge."""
        heads = dict(self.read)
        turns = []
        now_ms = -1
        while left := [place for place, at in heads.items() if at < len(self.times_ms[place])]:
            number, place = min(
                (
                    (number, place)
                    for number, places in enumerate(self.sources)
                    for place in places
                    if place in left
                ),
                key=lambda each: (self.times_ms[each[1]][heads[each[1]]], each[0]),
            )
            now_ms = max(now_ms, self.times_ms[place][heads[place]])
            turns.append((now_ms, number, place, heads[place]))
            heads[place] += 1
        return turns


ARRIVALS = st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=5, max_size=5)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(ARRIVALS, st.integers(0, 4)), min_size=1, max_size=4),
    st.lists(st.sampled_from([1, 2, 3, 7, None]), min_size=3, max_size=3),
    st.sampled_from([None, None, 0, 4, 9]),
    st.booleans(),
)
def test_a_batch_takes_the_records_whose_turn_comes_first(
    arrivals: list[tuple[list[list[int]], int]],
    limits: list[int | None],
    until_ms: int | None,
    in_order: bool,
) -> None:
    places = [Place("table", 0), Place("table", 1), Place("stream", 0), Place("stream", 1), Place("other", 0)]
    topics = Topics([places[:2], places[2:4], places[4:]])
    topics.times_ms = {place: [] for place in places}
    topics.read = dict.fromkeys(places, 0)
    for round_number, (arrived, batches) in enumerate([*arrivals, ([[]] * 5, 1_000)]):
        for place, times_ms in zip(places, arrived, strict=True):
            later = sorted(20 * round_number + time_ms for time_ms in times_ms) if in_order else times_ms
            topics.times_ms[place] += later
        for _ in range(batches):
            turns = topics.turns()
            if not turns:
                break
            unread = topics.unread(limits)
            until = None if round_number == len(arrivals) else until_ms
            batch = batch_end(unread, topics, until)
            ends = {place: end for each in batch.ends for place, end in each.items()}
            taken = [turn for turn in turns if turn[3] < ends[turn[2]]]
            left = [turn for turn in turns if turn[3] >= ends[turn[2]]]
            assert all(
                topics.read[place] <= end <= len(topics.times_ms[place]) for place, end in ends.items()
            )
            if taken and left:
                assert max(turn[:2] for turn in taken) <= min(turn[:2] for turn in left)
            if until is None:
                assert taken
            else:
                assert all(turn[0] <= until for turn in taken)
                assert taken or turns[0][0] > until
            if batch.until_ms is not None:
                assert all(turn[0] <= batch.until_ms for turn in taken)
            for source, part in zip(unread, batch.ends, strict=True):
                size = sum(part[place] - span.start for place, span in source.spans.items())
                assert source.limit is None or size <= source.limit + len(part)
            topics.read = ends
