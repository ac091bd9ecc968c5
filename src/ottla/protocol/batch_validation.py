"""What a produced batch must be before the broker appends it, checked by its header wherever that is enough.

Kafka looks at every record it is sent; here records are looked at only where the topic's settings ask for it:
keys on compacted topics, the oldest timestamp when `message.timestamp.before.max.ms` is set, another codec
when `compression.type` names one. Otherwise the header and the CRC decide:

- exactly one batch of magic 2 with base offset 0, not larger than `max.message.bytes`, its CRC right,
- one record at least, and as many as offsets; no control batch; a codec that exists (zstd from v7 on),
- with a producer id also an epoch and a sequence; no transaction without a producer id,
- timestamps of the producer, the newest within `message.timestamp.after.max.ms`.

Errors are Kafka's of the same case. Where single records are at fault the error lists the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from ottla.protocol.batch_rewriting import recompress_batch
from ottla.protocol.compression import Codec
from ottla.protocol.errors import (
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from ottla.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    UnsupportedMagic,
    check_crc,
    parse_batch_header,
    patch_log_append_time,
)
from ottla.protocol.record_queries import null_key_indexes, record_timestamps

NO_LIMIT_MS = (1 << 63) - 1
MAX_RECORD_ERRORS = 1000
"""A batch of 1 MB may unfold to millions of records: the errors of the first ones say enough."""
OLD_MAGICS = (0, 1)


@dataclass(frozen=True, slots=True)
class BatchRules:
    """A topic's settings that produced batches must follow; made once a change of the settings."""

    max_message_bytes: int = 1024 * 1024 + 12
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = NO_LIMIT_MS
    timestamp_after_max_ms: int = 60 * 60 * 1000
    codec: Codec | None = None
    """The topic's `compression.type`; None for `producer`, which keeps what was sent."""
    codec_level: int | None = None


@dataclass(frozen=True, slots=True)
class RecordError:
    """One record that was refused: its place in the batch, 0 for the first, and why."""

    batch_index: int
    message: str


class RejectedRecords(InvalidRecord):
    """INVALID_RECORD for single records."""

    def __init__(self, record_errors: Iterable[RecordError]) -> None:
        self.record_errors = tuple(record_errors)
        super().__init__(f"one or more records were refused, the first: {self.record_errors[0].message}")

    @property
    def batch_indexes(self) -> tuple[int, ...]:
        """The places in the batch of the records at fault."""
        return tuple(error.batch_index for error in self.record_errors)


class RejectedTimestamps(InvalidTimestamp):
    """INVALID_TIMESTAMP for single records."""

    def __init__(self, record_errors: Iterable[RecordError]) -> None:
        self.record_errors = tuple(record_errors)
        super().__init__("the timestamps of one or more records are outside the range that the topic accepts")

    @property
    def batch_indexes(self) -> tuple[int, ...]:
        """The places in the batch of the records at fault."""
        return tuple(error.batch_index for error in self.record_errors)


def validate_produced(
    records: bytes | bytearray | memoryview | None,
    rules: BatchRules,
    now_ms: int,
    *,
    zstd_allowed: bool = True,
) -> tuple[BatchHeader, memoryview]:
    """The header and the bytes of the one batch in `records`, ready for offset and epoch to be patched in.

    The bytes are those of `records` when these are writable and the settings leave them alone, otherwise a
    copy. `zstd_allowed` is false for Produce below v7. Raises CorruptBatch (CORRUPT_MESSAGE), or the
    KafkaErrors InvalidRecord, InvalidTimestamp, MessageTooLarge and UnsupportedCompressionType.
    """
    if not records:
        raise InvalidRecord("the produce request has no record batch for the partition")
    try:
        header = parse_batch_header(records)
    except UnsupportedMagic as problem:
        if problem.magic in OLD_MAGICS:
            raise InvalidRecord(str(problem)) from None
        raise
    size_bytes = header.size_bytes
    if size_bytes > rules.max_message_bytes:
        raise MessageTooLarge(
            f"the record batch takes {size_bytes} bytes, max.message.bytes is {rules.max_message_bytes}"
        )
    if size_bytes > len(records):
        # Kafka sees no batch at all here, and its clients would try again after CORRUPT_MESSAGE
        raise InvalidRecord(f"the record batch takes {size_bytes} bytes, {len(records)} were sent")
    check_crc(records, 0, header)
    if size_bytes != len(records):
        _refuse_trailing(records, size_bytes)
    _check_header(header, zstd_allowed)
    batch = memoryview(records)
    _check_records(batch, header, rules, now_ms)
    return _rewritten(batch, header, rules, now_ms)


