"""Tables drawn at random, with a history that the database itself keeps of every committed change.

A row has a version of its own in each of its states. A trigger notes each change of a row in `history`, in
the change's own transaction: what was rolled back is not there, and changes of one key stand in the order of
their commits, since the second one has to wait for the first one's lock.
"""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

SCHEMA: Final = "shop"
VERSION: Final = "version"
LARGE: Final = "large"
KEYS_A_TABLE: Final = 60
"""So few that writers meet at them."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_TEXTS: Final = (
    "",
    "O'Neill",
    'say "hi"',
    "a\\b",
    "tab\there",
    "line\nline",
    "日本語",
    "🙂",
    "%s {} $1",
    "NULL",
    "\\N",
)

Draw = Callable[[random.Random], Any]


def _text(chance: random.Random) -> str:
    return chance.choice(_TEXTS) + "".join(chance.choices(_LETTERS, k=chance.randrange(20)))


def _numeric(chance: random.Random) -> str:
    return f"{chance.randrange(-(10**12), 10**12)}.{chance.randrange(10**6):06}"


def _moment(chance: random.Random) -> str:
    return (
        f"{chance.randrange(1583, 2300):04}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
        f" {chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"
        f".{chance.randrange(10**6):06}"
    )


_TYPES: Final[dict[str, Draw]] = {
    "smallint": lambda chance: chance.randrange(-(2**15), 2**15),
    "integer": lambda chance: chance.randrange(-(2**31), 2**31),
    "bigint": lambda chance: chance.randrange(-(2**63), 2**63),
    "numeric(20, 6)": _numeric,
    "double precision": lambda chance: chance.uniform(-1e9, 1e9),
    "real": lambda chance: chance.randrange(-4000, 4000) / 8,
    "boolean": lambda chance: chance.random() < 0.5,
    "text": _text,
    "varchar(40)": _text,
    "date": lambda chance: _moment(chance)[:10],
    "timestamp": _moment,
    "timestamptz": lambda chance: _moment(chance) + chance.choice(("+00", "+05:30", "-08")),
    "time": lambda chance: _moment(chance)[11:],
    "uuid": lambda chance: str(uuid.UUID(int=chance.getrandbits(128))),
    "jsonb": lambda chance: psycopg.types.json.Jsonb(
        {_text(chance): [chance.randrange(9), None, _text(chance)]}
    ),
    "bytea": lambda chance: chance.randbytes(chance.randrange(40)),
    "inet": lambda chance: f"10.{chance.randrange(256)}.0.{chance.randrange(256)}/{chance.randrange(33)}",
    "integer[]": lambda chance: [chance.randrange(99) for _ in range(chance.randrange(1, 4))],
    "text[]": lambda chance: [_text(chance) for _ in range(chance.randrange(1, 4))],
    "int4range": lambda chance: f"[{chance.randrange(9)},{chance.randrange(10, 99)})",
}
_KEYS: Final[dict[str, Callable[[int], Any]]] = {
    "integer": lambda number: number,
    "bigint": lambda number: number << 33,
    "text": lambda number: f"k {number} é",
    "uuid": lambda number: str(uuid.UUID(int=number)),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column; draw: one of its values, as a parameter."""

    name: str
    type: str
    draw: Draw


@dataclass(frozen=True, slots=True)
class Table:
    """A table. keys: names and types of its key's columns. is_full: its old rows are told whole."""

    name: str
    keys: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    is_full: bool

    @property
    def identifier(self) -> sql.Composable:
        """Its name in SQL."""
        return sql.Identifier(SCHEMA, self.name)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key's columns."""
        return tuple(name for name, _ in self.keys)

    def key(self, number: int) -> tuple[Any, ...]:
        """One of the keys that rows have, by number."""
        return tuple(_KEYS[type](number if at == 0 else number % 7) for at, (_, type) in enumerate(self.keys))

    def create(self) -> sql.Composed:
        """CREATE TABLE, without triggers."""
        listed = [sql.SQL("{} {} NOT NULL").format(sql.Identifier(n), sql.SQL(t)) for n, t in self.keys]
        listed.append(sql.SQL("{} bigint NOT NULL").format(sql.Identifier(VERSION)))
        listed += [sql.SQL("{} {}").format(sql.Identifier(c.name), sql.SQL(c.type)) for c in self.columns]
        key = sql.SQL(", ").join(map(sql.Identifier, self.key_names))
        return sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(
            self.identifier, sql.SQL(", ").join(listed), key
        )


