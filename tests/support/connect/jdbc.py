"""What the JDBC source and sink must do on every database system, whichever it is."""

from __future__ import annotations

import decimal
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.connect.connectors.common import Superseded
from ottla.connect.connectors.jdbc.address import read_address
from ottla.connect.connectors.jdbc.columns import moment_ns
from ottla.connect.connectors.jdbc.database import LEDGER_TABLE, Database
from ottla.connect.connectors.jdbc.moments import UTC
from ottla.connect.connectors.jdbc.opening import open_database
from ottla.connect.connectors.jdbc.sink import JdbcSink
from ottla.connect.connectors.jdbc.source import JdbcSource
from ottla.connect.data.building import (
    DATE_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    as_optional,
    decimal_schema,
    struct_schema,
)
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.data.schema import Moment, Schema, Struct, Type
from ottla.connect.testing import (
    Target,
    check_growing_source,
    check_sink,
    check_source,
    read_records,
    settings_of,
    write_records,
)

PLACE = TopicPartition("t", 0)
DAY_MS = 86_400_000
FIRST_DAY = -719_162
"""The first of January of the year 1, in days since 1970."""
LAST_DAY = 2_932_896
_KEY = struct_schema([("id", Schema(Type.INT32))])


# -- connectors -------------------------------------------------------------------------------------


def sink(url: str, texts: Mapping[str, str] | None = None) -> JdbcSink:
    """A sink that creates its tables, in pk.mode none unless it is said."""
    return JdbcSink(settings_of(JdbcSink, {"connection.url": url, "auto.create": "true", **(texts or {})}))


def source(url: str, texts: Mapping[str, str] | None = None) -> JdbcSource:
    """A source that reads without pauses, in mode bulk unless it is said."""
    given = {
        "mode": "bulk",
        "topic.prefix": "",
        "poll.interval.ms": "0",
        "connection.url": url,
        **(texts or {}),
    }
    return JdbcSource(settings_of(JdbcSource, given))


def database(url: str) -> Database:
    """The database at a URL, for looking into it and for preparing it."""
    return open_database(read_address(url), UTC)


def run(url: str, *statements: str) -> None:
    """Run statements."""
    with closing(database(url)) as opened:
        for each in statements:
            opened.run(opened.literal(each))


def rows_of(url: str, table: str) -> list[tuple[Any, ...]]:
    """All rows of a table, as the driver gives them."""
    with closing(database(url)) as opened:
        relation = opened.relation(opened.table_of([table]))
        assert relation is not None, f"there is no table {table}"
        columns = ", ".join(opened.quote(each.name) for each in relation.columns)
        return [tuple(each) for each in opened.select(f"SELECT {columns} FROM {opened.quote(table)}")]


def read_bulk(url: str, table: str, texts: Mapping[str, str] | None = None) -> list[Struct]:
    """A table's rows as the source gives them, once."""
    reader = source(url, {**(texts or {}), "batch.max.rows": "7", "poll.interval.ms": "3600000"})
    with closing(reader):
        partition = next(
            each
            for each in reader.partitions()
            if each["table"].rpartition(".")[2] == table.rpartition(".")[2]
        )
        return [each.record.value for each in read_records(reader, partition)]


def records(
    *values: Struct | None, keys: Sequence[Any] = (), key_schema: Schema | None = None, first: int = 0
) -> list[SinkRecord]:
    """Records of one partition."""
    found = []
    for index, value in enumerate(values):
        key = keys[index] if keys else None
        schema = None if value is None else value.schema
        record = Record("t", 0, key, key_schema, value, schema, 1_700_000_000_000 + index)
        found.append(SinkRecord(record, PLACE, first + index))
    return found


# -- values -----------------------------------------------------------------------------------------

ROW = struct_schema(
    [
        ("id", Schema(Type.INT32)),
        ("word", Schema(Type.STRING, optional=True)),
        ("ratio", Schema(Type.FLOAT64)),
        ("flag", Schema(Type.BOOLEAN, optional=True)),
        ("amount", decimal_schema(2, optional=True)),
        ("data", Schema(Type.BYTES, optional=True)),
        ("day", as_optional(DATE_SCHEMA)),
        ("at", as_optional(TIMESTAMP_SCHEMA)),
    ],
    name="row",
)
WORDS = (
    "",
    "a",
    "ünï",
    "日本",
    "🙂",
    'quote"d',
    "it's",
    "back\\slash",
    "line\nline",
    "%s %% ?",
    "); DROP TABLE t; --",
)


