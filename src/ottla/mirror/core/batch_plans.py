"""What becomes of a fetched batch: copied as it is, encoded anew, or left out.

A batch can be copied whole if a producer could have sent it as it lies there: offsets without holes, the
producer's own timestamps, no delete horizon, and no record that is not wanted. The broker of the target would
refuse the others (a record count that does not fit the offsets, LogAppendTime), or read them wrong. Encoded
anew they hold the same records with the same timestamps; holes are closed, as by Kafka's own tool.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import NamedTuple

from ottla.protocol.record_batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    BatchHeader,
    NewRecord,
    Record,
    decode_records,
    encode_batch,
)
from ottla.protocol.schema import Buffer


class Plan(enum.Enum):
    """What becomes of a batch."""

    SKIP = enum.auto()
    COPY = enum.auto()
    ENCODE = enum.auto()


class Encoded(NamedTuple):
    """A batch that was encoded anew, and the offsets that its records have in the source."""

    data: bytes
    offsets: list[int]


def plan_of(header: BatchHeader, first_wanted: int, unwanted: Collection[int] = ()) -> Plan:
    """The plan of a committed batch. first_wanted: what is before it was copied already.

    unwanted: offsets of records that are left out, because the target does not take them.
    """
    if header.is_control or header.record_count == 0 or header.next_offset <= first_wanted:
        return Plan.SKIP
    if (
        header.base_offset < first_wanted
        or header.record_count != header.last_offset_delta + 1
        or header.attributes & (LOG_APPEND_TIME | DELETE_HORIZON)
        or (unwanted and any(header.base_offset <= each <= header.last_offset for each in unwanted))
    ):
        return Plan.ENCODE
    return Plan.COPY


def wanted_records(
    data: Buffer, position: int, first_wanted: int, unwanted: Collection[int] = ()
) -> list[Record]:
    """The records of a batch that are to be copied, with the timestamps that readers see.

    Raises CorruptBatch.
    """
    return [
        each
        for each in decode_records(data, position)
        if each.offset >= first_wanted and each.offset not in unwanted
    ]


def encoded(header: BatchHeader, records: list[Record]) -> Encoded:
    """Records of a batch as one that a producer could send, with the codec that they had.

    Raises CorruptBatch for a codec that does not exist.
    """
    new = [NewRecord(each.key, each.value, each.timestamp, each.headers) for each in records]
    return Encoded(encode_batch(new, codec=header.compression), [each.offset for each in records])