def draw_tables(chance: random.Random, count: int) -> tuple[Table, ...]:
    """Tables with random names, keys and columns; every third has large values."""
    tables = []
    for number in range(count):
        kinds = chance.sample(list(_TYPES), chance.randrange(2, 7))
        columns = [Column(_column_name(chance, at), kind, _TYPES[kind]) for at, kind in enumerate(kinds)]
        is_large = number % 3 == 0
        if is_large:
            columns.append(Column(LARGE, "text", _large))
        keys = [(f"id{number}", chance.choice(list(_KEYS)))]
        if chance.random() < 0.3:
            keys.append(("Part, 2", chance.choice(("integer", "text"))))
        name = f"{chance.choice(('t', 'T', 'Mixed-Case_'))}{number}_{''.join(chance.choices(_LETTERS, k=5))}"
        # A large value that was not changed is told only by the old row.
        tables.append(Table(name, tuple(keys), tuple(columns), is_large or chance.random() < 0.5))
    return tuple(tables)


def _column_name(chance: random.Random, number: int) -> str:
    return f"{chance.choice(('c', 'Column ', 'ü', 'say %s', 'dot.'))}{number}"


def _large(chance: random.Random) -> str:
    """Mostly more than a page holds, and such that it can't be made small."""
    return "".join(chance.choices(_LETTERS, k=chance.choice((10, 3000, 9000, 20000))))


_HISTORY: Final = f"""
CREATE SCHEMA {SCHEMA};
CREATE SEQUENCE versions;
CREATE TABLE history (
    at bigserial PRIMARY KEY, table_name text NOT NULL, key jsonb NOT NULL, version bigint, large text
);
CREATE FUNCTION set_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.version := nextval('versions'); RETURN NEW; END $$;
CREATE FUNCTION key_of(a_row jsonb, names text[]) RETURNS jsonb LANGUAGE sql AS $$
SELECT jsonb_agg(a_row -> name ORDER BY at) FROM unnest(names) WITH ORDINALITY AS found(name, at) $$;
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE old_key jsonb; new_key jsonb;
BEGIN
    IF TG_OP <> 'INSERT' THEN old_key := key_of(to_jsonb(OLD), TG_ARGV); END IF;
    IF TG_OP <> 'DELETE' THEN new_key := key_of(to_jsonb(NEW), TG_ARGV); END IF;
    IF old_key IS NOT NULL AND old_key IS DISTINCT FROM new_key THEN
        INSERT INTO history (table_name, key) VALUES (TG_TABLE_NAME, old_key);
    END IF;
    IF new_key IS NOT NULL THEN
        INSERT INTO history (table_name, key, version, large)
        VALUES (TG_TABLE_NAME, new_key, NEW.version, md5(to_jsonb(NEW) ->> '{LARGE}'));
    END IF;
    RETURN NULL;
END $$;
"""


def create_origin(url: str, tables: Sequence[Table], chance: random.Random) -> None:
    """Make the tables and their history, with some rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_HISTORY.encode())
        for table in tables:
            connection.execute(table.create())
            words = sql.SQL(", ").join(map(sql.Literal, table.key_names))
            if table.is_full:
                connection.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(table.identifier))
            connection.execute(
                sql.SQL(
                    "CREATE TRIGGER a BEFORE INSERT OR UPDATE ON {} FOR EACH ROW"
                    " EXECUTE FUNCTION set_version()"
                ).format(table.identifier)
            )
            connection.execute(
                sql.SQL(
                    "CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW"
                    " EXECUTE FUNCTION note_change({})"
                ).format(table.identifier, words)
            )
            for number in chance.sample(range(KEYS_A_TABLE), KEYS_A_TABLE // 2):
                _insert(connection, table, number, chance)


def create_copy(url: str, tables: Sequence[Table]) -> None:
    """Make the tables alone, empty."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        for table in tables:
            connection.execute(table.create())


