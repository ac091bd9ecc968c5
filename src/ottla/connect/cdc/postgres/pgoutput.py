"""The messages of pgoutput, protocol version 1 with `messages`, from their bytes; no I/O.

PostgreSQL's manual, "Logical Replication Message Formats". Values are the texts that the session's settings
give (DateStyle, IntervalStyle, bytea_output): the binary format is never asked for, and refused. Positions
of the log (LSN) are numbers of 64 bits; times are microseconds since 1970.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.connect.cdc.core.column_form import NOT_SENT, Cell

POSTGRES_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01, from which PostgreSQL counts, in microseconds since 1970."""
MAX_MESSAGE_BYTES: Final = 1 << 30
"""PostgreSQL allocates no longer message."""
MAX_COLUMNS: Final = 1664
"""PostgreSQL's own limit for a row."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")
_UINT64: Final = struct.Struct(">Q")


class DecodeError(ValueError):
    """Bytes that are no message of pgoutput."""


Row = tuple[Cell, ...]


class ReplicaIdentity(enum.Enum):
    """Which old values a table's updates and deletes come with."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


class TruncateOption(enum.Flag):
    """What TRUNCATE was told besides."""

    CASCADE = 1
    RESTART_IDENTITY = 2


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins. final_lsn: of its commit."""

    final_lsn: int
    commit_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends. end_lsn: behind its commit, where a reader goes on."""

    commit_lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The transaction was replicated from elsewhere: the place of its commit there, and the origin's name."""

    lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column of a Relation. is_key: part of the replica identity. modifier: atttypmod, -1 for none."""

    name: str
    type_oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is from here on in the stream."""

    oid: int
    namespace: str
    name: str
    identity: ReplicaIdentity
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class TypeName:
    """The name of a type that is not one of PostgreSQL's own."""

    oid: int
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row."""

    relation: int
    new: Row


@dataclass(frozen=True, slots=True)
class Update:
    """A changed row. old: None where neither the key changed nor all old values are told.

    is_key: `old` has the values of the replica identity alone, and NULL for all others.
    """

    relation: int
    new: Row
    old: Row | None = None
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """A row that is gone. is_key: as in Update."""

    relation: int
    old: Row
    is_key: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables that were emptied."""

    relations: tuple[int, ...]
    options: TruncateOption


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """What pg_logical_emit_message wrote. A message that is not transactional stands outside of any."""

    is_transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message = Begin | Commit | Origin | Relation | TypeName | Insert | Update | Delete | Truncate | LogicalMessage