def drawn_row(chance: random.Random, id: int) -> Struct:
    """A row with that id, and other values of every kind."""

    def perhaps(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return Struct(
        ROW,
        {
            "id": id,
            "word": perhaps(chance.choice(WORDS)),
            "ratio": chance.choice((0.0, -1.5, 1e300, 5e-324, 0.1)),
            "flag": perhaps(chance.random() < 0.5),
            "amount": perhaps(decimal.Decimal(chance.randrange(-(10**12), 10**12)).scaleb(-2)),
            "data": perhaps(chance.randbytes(chance.randrange(20))),
            "day": perhaps(Moment(chance.randrange(FIRST_DAY, LAST_DAY) * DAY_MS)),
            "at": perhaps(Moment(chance.randrange(FIRST_DAY * DAY_MS, LAST_DAY * DAY_MS))),
        },
    )


def drawn_records(
    chance: random.Random, count: int, *, deletes: bool, refused: float = 0.05
) -> list[SinkRecord]:
    """Records of two topics with ids as keys; some have no value, or one that is no row."""
    places = [TopicPartition(topic, partition) for topic in ("one", "two") for partition in range(2)]
    offsets = {place: chance.randrange(50) for place in places}
    found = []
    for _ in range(count):
        place = chance.choice(places)
        offset = offsets[place]
        offsets[place] += chance.choice((1, 1, 1, 3))
        # Keys of a partition are its own, as Kafka's are.
        id = chance.randrange(12) * 4 + places.index(place)
        value: Any = drawn_row(chance, id)
        schema: Schema | None = ROW
        match chance.random():
            case drawn if deletes and drawn < 0.2:
                value = schema = None
            case drawn if drawn > 1 - refused:
                value, schema = {"id": id}, None
        key = Struct(_KEY, {"id": id})
        record = Record(place.topic, place.partition, key, _KEY, value, schema, 1_700_000_000_000)
        found.append(SinkRecord(record, place, offset))
    return found


def plain(value: Any) -> Any:
    """A value so that what one system has as another type is equal: 1 and True, a moment and its number."""
    match value:
        case Moment():
            return value.epoch_ms
        case float() if value != value:
            return "NaN"
    return value


# -- the sink ---------------------------------------------------------------------------------------


def check_kills(new_url: Callable[[], str], texts: Mapping[str, str], *, deletes: bool, seed: int) -> None:
    """Kill and move a sink's tasks: each row is there as often as without kills."""

    def target() -> Target:
        url = new_url()

        def content() -> list[tuple[str, tuple[Any, ...]]]:
            with closing(database(url)) as opened:
                names = [each.name for each in opened.tables(frozenset(["TABLE"]))]
            return [(name, row) for name in names for row in rows_of(url, name)]

        return Target(lambda: sink(url, {"batch.size": "7", **texts}), content)

    given = drawn_records(random.Random(seed), 200, deletes=deletes)
    found: Counter[Any] = check_sink(target, given, exactly_once=True, seed=seed, runs=3)
    assert {name for name, _ in found} == {"one", "two"}
    if not deletes:
        return
    expected: dict[tuple[str, int], Any] = {}
    for each in given:
        if each.record.value is None:
            expected.pop((each.place.topic, each.record.key.values["id"]), None)
        elif each.record.value_schema is not None:
            expected[each.place.topic, each.record.key.values["id"]] = each.record.value
    assert Counter((name, row[0]) for name, row in found.elements()) == Counter(expected.keys())


UPSERTS = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true"}


def check_ledger(url: str) -> None:
    """Offsets are kept by connector and generation; a task whose records another one wrote ends."""
    chance = random.Random(1)
    first = sink(url)
    assert first.open([PLACE]) == {}
    first.write(records(*(drawn_row(chance, id) for id in range(3))))
    assert sink(url).open([PLACE, TopicPartition("other", 0)]) == {PLACE: 3}
    assert sink(url, {"name": "another"}).open([PLACE]) == {}
    assert sink(url, {"ottla.generation": "1"}).open([PLACE]) == {}
    second = sink(url)
    second.open([PLACE])
    second.write(records(drawn_row(chance, 3), first=3))
    with pytest.raises(Superseded):
        first.write(records(drawn_row(chance, 3), first=3))
    assert len(rows_of(url, "t")) == 4
    with closing(database(url)) as opened:
        assert LEDGER_TABLE not in {each.name for each in opened.tables(frozenset(["TABLE"]))}


def check_refused_by_database(url: str) -> None:
    """A row that breaks a rule of the table is refused alone, those around it are written."""
    run(url, "CREATE TABLE t (id INT NOT NULL, CHECK (id <> 3))")
    schema = struct_schema([("id", Schema(Type.INT32, optional=True))])
    given = records(*(Struct(schema, {"id": id}) for id in (1, 2, 3, 4, None, 5)))
    dead = write_records(sink(url), given)
    assert [each.offset for each in dead] == [2, 4]
    assert sorted(rows_of(url, "t")) == [(1,), (2,), (4,), (5,)]


def check_evolution(url: str) -> None:
    """A new field is a new column, where it may be null; else, and without auto.evolve, it is refused."""
    one = struct_schema([("id", Schema(Type.INT32))])
    two = struct_schema(
        [*((each.name, each.schema) for each in one.fields), ("more", Schema(Type.STRING, optional=True))]
    )
    three = struct_schema([("id", Schema(Type.INT32)), ("needed", Schema(Type.INT64))])
    writer = sink(url, {"auto.evolve": "true"})
    assert write_records(writer, records(Struct(one, {"id": 1}))) == []
    strict = sink(url, {"name": "strict"})
    assert len(write_records(strict, records(Struct(two, {"id": 2, "more": "x"})))) == 1
    given = records(
        Struct(two, {"id": 2, "more": "x"}),
        Struct(three, {"id": 3, "needed": 3}),
        Struct(one, {"id": 4}),
        first=1,
    )
    assert [each.offset for each in write_records(writer, given)] == [2]
    assert sorted(rows_of(url, "t")) == [(1, None), (2, "x"), (4, None)]
    missing = sink(url, {"name": "none", "auto.create": "false", "table.name.format": "nothing"})
    assert len(write_records(missing, records(Struct(one, {"id": 1})))) == 1


def check_defaults(url: str) -> None:
    """A field that is null is its default, unless that is not wanted."""
    schema = struct_schema([("id", Schema(Type.INT32)), ("n", Schema(Type.INT32, optional=True, default=7))])
    given = records(Struct(schema, {"id": 1, "n": None}), Struct(schema, {"id": 2, "n": 3}))
    sink(url).write(given)
    sink(url, {"replace.null.with.default": "false", "name": "nulls"}).write(given)
    assert sorted(rows_of(url, "t"), key=str) == [(1, 7), (1, None), (2, 3), (2, 3)]


def check_key_modes(url: str) -> None:
    """Where keys come from: Kafka, the record's key, its value."""
    schema = struct_schema(
        [("a", Schema(Type.INT32)), ("b", Schema(Type.STRING)), ("c", Schema(Type.INT32, optional=True))]
    )

    def row(a: int, b: str, c: int | None) -> Struct:
        return Struct(schema, {"a": a, "b": b, "c": c})

    kafka = sink(
        url, {"pk.mode": "kafka", "table.name.format": "k_${topic}", "name": "k", "insert.mode": "upsert"}
    )
    kafka.write(records(row(1, "x", None), row(1, "x", None)))
    assert sorted(rows_of(url, "k_t")) == [("t", 0, 0, 1, "x", None), ("t", 0, 1, 1, "x", None)]
    texts = {"pk.mode": "record_value", "pk.fields": "b,a", "insert.mode": "upsert", "name": "v"}
    sink(url, {**texts, "table.name.format": "v"}).write(
        records(row(1, "x", 1), row(1, "X", 2), row(1, "x", 3))
    )
    assert sorted(rows_of(url, "v"), key=str) == [("X", 1, 2), ("x", 1, 3)]
    texts = {
        "pk.mode": "record_key",
        "pk.fields": "key",
        "name": "r",
        "insert.mode": "upsert",
        "delete.enabled": "true",
    }
    writer = sink(url, {**texts, "table.name.format": "r", "fields.whitelist": "c"})
    text = Schema(Type.STRING)
    given = records(None, row(1, "x", 1), row(2, "y", 2), None, keys=["q", "p", "q", "p"], key_schema=text)
    assert write_records(writer, given) == []
    assert rows_of(url, "r") == [("q", 2)]
    updates = sink(
        url,
        {
            "pk.mode": "record_value",
            "pk.fields": "a",
            "fields.whitelist": "c",
            "insert.mode": "update",
            "name": "u",
            "table.name.format": "v",
        },
    )
    updates.write(records(row(1, "z", 9)))
    assert sorted(row[2] for row in rows_of(url, "v")) == [9, 9]


# -- names ------------------------------------------------------------------------------------------


def names(*, max_bytes: int, max_character: int = 0x10FFFF) -> st.SearchStrategy[str]:
    """Names of tables and columns that a system has: any characters, quotes, spaces, signs of parameters."""
    characters = st.one_of(
        st.sampled_from("aAbB\"'`%?$.;-_ \\{}()"),
        st.characters(max_codepoint=max_character, exclude_categories=("Cs", "Cc")),
    )
    fits = st.text(characters, min_size=1, max_size=16)
    return fits.filter(lambda name: len(name.encode()) <= max_bytes and name == name.strip() and bool(name))


def check_names(new_url: Callable[[], str], names: st.SearchStrategy[str], mark: str, examples: int) -> None:
    """Any names: a sink makes the table, replaces and deletes in it, and a source reads it."""
    numbers = count()

    @settings(max_examples=examples)
    @example(["%s %% ?", "%(a)s", "%", "100% {} $1"])
    @given(st.lists(names, min_size=4, max_size=4, unique_by=lambda each: each.casefold()))
    def check(drawn: list[str]) -> None:
        url = new_url()
        table, key, *others = drawn
        table = table.replace("${topic}", "x")
        if table.lower().startswith("sqlite_"):
            return
        schema = struct_schema([(key, Schema(Type.INT32)), *((each, Schema(Type.STRING)) for each in others)])
        rows = [
            Struct(schema, {key: id, **{each: f"{each} {number}" for each in others}})
            for number, id in enumerate((1, 2, 1))
        ]
        quoted = mark + table.replace(mark, mark + mark) + mark
        keys = struct_schema([(key, Schema(Type.INT32))])
        given_keys = [Struct(keys, {key: id}) for id in (1, 2, 1, 3, 2)]
        third = Struct(schema, {**rows[0].values, key: 3})
        batch = records(*rows, third, None, keys=given_keys, key_schema=keys)
        texts = {**UPSERTS, "table.name.format": quoted, "name": f"names-{next(numbers)}"}
        try:
            with closing(sink(url, texts)) as writer:
                assert write_records(writer, batch) == []
            reader = source(url, {"mode": "incrementing", "incrementing.column.name": key})
            with closing(reader):
                (partition,) = [each for each in reader.partitions() if each["table"].endswith(table)]
                found = read_records(reader, partition)
            assert [dict(each.record.value.values) for each in found] == [rows[2].values, third.values]
            assert [each.source_offset for each in found] == [{"incrementing": 1}, {"incrementing": 3}]
        finally:
            with closing(database(url)) as opened:
                opened.run(f"DROP TABLE IF EXISTS {opened.quote(table)}")

    check()


# -- values there and back --------------------------------------------------------------------------


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def typed_values(
    *, digits: int, finite: bool, text: st.SearchStrategy[str]
) -> dict[str, tuple[Schema, st.SearchStrategy[Any]]]:
    """A field of each type, and its values. digits: of a Decimal."""
    whole = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
    found: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
        each.value: (Schema(each), st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        for each, bits in whole.items()
    }
    limit = 10**digits - 1
    found |= {
        "float32": (
            Schema(Type.FLOAT32),
            st.floats(width=32, allow_nan=not finite, allow_infinity=not finite),
        ),
        "float64": (Schema(Type.FLOAT64), st.floats(allow_nan=not finite, allow_infinity=not finite)),
        "boolean": (Schema(Type.BOOLEAN), st.booleans()),
        "string": (Schema(Type.STRING), text),
        "bytes": (Schema(Type.BYTES), st.binary(max_size=40)),
        "decimal": (
            decimal_schema(6),
            st.integers(-limit, limit).map(
                lambda each: decimal.Decimal(each).scaleb(-6, decimal.Context(prec=100))
            ),
        ),
        "date": (DATE_SCHEMA, st.integers(FIRST_DAY, LAST_DAY).map(lambda day: Moment(day * DAY_MS))),
        "time": (TIME_SCHEMA, st.integers(0, DAY_MS - 1).map(Moment)),
        "timestamp": (TIMESTAMP_SCHEMA, st.integers(FIRST_DAY * DAY_MS, LAST_DAY * DAY_MS).map(Moment)),
    }
    return found


def check_values(
    url: str, values: Mapping[str, tuple[Schema, st.SearchStrategy[Any]]], examples: int
) -> None:
    """What a sink writes of any values, a source reads back."""
    schema = struct_schema(
        [("id", Schema(Type.INT32)), *((name, as_optional(each)) for name, (each, _) in values.items())]
    )
    rows = st.lists(
        st.fixed_dictionaries({name: st.none() | each for name, (_, each) in values.items()}), max_size=12
    )
    offset = 0
    writer = sink(url)
    writer.open([PLACE])

    @settings(max_examples=examples)
    @given(rows)
    def check(drawn: list[dict[str, Any]]) -> None:
        nonlocal offset
        given = [Struct(schema, {"id": index, **each}) for index, each in enumerate(drawn)]
        if not given:
            return
        run_deleting(url)
        assert write_records(writer, records(*given, first=offset)) == []
        offset += len(given)
        found = sorted(read_bulk(url, "t"), key=lambda each: each.values["id"])
        assert [_plain_row(each) for each in found] == [_plain_row(each) for each in given]

    def run_deleting(url: str) -> None:
        if offset:
            run(url, "DELETE FROM t")

    check()


def _plain_row(row: Struct) -> dict[str, Any]:
    return {name: plain(value) for name, value in row.values.items()}


# -- the source -------------------------------------------------------------------------------------


def check_restarts(url: str) -> None:
    """A source goes on from each of its offsets, by numbers and by timestamps and numbers."""
    rows = ", ".join(
        f"({id}, '2024-01-{1 + id // 10:02} 10:00:00.{id % 3}00', 'word {id}')" for id in range(1, 60)
    )
    run(
        url,
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, at TIMESTAMP(6) NOT NULL, word VARCHAR(20))",
        f"INSERT INTO t VALUES {rows}",
    )
    for texts in (
        {"mode": "incrementing", "incrementing.column.name": "id"},
        {"mode": "timestamp+incrementing", "incrementing.column.name": "id", "timestamp.column.name": "at"},
    ):
        found = check_source(lambda texts=texts: source(url, {**texts, "batch.max.rows": "7"}), restarts=10)  # type: ignore[misc]
        assert len(found) == 59