def rows_of(url: str, table: Table) -> list[str]:
    """All rows, as the database writes them, in the order of their texts."""
    with psycopg.connect(url, options="-c timezone=UTC") as connection:
        found = connection.execute(
            sql.SQL("SELECT t::text FROM {} AS t ORDER BY 1").format(table.identifier)
        ).fetchall()
    return [text for (text,) in found]


@dataclass(frozen=True, slots=True)
class State:
    """What one change has made of a key's row. version: None for deleted. large: its value's MD5."""

    version: int | None
    large: str | None


def read_history(url: str) -> dict[str, dict[str, list[State]]]:
    """The committed states of each key in their order, by table; keys as JSON's text."""
    found: dict[str, dict[str, list[State]]] = defaultdict(lambda: defaultdict(list))
    with psycopg.connect(url) as connection:
        for name, key, version, large in connection.execute(
            "SELECT table_name, key::text, version, large FROM history ORDER BY at"
        ):
            found[name][key].append(State(version, large))
    return found


def last_version(url: str) -> int:
    """The version that the newest committed or open change has."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT last_value FROM versions").fetchone()
        assert row is not None
        return int(row[0])


# -- changes ----------------------------------------------------------------------------------------


def change_something(connection: psycopg.Connection, tables: Sequence[Table], chance: random.Random) -> None:
    """One transaction of up to a dozen changes; some are rolled back, whole or to a savepoint."""
    for _ in range(chance.randrange(1, 12)):
        if chance.random() < 0.15:
            connection.execute("SAVEPOINT here")
            _change(connection, chance.choice(tables), chance)
            connection.execute(chance.choice(("ROLLBACK TO SAVEPOINT here", "RELEASE SAVEPOINT here")))
        else:
            _change(connection, chance.choice(tables), chance)
    if chance.random() < 0.15:
        connection.rollback()
    else:
        connection.commit()


def _change(connection: psycopg.Connection, table: Table, chance: random.Random) -> None:
    number = chance.randrange(KEYS_A_TABLE)
    where = sql.SQL(" AND ").join(sql.SQL("{} = %s").format(_named(each)) for each in table.key_names)
    match chance.choices(("insert", "update", "key", "delete"), (4, 8, 1, 3))[0]:
        case "insert":
            _insert(connection, table, number, chance)
        case "update":
            changed = chance.sample(table.columns, chance.randrange(1, len(table.columns)))
            parts = [sql.SQL("{} = %s").format(_named(each.name)) for each in changed]
            connection.execute(
                sql.SQL("UPDATE {} SET {} WHERE {}").format(
                    table.identifier, sql.SQL(", ").join(parts), where
                ),
                [*(_value(each, chance) for each in changed), *table.key(number)],
            )
        case "key":
            other = chance.randrange(KEYS_A_TABLE)
            parts = [sql.SQL("{} = %s").format(_named(each)) for each in table.key_names]
            connection.execute("SAVEPOINT of_key")
            try:
                connection.execute(
                    sql.SQL("UPDATE {} SET {} WHERE {}").format(
                        table.identifier, sql.SQL(", ").join(parts), where
                    ),
                    [*table.key(other), *table.key(number)],
                )
            except psycopg.errors.UniqueViolation:
                connection.execute("ROLLBACK TO SAVEPOINT of_key")
        case "delete":
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE {}").format(table.identifier, where), table.key(number)
            )


def _insert(connection: psycopg.Connection, table: Table, number: int, chance: random.Random) -> None:
    names = [*table.key_names, *(each.name for each in table.columns)]
    connection.execute(
        sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING").format(
            table.identifier,
            sql.SQL(", ").join(map(_named, names)),
            sql.SQL(", ").join([sql.Placeholder()] * len(names)),
        ),
        [*table.key(number), *(_value(each, chance) for each in table.columns)],
    )


def _named(name: str) -> sql.Identifier:
    """A column in a statement with parameters, where % stands for one."""
    return sql.Identifier(name.replace("%", "%%"))


def _value(column: Column, chance: random.Random) -> Any:
    return None if chance.random() < 0.1 else column.draw(chance)
