"""Messages become records, and from the place behind any record a restart gives exactly the rest."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.cdc.core.column_form import NOT_SENT, ConversionError
from ottla.connect.cdc.core.envelope import Operation
from ottla.connect.cdc.core.names import Names
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.postgres.catalog import CatalogColumn, CatalogTable
from ottla.connect.cdc.postgres.copying.ranges import Ranges
from ottla.connect.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Relation,
    RelationColumn,
    ReplicaIdentity,
    Truncate,
    TruncateOption,
    Update,
)
from ottla.connect.cdc.postgres.position import BadOffset, Copying, History, Position, position_of
from ottla.connect.cdc.postgres.shapes import Shaping
from ottla.connect.cdc.postgres.translation import EventOptions, StreamError, Translator
from ottla.connect.cdc.postgres.types import PostgresType, TypeKind, TypeRegistry
from ottla.connect.data.record import SourceRecord

INT4, TEXT, FLOAT8 = 23, 25, 701
TYPES = TypeRegistry(
    {
        oid: PostgresType(oid, name, "pg_catalog", TypeKind.BASE)
        for oid, name in ((INT4, "int4"), (TEXT, "text"), (FLOAT8, "float8"))
    }
)
COLUMNS = (RelationColumn("id", INT4, -1, True), RelationColumn("v", TEXT, -1, False))
RELATIONS = {
    oid: Relation(oid, "public", name, ReplicaIdentity.DEFAULT, COLUMNS)
    for oid, name in ((1, "a"), (2, "b"), (3, "hidden"))
}
DESCRIBED = CatalogTable(
    (CatalogColumn("id", INT4, -1, True, None), CatalogColumn("v", TEXT, -1, False, None)), ("id",)
)
PARTITION = {"server": "srv"}
START = Position(100)


def shape_of(relation: Relation) -> TableShape | None:
    if relation.name == "hidden":
        return None
    return Shaping(Names("srv")).of_relation(TYPES, relation, DESCRIBED)


def translator(position: Position = START, transactions: bool = False) -> Translator:
    skipped: frozenset[Operation] = frozenset()
    options = EventOptions(Names("srv"), "db", skipped=skipped, transactions=transactions)
    return Translator(options, PARTITION, position, shape_of)


def run(found: Translator, messages: Sequence[Message]) -> list[SourceRecord]:
    """A connection's messages: each table is described before its first change."""
    records: list[SourceRecord] = []
    for relation in RELATIONS.values():
        found.take(relation, 0, 0)
    for number, message in enumerate(messages):
        records += found.take(message, 1000 + number, 7)
    return records


def transaction(rng: random.Random, xid: int) -> list[Message]:
    """A transaction of random changes; its commit lies at 100 times its number."""
    found: list[Message] = [Begin(xid * 100, 5_000_000 + xid, xid)]
    for _ in range(rng.randrange(5)):
        table, id, other = rng.choice((1, 2, 3)), str(rng.randrange(3)), str(rng.randrange(3))
        text = rng.choice((None, "x", NOT_SENT))
        found.append(
            rng.choice(
                (
                    Insert(table, (id, "new")),
                    Update(table, (id, text)),
                    Update(table, (id, text), (other, None), True),
                    Delete(table, (id, None), True),
                    Truncate((1, 3, 2), TruncateOption(0)),
                    LogicalMessage(True, 0, "p", b""),
                )
            )
        )
    found.append(Commit(xid * 100, xid * 100 + 50, 5_000_000 + xid))
    return found


def from_place(position: Position, transactions: Sequence[list[Message]]) -> list[Message]:
    """What the server sends from a place on: whole transactions that commit there or later."""
    sent: list[Message] = []
    for each in transactions:
        begin = each[0]
        assert isinstance(begin, Begin)
        if begin.final_lsn >= position.commit:
            sent += each
    return sent


