"""The name that a coordinator's record belongs to, which decides on its partition, from the record's key."""

from __future__ import annotations

from collections.abc import Callable

from ottla.core.coordination.partitioning import is_stray
from ottla.core.share.keys import SharePartitionKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.framing import COORDINATOR_RECORDS, Coordinator, decode_coordinator_key
from ottla.protocol.records.share_snapshot_key import ShareSnapshotKey
from ottla.protocol.records.share_update_key import ShareUpdateKey

_NAME_START = 4
"""The position of the name, after the key's type and the name's length, two bytes each."""


def name_of(coordinator: Coordinator, key: bytes) -> str | None:
    """The group id, transactional id or share key; None if the key is of an unknown type or damaged."""
    kind = int.from_bytes(key[:2], "big")
    if kind not in COORDINATOR_RECORDS[coordinator]:
        return None
    if coordinator is Coordinator.SHARE:
        share = share_partition_of(key)
        return None if share is None else share.coordinator_key
    # All keys of groups and transactions begin with the name: the rest need not be read.
    end = _NAME_START + int.from_bytes(key[2:_NAME_START], "big")
    if not _NAME_START <= end <= len(key):
        return None
    try:
        return key[_NAME_START:end].decode()
    except UnicodeDecodeError:
        return None


def share_partition_of(key: bytes) -> SharePartitionKey | None:
    """The share partition that a key of `__share_group_state` names; None if the key is damaged."""
    try:
        decoded = decode_coordinator_key(Coordinator.SHARE, key)
    except ProtocolError:
        return None
    assert isinstance(decoded, ShareSnapshotKey | ShareUpdateKey)
    return SharePartitionKey(decoded.group_id, decoded.topic_id, decoded.partition)


def stray_test(coordinator: Coordinator, partition: int, partition_count: int) -> Callable[[bytes], bool]:
    """A test whether a record's key has a name that is a stray in the partition.

    Every record that is loaded is tested, so the result is kept for each name: a repeated one costs a look
    into a dictionary.
    """
    known: dict[bytes, bool] = {}
    look_up = known.get

    def look(named: bytes, key: bytes) -> bool:
        name = name_of(coordinator, key)
        known[named] = found = name is not None and is_stray(name, partition, partition_count)
        return found

    def test_whole(key: bytes) -> bool:
        found = look_up(key)
        return look(key, key) if found is None else found

    def test_first_name(key: bytes) -> bool:
        if len(key) < _NAME_START:
            return False
        named = key[2 : _NAME_START + (key[2] << 8 | key[3])]
        found = look_up(named)
        return look(named, key) if found is None else found

    return test_whole if coordinator is Coordinator.SHARE else test_first_name
