"""The records of a batch as columns: all offsets, timestamps, keys, values and headers, one list each.

For readers that write millions of records out: a loop over Python objects would cost 2.4 us a record
(`record_batch.decode_records`), the loop here costs 0.3 to 0.6 us, and a run of records of one shape 0.05 us.

Records have one shape when all their lengths are the same, and so are the sizes of their variable-length
numbers. They then lie at a constant distance, so every byte of their frames is checked for the whole run at
once by a strided slice of the payload, and `struct` cuts the values out. Records of fixed size are such runs
but for a few breaks, where an offset delta takes one more byte. The loop reads whatever is no run; it looks
for the next run every PROBE_RECORDS.

Raises CorruptBatch where `decode_records` does, and keeps its rules: all bytes are used, deltas ascend.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.protocol.errors import CorruptBatch, MalformedMessage
from ottla.protocol.record_batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    read_nullable_length,
    read_record_headers,
)
from ottla.protocol.varint import read_varint, read_varlong

Headers = tuple[tuple[str, bytes | None], ...]

PROBE_RECORDS: Final = 64
"""Records that are read one by one before the next look for a run."""
_SHORTEST_RUN: Final = 4
_WINDOWS: Final = (_SHORTEST_RUN, 64, 1 << 31)
"""A run is looked for in so many records first, then in more, so that a look that fails costs little."""
_LARGEST_RUN_RECORD_BYTES: Final = 8192
_CHUNK: Final = 256
"""Records that one call of `struct` cuts out."""
_CONTINUES: Final = bytes([0] * 128 + [1] * 128)
_STOP: Final = b"\0"
_MORE: Final = b"\1"
_WITH_BIT: Final = bytes(byte | 0x80 for byte in range(256))
_LOW_BYTES: Final = bytes((2 * delta) & 0x7F for delta in range(64))
_MIN_INT64: Final = -(1 << 63)
_MAX_INT64: Final = (1 << 63) - 1


class RecordColumns(NamedTuple):
    """Columns of equal length. `timestamps` and `headers` are empty if only values were asked for."""

    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]

    def between(self, start: int, stop: int) -> RecordColumns:
        """The records of these indexes."""
        offsets, timestamps, keys, values, headers = self
        return RecordColumns(
            offsets[start:stop],
            timestamps[start:stop],
            keys[start:stop],
            values[start:stop],
            headers[start:stop],
        )


def decode_columns(payload: bytes, header: BatchHeader, *, values_only: bool = False) -> RecordColumns:
    """The columns of a batch's decompressed records (`record_batch.records_payload`).

    values_only: leave timestamps, keys and headers out, which is faster for records of many shapes. Raises
    CorruptBatch.
    """
    try:
        return _Reader(payload, header).columns(values_only)
    except (MalformedMessage, IndexError) as problem:
        raise CorruptBatch(f"a record is malformed: {problem}") from None


class _Shape(NamedTuple):
    """Where the fields of a record lie, from its first byte on; a null key or value has the size -1."""

    record_bytes: int
    timestamp_at: int
    delta_at: int
    key_length_at: int
    key_at: int
    key_bytes: int
    value_at: int
    value_bytes: int


class _Reader:
    """Reads one payload from its start to its end, a run or PROBE_RECORDS at a time."""

    def __init__(self, payload: bytes, header: BatchHeader) -> None:
        self.payload = payload
        self.header = header
        self.position = 0
        self.index = 0
        self.is_dense = header.record_count == header.last_offset_delta + 1
        # Far from the ends of time no small delta leaves the range.
        self.is_plain = self.is_dense and abs(header.base_timestamp) < 1 << 62
        self.deltas: list[int] = []
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Headers] = []

    def columns(self, values_only: bool) -> RecordColumns:
        header = self.header
        count = header.record_count
        while self.index < count:
            if self.is_plain and count - self.index >= _SHORTEST_RUN and self._take_run(values_only):
                continue
            stop = min(count, self.index + PROBE_RECORDS)
            if not self.is_plain:
                self._walk(stop)
            elif values_only:
                self._walk_values(stop)
            else:
                self._walk_dense(stop)
        if self.position != len(self.payload):
            raise CorruptBatch(f"{len(self.payload) - self.position} bytes are left after the last record")
        base = header.base_offset
        offsets: Sequence[int] = (
            range(base, base + count) if self.is_dense else [base + delta for delta in self.deltas]
        )
        if header.attributes & LOG_APPEND_TIME:
            self.timestamps = [header.max_timestamp] * len(self.timestamps)
        return RecordColumns(offsets, self.timestamps, self.keys, self.values, self.headers)

    # -- runs ----------------------------------------------------------------------------------------------

    def _take_run(self, values_only: bool) -> bool:
        """Read the run that begins here; False if there is none."""
        shape = self._shape()
        if shape is None:
            return False
        count = self._run_length(shape)
        if count < _SHORTEST_RUN:
            return False
        self._cut(shape, count, values_only)
        self.position += count * shape.record_bytes
        self.index += count
        return True

    def _shape(self) -> _Shape | None:
        """The shape of the record here; None if it has headers or is too large for a run to pay."""
        payload, first = self.payload, self.position
        length, at = read_varint(payload, first)
        end = at + length
        if not 0 < length <= _LARGEST_RUN_RECORD_BYTES or end > len(payload) or payload[at]:
            return None
        timestamp_at = at + 1
        delta_at = read_varlong(payload, timestamp_at)[1]
        key_length_at = read_varint(payload, delta_at)[1]
        key_bytes, key_at = read_nullable_length(payload, key_length_at, end)
        value_bytes, value_at = read_nullable_length(payload, key_at + max(key_bytes, 0), end)
        if value_at + max(value_bytes, 0) != end - 1 or payload[end - 1]:
            return None
        return _Shape(
            end - first,
            timestamp_at - first,
            delta_at - first,
            key_length_at - first,
            key_at - first,
            key_bytes,
            value_at - first,
            value_bytes,
        )

    def _run_length(self, shape: _Shape) -> int:
        """How many records from here on have this shape, and the offset deltas that follow each other."""
        delta_bytes = shape.key_length_at - shape.delta_at
        most = min(
            self.header.record_count - self.index,
            (len(self.payload) - self.position) // shape.record_bytes,
            # a larger delta takes one more byte
            (64 << 7 * (delta_bytes - 1)) - self.index,
        )
        found = 0
        for window in _WINDOWS:
            asked = min(window, most)
            found = self._alike(shape, asked)
            if found < asked or asked == most:
                break
        return found

    def _alike(self, shape: _Shape, count: int) -> int:
        """How many of the next `count` records have the same bytes around keys and values."""
        payload, first, step = self.payload, self.position, shape.record_bytes
        end = first + count * step
        key_end = shape.key_at + max(shape.key_bytes, 0)
        fixed = [
            *range(shape.timestamp_at),
            *range(shape.key_length_at, shape.key_at),
            *range(key_end, shape.value_at),
            step - 1,
        ]
        for at in fixed:
            column = payload[first + at : end : step]
            count = min(count, len(column) - len(column.lstrip(column[:1])))
        for at in range(shape.timestamp_at, shape.delta_at):
            wanted = _STOP if at == shape.delta_at - 1 else _MORE
            column = payload[first + at : end : step].translate(_CONTINUES)
            count = min(count, len(column) - len(column.lstrip(wanted)))
        for place, at in enumerate(range(shape.delta_at, shape.key_length_at)):
            continues = at < shape.key_length_at - 1
            column = payload[first + at : first + count * step : step]
            if column != _delta_bytes(self.index, count, place, continues):
                return 0
        return count

    def _cut(self, shape: _Shape, count: int, values_only: bool) -> None:
        """Add `count` records of this shape to the columns."""
        payload, first, step = self.payload, self.position, shape.record_bytes
        wants_keys = not values_only and shape.key_bytes >= 0
        if shape.value_bytes >= 0 or wants_keys:
            fields: list[bytes] = []
            skipped = shape.key_at if wants_keys else shape.value_at
            for start in range(0, count, _CHUNK):
                cutter = _cutter(shape, skipped, min(_CHUNK, count - start))
                fields += cutter.unpack_from(payload, first + start * step)
            if wants_keys and shape.value_bytes >= 0:
                self.keys += fields[0::2]
                self.values += fields[1::2]
            elif wants_keys:
                self.keys += fields
            else:
                self.values += fields
        if shape.value_bytes < 0:
            self.values += [None] * count
        if values_only:
            return
        if shape.key_bytes < 0:
            self.keys += [None] * count
        self.headers += [()] * count
        self.timestamps += self._run_timestamps(shape, count)

    def _run_timestamps(self, shape: _Shape, count: int) -> list[int]:
        payload, first, step = self.payload, self.position, shape.record_bytes
        base = self.header.base_timestamp
        end = first + count * step
        size = shape.delta_at - shape.timestamp_at
        columns = [payload[first + at : end : step] for at in range(shape.timestamp_at, shape.delta_at)]
        if all(not column.lstrip(column[:1]) for column in columns):
            return [_in_range(base + read_varlong(payload, first + shape.timestamp_at)[0])] * count
        if size == 1:
            return [base + ((low >> 1) ^ -(low & 1)) for low in columns[0]]
        if size == 2:
            lows, highs = columns
            numbers = [low & 0x7F | high << 7 for low, high in zip(lows, highs, strict=True)]
            return [base + ((number >> 1) ^ -(number & 1)) for number in numbers]
        starts = range(first + shape.timestamp_at, end, step)
        return [_in_range(base + read_varlong(payload, start)[0]) for start in starts]

    # -- one by one ----------------------------------------------------------------------------------------

    def _walk_values(self, stop: int) -> None:
        """Read the values of the records up to the index `stop`."""
        payload, position, size = self.payload, self.position, len(self.payload)
        add = self.values.append
        index = self.index
        while index < stop:
            try:
                for index in range(index, stop):  # noqa: B020
                    start = position
                    byte = payload[position]
                    if byte < 0x80:
                        end = position + 1 + (byte >> 1)
                        at = position + 2
                    else:
                        end = position + 2 + (byte + (payload[position + 1] << 7) - 0x80 >> 1)
                        at = position + 3
                    if payload[at] < 0x80:
                        at += 1
                    elif payload[at + 1] < 0x80:
                        at += 2
                    else:
                        at += 3 if payload[at + 2] < 0x80 else size
                    byte = payload[at]
                    if byte < 0x80:
                        delta = byte
                        at += 1
                    else:
                        more = payload[at + 1]
                        if more < 0x80:
                            delta = byte + (more << 7) - 0x80
                            at += 2
                        else:
                            delta = byte + (more << 7) + (payload[at + 2] << 14) - 0x4080
                            at += 3
                    byte = payload[at]
                    if byte == 1:
                        at += 1
                    elif byte < 0x80 and not byte & 1:
                        at += 1 + (byte >> 1)
                    else:
                        delta = -1
                    byte = payload[at]
                    if byte < 0x80:
                        at += 1
                    else:
                        byte += (payload[at + 1] << 7) - 0x80
                        at += 2
                    # Headers, nulls, and numbers of more bytes than are read here, fail one of these.
                    if (
                        delta == index << 1 < 1 << 21
                        and end == at + 1 + (byte >> 1) <= size
                        and not byte & 1
                        and byte < 1 << 14
                        and not payload[end - 1]
                        and not payload[start] & 1
                        and payload[start + 1] < 0x80
                    ):
                        add(payload[at : end - 1])
                        position = end
                        continue
                    self.index, self.position = index, start
                    self._walk(index + 1, values_only=True)
                    position = self.position
                break
            except IndexError:  # numbers of other sizes than are read here, at the very end of the payload
                self.index, self.position = index, start
                self._walk(index + 1, values_only=True)
                position = self.position
                index += 1
        self.index, self.position = stop, position

    def _walk_dense(self, stop: int) -> None:
        """Read all fields of the records up to the index `stop`, the common ones without a call."""
        payload, position, size = self.payload, self.position, len(self.payload)
        base = self.header.base_timestamp
        add_key, add_value = self.keys.append, self.values.append
        add_timestamp, add_headers = self.timestamps.append, self.headers.append
        index = self.index
        while index < stop:
            try:
                for index in range(index, stop):  # noqa: B020
                    start = position
                    byte = payload[position]
                    if byte < 0x80:
                        end = position + 1 + (byte >> 1)
                        at = position + 2
                    else:
                        end = position + 2 + (byte + (payload[position + 1] << 7) - 0x80 >> 1)
                        at = position + 3
                    timestamp = payload[at]
                    if timestamp < 0x80:
                        at += 1
                    else:
                        timestamp += (payload[at + 1] << 7) - 0x80
                        at += 2
                    delta = payload[at]
                    if delta < 0x80:
                        at += 1
                    else:
                        more = payload[at + 1]
                        if more < 0x80:
                            delta += (more << 7) - 0x80
                            at += 2
                        else:
                            delta += (more << 7) + (payload[at + 2] << 14) - 0x4080
                            at += 3
                    key_bytes = payload[at]
                    key_at = at + 1
                    at = key_at if key_bytes == 1 else key_at + (key_bytes >> 1)
                    byte = payload[at]
                    if byte < 0x80:
                        at += 1
                    else:
                        byte += (payload[at + 1] << 7) - 0x80
                        at += 2
                    value_end = at + (byte >> 1)
                    if (
                        delta == index << 1 < 1 << 21
                        and timestamp < 1 << 14
                        and key_bytes < 0x80
                        and (key_bytes == 1 or not key_bytes & 1)
                        and byte < 1 << 14
                        and not byte & 1
                        and value_end < end <= size
                        and not payload[start] & 1
                        and payload[start + 1] < 0x80
                    ):
                        if value_end + 1 == end and not payload[value_end]:
                            add_headers(())
                        else:
                            add_headers(read_record_headers(payload, value_end, end))
                        add_timestamp(base + ((timestamp >> 1) ^ -(timestamp & 1)))
                        add_key(None if key_bytes == 1 else payload[key_at : key_at + (key_bytes >> 1)])
                        add_value(payload[at:value_end])
                        position = end
                        continue
                    self.index, self.position = index, start
                    self._walk(index + 1)
                    position = self.position
                break
            except IndexError:  # numbers of other sizes than are read here, at the very end of the payload
                self.index, self.position = index, start
                self._walk(index + 1)
                position = self.position
                index += 1
        self.index, self.position = stop, position

    def _walk(self, stop: int, values_only: bool = False) -> None:
        """Read all fields of the records up to the index `stop`."""
        payload, position, size = self.payload, self.position, len(self.payload)
        last_delta = self.header.last_offset_delta
        base = self.header.base_timestamp
        previous = self.index - 1 if self.is_dense else (self.deltas[-1] if self.deltas else -1)
        for _ in range(self.index, stop):
            length, position = read_varint(payload, position)
            end = position + length
            if length < 6 or end > size:
                raise CorruptBatch(f"a record claims {length} bytes, {size - position} are left")
            timestamp_delta, at = read_varlong(payload, position + 1)
            delta, at = read_varint(payload, at)
            if not previous < delta <= last_delta or (self.is_dense and delta != previous + 1):
                raise CorruptBatch(
                    f"a record has offset delta {delta} after {previous}, the batch's last is {last_delta}"
                )
            previous = delta
            key_bytes, at = read_nullable_length(payload, at, end)
            key_at = at
            if key_bytes > 0:
                at += key_bytes
            value_bytes, at = read_nullable_length(payload, at, end)
            self.values.append(None if value_bytes < 0 else payload[at : at + value_bytes])
            headers = read_record_headers(payload, at + max(value_bytes, 0), end)
            timestamp = _in_range(base + timestamp_delta)
            position = end
            if values_only:
                continue
            self.keys.append(None if key_bytes < 0 else payload[key_at : key_at + key_bytes])
            self.headers.append(headers)
            self.timestamps.append(timestamp)
            if not self.is_dense:
                self.deltas.append(delta)
        self.index, self.position = stop, position


def _in_range(timestamp: int) -> int:
    if not _MIN_INT64 <= timestamp <= _MAX_INT64:
        raise CorruptBatch("a record's timestamp is past the range of time")
    return timestamp


@functools.lru_cache(maxsize=256)
def _cutter(shape: _Shape, skipped: int, count: int) -> struct.Struct:
    """Cuts the keys (if `skipped` ends before them) and the values out of `count` records."""
    fields = ""
    at = skipped
    if skipped == shape.key_at and skipped != shape.value_at and shape.key_bytes >= 0:
        fields = f"{shape.key_bytes}s"
        at += shape.key_bytes
    if shape.value_bytes >= 0:
        fields += f"{shape.value_at - at}x{shape.value_bytes}s"
        at = shape.value_at + shape.value_bytes
    return struct.Struct(f"{skipped}x{fields}{shape.record_bytes - at}x" * count)


def _delta_bytes(first: int, count: int, place: int, continues: bool) -> bytes:
    """The bytes at this place of the variable-length numbers of the deltas from `first` on.

    The byte of place 0 has the low seven bits, that of place 1 the next ones; the one that is not the last
    has its high bit set.
    """
    bit = 0x80 if continues else 0
    if place == 0:
        start = first % 64
        repeated = _LOW_BYTES * ((start + count) // 64 + 1)
        column = repeated[start : start + count]
        return column.translate(_WITH_BIT) if continues else column
    step = 64 << 7 * (place - 1)
    pieces = []
    delta, end = first, first + count
    while delta < end:
        until = min(end, (delta // step + 1) * step)
        pieces.append(bytes([delta // step & 0x7F | bit]) * (until - delta))
        delta = until
    return b"".join(pieces)
