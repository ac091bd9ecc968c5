"""The order in which an application's stateful queries read: by time across inputs, as Kafka Streams does.

Three rules, whatever the size of batches:

1. **A query reads its topics by time.** A batch that leaves records behind ends at one time in all partitions
   (by_time.py); one that does not ends where the topics end, the streams' ends asked before the tables'. So
   a record of a stream never comes before a row of its table that is older and was there before it.
2. **A query reads another's output by whole batches of the other,** if it waits for event time or joins a
   table. The tasks of a batch write key by key and each in its own transaction: half a batch would move event
   time beyond records of the other half, which would be late, and hold rows that the other half replaces.
3. **A stream waits for a table that another query makes** until that query, and those that it reads from,
   have read everything that is older. In Kafka Streams they are one task, which takes both by time.

A query knows its own place: the starts of its next batch are done. `QueryReading.plan` is called in the
thread of its query, between two of its batches, and tells the others: which of its records are done, and
where its output ends now. A query that has to wait for another is told so by `changed`, and looks again
after `WAIT_SECONDS` at the latest. Queries wait for those before them in the plan alone.

Rules 2 and 3 know nothing of a run before: after a start every query reads what is there of another's
output when the other has finished the batch that a kill left unfinished, and not before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.pipeline.query.by_time import BatchEnd, Place, Span, Unread, batch_end, shares
from ottla.pipeline.query.checkpoints import Checkpoint
from ottla.pipeline.query.planned_source import Offsets
from ottla.pipeline.query.record_times import RecordTimes
from ottla.pipeline.spark.paths import local_path
from ottla.streams.operators.stream_table_join import StreamTableJoin
from ottla.streams.plan.node import Node, event_time_of
from ottla.streams.plan.planner import Plan, PlannedQuery, reads_of
from ottla.streams.run.admitted import Admitted

WAIT_SECONDS: Final = 0.1
MOST_BATCHES_KEPT: Final = 128
_NOTHING_YET_MS: Final = -1
"""A time before every record's."""

log = logging.getLogger("ottla.streams")


@dataclass(frozen=True, slots=True)
class Input:
    """One source of a query.

    writer: the query that writes it, for internal topics. Their records are in the order of keys; all others
    are in the order of their times, as far as their producers kept it. by_batches: it is read by the writer's
    whole batches.
    """

    table: bool
    limit: int | None
    writer: QueryReading | None = None
    by_batches: bool = False


@dataclass(slots=True)
class ReadingOrder:
    """The queries of one application that read by time; used by their threads. Close it after the queries.

    together: they run at the same time. Otherwise each ends before the next one starts.
    """

    plan: Plan
    cluster: KafkaCluster
    together: bool
    _queries: list[QueryReading] = field(default_factory=list)
    _writers: dict[str, QueryReading] = field(default_factory=dict)
    """By internal topic."""
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def query(self, admitted: Admitted) -> QueryReading | None:
        """The planner of a query with state, or that others read by batches; None for the rest.

        Raises ClusterError.
        """
        query, sources = admitted.query, admitted.sources
        is_read_by_batches = self.is_read_by_batches(query)
        if query.stateful is None and not is_read_by_batches:
            return None
        checkpoint = local_path(admitted.admission.spec.checkpoint)
        if checkpoint is None and len(sources) > 1 and not self.together:
            # It would end before Spark has told where it goes on.
            return None
        by_batches = _waits_for_time(query) or _joins_a_table(query)
        inputs = []
        for source, read in sources.items():
            topic = _internal_topic_read(source)
            writer = None if topic is None else self._writers.get(topic)
            limit = read.max_offsets_per_trigger
            inputs.append(Input(source.table, limit, writer, by_batches and writer is not None))
        (sink,) = query.sinks
        output = _internal_topic_written(sink)
        reading = QueryReading(
            query.name,
            inputs,
            _joins_a_table(query),
            output if is_read_by_batches else None,
            self.together,
            None if checkpoint is None else Checkpoint(checkpoint),
            [tuple(topics) for topics in admitted.admission.topics],
            self.cluster,
            self._changed,
        )
        self._queries.append(reading)
        if output is not None:
            self._writers[output] = reading
        return reading

    def is_read_by_batches(self, query: PlannedQuery) -> bool:
        """Whether half a batch of its output would do harm to another query: to windows, or to a join."""
        topics = {_internal_topic_written(sink) for sink in query.sinks} - {None}
        return any(
            (_waits_for_time(each) or _joins_a_table(each))
            and not topics.isdisjoint(map(_internal_topic_read, each.sources))
            for each in self.plan.queries
        )

    def close(self) -> None:
        """Leave the cluster. Safe to call twice."""
        for reading in self._queries:
            reading.times.close()


