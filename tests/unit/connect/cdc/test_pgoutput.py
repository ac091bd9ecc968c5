"""pgoutput's messages are read from their bytes; what is cut, longer or of another kind is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.connect.cdc.core.column_form import NOT_SENT, Cell
from ottla.connect.cdc.postgres.pgoutput import (
    POSTGRES_EPOCH_US,
    Begin,
    Commit,
    DecodeError,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    RelationColumn,
    ReplicaIdentity,
    Row,
    Truncate,
    TruncateOption,
    TypeName,
    Update,
    decode,
)

OIDS = st.integers(0, 2**32 - 1)
LSNS = st.integers(0, 2**64 - 1)
TIMES = st.integers(-(2**63) + POSTGRES_EPOCH_US, 2**63 - 1)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=63)
CELLS = st.one_of(st.none(), st.just(NOT_SENT), st.text(st.characters(exclude_categories=["Cs"])))
ROWS = st.lists(CELLS, max_size=20).map(tuple)
COLUMNS = st.builds(RelationColumn, NAMES, OIDS, st.integers(-1, 2**31 - 1), st.booleans())
MESSAGES = st.one_of(
    st.builds(Begin, LSNS, TIMES, OIDS),
    st.builds(Commit, LSNS, LSNS, TIMES),
    st.builds(Origin, LSNS, NAMES),
    st.builds(
        Relation,
        OIDS,
        NAMES,
        NAMES,
        st.sampled_from(ReplicaIdentity),
        st.lists(COLUMNS, max_size=9).map(tuple),
    ),
    st.builds(TypeName, OIDS, NAMES, NAMES),
    st.builds(Insert, OIDS, ROWS),
    st.builds(Update, OIDS, ROWS),
    st.builds(Update, OIDS, ROWS, ROWS, st.booleans()),
    st.builds(Delete, OIDS, ROWS, st.booleans()),
    st.builds(Truncate, st.lists(OIDS, max_size=5).map(tuple), st.sampled_from(TruncateOption)),
    st.builds(LogicalMessage, st.booleans(), LSNS, NAMES, st.binary()),
)


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def cell(value: Cell) -> bytes:
    if value is None:
        return b"n"
    if value is NOT_SENT:
        return b"u"
    assert isinstance(value, str)
    data = value.encode()
    return b"t" + struct.pack(">i", len(data)) + data


def row(values: Row) -> bytes:
    return struct.pack(">h", len(values)) + b"".join(map(cell, values))


def encode(message: Message) -> bytes:
    """The bytes as the manual has them."""
    match message:
        case Begin(lsn, time_us, xid):
            return b"B" + struct.pack(">QqI", lsn, time_us - POSTGRES_EPOCH_US, xid)
        case Commit(lsn, end, time_us):
            return b"C\0" + struct.pack(">QQq", lsn, end, time_us - POSTGRES_EPOCH_US)
        case Origin(lsn, name):
            return b"O" + struct.pack(">Q", lsn) + text(name)
        case Relation(oid, namespace, name, identity, columns):
            told = b"".join(
                bytes([each.is_key]) + text(each.name) + struct.pack(">Ii", each.type_oid, each.modifier)
                for each in columns
            )
            head = b"R" + struct.pack(">I", oid) + text(namespace) + text(name) + identity.value.encode()
            return head + struct.pack(">h", len(columns)) + told
        case TypeName(oid, namespace, name):
            return b"Y" + struct.pack(">I", oid) + text(namespace) + text(name)
        case Insert(relation, new):
            return b"I" + struct.pack(">I", relation) + b"N" + row(new)
        case Update(relation, new, old, is_key):
            before = b"" if old is None else (b"K" if is_key else b"O") + row(old)
            return b"U" + struct.pack(">I", relation) + before + b"N" + row(new)
        case Delete(relation, old, is_key):
            return b"D" + struct.pack(">I", relation) + (b"K" if is_key else b"O") + row(old)
        case Truncate(relations, options):
            oids = b"".join(struct.pack(">I", each) for each in relations)
            return b"T" + struct.pack(">IB", len(relations), options.value) + oids
        case LogicalMessage(is_transactional, lsn, prefix, content):
            length = struct.pack(">i", len(content))
            return b"M" + struct.pack(">BQ", is_transactional, lsn) + text(prefix) + length + content


@given(MESSAGES)
@settings(max_examples=300)
def test_what_is_written_is_read(message: Message) -> None:
    assert decode(encode(message)) == message


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_or_longer_is_refused(message: Message, data: st.DataObject) -> None:
    whole = encode(message)
    with pytest.raises(DecodeError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(DecodeError):
        decode(whole + data.draw(st.binary(min_size=1, max_size=3)))


@given(st.binary(max_size=80))
@settings(max_examples=500)
def test_any_bytes_give_a_message_or_an_error(data: bytes) -> None:
    try:
        found = decode(data)
    except DecodeError:
        return
    assert decode(encode(found)) == found


@pytest.mark.parametrize("kind", [b"S", b"E", b"c", b"A", b"b", b"r", b"\xff"])
def test_messages_of_later_protocol_versions_are_refused(kind: bytes) -> None:
    with pytest.raises(DecodeError, match="protocol version 1"):
        decode(kind + bytes(40))


def test_a_binary_value_is_refused() -> None:
    with pytest.raises(DecodeError, match="kind 'b'"):
        decode(b"I\0\0\0\1N\0\1b\0\0\0\1x")


def test_a_value_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(DecodeError, match="UTF-8"):
        decode(b"I\0\0\0\1N\0\1t\0\0\0\1\xff")


def test_more_columns_than_a_row_can_have_are_refused() -> None:
    with pytest.raises(DecodeError, match="columns"):
        decode(b"I\0\0\0\1N" + struct.pack(">h", 1665) + b"n" * 1665)


def test_more_truncated_tables_than_the_message_has_bytes_are_refused() -> None:
    with pytest.raises(DecodeError, match="truncated tables"):
        decode(b"T" + struct.pack(">IB", 2**32 - 1, 0))


def test_a_type_without_a_schema_is_one_of_the_catalog() -> None:
    assert decode(b"Y\0\0\0\1\0point\0") == TypeName(1, "pg_catalog", "point")
