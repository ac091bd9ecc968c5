"""The events of MariaDB's binary log, decoded from bytes; no I/O.

MariaDB's knowledge base, "Binlog event types". Events that say nothing of data or positions are Other. The
rows of an event stay bytes until `row_values` reads them, as many are of tables that nobody captures.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

HEADER_BYTES: Final = 19
ARTIFICIAL: Final = 0x20
"""The flag of an event that is not in the file, as the rotation that a stream begins with."""
CHECKSUM_BYTES: Final = 4
MAX_UNCOMPRESSED_BYTES: Final = 1 << 30
_HEADER: Final = struct.Struct("<IBIIIH")
_QUERY: Final = struct.Struct("<IIBHH")
_GTID: Final = struct.Struct("<QIB")
_STANDALONE: Final = 1
_XA_PREPARED: Final = 64

_QUERY_EVENT: Final = 2
_STOP_EVENT: Final = 3
_ROTATE_EVENT: Final = 4
_FORMAT_EVENT: Final = 15
_XID_EVENT: Final = 16
_TABLE_MAP_EVENT: Final = 19
_INCIDENT_EVENT: Final = 26
_HEARTBEAT_EVENT: Final = 27
_XA_PREPARE_EVENT: Final = 38
_ANNOTATE_EVENT: Final = 160
_GTID_EVENT: Final = 162
_QUERY_COMPRESSED_EVENT: Final = 165
_INSERTS: Final = frozenset({23, 30, 166, 169})
_UPDATES: Final = frozenset({24, 31, 167, 170})
_DELETES: Final = frozenset({25, 32, 168, 171})
_ROWS: Final = _INSERTS | _UPDATES | _DELETES
_VERSION_2: Final = frozenset({30, 31, 32, 169, 170, 171})
_COMPRESSED: Final = frozenset(range(166, 172))


class BinlogError(Exception):
    """Bytes that are no event, or one that can't be read."""


@dataclass(frozen=True, slots=True)
class Header:
    """What every event begins with. end: its end in the file, 0 for one that is not in it."""

    time_s: int
    type: int
    server_id: int
    size: int
    end: int
    flags: int

    @property
    def is_artificial(self) -> bool:
        """Whether the event is not in the file."""
        return self.end == 0 or bool(self.flags & ARTIFICIAL)

    @property
    def start(self) -> int:
        """Where the event begins in its file."""
        return self.end - self.size


@dataclass(frozen=True, slots=True)
class Rotate:
    """The next event is in this file, at this place."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Gtid:
    """A transaction, or a statement that is one (standalone), begins."""

    domain: int
    sequence: int
    is_standalone: bool
    is_prepared: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A statement. thread: of the client."""

    thread: int
    database: str
    sql: str
    error: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The transaction's end."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """The statement whose rows come next."""

    sql: str


@dataclass(frozen=True, slots=True)
class TableMap:
    """What a table's number stands for, and how its values are written.

    metadata: two bytes or less of each type, as a number; nullable: a flag for each column; optional: the
    fields of binlog_row_metadata by their numbers.
    """

    id: int
    database: str
    table: str
    types: bytes
    metadata: tuple[int, ...]
    nullable: tuple[bool, ...]
    optional: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table. before, after: which columns they have, None where there are no such rows."""

    table_id: int
    before: bytes | None
    after: bytes | None
    count: int
    data: bytes
    """Rows one after the other: before and after in turn for updates."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The server has sent all up to here."""

    file: str


@dataclass(frozen=True, slots=True)
class Incident:
    """The server says that changes are missing in its log."""


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """The form of the events that come. has_checksum: whether each ends in four bytes of CRC32."""

    has_checksum: bool


@dataclass(frozen=True, slots=True)
class Other:
    """An event that says nothing here."""


Event = (
    Rotate
    | Gtid
    | Query
    | Commit
    | Annotation
    | TableMap
    | Rows
    | Heartbeat
    | Incident
    | FormatDescription
    | Other
)


def decode_header(data: bytes) -> Header:
    """The header of an event. Raises BinlogError."""
    if len(data) < HEADER_BYTES:
        raise BinlogError(f"an event of {len(data)} bytes")
    header = Header(*_HEADER.unpack_from(data))
    if header.size != len(data):
        raise BinlogError(f"an event of {len(data)} bytes says that it has {header.size}")
    return header


