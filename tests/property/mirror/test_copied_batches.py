"""Batches on their way: whatever the source has, the target gets the same records, and nothing a broker
refuses.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.cluster_requests import TopicPartition
from ottla.client.records.batches import ProducerIdentity
from ottla.mirror.core.batch_plans import Plan, encoded, plan_of, wanted_records
from ottla.mirror.source.copied_batch import CopiedBatch, batch_of
from ottla.protocol.batch_rewriting import rebuild_batch
from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NewRecord,
    TimestampType,
    crc_valid,
    decode_records,
    encode_batch,
    parse_batch_header,
)

HERE, THERE = TopicPartition("orders", 1), TopicPartition("a.orders", 1)

records = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=60),
        st.integers(0, 1 << 42),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=12,
)
producers = st.none() | st.builds(
    ProducerIdentity, st.integers(0, 1 << 60), st.integers(0, 32_000), st.booleans()
)


@settings(max_examples=60)
@given(
    records,
    st.sampled_from(list(Codec)),
    st.integers(0, 1 << 40),
    st.sets(st.integers(0, 11)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 12),
    st.sets(st.integers(0, 11), max_size=2),
    producers,
    st.integers(0, (1 << 31) - 1),
)
def test_the_same_records_get_there(
    new: list[NewRecord],
    codec: Codec,
    base_offset: int,
    compacted: set[int],
    append_time: bool,
    horizon: bool,
    transactional: bool,
    skipped: int,
    unwanted: set[int],
    producer: ProducerIdentity | None,
    sequence: int,
) -> None:
    # given a batch as a source may have it
    data = encode_batch(
        new,
        base_offset=base_offset,
        leader_epoch=7,
        codec=codec,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=17,
        transactional=transactional,
        timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
    )
    header = parse_batch_header(data)
    kept = [each for each in decode_records(data) if each.offset - base_offset not in compacted]
    if compacted or horizon:
        data = rebuild_batch(header, kept, delete_horizon_ms=99 if horizon else None)
        header = parse_batch_header(data)
    first_wanted = base_offset + skipped
    refused = {base_offset + each for each in unwanted}
    wanted = [
        each for each in decode_records(data) if each.offset >= first_wanted and each.offset not in refused
    ]
    # when it is copied by its plan
    plan = plan_of(header, first_wanted, refused)
    if plan is Plan.SKIP:
        assert not wanted
        return
    if plan is Plan.COPY:
        offsets = range(header.base_offset, header.next_offset)
        batch = CopiedBatch(THERE, HERE, memoryview(bytearray(data)), header, offsets)
    else:
        found = wanted_records(data, 0, first_wanted, refused)
        if not found:
            assert not wanted
            return
        new_batch = encoded(header, found)
        batch = batch_of(THERE, HERE, new_batch.data, new_batch.offsets)
    batch.base_sequence = sequence
    copies = [batch] if batch.count == 1 else [batch, *batch.halves()]
    for each in copies:
        # twice: a batch is sent again after a lost connection
        sent = bytes(each.encoded(b"", Codec.NONE, producer))
        assert sent == bytes(each.encoded(b"", Codec.NONE, producer))
        copied = parse_batch_header(sent)
        assert crc_valid(sent, 0, copied)
        assert copied.base_offset == 0
        assert copied.record_count == copied.last_offset_delta + 1 == each.count
        assert not copied.attributes & (LOG_APPEND_TIME | DELETE_HORIZON)
        assert copied.compression is codec
        assert (copied.producer_id, copied.base_sequence) == (
            (-1, each.base_sequence) if producer is None else (producer.producer_id, each.base_sequence)
        )
        assert copied.is_transactional == (producer is not None and producer.is_transactional)
    # then it has the wanted records, whole and in halves
    told = [(each.timestamp, each.key, each.value, each.headers) for each in wanted]
    assert list(batch.sources) == [each.offset for each in wanted]
    assert [each[1:] for each in decode_records(bytes(batch.data))] == told
    if len(copies) == 3:
        halves = [each[1:] for half in copies[1:] for each in decode_records(bytes(half.data))]
        assert halves == told
        assert copies[2].base_sequence == (sequence + copies[1].count) & 0x7FFFFFFF
