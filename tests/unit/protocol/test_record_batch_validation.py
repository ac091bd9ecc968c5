"""The validation of produced batches: Kafka's checks, and the errors of single records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.protocol.batch_validation import (
    LOOP_PAYLOAD_BYTES,
    LOOP_RECORDS,
    MAX_RECORD_ERRORS,
    BatchRules,
    HeavyBatch,
    RejectedRecords,
    RejectedTimestamps,
    validate_produced,
)
from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from ottla.protocol.record_batch import (
    NewRecord,
    TimestampType,
    crc_valid,
    decode_records,
    encode_batch,
    encode_end_transaction_marker,
    parse_batch_header,
    write_record,
)
from support.protocol.batches import with_field, with_payload

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
DEFAULTS = BatchRules()
RECORDS = [NewRecord(b"k%d" % number, b"v", NOW_MS - number) for number in range(4)]


def refused_indexes(error: RejectedRecords | RejectedTimestamps) -> tuple[int, ...]:
    return tuple(each.batch_index for each in error.record_errors)


def produced(codec: Codec = Codec.NONE, records: list[NewRecord] = RECORDS) -> bytes:
    return encode_batch(records, codec=codec)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_good_batch_stays_as_it_is(codec: Codec) -> None:
    batch = produced(codec)
    header, accepted = validate_produced(batch, DEFAULTS, NOW_MS)
    assert bytes(accepted) == batch
    assert header.size_bytes == len(batch)


def test_writable_bytes_are_not_copied_and_others_are() -> None:
    buffer = bytearray(b"xx" + produced())
    _, accepted = validate_produced(memoryview(buffer)[2:], DEFAULTS, NOW_MS)
    assert accepted.obj is buffer
    _, accepted = validate_produced(bytes(buffer[2:]), DEFAULTS, NOW_MS)
    assert not accepted.readonly


def test_an_idempotent_batch_is_taken() -> None:
    batch = encode_batch(
        RECORDS, producer_id=4, producer_epoch=0, base_sequence=2**31 - 2, transactional=True
    )
    header, _ = validate_produced(batch, DEFAULTS, NOW_MS)
    assert header.last_sequence == 1


BATCH = produced()
REFUSED: dict[str, tuple[bytes | None, type[Exception], str]] = {
    "no records": (None, InvalidRecord, "no record batch"),
    "no bytes": (b"", InvalidRecord, "no record batch"),
    "a cut header": (BATCH[:40], CorruptBatch, "bytes are left"),
    "a cut batch": (BATCH[:-1], InvalidRecord, "were sent"),
    "a wrong CRC": (BATCH[:-1] + b"x", CorruptBatch, "CRC"),
    "two batches": (BATCH + BATCH, InvalidRecord, "more than one record batch"),
    "bytes after the batch": (BATCH + b"x", InvalidRecord, "1 bytes follow"),
    "the old format": (BATCH[:16] + b"\x01" + BATCH[17:], InvalidRecord, "old message format"),
    "a base offset": (with_field(BATCH, 0, ">q", 5), InvalidRecord, "base offset"),
    "fewer offsets than records": (with_field(BATCH, 23, ">i", 2), InvalidRecord, "4 records and 3 offsets"),
    "more offsets than records": (with_field(BATCH, 23, ">i", 9), InvalidRecord, "4 records and 10 offsets"),
    "no record at all": (with_payload(BATCH, b"", 0), InvalidRecord, "0 records"),
    "a control batch": (
        encode_end_transaction_marker(
            committed=True, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp=NOW_MS
        ),
        InvalidRecord,
        "control",
    ),
    "a producer id without sequence": (
        encode_batch(RECORDS, producer_id=4, producer_epoch=0),
        InvalidRecord,
        "sequence -1",
    ),
    "a producer id without epoch": (
        encode_batch(RECORDS, producer_id=4, base_sequence=0),
        InvalidRecord,
        "epoch -1",
    ),
    "a transaction of nobody": (encode_batch(RECORDS, transactional=True), InvalidRecord, "no producer id"),
    "an unknown codec": (with_field(BATCH, 21, ">h", 7), UnsupportedCompressionType, "type 7"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_batch_is_refused(case: str) -> None:
    batch, error, why = REFUSED[case]
    with pytest.raises(error, match=why):
        validate_produced(batch, DEFAULTS, NOW_MS)


def test_the_largest_batch_is_max_message_bytes() -> None:
    validate_produced(BATCH, BatchRules(max_message_bytes=len(BATCH)), NOW_MS)
    with pytest.raises(MessageTooLarge, match=f"takes {len(BATCH)} bytes"):
        validate_produced(BATCH, BatchRules(max_message_bytes=len(BATCH) - 1), NOW_MS)
    # the claimed size is enough: a batch that is too large is not checked further
    with pytest.raises(MessageTooLarge):
        validate_produced(with_field(BATCH, 8, ">i", 2**30)[:8] + b"\x40" + BATCH[9:], DEFAULTS, NOW_MS)


def test_zstd_needs_version_7() -> None:
    batch = produced(Codec.ZSTD)
    validate_produced(batch, DEFAULTS, NOW_MS)
    with pytest.raises(UnsupportedCompressionType, match="version 7"):
        validate_produced(batch, DEFAULTS, NOW_MS, zstd_allowed=False)
    validate_produced(produced(Codec.LZ4), DEFAULTS, NOW_MS, zstd_allowed=False)


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_topics_take_no_record_without_a_key(codec: Codec) -> None:
    # given
    rules = BatchRules(compacted=True)
    mixed = [NewRecord(None, b"", NOW_MS), NewRecord(b"", b"", NOW_MS), NewRecord(None, b"", NOW_MS)]
    # when, then
    validate_produced(produced(codec), rules, NOW_MS)
    with pytest.raises(RejectedRecords, match="without a key") as caught:
        validate_produced(produced(codec, mixed), rules, NOW_MS)
    assert refused_indexes(caught.value) == (0, 2)
    assert caught.value.code.name == "INVALID_RECORD"


def test_the_errors_of_a_batch_of_many_bad_records_are_bounded() -> None:
    many = produced(Codec.ZSTD, [NewRecord(None, None, 0)] * (MAX_RECORD_ERRORS + 50))
    for rules in (BatchRules(compacted=True), BatchRules(timestamp_before_max_ms=1)):
        with pytest.raises((RejectedRecords, RejectedTimestamps)) as caught:
            validate_produced(many, rules, NOW_MS)
        assert refused_indexes(caught.value) == tuple(range(MAX_RECORD_ERRORS))


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_that_unfolds_to_more_than_the_topic_takes_is_refused(codec: Codec) -> None:
    # given: a value of 100 bytes and 7 more, without the two bytes of the record's length
    batch = produced(codec, [NewRecord(b"", b"", NOW_MS), NewRecord(b"", bytes(100), NOW_MS)])
    body_bytes = 107
    # then
    validate_produced(batch, BatchRules(max_decompressed_message_bytes=body_bytes), NOW_MS)
    too_small = BatchRules(max_decompressed_message_bytes=body_bytes - 1)
    if codec is Codec.NONE:  # only what is unfolded here is bounded
        validate_produced(batch, too_small, NOW_MS)
    else:
        with pytest.raises(InvalidRecord, match=r"larger than max\.decompressed\.message\.bytes"):
            validate_produced(batch, too_small, NOW_MS)


@pytest.mark.parametrize("codec", list(Codec))
def test_timestamps_outside_the_topics_range_are_refused(codec: Codec) -> None:
    # given
    rules = BatchRules(timestamp_before_max_ms=HOUR_MS, timestamp_after_max_ms=HOUR_MS)
    inside = [NewRecord(b"", b"", time) for time in (NOW_MS - HOUR_MS, NOW_MS, NOW_MS + HOUR_MS, -1)]
    outside = [NewRecord(b"", b"", time) for time in (NOW_MS - HOUR_MS - 1, NOW_MS, NOW_MS + HOUR_MS + 1)]
    # when, then
    validate_produced(produced(codec, inside), rules, NOW_MS)
    with pytest.raises(RejectedTimestamps) as caught:
        validate_produced(produced(codec, outside), rules, NOW_MS)
    assert refused_indexes(caught.value) == (0, 2)
    assert caught.value.code.name == "INVALID_TIMESTAMP"


def test_by_default_the_future_ends_in_an_hour_and_the_past_nowhere() -> None:
    validate_produced(produced(records=[NewRecord(b"", b"", 0)]), DEFAULTS, NOW_MS)
    with pytest.raises(RejectedTimestamps):
        validate_produced(produced(records=[NewRecord(b"", b"", NOW_MS + HOUR_MS + 1)]), DEFAULTS, NOW_MS)


def test_a_newest_timestamp_beyond_every_record_is_corrected() -> None:
    """Otherwise retention could be circumvented."""
    header, accepted = validate_produced(with_field(BATCH, 35, ">q", 2**62), DEFAULTS, NOW_MS)
    assert header.max_timestamp == NOW_MS
    assert crc_valid(accepted, 0, header)
    assert parse_batch_header(accepted) == header


def test_the_producers_timestamp_type_is_of_no_account_to_a_topic_of_create_time() -> None:
    claimed = encode_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    header, accepted = validate_produced(claimed, DEFAULTS, NOW_MS)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert crc_valid(accepted, 0, header)
    with pytest.raises(InvalidTimestamp, match="LogAppendTime"):
        validate_produced(claimed, BatchRules(log_append_time=True), NOW_MS)


def test_a_wrong_timestamp_outweighs_a_missing_key() -> None:
    rules = BatchRules(compacted=True, timestamp_before_max_ms=HOUR_MS)
    mixed = [NewRecord(None, b"", NOW_MS), NewRecord(b"k", b"", 5), NewRecord(None, b"", 6)]
    with pytest.raises(RejectedTimestamps) as caught:
        validate_produced(produced(records=mixed), rules, NOW_MS)
    assert refused_indexes(caught.value) == (0, 1, 2)


COMPACTED = BatchRules(compacted=True)
HEAVY = {
    "many records": (produced(records=RECORDS[:1] * (LOOP_RECORDS + 1)), COMPACTED),
    "much to unfold": (produced(Codec.ZSTD, [NewRecord(b"k", bytes(1 << 20), NOW_MS)]), COMPACTED),
    "much to compress": (
        produced(records=[NewRecord(b"k", bytes(LOOP_PAYLOAD_BYTES), NOW_MS)]),
        BatchRules(codec=Codec.GZIP),
    ),
}


@pytest.mark.parametrize("case", HEAVY)
def test_a_batch_that_would_hold_the_event_loop_is_left_to_a_thread(case: str) -> None:
    batch, rules = HEAVY[case]
    with pytest.raises(HeavyBatch):
        validate_produced(batch, rules, NOW_MS, on_loop=True)
    validate_produced(batch, rules, NOW_MS)


def test_ordinary_batches_are_checked_on_the_event_loop() -> None:
    large = [NewRecord(b"k", bytes(1 << 19), NOW_MS)]
    for rules, batch in [
        (DEFAULTS, produced(records=RECORDS[:1] * (LOOP_RECORDS + 1))),
        (COMPACTED, produced(records=large)),
        (BatchRules(codec=Codec.GZIP), produced(Codec.GZIP, large)),
        (BatchRules(codec=Codec.GZIP), produced()),
    ]:
        validate_produced(batch, rules, NOW_MS, on_loop=True)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("deltas", [(0, 2), (0, 0), (1, 0), (0,), (0, 1, 2)])
def test_records_are_counted_where_they_are_looked_at(codec: Codec, deltas: tuple[int, ...]) -> None:
    payload = bytearray()
    for delta in deltas:
        write_record(payload, RECORDS[0], delta, NOW_MS)
    batch = with_payload(produced(codec, RECORDS[:2]), compress(codec, payload))
    with pytest.raises((InvalidRecord, CorruptBatch)):
        validate_produced(batch, COMPACTED, NOW_MS)


def test_log_append_time_replaces_any_timestamp() -> None:
    rules = BatchRules(log_append_time=True, timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    header, accepted = validate_produced(produced(records=[NewRecord(b"k", b"v", 1)]), rules, NOW_MS)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert crc_valid(accepted, 0, header)
    assert decode_records(accepted)[0].timestamp == NOW_MS


@pytest.mark.parametrize("codec", list(Codec))
def test_a_topics_codec_replaces_the_producers(codec: Codec) -> None:
    for sent in Codec:
        header, accepted = validate_produced(produced(sent), BatchRules(codec=codec), NOW_MS)
        assert header.compression is codec
        assert not accepted.readonly
        assert decode_records(accepted) == decode_records(BATCH)


def test_a_batch_that_grows_too_large_in_the_topics_codec_is_refused() -> None:
    batch = produced(Codec.ZSTD, [NewRecord(b"k", bytes(10_000), NOW_MS)])
    with pytest.raises(MessageTooLarge, match="in the topic's codec"):
        validate_produced(batch, BatchRules(max_message_bytes=5000, codec=Codec.NONE), NOW_MS)


@pytest.mark.parametrize(
    "rules",
    [BatchRules(compacted=True), BatchRules(timestamp_before_max_ms=1), BatchRules(codec=Codec.SNAPPY)],
)
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_records_that_are_looked_at_must_be_readable(rules: BatchRules, codec: Codec) -> None:
    def refuse(batch: bytes) -> None:
        with pytest.raises((CorruptBatch, KafkaError)):
            validate_produced(batch, rules, NOW_MS)

    spoil: list[Callable[[bytes], bytes]] = [
        lambda batch: with_payload(batch, b"not compressed"),
        lambda batch: with_payload(batch, b""),
        lambda batch: with_payload(batch, batch[61:-5]),
    ]
    for change in spoil:
        refuse(change(produced(codec)))
