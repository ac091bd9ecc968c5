"""Push queries over a source's topic: one reader a topic, whatever the number of its queries.

The reader is a thread: it reads committed records, makes each a row once for all queries of a source, and
gives each query what its selection lets through. A query's rows wait in a bounded queue on the event loop;
one whose client does not take them is ended with an error, and never holds up the others. A query that begins
with what is already there catches up with a reader of its own, up to the place where the shared one stands.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, Message, TopicPartition

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.client.reading import ends_reading
from ottla.sql.language.errors import SqlError
from ottla.sql.rows.codecs import BadRecord, KafkaRecord, Row, RowCodec
from ottla.sql.rows.messages import record_of
from ottla.sql.rows.port import OutRow
from ottla.sql.rows.selecting import Selection

BATCH_RECORDS: Final = 2_000
CONSUME_SECONDS: Final = 0.05
MAX_WAITING_ROWS: Final = 100_000
CLOSE_SECONDS: Final = 10.0

log = logging.getLogger("ottla.sql")


class Outlet:
    """One push query's rows on their way to its client. Made on the event loop; `offer` is for any thread."""

    def __init__(self, query_id: str, selection: Selection, limit: int | None, most_rows: int) -> None:
        self.query_id = query_id
        self.selection = selection
        self.rows_sent = 0
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._most_rows = most_rows
        self._waiting: deque[Sequence[OutRow]] = deque()
        self._count = 0
        self._news = asyncio.Event()
        self.problem: SqlError | None = None
        """By which it has ended, if it has by one."""
        self.is_ended = False
        self.has_until: dict[int, int] = {}
        """By partition: the offset up to which it has its rows. Of the reader's thread."""

    def offer(self, rows: Sequence[OutRow]) -> None:
        """Give rows, from the reader's thread."""
        if rows and not self.is_ended:
            self._call(self._add, rows)

    def end(self, problem: SqlError | None = None) -> None:
        """No more rows come; from any thread."""
        self._call(self._end, problem)

    def _call(self, work: Callable[..., None], *given: object) -> None:
        try:
            self._loop.call_soon_threadsafe(work, *given)
        except RuntimeError:
            self.is_ended = True  # the loop is closed: nobody waits

    def _add(self, rows: Sequence[OutRow]) -> None:
        if self.is_ended:
            return
        if self._limit is not None:
            rows = rows[: self._limit]
            self._limit -= len(rows)
        self._waiting.append(rows)
        self._count += len(rows)
        if self._count > self._most_rows:
            self._waiting.clear()
            self._end(
                SqlError(
                    f"the query's rows were not taken: more than {self._most_rows} wait", None, "read faster"
                )
            )
        elif self._limit == 0:
            self._end(None)
        self._news.set()

    def _end(self, problem: SqlError | None) -> None:
        if not self.is_ended:
            self.is_ended = True
            self.problem = problem
        self._news.set()

    async def rows(self) -> AsyncIterator[Sequence[OutRow]]:
        """The rows, in chunks, to the end. Raises SqlError for an end by a failure."""
        while True:
            while self._waiting:
                chunk = self._waiting.popleft()
                self._count -= len(chunk)
                self.rows_sent += len(chunk)
                yield chunk
            if self.is_ended:
                if self.problem is not None:
                    raise self.problem
                return
            self._news.clear()
            await self._news.wait()


@dataclass(slots=True)
class _Feed:
    """The queries of one source within a topic's reader."""

    codec: RowCodec
    outlets: dict[str, Outlet] = field(default_factory=dict)


