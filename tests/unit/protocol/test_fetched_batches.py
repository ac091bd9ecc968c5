"""The checks of a follower on its leader's batches."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import CorruptBatch
from ottla.protocol.fetched_batches import check_fetched
from ottla.protocol.record_batch import NewRecord, encode_batch, patch_base_offset_and_epoch


def batch(base_offset: int, count: int, epoch: int = 1) -> bytes:
    encoded = bytearray(encode_batch([NewRecord(b"k", b"v", 1_000)] * count))
    patch_base_offset_and_epoch(encoded, 0, base_offset, epoch)
    return bytes(encoded)


def test_whole_batches_are_taken_and_a_part_of_one_is_left() -> None:
    data = batch(5, 2) + batch(9, 1) + batch(10, 3)
    checked = check_fetched(data[:-7], 5, leader_epoch=1)
    assert [each.base_offset for each in checked.headers] == [5, 9]
    assert checked.data == batch(5, 2) + batch(9, 1)
    assert check_fetched(data[:30], 5, leader_epoch=1).headers == []


def test_the_first_batch_may_begin_before_the_offset() -> None:
    assert len(check_fetched(batch(5, 3), 7, leader_epoch=1).headers) == 1


@pytest.mark.parametrize(
    "data",
    [
        batch(5, 2)[:-1] + b"?",  # the CRC
        batch(3, 2),  # before the offset
        batch(5, 2) + batch(6, 1),  # one within the other
        batch(5, 1, epoch=2),  # of a later epoch than the leader's
        bytes(100),
    ],
)
def test_invalid_batches_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        check_fetched(data, 5, leader_epoch=1)
