"""Offsets decoded by hand equal those of the message classes, and damaged ones are left to these."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.core.groups import coordinator_records
from ottla.core.groups.offset_bytes import read_offset
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.framing import (
    Coordinator,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue
from ottla.protocol.schema import ZERO_UUID

names = st.text(max_size=40)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)

keys = st.builds(OffsetCommitKey, group=names, topic=names, partition=ints)
values = st.builds(
    OffsetCommitValue,
    offset=longs,
    leader_epoch=ints,
    metadata=st.one_of(names, st.sampled_from(["m" * 126, "m" * 127, "m" * 128, "m" * 4096])),
    commit_timestamp=longs,
    expire_timestamp=longs,
    topic_id=st.one_of(st.just(ZERO_UUID), st.uuids()),
)


@settings(deadline=None)
@given(key=keys, value=values, version=st.integers(0, 4))
def test_offsets_decoded_by_hand_equal_those_of_the_message_classes(
    key: OffsetCommitKey, value: OffsetCommitValue, version: int
) -> None:
    key_bytes, value_bytes = encode_coordinator_key(key), encode_coordinator_value(value, version)
    read = read_offset(key_bytes, value_bytes)
    if version == 0 or (version == 4 and len(value.metadata.encode()) > 126):
        assert read is None
        return
    decoded = decode_coordinator_value(Coordinator.GROUP, key, value_bytes)
    assert read == (key.group, key.topic, key.partition, coordinator_records.committed_offset(decoded))


@settings(max_examples=1_000, deadline=None)
@given(key=keys, value=values, version=st.integers(1, 4), data=st.data())
def test_damaged_bytes_are_read_as_the_message_classes_do_or_not_at_all(
    key: OffsetCommitKey, value: OffsetCommitValue, version: int, data: st.DataObject
) -> None:
    parts = [encode_coordinator_key(key), encode_coordinator_value(value, version)]
    which = data.draw(st.integers(0, 1))
    at = data.draw(st.integers(0, len(parts[which]) - 1))
    change = data.draw(st.sampled_from(["cut", "flip", "insert"]))
    damaged = bytearray(parts[which])
    if change == "cut":
        del damaged[at:]
    elif change == "insert":
        damaged.insert(at, 7)
    else:
        damaged[at] ^= data.draw(st.integers(1, 255))
    parts[which] = bytes(damaged)
    read = read_offset(*parts)
    if read is not None:
        try:
            decoded_key = decode_coordinator_key(Coordinator.GROUP, parts[0])
            decoded = decode_coordinator_value(Coordinator.GROUP, decoded_key, parts[1])
        except ProtocolError as problem:
            raise AssertionError(f"read by hand, but {problem}") from problem
        assert isinstance(decoded_key, OffsetCommitKey)
        assert read[:3] == (decoded_key.group, decoded_key.topic, decoded_key.partition)
        assert read.offset == coordinator_records.committed_offset(decoded)