class _Reader:
    """Reads a message from its second byte on; every read is checked against its end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 1

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def int16(self) -> int:
        self.at += 2
        found: int = _INT16.unpack_from(self.data, self.at - 2)[0]
        return found

    def int32(self) -> int:
        self.at += 4
        found: int = _INT32.unpack_from(self.data, self.at - 4)[0]
        return found

    def uint32(self) -> int:
        self.at += 4
        found: int = _UINT32.unpack_from(self.data, self.at - 4)[0]
        return found

    def uint64(self) -> int:
        self.at += 8
        found: int = _UINT64.unpack_from(self.data, self.at - 8)[0]
        return found

    def time_us(self) -> int:
        self.at += 8
        found: int = _INT64.unpack_from(self.data, self.at - 8)[0]
        return found + POSTGRES_EPOCH_US

    def text(self) -> str:
        end = self.data.find(0, self.at)
        if end < 0:
            raise DecodeError("a name has no end")
        found = self.data[self.at : end].decode()
        self.at = end + 1
        return found

    def content(self) -> bytes:
        length = self.int32()
        end = self.at + length
        if length < 0 or end > len(self.data):
            raise DecodeError(f"{length} bytes of content are told, {len(self.data) - self.at} are there")
        found = self.data[self.at : end]
        self.at = end
        return found

    def columns(self) -> int:
        count = self.int16()
        if not 0 <= count <= MAX_COLUMNS:
            raise DecodeError(f"a row of {count} columns")
        return count

    def row(self) -> Row:
        data, at = self.data, self.at
        cells: list[Cell] = []
        count, at = self.columns(), at + 2
        for _ in range(count):
            kind = data[at]
            at += 1
            if kind == 0x74:  # t, a text
                length: int = _INT32.unpack_from(data, at)[0]
                at += 4
                end = at + length
                if length < 0 or end > len(data):
                    raise DecodeError(f"a value of {length} bytes where {len(data) - at} are left")
                cells.append(data[at:end].decode())
                at = end
            elif kind == 0x6E:  # n
                cells.append(None)
            elif kind == 0x75:  # u
                cells.append(NOT_SENT)
            else:
                raise DecodeError(f"a value of kind {chr(kind)!r}")
        self.at = at
        return tuple(cells)


def decode(data: bytes) -> Message:
    """The message of some bytes, which have to end with it. Raises DecodeError."""
    if not data:
        raise DecodeError("a message without bytes")
    if len(data) > MAX_MESSAGE_BYTES:
        raise DecodeError(f"a message of {len(data)} bytes, more than {MAX_MESSAGE_BYTES}")
    read = _READERS.get(data[0])
    if read is None:
        raise DecodeError(f"a message of kind {chr(data[0])!r}, which protocol version 1 does not have")
    reader = _Reader(data)
    try:
        found = read(reader)
    except (IndexError, struct.error) as problem:
        raise DecodeError(f"a message of kind {chr(data[0])!r} ends too early") from problem
    except UnicodeDecodeError as problem:
        raise DecodeError(f"a message of kind {chr(data[0])!r} is not in UTF-8: {problem}") from None
    if reader.at != len(data):
        raise DecodeError(
            f"a message of kind {chr(data[0])!r} has {len(data)} bytes, not {reader.at} as its content says"
        )
    return found


def _begin(reader: _Reader) -> Begin:
    return Begin(reader.uint64(), reader.time_us(), reader.uint32())


def _commit(reader: _Reader) -> Commit:
    reader.byte()  # flags, unused
    return Commit(reader.uint64(), reader.uint64(), reader.time_us())


def _origin(reader: _Reader) -> Origin:
    return Origin(reader.uint64(), reader.text())


def _relation(reader: _Reader) -> Relation:
    oid, namespace, name = reader.uint32(), reader.text(), reader.text()
    identity = reader.byte()
    try:
        told = ReplicaIdentity(chr(identity))
    except ValueError:
        raise DecodeError(f"table {name} has the replica identity {chr(identity)!r}") from None
    columns = []
    for _ in range(reader.columns()):
        flags, column, type_oid = reader.byte(), reader.text(), reader.uint32()
        columns.append(RelationColumn(column, type_oid, reader.int32(), bool(flags & 1)))
    # An empty name is that of pg_catalog.
    return Relation(oid, namespace or "pg_catalog", name, told, tuple(columns))


def _type_name(reader: _Reader) -> TypeName:
    return TypeName(reader.uint32(), reader.text() or "pg_catalog", reader.text())


def _expect(reader: _Reader, kinds: str) -> str:
    kind = chr(reader.byte())
    if kind not in kinds:
        raise DecodeError(f"a row of kind {kind!r}, where one of {kinds!r} belongs")
    return kind


def _insert(reader: _Reader) -> Insert:
    relation = reader.uint32()
    _expect(reader, "N")
    return Insert(relation, reader.row())


def _update(reader: _Reader) -> Update:
    relation = reader.uint32()
    kind = _expect(reader, "KON")
    if kind == "N":
        return Update(relation, reader.row())
    old = reader.row()
    _expect(reader, "N")
    return Update(relation, reader.row(), old, kind == "K")


def _delete(reader: _Reader) -> Delete:
    relation = reader.uint32()
    kind = _expect(reader, "KO")
    return Delete(relation, reader.row(), kind == "K")


def _truncate(reader: _Reader) -> Truncate:
    count, options = reader.uint32(), reader.byte()
    if count * 4 > len(reader.data):
        raise DecodeError(f"{count} truncated tables in a message of {len(reader.data)} bytes")
    return Truncate(tuple(reader.uint32() for _ in range(count)), TruncateOption(options & 3))


def _message(reader: _Reader) -> LogicalMessage:
    flags = reader.byte()
    return LogicalMessage(bool(flags & 1), reader.uint64(), reader.text(), reader.content())


_READERS: Final[Mapping[int, Callable[[_Reader], Message]]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type_name,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _message,
}
