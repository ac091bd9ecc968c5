"""Record batches of magic 2: decode, check, encode and patch them.

A batch is a header of 61 bytes and its records, compressed as one block. The broker keeps batches opaque:
it reads the header, checks the CRC and patches base offset and leader epoch in place. That is possible
because the CRC (CRC-32C) covers only what follows it, attributes to the end:

    base_offset int64 | batch_length int32 | partition_leader_epoch int32 | magic int8 | crc uint32 |
    attributes int16 | last_offset_delta int32 | base_timestamp int64 | max_timestamp int64 |
    producer_id int64 | producer_epoch int16 | base_sequence int32 | record_count int32 | records

`batch_length` counts the bytes after it, so a batch takes `batch_length + 12` bytes. Attributes: bits 0-2 the
codec, 3 the timestamp type, 4 transactional, 5 control, 6 delete horizon (then `base_timestamp` is the time
after which compaction may drop the tombstones of the batch, KIP-534; deltas are relative to it all the same).

Records are decoded only in `decode_records` and in `record_queries`; false lengths and counts, malformed
varints and decompression bombs raise `CorruptBatch` and cost no more memory than the batch, or `max_bytes` if
compressed.

Sources: the protocol guide's "Record Batch", KIP-98, KIP-32, KIP-482, KIP-534, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.protocol.compression import Codec, compress, decompress
from ottla.protocol.crc import crc32c
from ottla.protocol.errors import CorruptBatch, MalformedMessage
from ottla.protocol.varint import read_varint, read_varlong, write_varint, write_varlong

BATCH_HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""Base offset and batch length, which `batch_length` does not count."""

MAGIC = 2
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
MAX_BATCH_BYTES = (1 << 31) - 1
DEFAULT_MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qiib")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_CONTROL_KEY = struct.Struct(">hh")
_END_MARKER = struct.Struct(">hi")
_LEADER_EPOCH_POSITION = 12
_MAGIC_POSITION = 16
_CRC_POSITION = 17
_CRC_START = 21
_MAX_TIMESTAMP_POSITION = 35

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_MIN_BATCH_LENGTH = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
_MIN_RECORD_BYTES = 7
_MIN_RECORD_HEADER_BYTES = 2
_MAX_SEQUENCE = 0x7FFFFFFF
_MIN_INT64 = -(1 << 63)
_MAX_INT64 = (1 << 63) - 1


class UnsupportedMagic(CorruptBatch):
    """A batch whose `magic` byte is not 2: a message set of Kafka before 0.11, or not a batch."""

    def __init__(self, magic: int) -> None:
        self.magic = magic
        known = "the old message format 0 or 1" if magic in (0, 1) else "no format that exists"
        super().__init__(f"the batch has magic {magic} ({known}); only record batches of magic 2 are taken")


class TimestampType(enum.IntEnum):
    """The origin of the timestamps: the producer, or the broker at the append (KIP-32)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in their order.

    A named tuple because one is made for every produced batch: 0.3 us against 1.9 us for a frozen dataclass.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record, or of the last one before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        """The codec's number, which may be an undefined one (5 to 7)."""
        return self.attributes & CODEC_MASK

    @property
    def compression(self) -> Codec:
        """The codec. Raises CorruptBatch for an undefined number."""
        codec = self.attributes & CODEC_MASK
        if codec > Codec.ZSTD:
            raise CorruptBatch(f"the batch names compression type {codec}, which does not exist")
        return Codec(codec)

    @property
    def timestamp_type(self) -> TimestampType:
        """The origin of the timestamps."""
        return (
            TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME
        )

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records (markers), which clients do not see."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time after which compaction may drop the tombstones of the batch."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 without sequences; wraps from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    def placed(self, base_offset: int, leader_epoch: int) -> BatchHeader:
        """This header as `patch_base_offset_and_epoch` leaves it."""
        return tuple.__new__(BatchHeader, (base_offset, self[1], leader_epoch, *self[3:]))


class Record(NamedTuple):
    """A decoded record. `timestamp` in ms; of a LogAppendTime batch it is the batch's.

    A named tuple for the same reason as BatchHeader: loading a coordinator makes one for every record of its
    partition.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to encode. `timestamp` in ms, -1 for none."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ControlRecordType(enum.IntEnum):
    """The `type` in the key of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


