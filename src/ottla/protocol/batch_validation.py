"""Checks of a produced batch before its append, by the header alone if that is enough.

Kafka checks every record that it is sent; here records are checked only if the topic's settings require it:
keys on compacted topics, timestamps if `message.timestamp.before.max.ms` is set or the header's newest one is
beyond `message.timestamp.after.max.ms`, sizes in compressed batches if `max.decompressed.message.bytes` is
set, everything if `compression.type` names another codec. Otherwise the header and the CRC decide:

- exactly one batch of magic 2 with base offset 0, not larger than `max.message.bytes`, its CRC right,
- one record at least, and as many as offsets; no control batch; a codec that exists (zstd from v7 on),
- with a producer id also an epoch and a sequence; no transaction without a producer id,
- timestamps of the producer, the newest within `message.timestamp.after.max.ms`.

Errors are those of Kafka in the same case. An error about single records lists the first of them.

The differences to Kafka if records are not checked: Kafka answers INVALID_RECORD (UNKNOWN_SERVER_ERROR if it
cannot decompress) for records that do not follow the format or whose count differs from the header's, and
corrects a newest timestamp that is not that of the records; here they are kept as the producer sealed them
with its CRC. If records are checked, all of that is INVALID_RECORD, and so are offsets within the batch that
are not consecutive; Kafka accepts those in uncompressed batches, and renumbers when it compresses.

With some settings the cost of a batch is that of its records: one of 1 MiB may decompress to 128 MiB. A
caller on the event loop passes `on_loop`, and gets `HeavyBatch` if the check has to be done in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.protocol.compression import Codec, UnfoldsTooFar, compress
from ottla.protocol.errors import (
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from ottla.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    UnsupportedMagic,
    assemble_batch,
    check_crc,
    parse_batch_header,
    patch_log_append_time,
    patch_timestamps,
    records_payload,
)
from ottla.protocol.record_checks import RecordFaults, walk_records

NO_LIMIT_MS = (1 << 63) - 1
NO_LIMIT_BYTES = 2_147_483_639
"""The default of max.decompressed.message.bytes, more than a batch unfolds to."""
MAX_RECORD_ERRORS = 1000
"""A batch of 1 MB may decompress to millions of records: the errors of the first ones are enough."""
OLD_MAGICS = (0, 1)
LOOP_RECORDS = 2_000
"""The most records to check on the event loop: about a millisecond."""
LOOP_PAYLOAD_BYTES = 128 * 1024
"""The most bytes to decompress or compress there: 5 ms for gzip, the slowest. A larger compressed batch may
take long although it decompresses to nothing: gzip members may be empty.
"""


class HeavyBatch(Exception):
    """The check would block the event loop for too long: do it in a thread."""


@dataclass(frozen=True, slots=True)
class BatchRules:
    """A topic's settings for produced batches; made anew when a setting changes."""

    max_message_bytes: int = 1024 * 1024 + 12
    max_decompressed_message_bytes: int = NO_LIMIT_BYTES
    """The largest record in a compressed batch, without the bytes of its length."""
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = NO_LIMIT_MS
    timestamp_after_max_ms: int = 60 * 60 * 1000
    codec: Codec | None = None
    """The topic's `compression.type`; None for `producer`, which keeps the producer's codec."""
    codec_level: int | None = None

    @property
    def bounds_the_past(self) -> bool:
        """Whether old timestamps are refused, so that every record has to be checked."""
        return self.timestamp_before_max_ms < NO_LIMIT_MS and not self.log_append_time


@dataclass(frozen=True, slots=True)
class RecordError:
    """One refused record: its index in the batch, from 0, and the reason."""

    batch_index: int
    message: str


class RejectedRecords(InvalidRecord):
    """INVALID_RECORD for single records."""

    def __init__(self, record_errors: Iterable[RecordError]) -> None:
        self.record_errors = tuple(record_errors)
        super().__init__(f"one or more records were refused, the first: {self.record_errors[0].message}")


class RejectedTimestamps(InvalidTimestamp):
    """INVALID_TIMESTAMP for single records."""

    def __init__(self, record_errors: Iterable[RecordError]) -> None:
        self.record_errors = tuple(record_errors)
        super().__init__("the timestamps of one or more records are outside the range that the topic accepts")


def validate_produced(
    records: bytes | bytearray | memoryview | None,
    rules: BatchRules,
    now_ms: int,
    *,
    zstd_allowed: bool = True,
    on_loop: bool = False,
) -> tuple[BatchHeader, memoryview]:
    """The header and the bytes of the one batch in `records`, ready for offset and epoch to be patched in.

    The bytes are those of `records` if these are writable and the settings leave them unchanged, otherwise a
    copy. `zstd_allowed` is false for Produce below v7. Raises CorruptBatch (CORRUPT_MESSAGE), or the
    KafkaErrors InvalidRecord, InvalidTimestamp, MessageTooLarge and UnsupportedCompressionType. With
    `on_loop` raises HeavyBatch for work that belongs in a thread; nothing was changed then.
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
        # as in Kafka, which finds no batch here; clients would retry after CORRUPT_MESSAGE
        raise InvalidRecord(f"the record batch takes {size_bytes} bytes, {len(records)} were sent")
    check_crc(records, 0, header)
    if size_bytes != len(records):
        _refuse_trailing(records, size_bytes)
    _check_header(header, rules, zstd_allowed)
    batch = memoryview(records)
    newest = now_ms + rules.timestamp_after_max_ms
    too_new = header.max_timestamp > newest and not rules.log_append_time
    recompressed = rules.codec is not None and rules.codec != header.attributes & CODEC_MASK
    if (
        recompressed
        or rules.compacted
        or too_new
        or rules.bounds_the_past
        or _has_bounded_records(header, rules)
    ):
        return _with_records_checked(batch, header, rules, now_ms, on_loop)
    if batch.readonly:
        batch = memoryview(bytearray(batch))
    if rules.log_append_time:
        header = patch_log_append_time(batch, 0, header, now_ms)
    elif header.attributes & LOG_APPEND_TIME:
        # The producer's timestamp type is ignored: the topic's timestamps are those of creation.
        header = patch_timestamps(batch, 0, header, header.max_timestamp)
    return header, batch


def _has_bounded_records(header: BatchHeader, rules: BatchRules) -> bool:
    """Whether the sizes of the batch's records are bounded: only those that are unfolded here are."""
    return rules.max_decompressed_message_bytes < NO_LIMIT_BYTES and header.compression is not Codec.NONE