@dataclass(eq=False)
class QueryReading:
    """A query's planner, and the state of its reading as the queries behind it see it.

    joins: it joins a stream with a table. output: the internal topic that it writes, if it is read by whole
    batches. together: with the queries whose output it reads, which have ended otherwise. checkpoint: if it
    is on this machine. topics: of each input, now. done: the offset up to which each partition is done; None
    before the first batch is planned. batches: the ends of the output after the last ones, the newest last.
    """

    name: str
    inputs: Sequence[Input]
    joins: bool
    output: str | None
    together: bool
    checkpoint: Checkpoint | None
    topics: Sequence[Sequence[str]]
    cluster: KafkaCluster
    changed: threading.Condition
    done: Offsets | None = None
    batches: list[Offsets] = field(default_factory=list)
    times: RecordTimes = field(init=False)

    def __post_init__(self) -> None:
        self.times = RecordTimes(self.cluster)
        self._starts: Sequence[Offsets] = ()

    @property
    def order(self) -> list[int]:
        """The numbers of the inputs in the order in which their ends are asked: streams before tables."""
        return sorted(range(len(self.inputs)), key=lambda number: self.inputs[number].table)

    def starts(self) -> Sequence[Offsets] | None:
        """See `BatchPlanner`: by the last batch that is planned, which Spark repeats if it is not done."""
        planned = [] if self.checkpoint is None else self.checkpoint.planned_batches
        if self.checkpoint is None or not planned:
            return None
        found: list[Offsets] = []
        sources = self.checkpoint.source_positions(planned[-1])
        for topics in self.topics:
            # One source may be written several times, and one topic be read by several.
            own = [each for each in sources if each and each.keys() <= set(topics)]
            if not own or any(each != own[0] for each in own):
                return None
            found.append({Place(topic, p): end for topic, ends in own[0].items() for p, end in ends.items()})
        return found

    def plan(self, starts: Sequence[Offsets], latest: Sequence[Offsets]) -> Sequence[Offsets]:
        """See `BatchPlanner`. A cluster that does not answer is asked again with the next question."""
        try:
            self._tell(starts)
            ends = self._plan(starts, latest)
            if _same(ends, starts) and not _same(latest, starts):
                with self.changed:
                    self.changed.wait(WAIT_SECONDS)
                ends = self._plan(starts, latest)
            return ends
        except ClusterError as error:
            if not self.together:
                raise
            log.warning("query %s waits: %s", self.name, error)
            time.sleep(WAIT_SECONDS)
            return starts

    def _tell(self, starts: Sequence[Offsets]) -> None:
        """The records before `starts` are done, and with them their output is written."""
        if starts == self._starts:
            return
        output: Offsets = {}
        if self.output is not None:
            places = [(self.output, each) for each in self.cluster.partitions(self.output)]
            ends = self.cluster.ends_of(places, committed=False)
            output = {Place(*place): offset for place, offset in ends.items()}
        with self.changed:
            self._starts = starts
            self.done = {place: offset for each in starts for place, offset in each.items()}
            if output and (not self.batches or self.batches[-1] != output):
                self.batches.append(output)
                if len(self.batches) > MOST_BATCHES_KEPT:
                    del self.batches[-2::-2]
            self.changed.notify_all()

    def _plan(self, starts: Sequence[Offsets], latest: Sequence[Offsets]) -> Sequence[Offsets]:
        until_ms = None
        fresh: dict[int, Offsets] = {}
        if self.joins and any(
            latest[number] != starts[number] for number, each in enumerate(self.inputs) if not each.table
        ):
            made = [each.writer for each in self.inputs if each.table and each.writer is not None]
            until_ms = self._time_done(made)
            fresh, all_visible = self._fresh_tables(latest)
            if not all_visible:
                until_ms = _NOTHING_YET_MS
        return self._ends(starts, latest, fresh, until_ms)

    def _ends(
        self,
        starts: Sequence[Offsets],
        latest: Sequence[Offsets],
        fresh: Mapping[int, Offsets],
        until_ms: int | None,
    ) -> Sequence[Offsets]:
        """by_time decides about topics that are read by the record; the others follow it."""
        begins = self._begins(latest, starts)
        ends = [{place: begin[place] for place in end} for begin, end in zip(begins, latest, strict=True)]
        numbers = sorted(
            (number for number, each in enumerate(self.inputs) if each.writer is None),
            key=lambda number: not self.inputs[number].table,
        )
        unread = [_unread(begins[number], latest[number], self.inputs[number].limit) for number in numbers]
        batch = batch_end(unread, self.times, until_ms) if unread else BatchEnd((), until_ms)
        for number, end in zip(numbers, batch.ends, strict=True):
            ends[number] = dict(end)
        for number, each in enumerate(self.inputs):
            if each.writer is None:
                continue
            if number in fresh:
                ends[number] = _later(ends[number], fresh[number])
            elif not each.by_batches:
                ends[number] = dict(shares(_unread(begins[number], latest[number], each.limit)))
            else:
                ends[number] = self._whole_batches(each, ends[number], latest[number], batch.until_ms)
        return ends

    def _whole_batches(self, read: Input, starts: Offsets, latest: Offsets, until_ms: int | None) -> Offsets:
        """The output of so many batches of the writer as are visible, fit a limit, and end before a time."""
        assert read.writer is not None
        with self.changed:
            batches = list(read.writer.batches)
        if not self.together:
            batches.append(latest)
        visible = [each for each in batches if all(latest.get(p, 0) >= end for p, end in each.items())]
        if until_ms is not None and visible:
            newest = _later(starts, visible[-1])
            spans = {place: Span(starts.get(place, 0), end) for place, end in newest.items()}
            ends = self.times.first_later(spans, until_ms)
            visible = [each for each in visible if all(end <= ends[p] for p, end in each.items())]
        chosen = starts
        for each in visible:
            found = _later(starts, each)
            size = sum(end - starts.get(place, 0) for place, end in found.items())
            if chosen != starts and read.limit is not None and size > read.limit:
                break
            chosen = found
        return chosen

    def _fresh_tables(self, latest: Sequence[Offsets]) -> tuple[dict[int, Offsets], bool]:
        """The output of the queries that make tables, as it is now, and whether all of it can be read.

        The question comes after the one whether these queries have read enough.
        """
        fresh: dict[int, Offsets] = {}
        made = [number for number, each in enumerate(self.inputs) if each.table and each.writer is not None]
        for number in made:
            writer = self.inputs[number].writer
            assert writer is not None
            if not self.together:
                fresh[number] = latest[number]
                continue
            with self.changed:
                newest = writer.batches[-1] if writer.batches else None
            if newest is None:
                continue
            # The markers of its last transactions may still be on their way.
            visible = self.cluster.ends_of(newest)
            if all(visible[place] >= end for place, end in newest.items()):
                fresh[number] = newest
        return fresh, len(fresh) == len(made)

    def _time_done(self, writers: Sequence[QueryReading]) -> int | None:
        """Until when all is done that these queries read, and those that they read from; None: all of it."""
        until_ms: int | None = None
        for each in _with_those_before(writers):
            with self.changed:
                done = each.done
            if done is None:
                return _NOTHING_YET_MS
            internal = {
                place
                for number, reads in enumerate(each.inputs)
                if reads.writer is not None
                for place in done
                if place.topic in each.topics[number]
            }
            ends = self.cluster.ends_of(each.places(done) - internal)
            # What is not committed yet is not done either.
            ends |= self.cluster.ends_of(internal, committed=False)
            unread = {Place(*at): Span(done.get(Place(*at), 0), end) for at, end in ends.items()}
            for place, time_ms in self.times.next_times(unread).items():
                if time_ms is not None:
                    until_ms = time_ms - 1 if until_ms is None else min(until_ms, time_ms - 1)
                elif place in internal and unread[place].size:
                    return _NOTHING_YET_MS
        return until_ms

    def places(self, done: Offsets) -> set[Place]:
        """The partitions of the query's inputs, those included that it has not seen yet."""
        topics = {place.topic for place in done}
        return {Place(topic, number) for topic in topics for number in self.cluster.partitions(topic)}

    def _begins(self, latest: Sequence[Offsets], starts: Sequence[Offsets]) -> list[Offsets]:
        """The starts with those of partitions that are new: their first offsets."""
        begins = []
        for start, end in zip(starts, latest, strict=True):
            found = dict(start)
            for topic in {place.topic for place in end.keys() - start.keys()}:
                firsts = self.cluster.start_positions(topic)
                found |= {
                    place: firsts.get(place.partition, 0)
                    for place in end.keys() - start.keys()
                    if place.topic == topic
                }
            begins.append(found)
        return begins


