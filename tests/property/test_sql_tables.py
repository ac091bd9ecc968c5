# ruff: noqa: E501
"""Random groups, joins and windows over random rows: the final rows are those that DuckDB answers.

The statements run without Spark (tests/support/sql/plan_runner.py), row by row; DuckDB is asked once, of the
final tables. NULLs and duplicates are everywhere; whole numbers are divided towards zero, and by zero give NULL.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.sql.plan_runner import ScriptRun

SOURCES = """
CREATE STREAM s (k INT KEY, v INT, t STRING, p DECIMAL(6, 2), q INT) WITH (kafka_topic='s', value_format='json');
CREATE STREAM o (k INT KEY, w INT) WITH (kafka_topic='o', value_format='json');
CREATE TABLE u (id INT PRIMARY KEY, name STRING, f INT, n INT) WITH (kafka_topic='u', value_format='json');
CREATE TABLE x (id INT PRIMARY KEY, title STRING, m INT) WITH (kafka_topic='x', value_format='json');
"""
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
Answer = list[tuple[Any, ...]]


class Both(NamedTuple):
    """An expression as SQL of ottla's and as DuckDB's."""

    ours: str
    ducks: str


def same(text: str) -> Both:
    return Both(text, text)


numbers = st.sampled_from(
    [
        same("s.v"),
        same("(s.v + s.q)"),
        same("(s.v - 3)"),
        Both("(s.v / s.q)", "trunc_div(s.v, s.q)"),
        Both("(s.v % 3)", "(s.v % 3)"),
        same("(s.v * s.q)"),
        Both("LEN(s.t)", "length(s.t)"),
    ]
)
decimals = st.sampled_from([same("s.p"), same("(s.p + 1)"), same("(s.p * s.v)"), same("(s.p - s.p)")])
texts = st.sampled_from([same("s.t"), Both("UCASE(s.t)", "upper(s.t)"), same("(s.t || 'x')")])
keys = st.one_of(texts, numbers, st.just(same("s.k")))
conditions = st.sampled_from(
    [
        same("s.v > 0"),
        Both("NOT (s.v > 0)", "NOT coalesce(s.v > 0, false)"),
        same("s.t IS NOT NULL"),
        Both("s.t = 'a' OR s.q < 2", "coalesce(s.t = 'a', false) OR coalesce(s.q < 2, false)"),
        Both("s.p >= 1.5", "s.p >= 1.5"),
        Both("s.v <> s.q", "s.v <> s.q"),
        same("s.v IS DISTINCT FROM s.q"),
        same("1 = 1"),
    ]
)


def aggregates() -> st.SearchStrategy[Both]:
    def of(ours: str, ducks: str, inner: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
        return inner.map(lambda each: Both(ours.format(each.ours), ducks.format(each.ducks)))

    return st.one_of(
        st.just(Both("COUNT(*)", "count(*)")),
        of("COUNT({})", "count({})", st.one_of(numbers, texts, decimals)),
        of("SUM({})", "coalesce(sum({}), 0)", st.one_of(numbers, decimals)),
        of("MIN({})", "min({})", st.one_of(numbers, texts, decimals)),
        of("MAX({})", "max({})", st.one_of(numbers, texts, decimals)),
        of("AVG({})", "coalesce(avg({}), 0.0)", numbers),
        of("COUNT_DISTINCT({})", "count(DISTINCT {})", st.one_of(numbers, texts)),
    )


AGGREGATES = st.lists(aggregates(), min_size=1, max_size=3)
small = st.none() | st.integers(-4, 9)
STREAM = st.lists(
    st.tuples(
        st.none() | st.integers(0, 3),
        small,
        st.none() | st.sampled_from(["a", "b", "A", ""]),
        st.none() | st.integers(-500, 500).map(lambda cents: Decimal(cents).scaleb(-2)),
        st.none() | st.integers(0, 3),
    ),
    max_size=10,
)
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.none() | st.tuples(st.none() | st.sampled_from(["n", "m"]), st.none() | st.integers(0, 4), small),
    ),
    max_size=10,
)
OTHERS = st.lists(
    st.tuples(st.integers(0, 4), st.none() | st.tuples(st.none() | st.sampled_from(["p", "q"]), small)),
    max_size=8,
)


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("CREATE TABLE s (k INT, v INT, t VARCHAR, p DECIMAL(6, 2), q INT, ms BIGINT)")
    found.execute("CREATE TABLE o (k INT, w INT, ms BIGINT)")
    found.execute("CREATE TABLE u (id INT, name VARCHAR, f INT, n INT)")
    found.execute("CREATE TABLE x (id INT, title VARCHAR, m INT)")
    quotient = "CASE WHEN b = 0 THEN NULL ELSE CAST(trunc(a::DOUBLE / b) AS INT) END"
    return found.execute(f"CREATE MACRO trunc_div(a, b) AS {quotient}")


def asked(question: str, **tables: Sequence[tuple[Any, ...]]) -> Answer:
    for name in ("s", "o", "u", "x"):
        database().execute(f"DELETE FROM {name}")
    for name, rows in tables.items():
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            database().executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return database().execute(question).fetchall()


def final(changes: list[tuple[int, tuple[Any, ...] | None]]) -> list[tuple[Any, ...]]:
    """A table's rows after all changes."""
    table: dict[int, tuple[Any, ...]] = {}
    for key, values in changes:
        table.pop(key, None)
        if values is not None:
            table[key] = (key, *values)
    return list(table.values())


