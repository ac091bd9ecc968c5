"""Follows the topics of an audit on one cluster into a book: to their ends once, then as they grow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.audit.core.book import Book
from ottla.audit.core.delta import CaughtUp, Delta, parse_counts_record
from ottla.client.access import ClusterAccess
from ottla.client.admin.topics import NewTopic, create_topics
from ottla.client.audit.reports import REPORTS_TOPIC, MalformedReport, parse_report
from ottla.client.audit.topics import COUNTS_TOPIC, PARTITIONS, TOPIC_SETTINGS
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.offset_lookup import offsets_at
from ottla.client.records.reader import FetchedPart, RecordReader, Span
from ottla.client.records.visibility import Visibility
from ottla.protocol.errors import CorruptBatch, ErrorCode
from ottla.protocol.record_batch import check_crc, records_payload
from ottla.protocol.record_columns import decode_columns

BOTH: Final = (COUNTS_TOPIC, REPORTS_TOPIC)

_log = logging.getLogger("ottla.audit")


async def ensure_topics(cluster: ClusterRequests) -> None:
    """Create the audit's topics where they are not there yet. Raises ClusterError."""
    topics = [NewTopic(name, PARTITIONS, configs=settings) for name, settings in TOPIC_SETTINGS.items()]
    for found in (await create_topics(cluster, topics)).values():
        if isinstance(found, ClusterError) and found.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise found


class Follower:
    """Feeds a book from one cluster. malformed: records that could not be read, so far.

    rejected: told of deltas that did not go on at their partition's position.
    """

    def __init__(
        self,
        cluster: ClusterRequests,
        access: ClusterAccess,
        book: Book,
        topics: Sequence[str] = BOTH,
        rejected: Callable[[Delta], None] = lambda _: None,
    ) -> None:
        self.malformed = 0
        self._cluster = cluster
        self._access = access
        self._book = book
        self._topics = topics
        self._rejected = rejected
        self._positions: dict[TopicPartition, int] = {}
        self._visibility: dict[TopicPartition, Visibility] = {}

    async def load(self) -> None:
        """Read all that is there now. Raises ClusterError."""
        ends = await self._ends()
        spans = {partition: Span(0, end) for partition, end in ends.items()}
        reader = RecordReader(self._cluster, self._access, spans)
        try:
            while (part := await reader.next()) is not None:
                self._take(part)
        finally:
            await reader.close()
        self._positions = dict(ends)

    async def follow(self, changed: Callable[[], None] = lambda: None) -> None:
        """Read what comes, for ever; `changed` is called when there was something. Raises ClusterError."""
        spans = {partition: Span(at) for partition, at in self._positions.items()}
        reader = RecordReader(self._cluster, self._access, spans)
        try:
            while (part := await reader.next()) is not None:
                self._take(part)
                self._positions[part.partition] = part.next_offset
                if not reader.has_parts:
                    changed()
        finally:
            await reader.close()

    async def _ends(self) -> dict[TopicPartition, int]:
        partitions = [
            TopicPartition(topic.name or "", one.partition_index)
            for topic in await self._cluster.topics(self._topics)
            if not topic.error_code
            for one in topic.partitions
        ]
        return await offsets_at(self._cluster, partitions, read_committed=True)

    def _take(self, part: FetchedPart) -> None:
        visibility = self._visibility.setdefault(part.partition, Visibility())
        for value in _values(part, visibility):
            try:
                self._fold(part.partition.topic, value)
            except MalformedReport as problem:
                self.malformed += 1
                if self.malformed <= 10:
                    _log.warning("a record of %s is left out: %s", part.partition, problem)

    def _fold(self, topic: str, value: bytes | None) -> None:
        if topic == REPORTS_TOPIC:
            report = parse_report(value)
            if report is not None:
                self._book.report(report)
            return
        found = parse_counts_record(value)
        if isinstance(found, CaughtUp):
            self._book.caught_up(found)
        elif found is not None and not self._book.counts(found):
            self._rejected(found)


def _values(part: FetchedPart, visibility: Visibility) -> Iterator[bytes | None]:
    for position, header in visibility.visible(part.data, part.batches, part.aborted):
        if header.is_control:
            continue
        try:
            check_crc(part.data, position, header)
            columns = decode_columns(records_payload(part.data, position, header), header)
        except CorruptBatch as problem:
            _log.warning(
                "a batch of %s at offset %d is damaged: %s", part.partition, header.base_offset, problem
            )
            continue
        for offset, value in zip(columns.offsets, columns.values, strict=True):
            if offset >= part.start and (part.stop is None or offset < part.stop):
                yield value