class TopicReader:
    """Reads one topic for all push queries over it, from its end on."""

    def __init__(self, topic: str, cluster: KafkaCluster) -> None:
        self.topic = topic
        self._cluster = cluster
        self._feeds: dict[str, _Feed] = {}
        self._lock = threading.Lock()
        """Of the feeds; held while a batch is given out, so that a query joins between two batches."""
        self._positions: dict[int, int] = {}
        self._is_placed = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"push {topic}", daemon=True)
        self.problem: str | None = None
        self._thread.start()

    def placed(self, timeout_seconds: float) -> bool:
        """Wait until it stands at the topic's end; whether it does."""
        return self._is_placed.wait(timeout_seconds)

    def join(self, codec: RowCodec, outlet: Outlet, at: Mapping[int, int] | None) -> Mapping[int, int] | None:
        """Feed a query from the next batch on. Returns None, or where the query has to be first.

        at: the offsets up to which it has its rows already; None for none.
        """
        with self._lock:
            if at is not None and any(at.get(each, 0) < place for each, place in self._positions.items()):
                return {**at, **{each: max(at.get(each, 0), p) for each, p in self._positions.items()}}
            feed = self._feeds.get(codec.source.name)
            if feed is None or feed.codec.source != codec.source:
                feed = self._feeds[codec.source.name] = _Feed(codec, {} if feed is None else feed.outlets)
            outlet.has_until = dict(at or {})
            feed.outlets[outlet.query_id] = outlet
            return None

    def leave(self, query_id: str) -> None:
        """Feed a query no more."""
        with self._lock:
            for feed in self._feeds.values():
                feed.outlets.pop(query_id, None)

    def close(self) -> None:
        """End it, and with it its queries."""
        self._stop.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        consumer: Consumer | None = None
        try:
            consumer = self._cluster.consumer({"auto.offset.reset": "latest"})
            partitions = self._cluster.partitions(self.topic)
            ends = self._cluster.end_positions(self.topic)
            self._positions = dict(ends)
            places = [TopicPartition(self.topic, each, ends.get(each, OFFSET_END)) for each in partitions]
            consumer.assign(places)
            self._is_placed.set()
            while not self._stop.is_set():
                self._give(consumer.consume(BATCH_RECORDS, CONSUME_SECONDS))
            self._end_all(None)
        except Exception as error:
            log.warning("push queries over topic %s end: %s", self.topic, error)
            self.problem = str(error) or type(error).__name__
            self._end_all(SqlError(f"the topic {self.topic} can't be read: {self.problem}", None))
        finally:
            self._is_placed.set()
            if consumer is not None:
                consumer.close()

    def _give(self, messages: Sequence[Message]) -> None:
        found = []
        for message in messages:
            error = message.error()
            if error is None:
                found.append(record_of(message))
            elif ends_reading(error):
                raise ClusterError(error.str())
        if not found:
            return
        with self._lock:
            for feed in self._feeds.values():
                if not feed.outlets:
                    continue
                rows = [row for each in found if (row := readable(feed.codec, each)) is not None]
                for outlet in list(feed.outlets.values()):
                    if outlet.is_ended:
                        del feed.outlets[outlet.query_id]
                    else:
                        give(outlet, rows)
            for each in found:
                self._positions[each.partition] = each.offset + 1

    def _end_all(self, problem: SqlError | None) -> None:
        with self._lock:
            for feed in self._feeds.values():
                for outlet in feed.outlets.values():
                    outlet.end(problem)
                feed.outlets.clear()


def give(outlet: Outlet, rows: Sequence[Row]) -> None:
    """Give a query what its selection lets through."""
    found: list[OutRow] = []
    until = outlet.has_until
    for row in rows:
        if not until or row["ROWOFFSET"] >= until.get(row["ROWPARTITION"], 0):
            found += outlet.selection.rows(row)
    outlet.offer(found)


def readable(codec: RowCodec, record: KafkaRecord) -> Row | None:
    """A record's row; None for one that is none, or can't be read, as queries skip those."""
    try:
        return codec.row(record)
    except BadRecord as problem:
        log.debug("%s", problem)
        return None


class Hub:
    """The readers of a server, one for each topic that has push queries."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._readers: dict[str, TopicReader] = {}
        self._queries: dict[str, set[str]] = {}
        """By topic: the queries that have asked for its reader, and not left."""
        self._lock = threading.Lock()

    def reader(self, topic: str, query_id: str) -> TopicReader:
        """The topic's reader for a query, begun if there is none. It stays until the query leaves."""
        with self._lock:
            self._queries.setdefault(topic, set()).add(query_id)
            found = self._readers.get(topic)
            if found is None or found.problem is not None:
                found = self._readers[topic] = TopicReader(topic, self._cluster)
            return found

    def leave(self, topic: str, query_id: str) -> None:
        """A query has ended; the last one takes its reader with it. Blocks."""
        with self._lock:
            found = self._readers.get(topic)
            if found is not None:
                found.leave(query_id)
            left = self._queries.get(topic, set())
            left.discard(query_id)
            if left:
                return
            self._queries.pop(topic, None)
            found = self._readers.pop(topic, None)
        if found is not None:
            found.close()

    def close(self) -> None:
        """End all. Blocks."""
        with self._lock:
            readers, self._readers = list(self._readers.values()), {}
            self._queries.clear()
        for each in readers:
            each.close()
