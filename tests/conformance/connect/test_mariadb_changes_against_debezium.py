"""Debezium 3.5.0 and ours on one MariaDB: each change is the same event, field by field, schemas included.

What differs is named here, and is Debezium's: an option with a comma has a backslash in its stream and none
in its copies; FLOAT loses digits in copies; a zero TIMESTAMP is 1970 in its stream and null in its copies;
the digits of TIMESTAMP differ between both; defaults keep SQL's escapes, and those of BIGINT UNSIGNED stop
at 2^63, and those of FLOAT(m, d) are no floats; DDL begins a transaction that never ends; a delete in a table
without a key has a tombstone without one. Its types are as DDL spells them (BOOL, INTEGER UNSIGNED), ours as
the server does: the tables here are spelled like that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.connect.cdc import mariadb_types as types
from support.connect.cdc.mariadb_changes import (
    Reading,
    configuration,
    connection,
    has_mariadb,
    logging_mariadb,
)
from support.java.connect_oracle import tell_record
from support.java.debezium_source import MARIADB, DebeziumSource, compile_debezium, debezium_source

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not has_mariadb(), reason="MariaDB is not installed: apt-get install mariadb-server"),
]

TIMEOUT_S = 60.0
LAST = 99
WHEN = frozenset({"ts_ms", "ts_us", "ts_ns"})
RUN = "__debezium.context.runId"
ESCAPED_OPTION = "en"
FLOATS = frozenset({"f"})
MOMENTS = frozenset({"ts", "ts2", "ts6", "d_ts6"})
ESCAPED_DEFAULTS = frozenset({"d_varchar", "d_esc", "d_bin", "d_bu", "d_f52", "d_comment"})
SPELLED = frozenset({"bo", "cb", "re", "n90", "nc", "f30"})
CONFIGURATIONS: tuple[Mapping[str, str], ...] = (
    {"include.query": "true"},
    {
        "decimal.handling.mode": "string",
        "time.precision.mode": "microseconds",
        "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "hex",
        "schema.name.adjustment.mode": "avro",
        "enable.time.adjuster": "false",
    },
    {
        "decimal.handling.mode": "double",
        "time.precision.mode": "nanoseconds",
        "binary.handling.mode": "base64-url-safe",
        "provide.transaction.metadata": "true",
        "tombstones.on.delete": "false",
        "skipped.operations": "none",
        "extended.headers.enabled": "false",
        "column.exclude.list": "types.everything.(si|i|bi|dt.*|da.*|ts.*)",
        "table.exclude.list": "types.hidden",
        "message.key.columns": "types.keyless:a,b",
        "include.schema.changes": "false",
    },
    {
        "binary.handling.mode": "base64",
        "topic.delimiter": "_",
        "database.include.list": "types,odd.*",
        "column.include.list": "types.everything.(pk|b.*|d|n.*),types.(streamed|renamed|zz_last).*,odd.*",
    },
)
TABLES = (
    "CREATE TABLE types.keyless (a int, b varchar(9))",
    "CREATE TABLE types.uniquely (a int NOT NULL, b varchar(9) NOT NULL, c int, UNIQUE KEY u (b, a))",
    "CREATE TABLE types.hidden (pk int PRIMARY KEY)",
    "CREATE TABLE types.growing (pk int PRIMARY KEY, a text)",
    "CREATE TABLE types.renamed (pk int, pl varchar(9), v text NOT NULL DEFAULT 'x', w int NOT NULL, "
    "PRIMARY KEY (pl, pk))",
    "CREATE DATABASE `odd db` CHARACTER SET latin2",
    "CREATE TABLE `odd db`.`1 ta.ble` (`1 k` int PRIMARY KEY, `a-b` varchar(20))",
    "CREATE TABLE types.empty (pk int PRIMARY KEY)",
    "CREATE TABLE types.zz_last (pk int PRIMARY KEY)",
    "INSERT INTO types.zz_last VALUES (1), (2)",
)
CHANGES: tuple[tuple[str, ...], ...] = (
    ("UPDATE types.filled SET i = 5",),
    ("UPDATE types.filled SET pk = 77",),
    ("DELETE FROM types.filled",),
    ("INSERT INTO types.keyless VALUES (1, 'a'), (2, NULL)", "UPDATE types.keyless SET b = 'z'"),
    ("DELETE FROM types.keyless", "INSERT INTO types.uniquely VALUES (1, 'a', 2)"),
    ("UPDATE types.uniquely SET b = 'c'", "UPDATE types.uniquely SET c = 3", "DELETE FROM types.uniquely"),
    ("INSERT INTO types.hidden VALUES (1)",),
    ("INSERT INTO types.renamed VALUES (1, 'a', 'b', 3)", "UPDATE types.renamed SET w = 4"),
    ("UPDATE types.renamed SET pl = 'z'", "DELETE FROM types.renamed"),
    ("INSERT INTO types.growing VALUES (1, 'a')",),
    ("ALTER TABLE types.growing ADD COLUMN b int NOT NULL DEFAULT 7, ADD COLUMN c char(3) AFTER pk",),
    ("INSERT INTO types.growing VALUES (2, 'x', 'a', 3)", "UPDATE types.growing SET a = 'z' WHERE pk = 1"),
    ("ALTER TABLE types.growing MODIFY b bigint unsigned, DROP COLUMN a, CHANGE c d varchar(30) FIRST",),
    ("INSERT INTO types.growing VALUES ('dd', 3, 4)",),
    ("ALTER TABLE types.growing RENAME COLUMN d TO e, ALTER COLUMN b SET DEFAULT 9",),
    ("INSERT INTO types.growing VALUES ('ee', 4, 5)",),
    ("ALTER TABLE types.growing DROP PRIMARY KEY, ADD PRIMARY KEY (b)",),
    ("UPDATE types.growing SET pk = 9 WHERE b = 5",),
    ("RENAME TABLE types.growing TO types.grown",),
    ("DELETE FROM types.grown WHERE pk = 9",),
    (
        "CREATE TABLE types.streamed (pk serial, b tinyint(1) DEFAULT true, d decimal, j json, "
        "i int unsigned, "
        "e enum('q','r') character set latin1, s set('a','b'), c char character set latin1 collate "
        "latin1_bin, v varchar(7) charset utf8mb3, y year, t time(2), f float(7,2), dp double, "
        "x varchar(9) unique COMMENT 'a comment')",
    ),
    (
        "INSERT INTO types.streamed (d, j, i, e, s, c, v, y, t, f, dp, x) VALUES (3, '{\"a\": 1}', 4, 'r', "
        "'a,b', 'é', 'ž', 2001, '10:11:12.13', 1.25, 2.5, 'x')",
    ),
    ("CREATE TABLE types.alike LIKE types.streamed",),
    ("INSERT INTO types.alike (d) VALUES (17)",),
    ("TRUNCATE TABLE types.alike",),
    ("INSERT INTO `odd db`.`1 ta.ble` VALUES (1, 'ž')", "UPDATE `odd db`.`1 ta.ble` SET `1 k` = 2"),
    ("CREATE DATABASE later",),
    ("CREATE TABLE later.one (pk int PRIMARY KEY)", "INSERT INTO later.one VALUES (1)"),
    ("DROP DATABASE later",),
    ("CREATE VIEW types.seen AS SELECT 1",),
    ("DROP TABLE types.empty",),
)
"""Transactions, each of some statements, in the order of commits."""
Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_debezium(tmp_path_factory.mktemp("debezium-mariadb"), MARIADB)


def prepare(cursor: Any) -> None:
    cursor.execute("CREATE DATABASE types")
    cursor.execute(types.table_of("types.everything", types.COLUMNS))
    fill(cursor)
    cursor.execute(types.DEFAULTS)
    cursor.execute("INSERT INTO types.defaults () VALUES ()")
    filled = {name: types.COLUMNS[name] for name in types.NOT_NULL_TYPES}
    cursor.execute(types.table_of("types.filled", filled, " NOT NULL"))
    cursor.execute(*types.insert("types.filled", filled, [values[0] for _, values in filled.values()]))
    for statement in TABLES:
        cursor.execute(statement)


def fill(cursor: Any) -> None:
    for row in types.rows_of(types.COLUMNS):
        cursor.execute(*types.insert("types.everything", types.COLUMNS, row))


def change(cursor: Any) -> None:
    fill(cursor)
    cursor.execute("INSERT INTO types.defaults () VALUES ()")
    for statements in CHANGES:
        cursor.execute("BEGIN")
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("COMMIT")


def random_changes(cursor: Any, rng: random.Random) -> None:
    """Tables of random names and columns, random values, and DDL between."""
    drawn = rng.sample(sorted(types.COLUMNS.keys() - SPELLED), 12)
    name = "".join(rng.choice("abcXYZ_ 0é$.-") for _ in range(8)).strip(" .") or "x"
    table = f"types.`r{name}`"
    columns = {each: types.COLUMNS[each] for each in drawn}
    cursor.execute(types.table_of(table, columns))
    for _ in range(10):
        row = [rng.choice((*values, None)) for _, values in columns.values()]
        cursor.execute(*types.insert(table, columns, row))
        if rng.random() < 0.5:
            cursor.execute(f"UPDATE {table} SET pk = pk + 1000 ORDER BY pk DESC LIMIT {rng.randrange(1, 3)}")
        if rng.random() < 0.3 and len(columns) > 3:
            gone = rng.choice(list(columns))
            del columns[gone]
            cursor.execute(f"ALTER TABLE {table} DROP COLUMN {gone}")
        if rng.random() < 0.3:
            cursor.execute(f"DELETE FROM {table} LIMIT {rng.randrange(1, 3)}")


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
    found = {name: told[name] for name in ("topic", "partition", "keySchema", "key", "valueSchema", "value")}
    found["headers"] = [each for each in told["headers"] if each[0] != RUN]
    copied = (plain(told["value"]) or {}).get("op") == "r"
    found["valueSchema"] = _same_schema(found["valueSchema"])
    for part in ("key", "value"):
        found[part] = _same_value(found[part], copied)
    return found


def _same_schema(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    found = dict(told)
    found["fields"] = [
        [
            name,
            {**_same_schema(schema), "default": None, "doc": None}
            if name in ESCAPED_DEFAULTS
            else _same_schema(schema),
        ]
        for name, schema in told["fields"]
    ]
    return found


def _same_value(told: Any, copied: bool) -> Any:
    if isinstance(told, list) and len(told) == 2 and told[0] == "t" and any(n == "ddl" for n, _ in told[1]):
        # The number of the row before the statement, which is none of its own.
        told = ["t", [[name, _without_row(value) if name == "source" else value] for name, value in told[1]]]
    if isinstance(told, list) and len(told) == 2 and told[0] == "l":
        return ["l", [_same_value(each, copied) for each in told[1]]]
    if not isinstance(told, list) or len(told) != 2 or told[0] != "t":
        return told
    names = {name: value for name, value in told[1] if isinstance(name, str)}
    is_escaped = names.get("name") in [["s", each] for each in (*ESCAPED_DEFAULTS,)]
    fields = []
    for name, value in told[1]:
        if name in WHEN or (copied and name in FLOATS) or (not copied and name == ESCAPED_OPTION):
            continue
        if name in MOMENTS:
            value = _same_moment(value)
        if name == "data_collections" and value is not None:
            value = ["l", sorted(value[1], key=str)]
        if is_escaped and name in ("defaultValueExpression", "comment"):
            continue
        fields.append([name, _same_value(value, copied)])
    return ["t", fields]


def _without_row(source: Any) -> Any:
    return ["t", [each for each in source[1] if each[0] != "row"]]


def _same_moment(value: Any) -> Any:
    if value is None or value[1] == "1970-01-01T00:00:00Z":
        return None
    text = value[1].removesuffix("Z")
    return ["s", text.rstrip("0").rstrip(".") if "." in text else text]


def _is_common(told: dict[str, Any], ended: set[str]) -> bool:
    """Whether it is no beginning of DDL's own transaction, and no tombstone of no key."""
    if told["key"] is None and told["value"] is None:
        return False
    value = plain(told["value"]) or {}
    return value.get("status") != "BEGIN" or value["id"] in ended


