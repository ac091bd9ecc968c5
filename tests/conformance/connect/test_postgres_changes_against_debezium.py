"""Debezium 3.6.1 and ours on one database: each change is the same event, field by field, schemas included.

What differs is named here, and is Debezium's: its copies of tables read dates by Java's old calendar, a time
array loses its microseconds, hstore's pairs are in the order of Java's hash, and `name` is null in its
stream. Large values that were not sent are null where binary.handling.mode or the time's mode makes them
texts or moments. Its copies tell types that are not on the search path with their schema, serial for
integer, and no length of numeric.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.connect.cdc import postgres_types as types
from support.connect.cdc.postgres_changes import Reading, configuration
from support.java.connect_oracle import tell_record
from support.java.debezium_source import DebeziumSource, compile_debezium, debezium_source
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

TIMEOUT_S = 30.0
LAST = 99
WHERE_AND_WHEN = frozenset({"ts_ms", "ts_us", "ts_ns", "lsn", "sequence", "txId"})
RUN = "__debezium.context.runId"
SOURCE_COLUMN = "__debezium.source.column."
COPIED_OTHERWISE = "dt"
TO_MILLISECONDS = "a_ti"
NULL_IN_STREAM = "na"
SHUFFLED = frozenset({"hs", "a_hs"})
CONFIGURATIONS: tuple[Mapping[str, str], ...] = (
    {},
    {
        "decimal.handling.mode": "string",
        "time.precision.mode": "connect",
        "hstore.handling.mode": "map",
        "interval.handling.mode": "string",
        "binary.handling.mode": "hex",
        "column.exclude.list": "types.big.(bs|d)",
        "unavailable.value.placeholder": "not sent",
        "schema.name.adjustment.mode": "avro",
    },
    {
        "decimal.handling.mode": "double",
        "time.precision.mode": "adaptive_time_microseconds",
        "binary.handling.mode": "base64-url-safe",
        "provide.transaction.metadata": "true",
        "tombstones.on.delete": "false",
        "skipped.operations": "none",
        "extended.headers.enabled": "false",
        "column.exclude.list": "types.everything.(si|i|bi),types.(big|whole).(b|bs)",
        "table.exclude.list": "types.hidden",
        "message.key.columns": "types.keyless:a,b",
    },
    {
        "time.precision.mode": "isostring",
        "binary.handling.mode": "base64",
        "topic.delimiter": "_",
        "schema.include.list": "types,odd.*",
        "column.include.list": "types.everything.(pk|a_.*|ts.*|t),types.big.(pk|t|ts|i4|j|small),"
        "types.(filled|renamed|indexed|growing|later|whole|keyless|defaults|empty|zz_last|hidden).*,odd.*",
    },
    {"time.precision.mode": "microseconds", "money.fraction.digits": "4"},
    {
        "column.propagate.source.type": "types.everything.*,types.growing.*",
        "datatype.propagate.source.type": "types.*.text,types.renamed.(int4|text),types.*._.*",
        "field.name.adjustment.mode": "avro",
        "snapshot.include.collection.list": "types.(everything|zz_last|defaults),odd.*",
    },
    {
        "column.truncate.to.3.chars": "types.everything.(t|vc|by|js|en|i|uu|c|a_t),types.defaults.d_[b-z].*",
        "column.mask.with.4.chars": "types.everything.(t|na|ch|ci|do_t|n_fixed|tt|c1),types.renamed.v",
        "column.mask.hash.SHA-256.with.salt.pepper": "types.everything.(pk|t|ci_|inet_),types.growing.a",
        "column.mask.hash.v2.MD5.with.salt.sälz.t": "types.renamed.(pl|v),odd.*",
        "field.name.adjustment.mode": "avro_unicode",
        "schema.name.adjustment.mode": "avro_unicode",
        "snapshot.select.statement.overrides": "types.zz_last",
        "snapshot.select.statement.overrides.types.zz_last": "SELECT * FROM types.zz_last WHERE pk = 2",
        "snapshot.locking.mode": "shared",
        "skip.messages.without.change": "true",
        "provide.transaction.metadata": "true",
    },
)
TABLES = (
    "CREATE TABLE types.keyless (a integer, b text)",
    "CREATE TABLE types.indexed (a integer NOT NULL, b text NOT NULL)",
    "CREATE UNIQUE INDEX ON types.indexed (b, a)",
    "CREATE TABLE types.big (pk integer PRIMARY KEY, t text, b bytea, ts text[], bs bytea[], i4 integer[], "
    "i8 bigint[], u uuid[], h hstore, j jsonb, d date[], small integer)",
    "CREATE TABLE types.whole (LIKE types.big INCLUDING ALL)",
    "ALTER TABLE types.whole REPLICA IDENTITY FULL",
    "CREATE TABLE types.hidden (pk integer PRIMARY KEY)",
    "CREATE TABLE types.growing (pk integer PRIMARY KEY, a text)",
    "CREATE TABLE types.renamed (pk integer, pl text, v text NOT NULL DEFAULT 'x', w integer NOT NULL, "
    "PRIMARY KEY (pl, pk))",
    'CREATE SCHEMA "Odd ""Schema"',
    'CREATE TABLE "Odd ""Schema"."1 ta.ble" ("1 k" integer PRIMARY KEY, "a-b" text)',
    "CREATE TABLE types.empty (pk integer PRIMARY KEY)",
    "CREATE TABLE types.zz_last (pk integer PRIMARY KEY)",
    "INSERT INTO types.zz_last VALUES (1), (2)",
)
BIG = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 400) n)"
BIG_ROW = f"""
INSERT INTO types.{{}} SELECT {{}}, s, decode(s, 'hex'), ARRAY[s], ARRAY[decode(s, 'hex')],
    (SELECT array_agg(n * 7919) FROM generate_series(1, 3000) n),
    (SELECT array_agg(n * 7919::bigint) FROM generate_series(1, 3000) n),
    (SELECT array_agg(md5(n::text)::uuid) FROM generate_series(1, 500) n), hstore('k', s), to_jsonb(s),
    (SELECT array_agg('2000-01-01'::date + n) FROM generate_series(1, 3000) n), 1
