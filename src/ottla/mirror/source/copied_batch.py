"""Batches on their way to the other cluster: what a producer sets is patched in, the rest is as it was.

Producing a batch again takes another producer id, epoch, base sequence and transactional bit, 14 bytes and a
bit of its header, and the CRC, which is computed anew; the records are neither decompressed nor looked at.
The CRC that the source gave is checked before, or a byte that was damaged on the way would get a CRC that is
right.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster_requests import TopicPartition
from ottla.client.records.batches import ProducerIdentity
from ottla.mirror.core.batch_plans import encoded
from ottla.protocol.compression import Codec
from ottla.protocol.crc import crc32c
from ottla.protocol.record_batch import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    decode_records,
    parse_batch_header,
)

_START: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qhi")
_LEADER_EPOCH_AT: Final = 12
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_PRODUCER_AT: Final = 43


@dataclass(slots=True)
class CopiedBatch:
    """A batch of the source for a partition of the target; satisfies `client.records.batches.Batch`.

    data: the whole batch, which is written to. sources: the offsets of its records in the source.
    """

    partition: TopicPartition
    origin: TopicPartition
    data: memoryview
    header: BatchHeader
    sources: Sequence[int]
    base_sequence: int = NO_SEQUENCE

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.sources)

    @property
    def size_bytes(self) -> int:
        """The bytes of the batch."""
        return len(self.data)

    def compressed(self, codec: Codec, level: int | None = None) -> bytes:
        """Nothing: the records stay as they are."""
        return b""

    def encoded(self, payload: bytes, codec: Codec, producer: ProducerIdentity | None) -> memoryview:
        """The batch for a Produce request; its base sequence is set before."""
        patch_producer(self.data, self.header, producer, self.base_sequence)
        return self.data

    def halves(self) -> tuple[CopiedBatch, CopiedBatch]:
        """The batch as two, encoded anew; sequence numbers go on."""
        middle = self.count // 2
        first, second = self._part(0, middle), self._part(middle, self.count)
        if self.base_sequence != NO_SEQUENCE:
            first.base_sequence = self.base_sequence
            second.base_sequence = (self.base_sequence + middle) & 0x7FFFFFFF
        return first, second

    def _part(self, start: int, stop: int) -> CopiedBatch:
        records = decode_records(self.data)[start:stop]
        return batch_of(
            self.partition, self.origin, encoded(self.header, records).data, self.sources[start:stop]
        )


def batch_of(
    partition: TopicPartition, origin: TopicPartition, data: bytes, sources: Sequence[int]
) -> CopiedBatch:
    """A batch that was encoded anew."""
    own = memoryview(bytearray(data))
    return CopiedBatch(partition, origin, own, parse_batch_header(own), sources)


def patch_producer(
    data: memoryview, header: BatchHeader, producer: ProducerIdentity | None, base_sequence: int
) -> None:
    """Make a whole batch one of this producer, with offsets from 0 on, as every producer's are.

    Doing it again with the same values changes nothing.
    """
    attributes = header.attributes & ~TRANSACTIONAL
    producer_id, epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if producer is not None:
        producer_id, epoch = producer.producer_id, producer.epoch
        attributes |= TRANSACTIONAL if producer.is_transactional else 0
    _START.pack_into(data, 0, 0)
    _LEADER_EPOCH.pack_into(data, _LEADER_EPOCH_AT, NO_LEADER_EPOCH)
    _ATTRIBUTES.pack_into(data, _CRC_FROM, attributes)
    _PRODUCER.pack_into(data, _PRODUCER_AT, producer_id, epoch, base_sequence)
    _CRC.pack_into(data, _CRC_AT, crc32c(data[_CRC_FROM:]))
