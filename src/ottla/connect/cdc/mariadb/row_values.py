"""The rows of events as values, one for each column; no I/O.

A value is an int (integers signed, as unsigned ones are the column's knowledge; times in microseconds;
TIMESTAMP in microseconds since 1970; the numbers of an ENUM or SET), a float, bytes (texts in the column's
character set), or a str (decimals; dates and DATETIME in SQL's form, zero ones as well).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from ottla.connect.cdc.core.column_form import NOT_SENT, Cell
from ottla.connect.cdc.mariadb.binlog import MAX_UNCOMPRESSED_BYTES, BinlogError, Rows, TableMap

Read = Callable[[bytes, int], tuple[Cell, int]]
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
ENUM: Final = 247
SET: Final = 248
_STRING: Final = 254


def real_type(kind: int, metadata: int) -> tuple[int, int]:
    """The type of a column under STRING, and its length in bytes: it stands in the metadata's bytes."""
    if kind != _STRING:
        return kind, metadata
    first, second = metadata & 0xFF, metadata >> 8
    if first & 0x30 != 0x30:
        return first | 0x30, second | ((first & 0x30 ^ 0x30) << 4)
    return first, second


def readers(table: TableMap) -> list[Read]:
    """A reader for each column. Raises BinlogError for a type that is not known."""
    return [
        _reader(table, kind, metadata) for kind, metadata in zip(table.types, table.metadata, strict=True)
    ]


def rows_of(
    rows: Rows, reads: list[Read]
) -> Iterator[tuple[tuple[Cell, ...] | None, tuple[Cell, ...] | None]]:
    """The rows of an event: before, after. Columns that are not there are NOT_SENT. Raises BinlogError."""
    if rows.count != len(reads):
        raise BinlogError(f"rows of {rows.count} columns of a table with {len(reads)}")
    data, at, end = rows.data, 0, len(rows.data)
    before = None if rows.before is None else _present(rows.before, len(reads))
    after = None if rows.after is None else _present(rows.after, len(reads))
    try:
        while at < end:
            old = new = None
            if before is not None:
                old, at = _row(data, at, reads, before)
            if after is not None:
                new, at = _row(data, at, reads, after)
            yield old, new
    except (struct.error, IndexError, ValueError, zlib.error) as problem:
        raise BinlogError(f"a row can't be read: {problem}") from problem
    if at != end:
        raise BinlogError("the rows of an event end behind it")


def _present(bitmap: bytes, count: int) -> list[int]:
    flags = int.from_bytes(bitmap, "little")
    return [number for number in range(count) if flags >> number & 1]


def _row(data: bytes, at: int, reads: list[Read], present: list[int]) -> tuple[tuple[Cell, ...], int]:
    size = (len(present) + 7) // 8
    nulls = int.from_bytes(data[at : at + size], "little")
    at += size
    row: list[Cell] = [NOT_SENT] * len(reads)
    for place, number in enumerate(present):
        if nulls >> place & 1:
            row[number] = None
        else:
            row[number], at = reads[number](data, at)
    return tuple(row), at


def _reader(table: TableMap, kind: int, metadata: int) -> Read:
    kind, metadata = real_type(kind, metadata)
    match kind:
        case 1 | 2 | 3 | 8 | 9:
            return _integer({1: 1, 2: 2, 3: 4, 8: 8, 9: 3}[kind])
        case 4:
            return lambda data, at: (_FLOAT.unpack_from(data, at)[0], at + 4)
        case 5:
            return lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8)
        case 246:
            return _decimal(metadata & 0xFF, metadata >> 8)
        case 10 | 14:
            return _date
        case 19:
            return _time2(metadata)
        case 18:
            return _datetime2(metadata)
        case 17:
            return _timestamp2(metadata)
        case 7:
            return lambda data, at: (int.from_bytes(data[at : at + 4], "little") * 1_000_000, at + 4)
        case 11:
            return _old_time
        case 12:
            return _old_datetime
        case 13:
            return lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1)
        case 15 | 253:
            return _bytes(1 if metadata < 256 else 2)
        case 254:
            return _bytes(1 if metadata < 256 else 2)
        case 245 | 249 | 250 | 251 | 252 | 255:
            return _bytes(metadata)
        case 140:
            return _column_compressed(_bytes(metadata))
        case 141:
            return _column_compressed(_bytes(1 if metadata < 256 else 2))
        case 247 | 248:
            return _unsigned(metadata)
        case 16:
            return _fixed((metadata >> 8) + (1 if metadata & 0xFF else 0))
    raise BinlogError(f"{table.database}.{table.table} has a column of the type {kind}, which is not known")