def _refuse_trailing(records: bytes | bytearray | memoryview, size_bytes: int) -> None:
    trailing_bytes = len(records) - size_bytes
    if trailing_bytes >= BATCH_HEADER_BYTES:
        parse_batch_header(records, size_bytes)
        raise InvalidRecord("the produce request has more than one record batch for the partition")
    raise InvalidRecord(f"{trailing_bytes} bytes follow the record batch")


def _check_header(header: BatchHeader, zstd_allowed: bool) -> None:
    if header.base_offset != 0:
        raise InvalidRecord(f"the base offset of a produced batch is 0, not {header.base_offset}")
    count = header.record_count
    if count != header.last_offset_delta + 1:  # which is 1 at least, or parsing had refused it
        raise InvalidRecord(
            f"the batch has {count} records and {header.last_offset_delta + 1} offsets, not one offset each"
        )
    attributes = header.attributes
    if attributes & CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRecord(
                f"the batch of producer id {header.producer_id} has epoch {header.producer_epoch} "
                f"and sequence {header.base_sequence}"
            )
    elif attributes & TRANSACTIONAL:
        raise InvalidRecord("the batch is transactional and has no producer id")
    codec_id = attributes & CODEC_MASK
    if codec_id > Codec.ZSTD:
        raise UnsupportedCompressionType(f"compression type {codec_id} does not exist")
    if not zstd_allowed and codec_id == Codec.ZSTD:
        raise UnsupportedCompressionType("zstd needs Produce version 7 or newer")
    if attributes & LOG_APPEND_TIME:
        raise InvalidTimestamp("a producer may not set the timestamp type to LogAppendTime")


def _check_records(batch: memoryview, header: BatchHeader, rules: BatchRules, now_ms: int) -> None:
    if rules.compacted:
        keyless = tuple(islice(null_key_indexes(batch, 0, header), MAX_RECORD_ERRORS))
        if keyless:
            raise RejectedRecords(
                RecordError(index, "a record without a key cannot be written to a compacted topic")
                for index in keyless
            )
    if rules.log_append_time:
        return
    newest = now_ms + rules.timestamp_after_max_ms
    if header.max_timestamp > newest or rules.timestamp_before_max_ms < NO_LIMIT_MS:
        _check_timestamps(batch, header, now_ms - rules.timestamp_before_max_ms, newest)


def _check_timestamps(batch: memoryview, header: BatchHeader, oldest: int, newest: int) -> None:
    outside = (
        RecordError(index, f"the timestamp {timestamp} is outside {oldest} to {newest}")
        for index, (_offset, timestamp) in enumerate(record_timestamps(batch, 0, header))
        if timestamp != NO_TIMESTAMP and not oldest <= timestamp <= newest
    )
    errors = tuple(islice(outside, MAX_RECORD_ERRORS))
    if errors:
        raise RejectedTimestamps(errors)
    if header.max_timestamp > newest:
        raise InvalidTimestamp(f"the batch claims a newest timestamp of {header.max_timestamp}")


def _rewritten(
    batch: memoryview, header: BatchHeader, rules: BatchRules, now_ms: int
) -> tuple[BatchHeader, memoryview]:
    """The batch as the topic wants it: its codec, its timestamps; in writable memory."""
    if rules.codec is not None and rules.codec != header.codec_id:
        batch = memoryview(
            bytearray(recompress_batch(batch, 0, header, rules.codec, level=rules.codec_level))
        )
        header = parse_batch_header(batch)
        if header.size_bytes > rules.max_message_bytes:
            raise MessageTooLarge(
                f"the record batch takes {header.size_bytes} bytes in the topic's codec, "
                f"max.message.bytes is {rules.max_message_bytes}"
            )
    elif batch.readonly:
        batch = memoryview(bytearray(batch))
    if rules.log_append_time:
        header = patch_log_append_time(batch, 0, header, now_ms)
    return header, batch
