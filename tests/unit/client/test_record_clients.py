"""Parts of reading and writing records without I/O: partitions of keys, assignment, batches, visibility."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.cluster_requests import TopicPartition
from ottla.client.records.batches import (
    Gathering,
    ProducerIdentity,
    column_batches,
)
from ottla.client.records.group import range_assignment
from ottla.client.records.partitioner import Partitioner, murmur2
from ottla.client.records.visibility import Visibility
from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import (
    BatchHeader,
    NewRecord,
    decode_records,
    encode_batch,
    encode_end_transaction_marker,
    iterate_headers,
    parse_batch_header,
)

PLACE = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_kafkas_own_tests(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_records_without_a_key_stay_in_a_partition_until_the_batch_is_full() -> None:
    partitioner = Partitioner(5, [1, 3, 4], random.Random(1))
    chosen = set()
    for _ in range(50):
        before = partitioner.sticky
        assert partitioner.sticky == before
        chosen.add(before)
        partitioner.move_on()
        assert partitioner.sticky != before
    assert chosen == {1, 3, 4}


def test_partitions_are_dealt_out_in_ranges() -> None:
    members = {"b": ["t", "u"], "a": ["t"], "c": ["t", "missing"]}
    assert range_assignment(members, {"t": 7, "u": 2}) == {
        "a": [TopicPartition("t", index) for index in (0, 1, 2)],
        "b": [
            TopicPartition("t", 3),
            TopicPartition("t", 4),
            TopicPartition("u", 0),
            TopicPartition("u", 1),
        ],
        "c": [TopicPartition("t", 5), TopicPartition("t", 6)],
    }


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=300)), min_size=1),
    st.integers(1, 700),
    st.booleans(),
)
def test_batches_hold_all_records_in_order_and_are_not_too_large(
    records: list[tuple[bytes | None, bytes | None]], batch_bytes: int, keyed: bool
) -> None:
    keys = [key for key, _ in records] if keyed else None
    values = [value for _, value in records]
    batches = list(column_batches(PLACE, keys, values, range(10, 10 + len(values)), 170, batch_bytes))
    found = []
    for batch in batches:
        assert batch.count == 1 or len(batch.compressed(Codec.NONE)) <= 2 * batch_bytes + 64
        batch.base_sequence = 4
        data = batch.encoded(batch.compressed(Codec.NONE), Codec.NONE, ProducerIdentity(9, 1))
        header = parse_batch_header(data)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 4)
        found += [(record.key, record.value) for record in decode_records(data)]
    assert found == [(key if keyed else None, value) for key, value in records]
    assert [source for batch in batches for source in batch.sources] == list(range(10, 10 + len(values)))


@given(st.lists(st.tuples(st.binary(max_size=5), st.integers(0, 1 << 40)), min_size=2, max_size=20))
def test_a_batch_in_two_has_the_same_records_and_sequence_numbers(records: list[tuple[bytes, int]]) -> None:
    gathering = Gathering(PLACE)
    for index, (value, timestamp) in enumerate(records):
        gathering.add(NewRecord(None, value, timestamp, (("h", None),) if index % 3 == 0 else ()), index)
    batch = gathering.close()
    assert gathering.records == []
    batch.base_sequence = 0x7FFFFFFF
    first, second = batch.halves()
    assert second.base_sequence == first.count - 1
    read = []
    for half in (first, second):
        data = half.encoded(half.compressed(Codec.GZIP), Codec.GZIP, ProducerIdentity(1, 0))
        read += [(record.value, record.timestamp, record.headers) for record in decode_records(data)]
    assert read == [
        (value, timestamp, (("h", None),) if index % 3 == 0 else ())
        for index, (value, timestamp) in enumerate(records)
    ]


def batches_of(*pieces: bytes) -> tuple[bytes, list[tuple[int, BatchHeader]]]:
    data = b"".join(pieces)
    return data, list(iterate_headers(data))


def test_aborted_transactions_are_invisible_up_to_their_marker() -> None:
    """Two producers at once: one aborts, the other commits, and each goes on with another transaction."""
    offset = 0

    def sent(producer: int | None) -> bytes:
        nonlocal offset
        extra = (
            {} if producer is None else {"producer_id": producer, "producer_epoch": 0, "transactional": True}
        )
        data = encode_batch([NewRecord(None, b"%d" % offset, 1)], base_offset=offset, **extra)
        offset += 1
        return data

    def ended(producer: int, committed: bool) -> bytes:
        nonlocal offset
        data = encode_end_transaction_marker(
            committed=committed, coordinator_epoch=0, producer_id=producer, producer_epoch=0, timestamp=1,
            base_offset=offset,
        )  # fmt: skip
        offset += 1
        return data

    pieces = [
        sent(None), sent(1), sent(2), sent(1), ended(1, False), sent(2), sent(1), ended(2, True), sent(2),
        ended(1, True), sent(None), ended(2, False), sent(2),
    ]  # fmt: skip
    aborted = [(8, 2), (1, 1)]

    def visible(found: Sequence[tuple[int, BatchHeader]]) -> list[int]:
        return [header.base_offset for _, header in found if not header.is_control]

    data, batches = batches_of(*pieces)
    expected = [0, 2, 5, 6, 10, 12]
    assert visible(Visibility().visible(data, batches, aborted)) == expected
    # over several fetches, of which each names the aborted transactions in its range
    seen = Visibility()
    found = []
    for start in range(0, len(pieces), 3):
        data, batches = batches_of(*pieces[start : start + 3])
        named = [(first, producer) for first, producer in aborted if first < start + 3]
        ongoing = [one for one in named if (one == (1, 1) and start <= 4) or (one == (8, 2) and start <= 11)]
        found += visible(seen.visible(data, batches, ongoing))
    assert found == expected
