"""Reads the batches of a partition on a live broker, through fetches, for `ottla log dump --topic`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from ottla.cli.log.range import Range
from ottla.client.admin.partition_offsets import EARLIEST, FoundOffset, list_offsets
from ottla.client.batch_fetching import fetch_batches
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import crc_valid, iterate_headers
from ottla.storage.inspection.problem import Problem
from ottla.storage.inspection.segment_batches import StoredBatch

FETCH_BYTES: Final = 1024 * 1024


async def live_batches(
    client: ClusterRequests, partition: TopicPartition, wanted: Range
) -> AsyncIterator[StoredBatch | Problem]:
    """The partition's batches from the start of the range to the end of the log, or of the range.

    Raises ClusterError.
    """
    where = Path(str(partition))
    offset = await _start(client, partition, wanted)
    while offset is not None:
        answer = (await fetch_batches(client, {partition: offset}, FETCH_BYTES))[partition]
        if isinstance(answer, ClusterError):
            raise answer
        before = offset
        try:
            for position, header in iterate_headers(answer.records):
                if header.next_offset <= offset:
                    continue
                if wanted.is_over(header):
                    return
                data = answer.records[position : position + header.size_bytes]
                yield StoredBatch(where, position, header, crc_valid(data, 0, header), data)
                offset = header.next_offset
        except CorruptBatch as problem:
            yield Problem(where, str(problem), offset=offset)
            return
        if offset >= answer.high_watermark or offset == before:
            return


async def _start(client: ClusterRequests, partition: TopicPartition, wanted: Range) -> int | None:
    """The offset to begin with; None where no record is as late. Raises ClusterError."""
    if wanted.from_offset is not None:
        return wanted.from_offset
    at = EARLIEST if wanted.from_ms is None else wanted.from_ms
    found = (await list_offsets(client, {partition: at}))[partition]
    if not isinstance(found, FoundOffset):
        raise found
    return found.offset if found.offset >= 0 else None
