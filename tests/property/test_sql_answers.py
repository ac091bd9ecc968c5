"""Random statements on random rows: the final table is the one that DuckDB gives for the same question."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.functions.registry import Functions
from ottla.sql.language.parser import parse_statement
from ottla.sql.lowering.accumulators import Accumulators, argument_name
from ottla.sql.lowering.evaluator import row_function
from ottla.sql.plan.bound import Bound
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.plan.statement_plan import PutQuery, applied

SOURCE = (
    "CREATE STREAM s (n INT KEY, i INT, b BIGINT, d DOUBLE, t STRING, u STRING) "
    "WITH (kafka_topic='s', value_format='json');"
)
DUCK = "CREATE TABLE s (n INT, i INT, b BIGINT, d DOUBLE, t VARCHAR, u VARCHAR)"


class Both(NamedTuple):
    """An expression as SQL of ottla's and as DuckDB's."""

    ours: str
    ducks: str


def same(text: str) -> Both:
    return Both(text, text)


def put(ours: str, ducks: str, *parts: Both) -> Both:
    return Both(ours.format(*(p.ours for p in parts)), ducks.format(*(p.ducks for p in parts)))


texts_in = st.sampled_from(["", "a", "A", "ab", "Ba%", "x_y", "été", "it''s"]).map(lambda t: same(f"'{t}'"))
whole_leaves = st.one_of(
    st.sampled_from(["i", "b", "n"]).map(same), st.integers(-20, 20).map(lambda n: same(f"({n})"))
)
text_leaves = st.one_of(st.sampled_from(["t", "u"]).map(same), texts_in)


def expressions() -> tuple[st.SearchStrategy[Both], st.SearchStrategy[Both], st.SearchStrategy[Both]]:
    """Whole numbers, texts and conditions, of each other."""
    whole: st.SearchStrategy[Both] = st.deferred(
        lambda: st.one_of(
            whole_leaves,
            st.builds(
                lambda a, b, o: put(f"({{}} {o} {{}})", f"({{}} {o} {{}})", a, b),
                whole,
                whole,
                st.sampled_from("+-"),
            ),
            st.builds(lambda a, b: put("({} / {})", "trunc_div({}, {})", a, b), whole, whole_leaves),
            st.builds(lambda a, b: put("({} % {})", "({} % {})", a, b), whole, whole_leaves),
            st.builds(lambda a: put("ABS({})", "abs({})", a), whole),
            st.builds(lambda a: put("LEN({})", "length({})", a), text),
            st.builds(lambda a, b: put("COALESCE({}, {})", "coalesce({}, {})", a, b), whole, whole),
            st.builds(
                lambda c, a, b: put(
                    "CASE WHEN {} THEN {} ELSE {} END", "CASE WHEN {} THEN {} ELSE {} END", c, a, b
                ),
                condition,
                whole,
                whole,
            ),
        )
    )
    text: st.SearchStrategy[Both] = st.deferred(
        lambda: st.one_of(
            text_leaves,
            st.builds(lambda a, b: put("({} || {})", "({} || {})", a, b), text, text),
            st.builds(lambda a: put("UCASE({})", "upper({})", a), text),
            st.builds(lambda a, b: put("CONCAT({}, {})", "concat({}, {})", a, b), text, text),
            st.builds(
                lambda a, p, k: put(f"SUBSTRING({{}}, {p}, {k})", f"substr({{}}, {p}, {k})", a),
                text,
                st.integers(1, 4),
                st.integers(0, 3),
            ),
            st.builds(lambda a: put("CAST({} AS STRING)", "CAST({} AS VARCHAR)", a), whole),
            st.builds(lambda a: put("REPLACE({}, 'a', 'zz')", "replace({}, 'a', 'zz')", a), text),
        )
    )
    condition: st.SearchStrategy[Both] = st.deferred(
        lambda: st.one_of(
            st.builds(
                lambda a, b, o: put(f"({{}} {o} {{}})", f"coalesce({{}} {o} {{}}, false)", a, b),
                whole,
                whole,
                st.sampled_from(["=", "<>", "<", ">="]),
            ),
            st.builds(
                lambda a, b, o: put(f"({{}} {o} {{}})", f"coalesce({{}} {o} {{}}, false)", a, b),
                text,
                text,
                st.sampled_from(["=", "<>", "<"]),
            ),
            st.builds(lambda a: put("({} IS NULL)", "({} IS NULL)", a), text),
            st.builds(
                lambda a, b: put("({} IS DISTINCT FROM {})", "({} IS DISTINCT FROM {})", a, b), whole, whole
            ),
            st.builds(
                lambda a, b, c: put(
                    "({} BETWEEN {} AND {})", "coalesce({} BETWEEN {} AND {}, false)", a, b, c
                ),
                whole,
                whole_leaves,
                whole_leaves,
            ),
            st.builds(lambda a: put("({} IN (1, 2, 3))", "coalesce({} IN (1, 2, 3), false)", a), whole),
            st.builds(lambda a: put("({} LIKE '%a_')", "coalesce({} LIKE '%a_', false)", a), text),
            st.builds(lambda a: put("(NOT {})", "(NOT {})", a), condition),
            st.builds(
                lambda a, b, o: put(f"({{}} {o} {{}})", f"({{}} {o} {{}})", a, b),
                condition,
                condition,
                st.sampled_from(["AND", "OR"]),
            ),
        )
    )
    return whole, text, condition


WHOLE, TEXT, CONDITION = expressions()
AGGREGATES = st.lists(
    st.one_of(
        st.just(Both("COUNT(*)", "count(*)")),
        st.builds(lambda a: put("COUNT({})", "count({})", a), TEXT),
        st.builds(lambda a: put("SUM(CAST({} AS BIGINT))", "coalesce(sum(CAST({} AS BIGINT)), 0)", a), WHOLE),
        st.builds(lambda a: put("MIN({})", "min({})", a), TEXT),
        st.builds(lambda a: put("MAX({})", "max({})", a), WHOLE),
        st.builds(lambda a: put("AVG({})", "coalesce(avg({}), 0.0)", a), WHOLE),
        st.builds(lambda a: put("COUNT_DISTINCT({})", "count(DISTINCT {})", a), TEXT),
        st.just(Both("STDDEV_SAMPLE(d)", "coalesce(stddev_samp(d), 0.0)")),
    ),
    min_size=1,
    max_size=4,
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.none() | st.integers(-30, 30),
        st.none() | st.integers(-1000, 1000),
        st.none() | st.integers(-8, 8).map(lambda x: x / 4),
        st.none() | st.sampled_from(["", "a", "ab", "Ba", "été", "zab"]),
        st.none() | st.sampled_from(["x", "A", "a%"]),
    ),
    max_size=12,
)


def planned(text: str) -> QueryPlan:
    catalog = applied(Binder().bind(parse_statement(SOURCE)), Catalog())
    plan = Binder(catalog).bind(parse_statement(text))
    assert isinstance(plan, PutQuery)
    return plan.query


def in_row(bound: Bound) -> Any:
    return row_function(bound, lambda column: lambda row: row[column.name], Functions())


def answer(query: QueryPlan, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The final rows, by the plan's own expressions and accumulators."""
    kept = [row for row in rows if query.where is None or in_row(query.where)(row)]
    if not query.grouped:
        return [tuple(in_row(each.expression)(row) for each in query.projection) for row in kept]
    accumulators = Accumulators(query.aggregates, {})
    groups: dict[tuple[Any, ...], str] = {}
    for row in kept:
        key = tuple(in_row(each.expression)(row) for each in query.group_by)
        if None in key:
            continue
        arguments = {
            argument_name(n, at): in_row(argument)(row)
            for n, each in enumerate(query.aggregates)
            for at, argument in enumerate(each.arguments)
        }
        groups[key] = accumulators.add(groups.get(key, accumulators.new()), arguments)
    found = []
    for key, accumulated in groups.items():
        row = dict(zip((each.name for each in query.group_by), key, strict=True)) | accumulators.results(
            accumulated
        )
        if query.having is None or in_row(query.having)(row):
            found.append(tuple(in_row(each.expression)(row) for each in query.projection))
    return found


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute(DUCK)
    quotient = "CASE WHEN b = 0 THEN NULL ELSE CAST(trunc(a::DOUBLE / b) AS BIGINT) END"
    return found.execute(f"CREATE MACRO trunc_div(a, b) AS {quotient}")