def put_changes(
    run: ScriptRun, name: str, columns: Sequence[str], changes: list[Any], at_ms: int = 0
) -> None:
    for key, values in changes:
        row = {} if values is None else dict(zip(columns, values, strict=True))
        run.insert(name, {"ID": key, **row}, at_ms)


def put_rows(run: ScriptRun, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of s, one a second; those that DuckDB gets."""
    for number, row in enumerate(rows):
        run.insert("S", dict(zip("KVTPQ", row, strict=True)), number * 1000)
    return [(*row, number * 1000) for number, row in enumerate(rows)]


def answer(run: ScriptRun) -> Answer:
    source = run.catalog.sources["OUT"]
    rows = run.table("OUT") if source.is_table else run.rows["OUT"]
    return [tuple(row[each.name] for each in source.columns) for row in rows]


def alike(ours: Answer, ducks: Answer) -> bool:
    def order(row: tuple[Any, ...]) -> str:
        return repr([round(float(e), 6) if isinstance(e, int | float | Decimal) else e for e in row])

    def equal(one: Any, other: Any) -> bool:
        if isinstance(one, float | Decimal) and other is not None:
            return math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)
        return bool(one == other)

    pairs = list(zip(sorted(ours, key=order), sorted(ducks, key=order), strict=False))
    return len(ours) == len(ducks) and all(all(map(equal, a, b)) for a, b in pairs)


def listed(columns: list[Both]) -> tuple[str, str]:
    ours = ", ".join(f"{each.ours} AS c{number}" for number, each in enumerate(columns))
    return ours, ", ".join(each.ducks for each in columns)


@QUICK
@given(st.lists(keys, min_size=1, max_size=2, unique=True), AGGREGATES, conditions, STREAM, st.integers(0, 2))
def test_groups_of_a_stream(
    by: list[Both], columns: list[Both], where: Both, rows: list[Any], least: int
) -> None:
    ours, ducks = listed(columns)
    names = ", ".join(f"{each.ours} AS k{number}" for number, each in enumerate(by))
    run = ScriptRun(
        SOURCES + f"CREATE TABLE out AS SELECT {names}, {ours} FROM s WHERE {where.ours} "
        f"GROUP BY {', '.join(each.ours for each in by)} HAVING COUNT(*) > {least};"
    )

    given_rows = put_rows(run, rows)

    group = ", ".join(each.ducks for each in by)
    present = " AND ".join(f"({each.ducks}) IS NOT NULL" for each in by)
    expected = asked(
        f"SELECT {group}, {ducks} FROM s WHERE ({where.ducks}) AND {present} "
        f"GROUP BY {group} HAVING count(*) > {least}",
        s=given_rows,
    )
    assert alike(answer(run), expected)


@QUICK
@given(st.sampled_from([2, 3]), AGGREGATES, STREAM, st.booleans())
def test_windows_of_a_stream(steps: int, columns: list[Both], rows: list[Any], hops: bool) -> None:
    ours, ducks = listed(columns)
    size = steps * 1000
    kind = (
        f"HOPPING (SIZE {steps} SECONDS, ADVANCE BY 1 SECOND)" if hops else f"TUMBLING (SIZE {steps} SECONDS)"
    )
    run = ScriptRun(
        SOURCES + f"CREATE TABLE out AS SELECT k, WINDOWSTART AS ws, {ours}, WINDOWSTART + 0 AS start FROM s "
        f"WINDOW {kind} GROUP BY k;"
    )

    given_rows = put_rows(run, rows)

    step = 1000 if hops else size
    expected = asked(
        f"SELECT k, {ducks}, start FROM s, (SELECT unnest(range(0, 20000, {step})) AS start) "
        f"WHERE ms >= start AND ms < start + {size} AND k IS NOT NULL GROUP BY k, start",
        s=given_rows,
    )
    assert alike(answer(run), expected)


@QUICK
@given(st.sampled_from(["JOIN", "LEFT JOIN"]), CHANGES, STREAM, st.sampled_from(["s.k", "s.q", "s.v"]))
def test_a_stream_meets_a_table(join: str, changes: list[Any], rows: list[Any], on: str) -> None:
    run = ScriptRun(
        SOURCES + f"CREATE STREAM out AS SELECT {on} AS key, s.t, name, n + s.v AS total FROM s {join} u "
        f"ON {on} = u.id WHERE s.v IS NOT NULL;"
    )

    put_changes(run, "U", ("NAME", "F", "N"), changes)
    given_rows = put_rows(run, rows)

    expected = asked(
        f"SELECT {on}, s.t, name, n + s.v FROM s {join} u ON {on} = u.id WHERE s.v IS NOT NULL",
        s=given_rows,
        u=final(changes),
    )
    assert alike(answer(run), expected)


@QUICK
@given(AGGREGATES, CHANGES, STREAM, st.sampled_from(["JOIN", "LEFT JOIN"]))
def test_groups_of_a_join(columns: list[Both], changes: list[Any], rows: list[Any], join: str) -> None:
    ours, ducks = listed(columns)
    run = ScriptRun(
        SOURCES + f"CREATE TABLE out AS SELECT name, {ours}, SUM(n) AS total FROM s {join} u ON s.k = u.id "
        "GROUP BY name;"
    )

    put_changes(run, "U", ("NAME", "F", "N"), changes)
    given_rows = put_rows(run, rows)

    expected = asked(
        f"SELECT name, {ducks}, coalesce(sum(n), 0) FROM s {join} u ON s.k = u.id WHERE name IS NOT NULL "
        "GROUP BY name",
        s=given_rows,
        u=final(changes),
    )
    assert alike(answer(run), expected)


@QUICK
@given(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN"]), CHANGES, OTHERS, st.booleans())
def test_tables_meet_by_their_keys(join: str, left: list[Any], right: list[Any], later: bool) -> None:
    key = "x.id" if join.startswith("RIGHT") else "u.id"
    run = ScriptRun(
        SOURCES + f"CREATE TABLE out AS SELECT {key} AS id, name, title, n + m AS total FROM u {join} x "
        "ON u.id = x.id;"
    )

    halves = (left[: len(left) // 2], left[len(left) // 2 :]) if later else (left, [])
    put_changes(run, "U", ("NAME", "F", "N"), halves[0])
    put_changes(run, "X", ("TITLE", "M"), right, 1)
    put_changes(run, "U", ("NAME", "F", "N"), halves[1], 2)

    expected = asked(
        f"SELECT {key}, name, title, n + m FROM u {join} x ON u.id = x.id", u=final(left), x=final(right)
    )
    assert alike(answer(run), expected)


@QUICK
@given(st.sampled_from(["JOIN", "LEFT JOIN"]), CHANGES, OTHERS, st.booleans())
def test_tables_meet_by_a_foreign_key(join: str, left: list[Any], right: list[Any], later: bool) -> None:
    run = ScriptRun(
        SOURCES + f"CREATE TABLE out AS SELECT u.id AS id, f, name, title FROM u {join} x ON u.f = x.id "
        "WHERE name IS DISTINCT FROM 'm';"
    )

    halves = (right[: len(right) // 2], right[len(right) // 2 :]) if later else (right, [])
    put_changes(run, "X", ("TITLE", "M"), halves[0])
    put_changes(run, "U", ("NAME", "F", "N"), left, 1)
    put_changes(run, "X", ("TITLE", "M"), halves[1], 2)

    expected = asked(
        f"SELECT u.id, f, name, title FROM u {join} x ON u.f = x.id WHERE name IS DISTINCT FROM 'm'",
        u=final(left),
        x=final(right),
    )
    assert alike(answer(run), expected)


@QUICK
@given(st.sampled_from(["name", "f", "f % 2", "n"]), CHANGES)
def test_groups_of_a_table_lose_what_is_deleted(by: str, changes: list[Any]) -> None:
    run = ScriptRun(
        SOURCES + f"CREATE TABLE out AS SELECT {by} AS key, COUNT(*) AS c, COUNT(n) AS d, SUM(n) AS s, "
        f"AVG(n) AS a FROM u WHERE id < 4 GROUP BY {by} HAVING COUNT(*) > 0;"
    )

    put_changes(run, "U", ("NAME", "F", "N"), changes)

    expected = asked(
        f"SELECT {by}, count(*), count(n), coalesce(sum(n), 0), coalesce(avg(n), 0) FROM u "
        f"WHERE id < 4 AND ({by}) IS NOT NULL GROUP BY {by}",
        u=final(changes),
    )
    assert alike(answer(run), expected)


@QUICK
@given(
    st.sampled_from(["JOIN", "LEFT JOIN"]),
    STREAM,
    st.lists(st.tuples(st.none() | st.integers(0, 3), small, st.integers(0, 9000)), max_size=8),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_streams_meet_within_a_time(
    join: str, rows: list[Any], others: list[Any], before: int, after: int
) -> None:
    run = ScriptRun(
        SOURCES + f"CREATE STREAM out AS SELECT s.k, v, w FROM s {join} o "
        f"WITHIN ({before} SECONDS, {after} SECONDS) GRACE PERIOD 1 DAY ON s.k = o.k;"
    )

    given_rows = put_rows(run, rows)
    for key, value, at_ms in others:
        run.insert("O", {"K": key, "W": value}, at_ms)
    run.close()

    expected = asked(
        f"SELECT s.k, v, w FROM s {join} o ON s.k = o.k AND o.ms >= s.ms - {before * 1000} "
        f"AND o.ms <= s.ms + {after * 1000}",
        s=given_rows,
        o=others,
    )
    assert alike(answer(run), expected)


@QUICK
@given(STREAM, st.integers(1, 3), st.sampled_from(["v DESC", "v", "p DESC, q", "t, v DESC"]))
def test_the_first_rows_of_each_key(rows: list[Any], limit: int, order: str) -> None:
    run = ScriptRun(
        SOURCES + f"CREATE TABLE out AS SELECT t, rn, k, v, p, q FROM (SELECT *, ROW_NUMBER() OVER "
        f"(PARTITION BY t ORDER BY {order}) AS rn FROM s) WHERE rn <= {limit};"
    )

    given_rows = put_rows(run, rows)

    ducks = ", ".join(
        f"{each} {'NULLS LAST' if each.endswith('DESC') else 'NULLS FIRST'}" for each in order.split(", ")
    )
    expected = asked(
        f"SELECT t, rn, k, v, p, q FROM (SELECT *, row_number() OVER (PARTITION BY t ORDER BY {ducks}, ms) AS rn "
        f"FROM s WHERE t IS NOT NULL) WHERE rn <= {limit}",
        s=given_rows,
    )
    assert alike(answer(run), expected)