def behind(whole: Sequence[SourceRecord], record: SourceRecord) -> int:
    """Where the messages begin that are not done at a record's place: each is done at its last record's."""
    last, first = len(whole), len(whole)
    for at in reversed(range(len(whole))):
        if at + 1 == len(whole) or message_of(whole, at) != message_of(whole, at + 1):
            last = at
        if place(whole[last]) > place(record):
            first = at
    return first


def place(record: SourceRecord) -> tuple[int, int]:
    return record.source_offset["commit"], record.source_offset.get("changes", 0)


def message_of(whole: Sequence[SourceRecord], at: int) -> int:
    """The place in the log of a record's message; a tombstone is of the message before it."""
    value = whole[at].record.value
    if value is None:
        return message_of(whole, at - 1)
    return int(value.values["source"].values["lsn"]) if "source" in value.values else -at


def essence(record: SourceRecord) -> object:
    """What must be the same after a restart: all but the place in the log, which the test numbers anew."""
    value = record.record.value
    if value is None or "source" not in value.values:
        return record.record.topic, record.source_offset, record.record.key and "key"
    kept = {name: value.values[name] for name in ("before", "after", "op")}
    block = value.values["transaction"]
    place = None if block is None else (block.values["total_order"], block.values["data_collection_order"])
    return record.record.topic, record.record.key, kept, place, record.record.headers, record.source_offset


@given(st.integers(0, 2**32), st.booleans())
def test_from_the_place_behind_any_record_comes_exactly_the_rest(seed: int, metadata: bool) -> None:
    rng = random.Random(seed)
    transactions = [transaction(rng, xid) for xid in range(1, 6)]
    whole = run(translator(transactions=metadata), from_place(START, transactions))
    for each in whole:
        first = behind(whole, each)
        position = position_of(each.source_offset)
        rest = run(translator(position, metadata), from_place(position, transactions))
        assert list(map(essence, rest)) == list(map(essence, whole[first:]))


@given(st.integers(0, 2**32))
def test_the_stream_stands_behind_the_last_commit(seed: int) -> None:
    rng = random.Random(seed)
    found = translator()
    run(found, [message for xid in range(1, 4) for message in transaction(rng, xid)])
    assert found.is_between
    assert found.position.commit == 350


def test_places_of_a_stream_before_all_tables_are_copied_say_so() -> None:
    halves = Ranges(("id",), (("5",),))
    copying = Copying().begins("public.a", Ranges()).finishes("public.a", 0).begins("public.b", halves)
    position = Position(100).with_copying(copying.finishes("public.b", 1))
    changes = [Begin(200, 0, 1), Insert(1, ("1", "x")), Commit(200, 250, 0)]
    (found,) = run(translator(position), changes)
    told = {
        "commit": 250,
        "previous": 250,
        "snapshot": "copying",
        "copied": '["public.a"]',
        "begun": '{"public.b":{"key":["id"],"bounds":[["5"]],"done":[1]}}',
    }
    assert found.source_offset == told
    assert position.copying is not None
    assert position.copying.finishes("public.b", 0) == Copying(frozenset({"public.a", "public.b"}))


def test_a_changed_key_is_a_delete_a_tombstone_and_a_create() -> None:
    found = run(
        translator(), [Begin(100, 0, 1), Update(1, ("2", "x"), ("1", None), True), Commit(100, 150, 0)]
    )
    assert [None if each.record.value is None else each.record.value.values["op"] for each in found] == [
        "d",
        None,
        "c",
    ]
    assert [each.record.key.values["id"] for each in found] == [1, 1, 2]
    assert found[0].record.headers[0].value.values == {"id": 2}
    assert found[2].record.headers[0].value.values == {"id": 1}