def asked(text: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    database().execute("DELETE FROM s")
    if rows:
        database().executemany("INSERT INTO s VALUES (?, ?, ?, ?, ?, ?)", rows)
    return database().execute(text).fetchall()


def alike(ours: list[tuple[Any, ...]], ducks: list[tuple[Any, ...]]) -> bool:
    def order(row: tuple[Any, ...]) -> str:
        return repr([round(each, 6) if isinstance(each, float) else each for each in row])

    def equal(one: Any, other: Any) -> bool:
        if isinstance(one, float):
            return other is not None and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
        return bool(one == other)

    pairs = zip(sorted(ours, key=order), sorted(ducks, key=order), strict=True)
    return len(ours) == len(ducks) and all(all(map(equal, a, b)) for a, b in pairs)


def as_dicts(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip("NIBDTU", row, strict=True)) for row in rows]


QUICK = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


@QUICK
@given(st.lists(st.one_of(WHOLE, TEXT, CONDITION), min_size=1, max_size=3), CONDITION, ROWS)
def test_projection_and_filter(items: list[Both], where: Both, rows: list[tuple[Any, ...]]) -> None:
    ours = ", ".join(f"{each.ours} AS x{n}" for n, each in enumerate(items))
    ducks = ", ".join(each.ducks for each in items)

    query = planned(f"CREATE STREAM x AS SELECT n, {ours} FROM s WHERE {where.ours};")

    expected = asked(f"SELECT n, {ducks} FROM s WHERE {where.ducks}", rows)
    assert alike(answer(query, as_dicts(rows)), expected)


@QUICK
@given(st.one_of(TEXT, st.just(same("n"))), AGGREGATES, CONDITION, ROWS)
def test_groups(key: Both, aggregates: list[Both], where: Both, rows: list[tuple[Any, ...]]) -> None:
    ours = ", ".join(f"{each.ours} AS x{n}" for n, each in enumerate(aggregates))
    ducks = ", ".join(each.ducks for each in aggregates)

    query = planned(
        f"CREATE TABLE x AS SELECT {key.ours} AS k, {ours} FROM s WHERE {where.ours} "
        f"GROUP BY {key.ours} HAVING COUNT(*) > 1;"
    )

    expected = asked(
        f"SELECT {key.ducks} AS k0, {ducks} FROM s WHERE {where.ducks} AND ({key.ducks}) IS NOT NULL "
        "GROUP BY k0 HAVING count(*) > 1",
        rows,
    )
    assert alike(answer(query, as_dicts(rows)), expected)
