"""Pull queries' plans by the shape of a text: whatever the constants, they answer as a plan of the text."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.functions.registry import Functions
from ottla.sql.language.parser import parse_statement
from ottla.sql.plan.statement_plan import PutSource, RunQuery
from ottla.sql.rows.bounds import bounds_of
from ottla.sql.rows.pull_plans import PullPlans
from ottla.sql.rows.pulling import PullPlan
from ottla.sql.rows.shapes import marked, shape_of

FUNCTIONS = Functions()


def catalog_of(text: str) -> Catalog:
    plan = Binder(Catalog(), FUNCTIONS).bind(parse_statement(text))
    assert isinstance(plan, PutSource)
    return Catalog().with_source(plan.source)


CATALOG = catalog_of(
    "CREATE TABLE t (id INT PRIMARY KEY, s STRING, n BIGINT, d DOUBLE, m DECIMAL(9, 2), at TIMESTAMP) "
    "WITH (kafka_topic='t', value_format='json');"
)


def plan_of(text: str) -> PullPlan:
    plan = Binder(CATALOG, FUNCTIONS).bind(parse_statement(text))
    assert isinstance(plan, RunQuery)
    return PullPlan.of(plan.query, FUNCTIONS)


def answer(plan: PullPlan, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = []
    for row in rows:
        if plan.bounds.keys is None or {"ID": row["ID"]} in plan.bounds.keys:
            found += [each.values for each in plan.selection.rows(row | plan.given)]
    return found


texts = st.text("ab'%?_il\\$`\"-/*{ ;", max_size=6)
whole = st.integers(-(2**33), 2**33) | st.integers(-3, 3)
rows_of_table = st.lists(
    st.fixed_dictionaries(
        {
            "ID": st.integers(-3, 3),
            "S": texts | st.none(),
            "N": whole | st.none(),
            "D": st.floats(-5, 5) | st.none(),
            "M": st.none(),
            "AT": st.integers(0, 3) | st.none(),
        }
    ),
    max_size=6,
)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


conditions = st.one_of(
    st.builds("id = {}".format, whole),
    st.builds("{} = id".format, whole),
    st.builds("id IN ({}, {})".format, whole, st.integers(-3, 3)),
    st.builds("n > {}".format, whole),
    st.builds("n BETWEEN {} AND {}".format, whole, whole),
    st.builds("d < {}".format, st.floats(-3, 3).map(lambda each: f"{each:.3f}")),
    st.builds("s = {}".format, texts.map(quoted)),
    st.builds("s LIKE {}".format, texts.filter(lambda each: "\\" not in each).map(quoted)),
    st.builds("n + {} = id".format, whole),
    st.builds("at > '{}'".format, st.sampled_from(["1970-01-01", "2020-01-01T10:00"])),
)
queries = st.builds(
    "SELECT id, s, n * {} AS x, {} AS y, {} AS z FROM t WHERE {} {} {}{};".format,
    whole,
    whole,
    texts.map(quoted),
    conditions,
    st.sampled_from(["AND", "OR", "/* '1' 2 */ AND", "-- 'x' 3\n OR"]),
    conditions,
    st.sampled_from(["", " LIMIT 2"]),
).filter(lambda text: "${" not in text)


@settings(max_examples=40)
@given(st.lists(queries, min_size=2, max_size=5), rows_of_table)
def test_a_plan_by_shape_answers_as_one_by_text(asked: list[str], rows: list[dict[str, Any]]) -> None:
    plans = PullPlans()
    for text in [*asked, *asked]:
        expected = plan_of(text)
        found = plans.find(text, CATALOG)
        if found is None:
            found = plans.keep(text, expected.query, CATALOG, FUNCTIONS)
        for plan in (found, plans.find(text, CATALOG)):
            assert plan is not None
            assert answer(plan, rows) == answer(expected, rows)
            assert plan.bounds == expected.bounds
            assert plan.query.limit == expected.query.limit
            assert plan.selection.columns == expected.selection.columns


def test_texts_that_differ_in_their_constants_have_one_plan() -> None:
    plans, dice = PullPlans(), random.Random(1)
    first = "SELECT * FROM t WHERE id = 17 AND s = 'it''s';"
    plans.keep(first, plan_of(first).query, CATALOG, FUNCTIONS)
    for _ in range(20):
        key, text = dice.randrange(2**31), dice.choice(["x", "''", "3", "?t"])
        found = plans.find(f"SELECT * FROM t WHERE id = {key} AND s = '{text}';", CATALOG)
        assert found is not None
        assert found.bounds.keys == ({"ID": key},)
    # A number that is no INTEGER makes another plan; so do another catalogue, and a name.
    assert plans.find(f"SELECT * FROM t WHERE id = {2**31} AND s = 'x';", CATALOG) is None
    assert plans.find("SELECT * FROM t1 WHERE id = 17 AND s = 'x';", CATALOG) is None
    assert plans.find(first, catalog_of("CREATE TABLE t (id INT PRIMARY KEY, s STRING) "
                                        "WITH (kafka_topic='t', value_format='json');")) is None  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST(n AS DECIMAL(9, 2)) AS x FROM t WHERE id = 1;",
        "SELECT * FROM t WHERE at = '2026-01-01';",
        "SELECT id AS `?t`, 'a' AS `?i` FROM t;",
        "SELECT * FROM t WHERE id = 1 AND m = 1.50;",
    ],
)
def test_constants_that_are_more_than_values_are_left_to_the_text(text: str) -> None:
    shape = shape_of(text)
    assert shape is not None
    assert len(marked(shape)) > 0
    plans = PullPlans()
    plans.keep(text, plan_of(text).query, CATALOG, FUNCTIONS)
    found = plans.find(text, CATALOG)
    assert found is not None
    assert found.bounds == plan_of(text).bounds


def test_a_variable_has_no_plan_that_is_kept() -> None:
    plans, text = PullPlans(), "SELECT * FROM t WHERE id = ${key};"
    assert shape_of(text) is None
    bound = plan_of("SELECT * FROM t WHERE id = 1;").query
    assert plans.keep(text, bound, CATALOG, FUNCTIONS).bounds.keys == ({"ID": 1},)
    assert plans.find(text, CATALOG) is None


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=3), st.integers(-3, 3))
def test_what_bounds_name_is_never_less_than_what_the_filter_lets_through(keys: list[int], low: int) -> None:
    text = f"SELECT * FROM t WHERE id IN ({', '.join(map(str, keys))}) AND id >= {low};"
    bounds = bounds_of(plan_of(text).query.where, CATALOG.sources["T"])
    wanted = {each for each in keys if each >= low}
    assert bounds.keys is not None
    assert wanted <= {each["ID"] for each in bounds.keys}