def decode(header: Header, data: bytes, has_checksum: bool) -> Event:
    """An event, with its header in front. Raises BinlogError."""
    end = len(data)
    if header.type == _FORMAT_EVENT:
        return _format(data)
    if has_checksum:
        end -= CHECKSUM_BYTES
        if zlib.crc32(data[:end]) != int.from_bytes(data[end:], "little"):
            raise BinlogError(f"the event that ends at {header.end} is damaged: its checksum is wrong")
    try:
        return _decode(header, data[HEADER_BYTES:end])
    except (struct.error, IndexError, ValueError, zlib.error) as problem:
        raise BinlogError(f"the event that ends at {header.end} can't be read: {problem}") from problem


def _decode(header: Header, body: bytes) -> Event:
    kind = header.type
    if kind in _ROWS:
        return _rows(kind, body)
    match kind:
        case 19:
            return _table_map(body)
        case 162:
            sequence, domain, flags = _GTID.unpack_from(body)
            return Gtid(domain, sequence, bool(flags & _STANDALONE), bool(flags & _XA_PREPARED))
        case 16 | 38:
            return Commit()
        case 2:
            return _query(body, is_compressed=False)
        case 165:
            return _query(body, is_compressed=True)
        case 4:
            return Rotate(body[8:].decode(), int.from_bytes(body[:8], "little"))
        case 160:
            return Annotation(body.decode("utf-8", "replace"))
        case 27:
            return Heartbeat(body.decode())
        case 26:
            return Incident()
    return Other()


def _format(data: bytes) -> FormatDescription:
    # The last five bytes: the algorithm of checksums, and a checksum.
    return FormatDescription(data[-5] == 1)


def _query(body: bytes, is_compressed: bool) -> Query:
    thread, _, database_length, error, status_length = _QUERY.unpack_from(body)
    at = _QUERY.size + status_length
    database = body[at : at + database_length].decode()
    text = body[at + database_length + 1 :]
    if is_compressed:
        text = _uncompressed(text)
    return Query(thread, database, text.decode("utf-8", "replace"), error)


def _uncompressed(data: bytes) -> bytes:
    """What MariaDB's log_bin_compress made small: a length's length, the length, zlib's bytes."""
    length_bytes = data[0] & 0x07
    if data[0] >> 4 != 8:
        raise ValueError(f"bytes of an unknown compression {data[0] >> 4}")
    length = int.from_bytes(data[1 : 1 + length_bytes], "big")
    if length > MAX_UNCOMPRESSED_BYTES:
        raise ValueError(f"{length} bytes in one event")
    found = zlib.decompressobj().decompress(data[1 + length_bytes :], length)
    if len(found) != length:
        raise ValueError(f"{len(found)} bytes in place of {length}")
    return found


def lenenc(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and the place behind it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}.get(first)
    if size is None:
        raise ValueError(f"no length begins with {first}")
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


_METADATA_BYTES: Final = {
    **dict.fromkeys((4, 5, 17, 18, 19, 140, 245, 249, 250, 251, 252, 255), 1),
    **dict.fromkeys((15, 16, 141, 246, 247, 248, 253, 254), 2),
}


def _table_map(body: bytes) -> TableMap:
    id = int.from_bytes(body[:6], "little")
    at = 8
    names = []
    for _ in range(2):
        length = body[at]
        names.append(body[at + 1 : at + 1 + length].decode())
        at += length + 2
    count, at = lenenc(body, at)
    types = body[at : at + count]
    length, at = lenenc(body, at + count)
    metadata_end = at + length
    metadata = []
    for kind in types:
        size = _METADATA_BYTES.get(kind, 0)
        metadata.append(int.from_bytes(body[at : at + size], "little"))
        at += size
    if at != metadata_end:
        raise ValueError(f"a table map of {names[0]}.{names[1]} with types that are not known")
    flags = int.from_bytes(body[at : at + (count + 7) // 8], "little")
    at += (count + 7) // 8
    optional = {}
    while at < len(body):
        kind = body[at]
        length, at = lenenc(body, at + 1)
        optional[kind] = body[at : at + length]
        at += length
    nullable = tuple(bool(flags >> number & 1) for number in range(count))
    return TableMap(id, names[0], names[1], types, tuple(metadata), nullable, optional)


def _rows(kind: int, body: bytes) -> Rows:
    table_id = int.from_bytes(body[:6], "little")
    at = 8
    if kind in _VERSION_2:
        at += int.from_bytes(body[8:10], "little")
    count, at = lenenc(body, at)
    size = (count + 7) // 8
    first, second = body[at : at + size], None
    at += size
    if kind in _UPDATES:
        second = body[at : at + size]
        at += size
    data = body[at:]
    if kind in _COMPRESSED:
        data = _uncompressed(data)
    if kind in _INSERTS:
        return Rows(table_id, None, first, count, data)
    return Rows(table_id, first, second, count, data)