def check_growth(url: str, seed: int) -> None:
    """Rows that come while a source is killed and started again come once, in order."""
    run(url, "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, word VARCHAR(20))")
    left = iter(range(1, 40))

    def grow() -> bool:
        id = next(left, None)
        if id is None:
            return False
        run(url, f"INSERT INTO t VALUES ({id}, 'w{id}')")
        return True

    texts = {"mode": "incrementing", "incrementing.column.name": "id", "batch.max.rows": "4"}
    found = check_growing_source(lambda: source(url, texts), grow, seed=seed)
    assert [each.record.value.values["id"] for each in found] == list(range(1, 40))


def check_timestamps(url: str) -> None:
    """Rows of one timestamp come together; later ones than the clock wait; changed ones come again."""
    run(
        url,
        "CREATE TABLE t (id INT NOT NULL, made TIMESTAMP(3) NULL, changed TIMESTAMP(3) NULL)",
        "INSERT INTO t VALUES (1, '2024-01-01 00:00:00', NULL), (2, '2024-01-01 00:00:00', NULL),"
        " (3, '2024-01-01 00:00:00', '2024-01-02 00:00:00'), (4, '2037-01-01 00:00:00', NULL),"
        " (5, NULL, NULL)",
    )
    texts = {
        "mode": "timestamp",
        "timestamp.column.name": "changed,made",
        "validate.non.null": "false",
        "batch.max.rows": "1",
    }
    reader = source(url, texts)
    (partition,) = reader.partitions()
    batches = reader.read(partition, None)
    found = [[each.record.value.values["id"] for each in batch] for batch in _some(batches)]
    assert [sorted(each) for each in found] == [[1, 2], [3]]
    run(url, "UPDATE t SET changed = '2024-01-03 00:00:00' WHERE id = 1")
    assert [each.record.value.values["id"] for batch in _some(batches) for each in batch] == [1]
    batches.close()  # type: ignore[attr-defined]
    offset = read_records(reader, partition)[-1].source_offset
    assert offset == {"timestamp": 1_704_240_000_000, "timestamp_nanos": 0}
    reader.close()
    later = source(url, {**texts, "timestamp.initial": "1704153600000"})
    assert [each.record.value.values["id"] for each in read_records(later, partition)] == [1]
    later.close()


