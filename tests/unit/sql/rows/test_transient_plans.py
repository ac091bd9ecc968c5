"""Push queries that Spark runs write their whole key, whatever columns they ask for."""

from __future__ import annotations

import pytest

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.functions.registry import Functions
from ottla.sql.language.parser import parse_script, parse_statement
from ottla.sql.lowering.query import Lowering
from ottla.sql.plan.statement_plan import RunQuery, applied
from ottla.sql.rows.transient import transient_plan
from ottla.streams.dsl import Streams

SOURCES = """
CREATE STREAM s (id INT KEY, a STRING, n BIGINT) WITH (kafka_topic='s', value_format='json', partitions=2);
CREATE TABLE t (id INT PRIMARY KEY, c STRING) WITH (kafka_topic='t', value_format='json', partitions=2);
CREATE TABLE u (id INT PRIMARY KEY, e STRING) WITH (kafka_topic='u', value_format='json', partitions=2);
"""


def catalog() -> Catalog:
    found = Catalog()
    for parsed in parse_script(SOURCES):
        found = applied(Binder(found, Functions()).bind(parsed.statement), found)
    return found


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("SELECT COUNT(*) AS n FROM s GROUP BY a EMIT CHANGES;", ["KSQL_KEY_0"]),
        ("SELECT a, COUNT(*) AS n FROM s GROUP BY a EMIT CHANGES;", ["A"]),
        ("SELECT a, COUNT(*) AS k FROM s GROUP BY a, n EMIT CHANGES;", ["A", "KSQL_KEY_0"]),
        (
            "SELECT COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 SECONDS) GROUP BY a EMIT FINAL;",
            ["KSQL_KEY_0"],
        ),
        (
            "SELECT a, COUNT(*) AS n FROM s WINDOW CUMULATE (SIZE 4 SECONDS, STEP 1 SECONDS) GROUP BY a "
            "EMIT CHANGES;",
            ["A"],
        ),
        ("SELECT c, e FROM t JOIN u ON t.id = u.id EMIT CHANGES;", ["KSQL_KEY_0"]),
        ("SELECT a, c FROM s JOIN t ON s.id = t.id EMIT CHANGES;", []),
    ],
)
def test_the_key_is_written(text: str, keys: list[str]) -> None:
    bound = Binder(catalog(), Functions()).bind(parse_statement(text))
    assert isinstance(bound, RunQuery)
    plan = transient_plan(bound.query, "transient_1")
    assert [each.name for each in plan.target.keys] == keys
    assert [each.name for each in plan.query.projection][: len(bound.query.projection)] == [
        each.name for each in bound.query.projection
    ]
    Lowering(Streams("transient")).put(plan)