def common(found: Told) -> Told:
    values = [plain(each["value"]) or {} for each in found]
    ended = {each["id"] for each in values if each.get("status") == "END"}
    return [each for each in found if _is_common(each, ended)]


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
def test_both_make_the_same_events_of_one_database(class_path: str, tmp_path: Path, number: int) -> None:
    seed = random.getrandbits(32)
    ours, theirs = both(class_path, tmp_path, CONFIGURATIONS[number], random.Random(seed))
    for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        assert same(one) == same(other), (f"seed {seed}", at, one["topic"])
    assert len(theirs) == len(ours), (f"seed {seed}", len(theirs), len(ours))


def both(class_path: str, tmp_path: Path, given: Mapping[str, str], rng: random.Random) -> tuple[Told, Told]:
    """The events of ours, and Debezium's, of tables that are there and of changes."""
    with logging_mariadb() as port, closing(connection(port)) as opened, opened.cursor() as cursor:
        prepare(cursor)
        config = {"provide.transaction.metadata": "false", **configuration(port, tmp_path / "ours"), **given}
        history = {"schema.history.internal.file.filename": str(tmp_path / "theirs")}
        reading = Reading(config | {"database.server.id": "4712"})
        log = tmp_path / "debezium.log"
        with closing(reading), debezium_source(class_path, config | history, log, MARIADB) as debezium:
            ours: Told = []
            while not ours or _mark(ours[-1]) != "last":
                ours += [tell_record(each.record) for each in reading.some()]
            # The copy's transaction ends with the turn behind its last row; DDL waits for that.
            assert not reading.turn()
            theirs = list(_until(debezium, lambda told: _mark(told) == "last"))
            change(cursor)
            random_changes(cursor, rng)
            cursor.execute("INSERT INTO types.zz_last VALUES (%s)", (LAST,))
            while not any(map(_is_last, ours[-2:])):  # the end of its transaction may come after it
                ours += [tell_record(each.record) for each in reading.some()]
            if given.get("provide.transaction.metadata") == "true" and _is_last(ours[-1]):
                ours += [tell_record(each.record) for each in reading.some()]
            theirs += _until(debezium, _is_last)
            if given.get("provide.transaction.metadata") == "true":
                theirs += _until(debezium, lambda told: "status" in (plain(told["value"]) or {}))
    return common(ours), common(theirs)


def _mark(told: dict[str, Any]) -> Any:
    source = (plain(told["value"]) or {}).get("source")
    return source["snapshot"] if source else None


def _until(debezium: DebeziumSource, is_end: Any) -> Iterator[dict[str, Any]]:
    """The records up to one of a kind, or those that come in time."""
    while (found := debezium.record(TIMEOUT_S)) is not None:
        yield found
        if is_end(found):
            return


def _is_last(told: dict[str, Any]) -> bool:
    after = (plain(told["value"]) or {}).get("after")
    return told["topic"].endswith("zz_last") and bool(after) and after["pk"] == LAST