def _some(batches: Iterable[Sequence[Any]]) -> Iterable[Sequence[Any]]:
    idle = 0
    for batch in batches:
        idle = 0 if batch else idle + 1
        if batch:
            yield batch
        if idle > 2:
            return


def check_query(url: str) -> None:
    """A query in place of tables, with a suffix, and signs that would be parameters."""
    run(
        url,
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, word VARCHAR(20))",
        "INSERT INTO t VALUES (1, '100%'), (2, 'b'), (3, '50%')",
    )
    texts = {
        "mode": "incrementing",
        "query": "SELECT id, word AS w FROM (SELECT * FROM t WHERE word LIKE '%\\%' OR word LIKE '%0%') q;",
        "query.suffix": "LIMIT 1",
        "incrementing.column.name": "id",
        "topic.prefix": "asked",
    }
    reader = source(url, texts)
    (partition,) = reader.partitions()
    assert partition == {"query": "query"}
    found = read_records(reader, partition)
    assert [(each.record.topic, dict(each.record.value.values)) for each in found] == [
        ("asked", {"id": 1, "w": "100%"}),
        ("asked", {"id": 3, "w": "50%"}),
    ]
    reader.close()


def check_tables(url: str) -> None:
    """Tables are chosen by names and patterns; one that is gone and comes back is read again."""
    run(
        url,
        "CREATE TABLE a (id INT)",
        "CREATE TABLE b (id INT)",
        "CREATE TABLE ab (id INT)",
        "CREATE VIEW v AS SELECT id FROM a",
    )

    def chosen(texts: Mapping[str, str]) -> list[str]:
        with closing(source(url, texts)) as reader:
            return sorted(each["table"].rpartition(".")[2] for each in reader.partitions())

    assert chosen({}) == ["a", "ab", "b"]
    assert chosen({"table.types": "VIEW"}) == ["v"]
    assert chosen({"table.types": "TABLE,VIEW", "table.whitelist": "a,v"}) == ["a", "v"]
    assert chosen({"table.blacklist": "a"}) == ["ab", "b"]
    assert chosen({"table.include.list": r"(.*\.)?a.*", "table.exclude.list": r".*b"}) == ["a"]
    reader = source(url, {"table.whitelist": "a"})
    (partition,) = reader.partitions()
    batches = reader.read(partition, None)
    run(url, "INSERT INTO a VALUES (1)")
    assert [each.record.value.values for batch in [next(batches)] for each in batch] == [{"id": 1}]
    while next(batches):
        pass
    run(url, "DROP VIEW v", "DROP TABLE a")
    assert [list(next(batches)) for _ in range(3)] == [[], [], []]
    run(url, "CREATE TABLE a (id INT, more INT)", "INSERT INTO a VALUES (2, 3)")
    assert next([dict(row.record.value.values) for row in batch] for batch in batches if batch) == [
        {"id": 2, "more": 3}
    ]
    reader.close()


def plain_moment(value: Any) -> int:
    """A timestamp as a driver gives it, text or number, in milliseconds since 1970."""
    return moment_ns(value, UTC) // 1_000_000
