"""Reads a partition of the source record by record, for a mirror with transforms or converters of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.client.records.visibility import Visibility
from ottla.connect.data.record import Header, Record, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.data.schema import Schema, Type
from ottla.connect.plugins.api import RetriableError
from ottla.mirror.core.batch_plans import Plan, plan_of, wanted_records
from ottla.mirror.core.gaps import Break
from ottla.mirror.core.policies import Flow
from ottla.mirror.source.fetching import FetchedPart, Fetcher, FetchSettings
from ottla.mirror.source.places import place_of, source_offset, topic_partition
from ottla.protocol.errors import ErrorCode

WAIT_SECONDS: Final = 0.02
_BYTES: Final = Schema(Type.BYTES)
_OPTIONAL_BYTES: Final = Schema(Type.BYTES, optional=True)

_log = logging.getLogger("ottla.mirror")


def read_records(
    flow: Flow,
    access: ClusterAccess,
    settings: FetchSettings,
    partition: SourcePartition,
    offset: SourceOffset | None,
) -> Iterator[Sequence[SourceRecord]]:
    """The committed records after an offset, without an end; an empty batch where there are none now.

    Raises RetriableError where the source can't be read now, ClusterError where it refuses.
    """
    with asyncio.Runner() as runner:
        reading = runner.run(_Reading.opened(flow, access, settings, partition, offset))
        try:
            while True:
                try:
                    yield runner.run(reading.next())
                except ClusterError as problem:
                    if problem.code is None or ErrorCode(problem.code).retriable:
                        raise RetriableError(str(problem)) from problem
                    raise
        finally:
            runner.run(reading.close())


class _Reading:
    def __init__(
        self, flow: Flow, partition: SourcePartition, cluster: ClusterRequests, fetcher: Fetcher
    ) -> None:
        self._flow = flow
        self._partition = partition
        self._cluster = cluster
        self._fetcher = fetcher
        self._visibility = Visibility()

    @classmethod
    async def opened(
        cls,
        flow: Flow,
        access: ClusterAccess,
        settings: FetchSettings,
        partition: SourcePartition,
        offset: SourceOffset | None,
    ) -> _Reading:
        place = place_of(topic_partition(partition), offset)
        cluster = ClusterRequests(access)
        fetcher = Fetcher(cluster, access, {place.partition: place}, settings)
        return cls(flow, partition, cluster, fetcher)

    async def next(self) -> list[SourceRecord]:
        match await self._fetcher.next(WAIT_SECONDS):
            case FetchedPart() as part:
                return self._records(part)
            case Break() as found:
                _log.warning("%s: %s", self._flow, found)
                self._visibility = Visibility()
        return []

    def _records(self, part: FetchedPart) -> list[SourceRecord]:
        topic = self._flow.remote_topic(part.partition.topic)
        found = []
        for position, header in self._visibility.visible(part.data, part.batches, part.aborted):
            if plan_of(header, part.start) is Plan.SKIP:
                continue
            for record in wanted_records(part.data, position, part.start):
                headers = tuple(Header(name, value, _OPTIONAL_BYTES) for name, value in record.headers)
                copied = Record(
                    topic,
                    part.partition.partition,
                    record.key,
                    _OPTIONAL_BYTES,
                    record.value,
                    _OPTIONAL_BYTES if record.value is None else _BYTES,
                    record.timestamp,
                    headers,
                )
                after = source_offset(record.offset + 1, part.topic_id)
                found.append(SourceRecord(copied, self._partition, after))
        return found

    async def close(self) -> None:
        await self._fetcher.close()
        await self._cluster.close()