FROM {BIG} AS b (s)
"""
CHANGES: tuple[tuple[str, ...], ...] = (
    ("UPDATE types.filled SET i = 5",),
    ("UPDATE types.filled SET pk = 77",),
    ("DELETE FROM types.filled",),
    ("INSERT INTO types.keyless VALUES (1, 'a'), (2, NULL)", "INSERT INTO types.indexed VALUES (1, 'a')"),
    ("ALTER TABLE types.indexed REPLICA IDENTITY USING INDEX indexed_b_a_idx",),
    ("UPDATE types.indexed SET b = 'c'", "DELETE FROM types.indexed"),
    (BIG_ROW.format("big", 1), BIG_ROW.format("whole", 1)),
    ("UPDATE types.big SET small = 2", "UPDATE types.whole SET small = 2"),
    ("UPDATE types.big SET t = 'now small'", "UPDATE types.whole SET t = 'now small'"),
    ("UPDATE types.big SET pk = 2", "UPDATE types.whole SET pk = 2"),
    ("UPDATE types.whole SET small = small, i4 = i4", "UPDATE types.big SET small = small"),
    ("UPDATE types.whole SET small = 9",),
    ("DELETE FROM types.big", "DELETE FROM types.whole"),
    ("INSERT INTO types.hidden VALUES (1)",),
    ("INSERT INTO types.renamed VALUES (1, 'a', 'b', 3)", "UPDATE types.renamed SET w = 4"),
    ("UPDATE types.renamed SET pl = 'z'", "DELETE FROM types.renamed"),
    ("INSERT INTO types.growing VALUES (1, 'a')",),
    ("ALTER TABLE types.growing ADD COLUMN b integer NOT NULL DEFAULT 7",),
    ("INSERT INTO types.growing VALUES (2, 'a', 3)", "UPDATE types.growing SET a = 'z' WHERE pk = 1"),
    ("ALTER TABLE types.growing ALTER COLUMN b TYPE bigint", "ALTER TABLE types.growing DROP COLUMN a"),
    ("INSERT INTO types.growing VALUES (3, 4)",),
    ("CREATE TYPE types.late AS ENUM ('x', 'y')", "ALTER TABLE types.growing ADD COLUMN l types.late"),
    ("INSERT INTO types.growing VALUES (4, 4, 'y')",),
    ("CREATE TABLE types.later (pk integer PRIMARY KEY, v types.late[])",),
    ("INSERT INTO types.later VALUES (1, '{x,y}')",),
    ('INSERT INTO "Odd ""Schema"."1 ta.ble" VALUES (1, \'x\')',),
    ("TRUNCATE types.growing, types.later",),
    (
        "SELECT pg_logical_emit_message(true, 'prefix', 'in a transaction')",
        "INSERT INTO types.hidden VALUES (2)",
    ),
    ("SELECT pg_logical_emit_message(false, 'prefix', 'outside')",),
    ("INSERT INTO types.empty VALUES (1)",),
)
"""Transactions, each of some statements, in the order of commits."""


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_debezium(tmp_path_factory.mktemp("debezium-postgres"))


@pytest.fixture
def url() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql(programs, "wal_level=logical") as running:
        yield running


def prepare(connection: psycopg.Connection[Any]) -> None:
    connection.execute(types.SCHEMA)
    connection.execute(types.table_of("types.everything", types.COLUMNS))
    fill(connection)
    connection.execute(types.DEFAULTS)
    connection.execute("INSERT INTO types.defaults DEFAULT VALUES")
    filled = {name: types.COLUMNS[name] for name in types.NOT_NULL_TYPES}
    connection.execute(types.table_of("types.filled", filled, " NOT NULL"))
    connection.execute(types.insert("types.filled", filled), [values[0] for _, values in filled.values()])
    for statement in TABLES:
        connection.execute(statement.encode())


def fill(connection: psycopg.Connection[Any]) -> None:
    for row in types.rows_of(types.COLUMNS):
        connection.execute(types.insert("types.everything", types.COLUMNS), row)


def change(connection: psycopg.Connection[Any]) -> None:
    fill(connection)
    for statements in CHANGES:
        with connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())


def plain(told: Any) -> Any:
    """A told value without its classes, to look into."""
    match told:
        case ["t", fields]:
            return {name: plain(value) for name, value in fields}
        case [_, value]:
            return value
    return told


def same(told: dict[str, Any]) -> dict[str, Any]:
    """A record without what two readers of one log can't have in common."""
    found = {name: told[name] for name in ("topic", "keySchema", "key", "valueSchema", "value")}
    found["headers"] = [each for each in told["headers"] if each[0] != RUN]
    operation = (plain(told["value"]) or {}).get("op")
    if operation == "r":
        found["valueSchema"] = _without_source(found["valueSchema"])
    for part in ("key", "value"):
        found[part] = _same_value(found[part], copied=operation == "r")
    return found