# --- headers ---------------------------------------------------------------------------------------------


def parse_batch_header(
    data: bytes | bytearray | memoryview, position: int = 0, *, max_bytes: int = MAX_BATCH_BYTES
) -> BatchHeader:
    """The header of the batch at `position`; its records need not be there yet.

    Raises UnsupportedMagic for magic 0 and 1, CorruptBatch if fewer than 61 bytes are left, the batch claims
    to be smaller than its header or larger than `max_bytes`, or its counts are impossible. Does not check the
    CRC, see `crc_valid`.
    """
    try:
        header = tuple.__new__(BatchHeader, _HEADER.unpack_from(data, position))
    except struct.error:
        raise _short_header(data, position) from None
    if header[3] != MAGIC:
        raise UnsupportedMagic(header[3])
    batch_length = header[1]
    record_count = header[12]
    if not _MIN_BATCH_LENGTH <= batch_length <= max_bytes - LOG_OVERHEAD_BYTES:
        raise CorruptBatch(
            f"the batch claims a length of {batch_length}, outside {_MIN_BATCH_LENGTH} to "
            f"{max_bytes - LOG_OVERHEAD_BYTES}"
        )
    if record_count < 0 or header[6] < 0 or header[0] < 0:
        raise CorruptBatch(
            f"the batch has a negative count, offset or offset range: count {record_count}, "
            f"base offset {header[0]}, last offset delta {header[6]}"
        )
    if not header[5] & CODEC_MASK and record_count * _MIN_RECORD_BYTES > batch_length - _MIN_BATCH_LENGTH:
        raise CorruptBatch(
            f"the batch claims {record_count} records in {batch_length - _MIN_BATCH_LENGTH} bytes"
        )
    return header


def _short_header(data: bytes | bytearray | memoryview, position: int) -> CorruptBatch:
    available = max(len(data) - position, 0)
    if available > _MAGIC_POSITION:
        magic = _PREFIX.unpack_from(data, position)[3]
        if magic in (0, 1):
            return UnsupportedMagic(magic)
    return CorruptBatch(f"{available} bytes are left, the header of a batch takes {BATCH_HEADER_BYTES}")


