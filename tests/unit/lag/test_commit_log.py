"""Records of `__consumer_offsets` as commits."""

from __future__ import annotations

import pytest

from ottla.client.cluster_requests import TopicPartition
from ottla.lag.commit_log import LoggedCommit, commit_of
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.framing import encode_coordinator_key, encode_coordinator_value
from ottla.protocol.records.group_metadata_key import GroupMetadataKey
from ottla.protocol.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.protocol.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue

PLACE = TopicPartition("orders", 3)
KEY = encode_coordinator_key(OffsetCommitKey(group="packers", topic="orders", partition=3))


@pytest.mark.parametrize("version", range(5))
def test_a_commit_has_its_own_time_and_the_offset_of_its_record_as_order(version: int) -> None:
    value = OffsetCommitValue(offset=42, metadata="", commit_timestamp=1_700_000_000_000)
    found = commit_of(KEY, encode_coordinator_value(value, version), 7)
    assert found == LoggedCommit("packers", PLACE, 42, 7, 1_700_000_000_000)


def test_commits_of_old_brokers_are_read_too() -> None:
    key = encode_coordinator_key(LegacyOffsetCommitKey(group="packers", topic="orders", partition=3))
    value = encode_coordinator_value(LegacyOffsetCommitValue(offset=1, metadata="", commit_timestamp=5), 0)
    assert commit_of(key, value, 0) == LoggedCommit("packers", PLACE, 1, 0, 5)


def test_a_tombstone_says_that_the_offset_is_gone() -> None:
    assert commit_of(KEY, None, 9) == LoggedCommit("packers", PLACE, None, 9, 0)


def test_records_of_other_kinds_are_no_commits() -> None:
    assert commit_of(encode_coordinator_key(GroupMetadataKey(group="packers")), b"", 0) is None


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x7f\xff", KEY[:5]])
def test_forms_that_are_not_known_raise(key: bytes) -> None:
    with pytest.raises(ProtocolError):
        commit_of(key, b"\x00\x01", 0)