def _without_source(schema: Any) -> Any:
    """A schema without what it tells of columns: Debezium's copies have other names and lengths of types."""
    if isinstance(schema, list):
        return [_without_source(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_source(each) for name, each in schema.items() if not name.startswith(SOURCE_COLUMN)
    }


def _same_value(told: Any, copied: bool) -> Any:
    if not isinstance(told, list) or len(told) != 2 or told[0] != "t":
        return told
    fields = []
    for field, value in told[1]:
        name = field.replace("_u005f", "_")  # as avro_unicode writes it
        if name in WHERE_AND_WHEN or (name == NULL_IN_STREAM and not copied):
            continue
        if name == TO_MILLISECONDS or (name == COPIED_OTHERWISE and copied):
            continue
        if name == "id" and isinstance(value, list) and ":" in str(value[1]):
            value = ["s", str(value[1]).partition(":")[0]]
        if name in SHUFFLED and value is not None:
            value = _pairs(value)
        if name == "data_collections" and value is not None:
            # Debezium counts logical messages under the address of a Java object.
            value = ["l", sorted((each for each in value[1] if "MESSAGE" not in str(each).upper()), key=str)]
        fields.append([field, _same_value(value, copied)])
    return ["t", fields]


def _pairs(told: list[Any]) -> Any:
    kind, content = told
    if kind == "s" and content.startswith("{"):
        return ["pairs", sorted(json.loads(content).items(), key=str)]
    return [kind, [_pairs(each) for each in content]] if kind == "l" else told


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
def test_both_make_the_same_events_of_one_database(
    url: str, class_path: str, tmp_path: Path, number: int
) -> None:
    ours, theirs = both(url, class_path, tmp_path, CONFIGURATIONS[number])
    for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        assert same(one) == same(other), (at, one["topic"])
    assert len(theirs) == len(ours), ours[len(theirs)]


def test_both_read_values_again_and_write_heartbeats(url: str, class_path: str, tmp_path: Path) -> None:
    given = {
        "post.processors": "again",
        "again.type": "io.debezium.processors.reselect.ReselectColumnsPostProcessor",
        # Debezium knows the placeholders of some arrays alone; ours reads all of them again.
        "again.reselect.columns.include.list": "types.big:(t|b|i4|i8|h|j)",
        "heartbeat.interval.ms": "200",
        "topic.heartbeat.prefix": "beats",
        "snapshot.mode": "no_data",
    }
    beats: list[dict[str, Any]] = []
    changes: list[list[dict[str, Any]]] = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA types; CREATE EXTENSION hstore")
        connection.execute(next(each for each in TABLES if "types.big" in each).encode())
        config = configuration(url) | given
        reading = Reading(config | {"slot.name": "ours"})
        with closing(reading), debezium_source(class_path, config, tmp_path / "debezium.log") as debezium:
            assert not reading.turn()
            while (
                connection.execute("SELECT FROM pg_stat_replication WHERE state = 'streaming'").rowcount < 2
            ):
                assert debezium.process.poll() is None
                reading.turn()
            connection.execute(BIG_ROW.format("big", 1).encode())
            connection.execute("UPDATE types.big SET small = 2")

            def ours() -> dict[str, Any]:
                while not pending:
                    pending.extend(tell_record(each.record) for each in reading.some())
                return pending.pop(0)

            def theirs() -> dict[str, Any]:
                found = debezium.record(TIMEOUT_S)
                assert found is not None
                return found

            pending: list[dict[str, Any]] = []
            for next_one in (ours, theirs):
                found: list[dict[str, Any]] = []
                beat = None
                while len(found) < 2 or beat is None:
                    record = next_one()
                    if record["topic"].startswith("beats"):
                        beat = record
                    else:
                        found.append(record)
                beats.append(beat)
                changes.append(found)
    assert same(beats[0]) == same(beats[1])
    for one, other in zip(*changes, strict=True):
        assert same(one) == same(other), [
            name
            for (name, mine), (_, other_one) in zip(after_of(same(one)), after_of(same(other)), strict=True)
            if mine != other_one
        ]
    after = plain(changes[0][1]["value"])["after"]
    assert after["small"] == 2 and len(after["t"]) > 10_000
    assert after["ts"][0][1] == "__debezium_unavailable_value"


def after_of(told: dict[str, Any]) -> list[Any]:
    """The fields of the new row."""
    found: list[Any] = dict(told["value"][1])["after"][1]
    return found


Told = list[dict[str, Any]]


def both(url: str, class_path: str, tmp_path: Path, given: Mapping[str, str]) -> tuple[Told, Told]:
    """The events of ours, and as many of Debezium's, of tables that are there and of changes."""
    with psycopg.connect(url, autocommit=True) as connection:
        prepare(connection)
        config = configuration(url) | dict(given)
        reading = Reading(config | {"slot.name": "ours"})
        with closing(reading), debezium_source(class_path, config, tmp_path / "debezium.log") as debezium:
            ours: Told = []
            while not ours or plain(ours[-1]["value"])["source"]["snapshot"] != "last":
                ours += [tell_record(each.record) for each in reading.some()]
            # The copy's transaction ends with the turn behind its last row; DDL waits for that.
            assert not reading.turn()
            theirs = list(_records(debezium, len(ours)))
            change(connection)
            connection.execute("INSERT INTO types.zz_last VALUES (%s)", (LAST,))
            while not any(map(_is_last, ours[-2:])):  # the end of its transaction may come after it
                ours += [tell_record(each.record) for each in reading.some()]
            theirs += _records(debezium, len(ours) - len(theirs))
    return ours, theirs


def _records(debezium: DebeziumSource, count: int) -> Iterator[dict[str, Any]]:
    """So many records, or those that come in time: which one is missing is seen when they are compared."""
    for _ in range(count):
        found = debezium.record(TIMEOUT_S)
        if found is None:
            return
        yield found


def _is_last(told: dict[str, Any]) -> bool:
    after = (plain(told["value"]) or {}).get("after")
    return told["topic"].endswith("zz_last") and bool(after) and after["pk"] == LAST