def test_an_unchanged_large_value_is_its_old_one_or_the_placeholder() -> None:
    kept = Update(1, ("1", NOT_SENT), ("1", "old"))
    unknown = Update(1, ("1", NOT_SENT))
    found = run(translator(), [Begin(100, 0, 1), kept, unknown, Commit(100, 150, 0)])
    values = [each.record.value.values["after"].values["v"] for each in found]
    assert values == ["old", "__debezium_unavailable_value"]


def test_an_unchanged_value_without_a_placeholder_ends_the_task() -> None:
    column = CatalogColumn("v", FLOAT8, -1, False, None)
    described = CatalogTable((DESCRIBED.columns[0], column), ("id",))
    relation = Relation(
        9, "public", "f", ReplicaIdentity.DEFAULT, (COLUMNS[0], RelationColumn("v", FLOAT8, -1, False))
    )
    shape = Shaping(Names("srv")).of_relation(TYPES, relation, described)
    with pytest.raises(ConversionError, match="REPLICA IDENTITY FULL"):
        shape.row(("1", NOT_SENT))


def test_old_values_without_the_key_are_no_other_key() -> None:
    """The replica identity is another index than the key: its old values hold the key as NULL."""
    changed = [Begin(100, 0, 1), Update(1, ("1", "y"), (None, "x"), True), Commit(100, 150, 0)]
    (found,) = run(translator(), changed)
    assert (found.record.key.values["id"], found.record.value.values["op"]) == (1, "u")
    with pytest.raises(ConversionError, match="replica identity"):
        run(translator(), [Begin(100, 0, 1), Delete(1, (None, "x"), True)])


def test_messages_out_of_order_are_refused() -> None:
    with pytest.raises(StreamError, match="outside"):
        translator().take(Insert(1, ("1", "x")), 1, 1)
    with pytest.raises(StreamError, match="within"):
        run(translator(), [Begin(100, 0, 1), Begin(200, 0, 2)])
    with pytest.raises(StreamError, match="not described"):
        run(translator(), [Begin(100, 0, 1), Insert(99, ("1", "x"))])


LSNS = st.integers(0, 2**64 - 1)
PREVIOUS = st.one_of(st.none(), LSNS)
HISTORY = st.one_of(st.none(), st.builds(History, st.text(), st.integers(1, 2**31)))


@st.composite
def table_ranges(draw: st.DrawFn) -> Ranges:
    columns = draw(st.lists(st.text(), min_size=1, max_size=3))
    bounds = draw(st.lists(st.tuples(*(st.text() for _ in columns)), max_size=5))
    if not bounds:
        return Ranges()
    done = draw(st.frozensets(st.integers(0, len(bounds))))
    return Ranges(tuple(columns), tuple(bounds), done)


COPYING = st.builds(
    Copying, st.frozensets(st.text(), max_size=3), st.dictionaries(st.text(), table_ranges(), max_size=3)
)


@given(
    st.builds(Position, LSNS, st.integers(0, 2**40), PREVIOUS, st.one_of(st.none(), COPYING), HISTORY),
)
def test_a_position_comes_back_from_its_offset(position: Position) -> None:
    assert position_of(position.offset()) == position


def test_an_offset_of_debeziums_goes_on_behind_its_last_transaction() -> None:
    assert position_of({"lsn_commit": 77, "lsn": 99, "txId": 3}) == Position(77)


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"commit": "1"},
        {"commit": -1},
        {"commit": 1, "changes": -1},
        {"commit": 1, "copied": "["},
        {"commit": 1, "snapshot": "x"},
        {"commit": 1, "system": 7, "timeline": 1},
        {"commit": 1, "begun": "[1]"},
        {"commit": 1, "begun": '{"t":{"key":["a"],"bounds":[["1","2"]],"done":[]}}'},
        {"commit": 1, "begun": '{"t":{"key":["a"],"bounds":[["1"]],"done":[2]}}'},
    ],
)
def test_offsets_that_make_no_sense_are_refused(offset: dict[str, object]) -> None:
    with pytest.raises(BadOffset):
        position_of(offset)