def crc_valid(data: bytes | bytearray | memoryview, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` is whole and its CRC is right. Copies nothing."""
    end = position + header.batch_length + LOG_OVERHEAD_BYTES
    if end > len(data):
        return False
    return crc32c(memoryview(data)[position + _CRC_START : end]) == header.crc


def check_crc(data: bytes | bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Raise CorruptBatch unless the batch at `position` is whole and its CRC is right."""
    end = position + header.batch_length + LOG_OVERHEAD_BYTES
    if end > len(data):
        raise CorruptBatch(f"the batch takes {header.size_bytes} bytes, {len(data) - position} are there")
    computed = crc32c(memoryview(data)[position + _CRC_START : end])
    if computed != header.crc:
        raise CorruptBatch(f"the batch's CRC is {header.crc:#010x}, its bytes have {computed:#010x}")


def iterate_headers(
    data: bytes | bytearray | memoryview, position: int = 0
) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of each whole batch; a partial one at the end is left out, not an error.

    Raises CorruptBatch or UnsupportedMagic at an invalid header.
    """
    length = len(data)
    while length - position >= BATCH_HEADER_BYTES:
        header = parse_batch_header(data, position)
        end = position + header.size_bytes
        if end > length:
            return
        yield position, header
        position = end


def patch_base_offset_and_epoch(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write the fields that the leader sets. They come before the CRC's range, so the CRC stays right."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def patch_log_append_time(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, now_ms: int
) -> BatchHeader:
    """Make the whole batch at `position` one of LogAppendTime `now_ms`: all its records get that time.

    Returns the new header; the CRC is computed anew, records are not touched.
    """
    attributes = header.attributes | LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(buffer, position + _CRC_START, attributes)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, now_ms)
    crc = crc32c(memoryview(buffer)[position + _CRC_START : position + header.size_bytes])
    _CRC.pack_into(buffer, position + _CRC_POSITION, crc)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)


def patch_timestamps(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, max_timestamp: int
) -> BatchHeader:
    """Make the batch at `position` one of CreateTime with that newest timestamp.

    Returns the new header; the CRC is computed anew, records are not touched.
    """
    attributes = header.attributes & ~LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(buffer, position + _CRC_START, attributes)
    _TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    crc = crc32c(memoryview(buffer)[position + _CRC_START : position + header.size_bytes])
    _CRC.pack_into(buffer, position + _CRC_POSITION, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence `increment` records later, wrapping from 2^31-1 to 0."""
    return (sequence + increment) & _MAX_SEQUENCE


def decrement_sequence(sequence: int, decrement: int) -> int:
    """The sequence `decrement` records earlier, wrapping from 0 to 2^31-1."""
    return (sequence - decrement) & _MAX_SEQUENCE


# --- decoding records ---------------------------------------------------------------------------------------


def decode_records(
    data: bytes | bytearray | memoryview,
    position: int = 0,
    *,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """All records of the batch at `position`, keys and values copied out.

    Raises CorruptBatch if the batch is not whole, its CRC is wrong, its records do not follow the format or
    decompress to more than `max_bytes`.
    """
    header = parse_batch_header(data, position)
    check_crc(data, position, header)
    payload = records_payload(data, position, header, max_bytes=max_bytes)
    base_offset = header.base_offset
    fixed_timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    records: list[Record] = []
    try:
        for start, end, timestamp, offset_delta in record_frames(payload, header):
            key, start = _read_nullable(payload, start, end)
            value, start = _read_nullable(payload, start, end)
            headers = read_record_headers(payload, start, end)
            records.append(
                Record(
                    base_offset + offset_delta,
                    timestamp if fixed_timestamp is None else fixed_timestamp,
                    key,
                    value,
                    headers,
                )
            )
    except MalformedMessage as problem:
        raise CorruptBatch(f"a record is malformed: {problem}") from None
    return records


def records_payload(
    data: bytes | bytearray | memoryview,
    position: int,
    header: BatchHeader,
    *,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    expected_bytes: int | None = None,
) -> bytes:
    """The records' bytes of the batch at `position`, decompressed, at most `max_bytes` of them if compressed.

    expected_bytes: a guess at their number by who knows batches like this one: without, LZ4 and zstd begin
    with 64 KiB or eight times the data, and where that is too little with sixteen times as much again.

    Raises CorruptBatch for malformed data or an unknown codec.
    """
    view = memoryview(data)[position + BATCH_HEADER_BYTES : position + header.size_bytes]
    codec = header.compression
    if codec is Codec.NONE:
        return bytes(view)
    return decompress(codec, view, max_bytes, expected_bytes)


def record_frames(payload: bytes, header: BatchHeader) -> Iterator[tuple[int, int, int, int]]:
    """(start of the key's length, end, timestamp, offset delta) of each record; all bytes must be used.

    Raises CorruptBatch and MalformedMessage.
    """
    length_bytes = len(payload)
    base_timestamp = header.base_timestamp
    last_offset_delta = header.last_offset_delta
    position = 0
    previous_delta = -1
    for _ in range(header.record_count):
        length, position = read_varint(payload, position)
        end = position + length
        if length < _MIN_RECORD_BYTES - 1 or end > length_bytes:
            raise CorruptBatch(f"a record claims {length} bytes, {length_bytes - position} are left")
        timestamp_delta, start = read_varlong(payload, position + 1)
        offset_delta, start = read_varint(payload, start)
        if not previous_delta < offset_delta <= last_offset_delta:
            raise CorruptBatch(
                f"a record has offset delta {offset_delta} after {previous_delta}, "
                f"the last of the batch is {last_offset_delta}"
            )
        timestamp = base_timestamp + timestamp_delta
        if start > end or not _MIN_INT64 <= timestamp <= _MAX_INT64:
            raise CorruptBatch("a record's fields run past its end or past the range of time")
        yield start, end, timestamp, offset_delta
        previous_delta = offset_delta
        position = end
    if position != length_bytes:
        raise CorruptBatch(f"{length_bytes - position} bytes are left after the last record")


def read_nullable_length(payload: bytes, position: int, end: int) -> tuple[int, int]:
    """A nullable length: -1 for null, otherwise at most the remaining bytes."""
    length, position = read_varint(payload, position)
    if length < -1 or position + length > end or position > end:
        raise CorruptBatch(f"a field claims {length} bytes, {end - position} are left of its record")
    return length, position


def _read_nullable(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_nullable_length(payload, position, end)
    if length < 0:
        return None, position
    return payload[position : position + length], position + length


def read_record_headers(payload: bytes, position: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a record, which must end at `end`. Raises CorruptBatch, MalformedMessage."""
    count, position = read_varint(payload, position)
    if count == 0 and position == end:
        return ()
    if count < 0 or count * _MIN_RECORD_HEADER_BYTES > end - position:
        raise CorruptBatch(f"a record claims {count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _read_nullable(payload, position, end)
        if key is None:
            raise CorruptBatch("the key of a record header is null")
        value, position = _read_nullable(payload, position, end)
        # Not every producer sends valid UTF-8: the escapes encode to the same bytes in `encode_batch`.
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left at the end of a record")
    return tuple(headers)


# --- encoding batches ------------------------------------------------------------------------------------


def encode_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """One batch of `records` with consecutive offsets.

    With `timestamp_type` LOG_APPEND_TIME every record is read with the largest of the timestamps. Raises
    ValueError without records or for a value that its field cannot hold.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    base_timestamp = records[0].timestamp
    payload = bytearray()
    for delta, record in enumerate(records):
        write_record(payload, record, delta, base_timestamp)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=_attributes(codec, timestamp_type, transactional, control),
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return assemble_batch(header, compress(codec, payload, level))


def _attributes(codec: Codec, timestamp_type: TimestampType, transactional: bool, control: bool) -> int:
    attributes = int(codec)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    return attributes


def assemble_batch(header: BatchHeader, payload: bytes) -> bytes:
    """Header and payload with `batch_length` and CRC filled in."""
    try:
        start = bytearray(_HEADER.pack(*header._replace(batch_length=_MIN_BATCH_LENGTH + len(payload))))
    except struct.error as problem:
        raise ValueError(f"a field of the batch does not fit: {problem}") from None
    _CRC.pack_into(start, _CRC_POSITION, crc32c(payload, crc32c(memoryview(start)[_CRC_START:])))
    return b"".join((start, payload))


def write_record(payload: bytearray, record: NewRecord, offset_delta: int, base_timestamp: int) -> None:
    body = bytearray(1)  # a record's attributes, of which none is defined
    write_varlong(body, record.timestamp - base_timestamp)
    write_varint(body, offset_delta)
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_nullable(body, key.encode("utf-8", "surrogateescape"))
        _write_nullable(body, value)
    write_varint(payload, len(body))
    payload += body


def _write_nullable(buffer: bytearray, value: bytes | None) -> None:
    if value is None:
        buffer.append(1)  # -1, zigzag-coded
        return
    write_varint(buffer, len(value))
    buffer += value


# --- control batches -------------------------------------------------------------------------------------


def encode_control_batch(
    records: Sequence[tuple[ControlRecordType, bytes]],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytes:
    """One control batch: types with their encoded values (LeaderChangeMessage, SnapshotHeaderRecord, …)."""
    return encode_batch(
        [NewRecord(_CONTROL_KEY.pack(0, kind), value, timestamp) for kind, value in records],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def encode_end_transaction_marker(
    *,
    committed: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The control batch that ends a producer's transaction in one partition (KIP-98)."""
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    return encode_control_batch(
        [(kind, _END_MARKER.pack(0, coordinator_epoch))],
        timestamp=timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def control_record_type(record: Record) -> ControlRecordType | None:
    """The type in a control record's key; None for an unknown, newer type.

    Raises CorruptBatch for an invalid key.
    """
    key = record.key
    if key is None or len(key) < _CONTROL_KEY.size:
        raise CorruptBatch("the key of a control record has fewer than 4 bytes")
    version, kind = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"the key of a control record has version {version}")
    try:
        return ControlRecordType(kind)
    except ValueError:
        return None


def end_transaction_coordinator_epoch(record: Record) -> int:
    """The coordinator's epoch in a COMMIT or ABORT marker. Raises CorruptBatch for a malformed value."""
    value = record.value
    if value is None or len(value) < _END_MARKER.size:
        raise CorruptBatch("the value of a transaction marker has fewer than 6 bytes")
    version, coordinator_epoch = _END_MARKER.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"the value of a transaction marker has version {version}")
    return int(coordinator_epoch)
