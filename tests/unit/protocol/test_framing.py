"""Metadata records and the coordinators' keys and values, with their types and versions."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import MalformedMessage, UnsupportedApiVersion
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.records import framing
from ottla.protocol.records.framing import Coordinator
from ottla.protocol.records.group_metadata_key import GroupMetadataKey
from ottla.protocol.records.group_metadata_value import GroupMetadataValue
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.partition_record import PartitionRecord
from ottla.protocol.records.transaction_log_key import TransactionLogKey
from support.protocol.messages import all_messages, random_message


def test_a_metadata_record_has_frame_version_type_and_version_in_front() -> None:
    data = framing.encode_metadata_record(PartitionRecord(partition_id=5, leader=1), 2)
    assert data[:3] == bytes((1, 3, 2))
    assert data[3:] == PartitionRecord(partition_id=5, leader=1).encode(2)


def test_every_metadata_record_comes_back() -> None:
    dice = random.Random(1)
    seen = 0
    for cls in all_messages():
        if cls.KIND == "metadata" and not cls.NAME.startswith("Remote"):
            assert framing.metadata_record_class(cls.API_KEY or 0) is cls
            for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
                record = random_message(cls, version, dice)
                assert (
                    framing.decode_metadata_record(framing.encode_metadata_record(record, version)) == record
                )
            seen += 1
    assert seen == len(framing.METADATA_RECORDS)


def test_every_key_and_value_of_a_coordinator_comes_back() -> None:
    dice = random.Random(2)
    classes = {cls.NAME: cls for cls in all_messages() if cls.KIND.startswith("coordinator")}
    for coordinator, records in framing.COORDINATOR_RECORDS.items():
        for kind, name in records.items():
            key_class, value_class = classes.pop(f"{name}Key"), classes.pop(f"{name}Value")
            assert (kind, kind) == (key_class.API_KEY, value_class.API_KEY)
            key = random_message(key_class, 0, dice)
            data = framing.encode_coordinator_key(key)
            assert data[:2] == kind.to_bytes(2, "big")
            assert framing.decode_coordinator_key(coordinator, data) == key
            for version in range(value_class.MIN_VERSION, value_class.MAX_VERSION + 1):
                value = random_message(value_class, version, dice)
                data = framing.encode_coordinator_value(value, version)
                assert data[:2] == version.to_bytes(2, "big")
                assert framing.decode_coordinator_value(coordinator, key, data) == value
    assert not classes


def test_types_and_versions_from_the_future_are_told_from_damage() -> None:
    for data in (bytes((1, 99, 0)), bytes((1, 3, 9)), bytes((2, 3, 0))):
        with pytest.raises(UnsupportedApiVersion):
            framing.decode_metadata_record(data)
    with pytest.raises(UnsupportedApiVersion, match="record type 99 in __consumer_offsets"):
        framing.decode_coordinator_key(Coordinator.GROUP, b"\x00\x63abc")
    with pytest.raises(UnsupportedApiVersion):
        framing.decode_coordinator_value(Coordinator.GROUP, GroupMetadataKey(), b"\x00\x63abc")
    for data in (b"", b"\x01", b"\x01\x03", b"\x01\x03\x02", b"\xff" * 9):
        with pytest.raises(MalformedMessage):
            framing.decode_metadata_record(data)
    for data in (b"", b"\x00", b"\x00\x01", b"\x00\x01\x00\x05ab"):
        with pytest.raises(MalformedMessage):
            framing.decode_coordinator_key(Coordinator.GROUP, data)
        with pytest.raises(MalformedMessage):
            framing.decode_coordinator_value(Coordinator.GROUP, GroupMetadataKey(), data)


def test_a_message_of_another_kind_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="not a metadata record"):
        framing.encode_metadata_record(FetchRequest(), 12)
    with pytest.raises(ValueError, match="not a key"):
        framing.encode_coordinator_key(GroupMetadataValue())
    with pytest.raises(ValueError, match="not a value"):
        framing.encode_coordinator_value(OffsetCommitKey(), 0)
    with pytest.raises(ValueError, match="not a key"):
        framing.decode_coordinator_value(Coordinator.GROUP, GroupMetadataValue(), b"\0\0")


def test_the_same_number_means_another_record_in_another_topic() -> None:
    data = framing.encode_coordinator_key(TransactionLogKey(transactional_id="t"))
    assert framing.decode_coordinator_key(Coordinator.TRANSACTION, data) == TransactionLogKey(
        transactional_id="t"
    )
    with pytest.raises(MalformedMessage):
        framing.decode_coordinator_key(Coordinator.GROUP, data)