def _integer(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[Cell, int]:
        return int.from_bytes(data[at : at + size], "little", signed=True), at + size

    return read


def _unsigned(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[Cell, int]:
        return int.from_bytes(data[at : at + size], "little"), at + size

    return read


def _fixed(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[Cell, int]:
        return data[at : at + size], at + size

    return read


def _bytes(length_bytes: int) -> Read:
    def read(data: bytes, at: int) -> tuple[Cell, int]:
        begin = at + length_bytes
        end = begin + int.from_bytes(data[at:begin], "little")
        if end > len(data):
            raise ValueError("a value ends behind its event")
        return data[begin:end], end

    return read


def _column_compressed(inner: Read) -> Read:
    """A value of a COMPRESSED column: its first byte says how long the length is, or 0 for a plain one."""

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        value, at = inner(data, at)
        assert isinstance(value, bytes)
        if not value or value[0] == 0:
            return value[1:], at
        length_bytes = value[0] & 0x07
        length = int.from_bytes(value[1 : 1 + length_bytes], "big")
        if length > MAX_UNCOMPRESSED_BYTES:
            raise ValueError(f"a value of {length} bytes")
        window = -zlib.MAX_WBITS if value[0] & 0x08 else zlib.MAX_WBITS
        return zlib.decompressobj(window).decompress(value[1 + length_bytes :], length), at

    return read


def _decimal(precision: int, scale: int) -> Read:
    whole_digits = precision - scale
    whole_full, whole_rest = divmod(whole_digits, 9)
    part_full, part_rest = divmod(scale, 9)
    groups = (
        ([(_DIGIT_BYTES[whole_rest], whole_rest)] if whole_rest else []) + [(4, 9)] * whole_full,
        [(4, 9)] * part_full + ([(_DIGIT_BYTES[part_rest], part_rest)] if part_rest else []),
    )
    size = sum(width for side in groups for width, _ in side)

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        raw = bytearray(data[at : at + size])
        is_negative = not raw[0] & 0x80
        raw[0] ^= 0x80
        if is_negative:
            for place in range(size):
                raw[place] ^= 0xFF
        place = 0
        sides = []
        for side in groups:
            text = ""
            for width, digits in side:
                text += f"{int.from_bytes(raw[place : place + width], 'big'):0{digits}d}"
                place += width
            sides.append(text)
        whole = sides[0].lstrip("0") or "0"
        found = f"{whole}.{sides[1]}" if scale else whole
        return f"-{found}" if is_negative else found, at + size

    return read


def _date(data: bytes, at: int) -> tuple[Cell, int]:
    packed = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}", at + 3


def _fraction_us(data: bytes, at: int, digits: int) -> tuple[int, int]:
    size = (digits + 1) // 2
    return int.from_bytes(data[at : at + size], "big") * 10 ** (6 - 2 * size), at + size


def _datetime2(digits: int) -> Read:
    def read(data: bytes, at: int) -> tuple[Cell, int]:
        packed = int.from_bytes(data[at : at + 5], "big") - 0x80_0000_0000
        fraction, at = _fraction_us(data, at + 5, digits)
        days, of_day = packed >> 17, packed & 0x1FFFF
        months = days >> 5
        found = (
            f"{months // 13:04d}-{months % 13:02d}-{days & 31:02d} "
            f"{of_day >> 12:02d}:{of_day >> 6 & 63:02d}:{of_day & 63:02d}"
        )
        return (f"{found}.{fraction:06d}" if digits else found), at

    return read


def _timestamp2(digits: int) -> Read:
    def read(data: bytes, at: int) -> tuple[Cell, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        fraction, at = _fraction_us(data, at + 4, digits)
        return seconds * 1_000_000 + fraction, at

    return read


def _time2(digits: int) -> Read:
    size = (digits + 1) // 2
    whole = 1 << (23 + 8 * size)

    def read(data: bytes, at: int) -> tuple[Cell, int]:
        packed = int.from_bytes(data[at : at + 3 + size], "big") - whole
        sign, packed = (-1, -packed) if packed < 0 else (1, packed)
        seconds, fraction = packed >> 8 * size, packed & ((1 << 8 * size) - 1)
        total = (seconds >> 12 & 0x3FF) * 3600 + (seconds >> 6 & 63) * 60 + (seconds & 63)
        return sign * (total * 1_000_000 + fraction * 10 ** (6 - 2 * size)), at + 3 + size

    return read


def _old_time(data: bytes, at: int) -> tuple[Cell, int]:
    packed = int.from_bytes(data[at : at + 3], "little", signed=True)
    sign, packed = (-1, -packed) if packed < 0 else (1, packed)
    return sign * (packed // 10_000 * 3600 + packed // 100 % 100 * 60 + packed % 100) * 1_000_000, at + 3


def _old_datetime(data: bytes, at: int) -> tuple[Cell, int]:
    text = f"{int.from_bytes(data[at : at + 8], 'little'):014d}"
    return f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[8:10]}:{text[10:12]}:{text[12:14]}", at + 8
