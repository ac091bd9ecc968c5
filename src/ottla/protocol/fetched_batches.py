"""Checks a leader's batches before a follower appends them: whole batches, CRCs, offsets and epochs.

The leader has validated the records; the follower only checks that they arrived unchanged, and that they
belong after its log's end. An answer may end in a part of a batch, which is left out and fetched again.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import BatchHeader, check_crc, iterate_headers
from ottla.protocol.schema import Buffer


class FetchedBatches(NamedTuple):
    """Consecutive whole batches and their headers; empty without one whole batch."""

    headers: list[BatchHeader]
    data: memoryview


def check_fetched(records: Buffer, fetch_offset: int, leader_epoch: int) -> FetchedBatches:
    """The whole batches of an answer to a fetch from `fetch_offset` on.

    The first one holds that offset or a later one (a compacted log has gaps), each next one begins after the
    one before it, and none is of a later epoch than the leader's. Raises CorruptBatch.
    """
    data = memoryview(records)
    headers: list[BatchHeader] = []
    end = 0
    next_offset = fetch_offset
    for position, header in iterate_headers(data):
        first = header.base_offset
        last = first + header.last_offset_delta
        # The first batch may begin before the offset, if the leader's log starts within a batch.
        if last < next_offset or (headers and first < next_offset):
            raise CorruptBatch(f"offsets {first} to {last} where {next_offset} and more were expected")
        if header.partition_leader_epoch > leader_epoch:
            raise CorruptBatch(
                f"a batch at offset {first} is of epoch {header.partition_leader_epoch}, "
                f"after the leader's {leader_epoch}"
            )
        check_crc(data, position, header)
        headers.append(header)
        next_offset = last + 1
        end = position + header.size_bytes
    return FetchedBatches(headers, data[:end])
