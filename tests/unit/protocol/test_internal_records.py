"""Records of internal topics decode into the names and values of Kafka's own JSON."""

from __future__ import annotations

import struct
import uuid

import pytest

from ottla.protocol.errors import MalformedMessage
from ottla.protocol.internal_records import (
    DecodedRecord,
    RecordFormat,
    decode_control,
    decode_internal,
    format_of,
)
from ottla.protocol.message_json import camel_case, message_json
from ottla.protocol.record_batch import Record
from ottla.protocol.records.framing import (
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
)
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue
from ottla.protocol.records.topic_record import TopicRecord
from ottla.protocol.records.transaction_log_key import TransactionLogKey
from ottla.protocol.records.transaction_log_value import PartitionsSchema, TransactionLogValue


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(5, 1, key, value)


def test_an_offset_commit_and_its_tombstone() -> None:
    key = encode_coordinator_key(OffsetCommitKey(group="g", topic="t", partition=1))
    value = encode_coordinator_value(OffsetCommitValue(offset=9, leader_epoch=2, metadata="m"), 3)
    decoded = decode_internal(RecordFormat.OFFSETS, record(key, value))
    assert decoded == DecodedRecord(
        "OffsetCommit",
        {"group": "g", "topic": "t", "partition": 1},
        {"offset": 9, "leaderEpoch": 2, "metadata": "m", "commitTimestamp": 0},
        3,
    )
    assert decode_internal(RecordFormat.OFFSETS, record(key, None)).value is None


def test_a_transaction_with_tagged_fields_that_are_not_set() -> None:
    key = encode_coordinator_key(TransactionLogKey(transactional_id="x"))
    value = TransactionLogValue(
        producer_id=4, transaction_partitions=[PartitionsSchema(topic="t", partition_ids=[0, 2])]
    )
    decoded = decode_internal(RecordFormat.TRANSACTIONS, record(key, encode_coordinator_value(value, 1)))
    assert decoded.value is not None
    assert decoded.value["transactionPartitions"] == [{"topic": "t", "partitionIds": [0, 2]}]
    assert "previousProducerId" not in decoded.value
    value.previous_producer_id = 3
    decoded = decode_internal(RecordFormat.TRANSACTIONS, record(key, encode_coordinator_value(value, 1)))
    assert decoded.value is not None and decoded.value["previousProducerId"] == 3


def test_a_metadata_record_with_an_id() -> None:
    topic = TopicRecord(name="t", topic_id=uuid.UUID(int=1))
    decoded = decode_internal(RecordFormat.METADATA, record(None, encode_metadata_record(topic, 0)))
    assert decoded.name == "TopicRecord"
    assert decoded.value == {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}


@pytest.mark.parametrize("record_format", [one for one in RecordFormat if one is not RecordFormat.BYTES])
def test_a_record_of_a_newer_writer_has_no_name_and_damage_is_an_error(record_format: RecordFormat) -> None:
    framed = record_format in (RecordFormat.METADATA, RecordFormat.REMOTE_LOG)
    newer = record(None, b"\x01\xff\x01\x00") if framed else record(struct.pack(">h", 999), b"\0\0")
    assert decode_internal(record_format, newer).name is None
    for key, value in ((None, None), (b"", b""), (b"\0", b"\x01")):
        with pytest.raises(MalformedMessage):
            decode_internal(record_format, record(key, value))


def test_control_records() -> None:
    commit = record(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7))
    assert decode_control(commit) == DecodedRecord("COMMIT", None, {"coordinatorEpoch": 7}, 0)
    assert decode_control(record(struct.pack(">hh", 0, 77), b"")).name is None
    with pytest.raises(MalformedMessage):
        decode_control(record(struct.pack(">hh", 0, 2), None))


def test_names() -> None:
    assert format_of("__consumer_offsets") is RecordFormat.OFFSETS
    assert format_of("orders") is RecordFormat.BYTES
    assert camel_case("committed_leader_epoch") == "committedLeaderEpoch"
    shown = message_json(OffsetCommitValue(offset=1, leader_epoch=4), 0)
    assert "leaderEpoch" not in shown, "version 0 has no such field"