def _waits_for_time(query: PlannedQuery) -> bool:
    return event_time_of(query.stateful) is not None


def _joins_a_table(query: PlannedQuery) -> bool:
    state = None if query.stateful is None else query.stateful.facts.state
    return state is not None and isinstance(state.operator, StreamTableJoin)


def internal_topics_read(query: PlannedQuery) -> list[str]:
    """The topics that the query reads and others of the application write."""
    return [topic for topic in map(_internal_topic_read, query.sources) if topic is not None]


def _internal_topic_read(source: Node) -> str | None:
    """The topic, where another query of the application writes it."""
    reads = reads_of(source)
    return reads.topics.names[0] if reads.formats is None else None


def _internal_topic_written(sink: Node) -> str | None:
    writes = sink.facts.writes
    return writes.topic if writes is not None and writes.formats is None else None


def _with_those_before(writers: Sequence[QueryReading]) -> list[QueryReading]:
    """The queries and all whose output they read, those that write before those that read it."""
    found: list[QueryReading] = []

    def add(reading: QueryReading) -> None:
        if reading in found:
            return
        for each in reading.inputs:
            if each.writer is not None:
                add(each.writer)
        found.append(reading)

    for each in writers:
        add(each)
    return found


def _unread(start: Offsets, end: Offsets, limit: int | None) -> Unread:
    return Unread({place: Span(start[place], max(start[place], end[place])) for place in end}, limit)


def _later(starts: Offsets, ends: Offsets) -> Offsets:
    return {**starts, **{place: max(end, starts.get(place, 0)) for place, end in ends.items()}}


def _same(some: Sequence[Offsets], others: Sequence[Offsets]) -> bool:
    return all(one == other for one, other in zip(some, others, strict=True))