def _refuse_trailing(records: bytes | bytearray | memoryview, size_bytes: int) -> None:
    trailing_bytes = len(records) - size_bytes
    if trailing_bytes >= BATCH_HEADER_BYTES:
        parse_batch_header(records, size_bytes)
        raise InvalidRecord("the produce request has more than one record batch for the partition")
    raise InvalidRecord(f"{trailing_bytes} bytes follow the record batch")


def _check_header(header: BatchHeader, rules: BatchRules, zstd_allowed: bool) -> None:
    if header.base_offset != 0:
        raise InvalidRecord(f"the base offset of a produced batch is 0, not {header.base_offset}")
    count = header.record_count
    if count != header.last_offset_delta + 1:  # which is at least 1, or parsing would have refused it
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
    if attributes & LOG_APPEND_TIME and rules.log_append_time:
        raise InvalidTimestamp("a producer may not set the timestamp type to LogAppendTime")


def _with_records_checked(
    batch: memoryview, header: BatchHeader, rules: BatchRules, now_ms: int, on_loop: bool
) -> tuple[BatchHeader, memoryview]:
    """Check every record, and give the batch the topic's codec and timestamps; in writable memory."""
    source = header.compression
    target = source if rules.codec is None else rules.codec
    recompressed = target is not source
    packed = recompressed or source is not Codec.NONE
    if on_loop and (
        header.record_count > LOOP_RECORDS or (packed and header.size_bytes > LOOP_PAYLOAD_BYTES)
    ):
        raise HeavyBatch
    try:
        max_bytes = LOOP_PAYLOAD_BYTES if on_loop else DEFAULT_MAX_DECOMPRESSED_BYTES
        payload = records_payload(batch, 0, header, max_bytes=max_bytes)
        walked = _walk(payload, header, rules, now_ms)
    except UnfoldsTooFar:
        if on_loop:
            raise HeavyBatch from None
        raise
    except CorruptBatch as problem:
        # Not CORRUPT_MESSAGE, after which clients would retry in vain.
        raise InvalidRecord(str(problem)) from None
    if walked.faults:
        raise _rejected(walked, rules, now_ms)
    if recompressed:
        attributes = (header.attributes & ~CODEC_MASK) | target
        again = assemble_batch(
            header._replace(attributes=attributes), compress(target, payload, rules.codec_level)
        )
        batch = memoryview(bytearray(again))
        header = parse_batch_header(batch)
        if header.size_bytes > rules.max_message_bytes:
            raise MessageTooLarge(
                f"the record batch takes {header.size_bytes} bytes in the topic's codec, "
                f"max.message.bytes is {rules.max_message_bytes}"
            )
    elif batch.readonly:
        batch = memoryview(bytearray(batch))
    if rules.log_append_time:
        return patch_log_append_time(batch, 0, header, now_ms), batch
    claimed = header.attributes & LOG_APPEND_TIME
    max_timestamp = header.max_timestamp if claimed else walked.max_timestamp
    if claimed or max_timestamp != header.max_timestamp:
        header = patch_timestamps(batch, 0, header, max_timestamp)
    return header, batch


def _walk(payload: bytes, header: BatchHeader, rules: BatchRules, now_ms: int) -> RecordFaults:
    oldest, newest = -NO_LIMIT_MS, NO_LIMIT_MS
    if not rules.log_append_time:
        oldest = now_ms - rules.timestamp_before_max_ms
        newest = now_ms + rules.timestamp_after_max_ms
    return walk_records(
        payload,
        header,
        needs_keys=rules.compacted,
        oldest=oldest,
        newest=newest,
        max_faults=MAX_RECORD_ERRORS,
        max_record_bytes=rules.max_decompressed_message_bytes
        if _has_bounded_records(header, rules)
        else NO_LIMIT_BYTES,
    )


def _rejected(walked: RecordFaults, rules: BatchRules, now_ms: int) -> RejectedRecords | RejectedTimestamps:
    """The error for refused records; one wrong timestamp makes it an error of timestamps, as in Kafka."""
    oldest = now_ms - rules.timestamp_before_max_ms
    newest = now_ms + rules.timestamp_after_max_ms
    errors = [
        RecordError(index, "a record without a key cannot be written to a compacted topic")
        if timestamp is None
        else RecordError(index, f"the timestamp {timestamp} is outside {oldest} to {newest}")
        for index, timestamp in walked.faults
    ]
    if any(timestamp is not None for _, timestamp in walked.faults):
        return RejectedTimestamps(errors)
    return RejectedRecords(errors)
