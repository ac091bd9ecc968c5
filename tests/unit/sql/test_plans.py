# ruff: noqa: E501
"""Plans: out of statements, through JSON and back, and what parse and plan cost."""

from __future__ import annotations

import functools
import json

import pytest

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.functions.registry import FunctionError, Functions, aggregate
from ottla.sql.language.parser import parse_script, parse_statement
from ottla.sql.language.statements import Emit, SourceKind
from ottla.sql.plan.query_plan import JoinHow, Mode
from ottla.sql.plan.statement_plan import PutQuery, RunQuery, StatementPlan, WriteRow, applied
from ottla.sql.plan.stored import StoredPlanError, restored, stored

SETUP = """
CREATE STREAM pv (id INT KEY, page STRING, ms BIGINT, price DECIMAL(6, 2), s STRUCT<a INT, b ARRAY<INT>>,
    m MAP<STRING, INT>, day DATE, at TIMESTAMP) WITH (kafka_topic='pv', value_format='json', partitions=2);
CREATE TABLE users (uid INT PRIMARY KEY, name STRING, home STRING) WITH (kafka_topic='u', value_format='json');
CREATE TABLE pages (p STRING PRIMARY KEY, title STRING) WITH (kafka_topic='p', value_format='json');
CREATE TABLE vips (vid INT PRIMARY KEY, rank INT) WITH (kafka_topic='v', value_format='json');
CREATE TYPE place AS STRUCT<x INT, y INT>;
"""
# a statement and the schema that its target has
SCHEMAS = [
    ("CREATE STREAM a AS SELECT * FROM pv;", None),
    ("CREATE STREAM a AS SELECT id AS k, page || '!' AS p FROM pv;", "K INTEGER KEY, P STRING"),
    ("CREATE STREAM a AS SELECT page, id FROM pv PARTITION BY page;", "PAGE STRING KEY, ID INTEGER"),
    (
        "CREATE STREAM a AS SELECT page, id, ms FROM pv PARTITION BY page, id;",
        "PAGE STRING KEY, ID INTEGER KEY, MS BIGINT",
    ),
    ("CREATE STREAM a AS SELECT s->a AS z, ms FROM pv PARTITION BY s->a;", "Z INTEGER KEY, MS BIGINT"),
    ("CREATE STREAM a AS SELECT ms FROM pv PARTITION BY NULL;", "MS BIGINT"),
    ("CREATE STREAM a AS SELECT id, AS_VALUE(id) AS copy FROM pv;", "ID INTEGER KEY, COPY INTEGER"),
    ("CREATE STREAM a AS SELECT id, s->* FROM pv;", "ID INTEGER KEY, A INTEGER, B ARRAY<INTEGER>"),
    (
        "CREATE STREAM a AS SELECT id, s->b[1], ROWTIME AS t FROM pv;",
        "ID INTEGER KEY, KSQL_COL_1 INTEGER, T BIGINT",
    ),
    ("CREATE STREAM a AS SELECT id, EXPLODE(s->b) * 2 AS x FROM pv;", "ID INTEGER KEY, X INTEGER"),
    (
        "CREATE STREAM a AS SELECT id, CAST(MAP('x' := 1) AS MAP<STRING, BIGINT>) AS `m x` FROM pv;",
        "ID INTEGER KEY, `m x` MAP<STRING, BIGINT>",
    ),
    (
        "CREATE STREAM a AS SELECT id, CAST(s AS place) AS pl FROM pv;",
        "ID INTEGER KEY, PL STRUCT<X INTEGER, Y INTEGER>",
    ),
    (
        "CREATE STREAM a AS SELECT id, price * 2 AS x, price / 3 AS y FROM pv;",
        "ID INTEGER KEY, X DECIMAL(17, 2), Y DECIMAL(17, 13)",
    ),
    (
        "CREATE TABLE a AS SELECT page, COUNT(*) AS n, AVG(ms) AS mean FROM pv GROUP BY page;",
        "PAGE STRING PRIMARY KEY, N BIGINT, MEAN DOUBLE",
    ),
    (
        "CREATE TABLE a AS SELECT page, id, SUM(price) AS t FROM pv GROUP BY page, id;",
        "PAGE STRING PRIMARY KEY, ID INTEGER PRIMARY KEY, T DECIMAL(6, 2)",
    ),
    (
        "CREATE TABLE a AS SELECT LCASE(page) AS p, MAX(day) FROM pv GROUP BY LCASE(page);",
        "P STRING PRIMARY KEY, KSQL_COL_1 DATE",
    ),
    (
        "CREATE TABLE a AS SELECT page, WINDOWSTART AS ws, WINDOWEND, COUNT(*) AS n FROM pv WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY page;",
        "PAGE STRING PRIMARY KEY, N BIGINT",
    ),
    (
        "CREATE TABLE a AS SELECT page, COUNT(*) AS n FROM pv WINDOW CUMULATE (SIZE 1 HOUR, STEP 5 MINUTES) GROUP BY page;",
        "PAGE STRING PRIMARY KEY, N BIGINT",
    ),
    (
        "CREATE TABLE a AS SELECT page, rn, ms FROM (SELECT page, ms, ROW_NUMBER() OVER (PARTITION BY page ORDER BY ms DESC) AS rn FROM pv) WHERE rn < 4;",
        "PAGE STRING PRIMARY KEY, RN BIGINT PRIMARY KEY, MS BIGINT",
    ),
    (
        "CREATE TABLE a AS SELECT * FROM (SELECT id, s->a AS z, ROW_NUMBER() OVER (PARTITION BY s->a, id ORDER BY ROWTIME) AS rn FROM pv) WHERE rn = 1;",
        "ID INTEGER PRIMARY KEY, Z INTEGER PRIMARY KEY, RN BIGINT",
    ),
    (
        "CREATE TABLE a AS SELECT page, TOPK(ms, 3) AS top, LATEST_BY_OFFSET(price, 2) AS l FROM pv GROUP BY page;",
        "PAGE STRING PRIMARY KEY, TOP ARRAY<BIGINT>, L ARRAY<DECIMAL(6, 2)>",
    ),
    (
        "CREATE TABLE a AS SELECT page, page AS p2, COUNT(*) AS n FROM pv GROUP BY page;",
        "error: the key column P2 is there twice",
    ),
    (
        "CREATE TABLE a AS SELECT home, COUNT(*) AS n FROM users GROUP BY home HAVING COUNT(*) > 1;",
        "HOME STRING PRIMARY KEY, N BIGINT",
    ),
    (
        "CREATE STREAM a AS SELECT pv.id, u.name, page FROM pv LEFT JOIN users u ON pv.id = u.uid;",
        "ID INTEGER KEY, NAME STRING, PAGE STRING",
    ),
    (
        "CREATE STREAM a AS SELECT l.id, r.page FROM pv l JOIN pv r WITHIN 1 MINUTE ON l.id = r.id;",
        "L_ID INTEGER KEY, R_PAGE STRING",
    ),
    (
        "CREATE STREAM a AS SELECT u.uid, page, rank FROM pv JOIN users u ON pv.id = u.uid JOIN vips v ON pv.id = v.vid;",
        "UID INTEGER KEY, PAGE STRING, RANK INTEGER",
    ),
    (
        "CREATE TABLE a AS SELECT uid, name, rank FROM users u LEFT JOIN vips v ON u.uid = v.vid;",
        "UID INTEGER PRIMARY KEY, NAME STRING, RANK INTEGER",
    ),
    (
        "CREATE TABLE a AS SELECT * FROM users u JOIN pages p ON u.home = p.p;",
        "U_UID INTEGER PRIMARY KEY, U_NAME STRING, U_HOME STRING, P_P STRING, P_TITLE STRING",
    ),
]


@functools.cache
def catalog() -> Catalog:
    found = Catalog()
    for parsed in parse_script(SETUP):
        found = applied(Binder(found).bind(parsed.statement), found)
    return found


def plan_of(text: str, functions: Functions | None = None) -> StatementPlan:
    return Binder(catalog(), functions or Functions()).bind(parse_statement(text))


@pytest.mark.parametrize(("text", "schema"), SCHEMAS, ids=[text for text, _ in SCHEMAS])
def test_target_has_its_schema_and_the_plan_is_stored_whole(text: str, schema: str | None) -> None:
    if schema is not None and schema.startswith("error: "):
        with pytest.raises(Exception, match=schema[7:]):
            plan_of(text)
        return

    plan = plan_of(text)

    assert isinstance(plan, PutQuery)
    assert plan.target.schema == (schema or catalog().sources["PV"].schema)
    assert restored(json.loads(json.dumps(stored(plan, text)))) == plan


def test_every_other_plan_is_stored_whole_too() -> None:
    for text in (
        "INSERT INTO pv (id, price, day, at, m) VALUES (1, 2.5, '2021-10-11', '2021-10-11T01:00', MAP('a' := 1e0 > 0 AND TRUE));",
        "INSERT INTO pv (id, price, day, at) VALUES (1, 2, '2021-10-11', '2021-10-11T01:00');",
        "SELECT FILTER(s->b, x => x > id AND x <> 1.5) FROM pv WHERE ms > 1e3 EMIT CHANGES LIMIT 3;",
        "DROP STREAM pv DELETE TOPIC;",
        "DROP TYPE place;",
        "DROP STREAM IF EXISTS nothing;",
        "CREATE TYPE other AS ARRAY<place>;",
        "EXPLAIN SELECT * FROM pv EMIT CHANGES;",
    ):
        try:
            plan = plan_of(text)
        except Exception as error:
            assert "M is MAP<STRING, INTEGER>" in str(error)
            continue
        assert restored(json.loads(json.dumps(stored(plan, text)))) == plan


def test_plans_of_a_later_version_are_refused() -> None:
    found = stored(plan_of("DROP STREAM pv;"), "DROP STREAM pv;")

    with pytest.raises(StoredPlanError, match="version 3"):
        restored({**found, "version": 3})
    assert restored({**found, "version": 1}) == restored(found)
    with pytest.raises(StoredPlanError, match="broken"):
        restored({**found, "plan": {"is": "Nothing"}})
    with pytest.raises(StoredPlanError, match="broken"):
        restored({**found, "plan": {"is": "os.system", "x": 1}})


def test_queries_without_emit_are_pull_queries() -> None:
    pull = plan_of("SELECT name FROM users WHERE uid = 3;")
    push = plan_of("SELECT name FROM users WHERE uid = 3 EMIT CHANGES;")

    assert isinstance(pull, RunQuery) and pull.query.mode is Mode.PULL and pull.query.emit is None
    assert isinstance(push, RunQuery) and push.query.mode is Mode.PUSH and push.query.emit is Emit.CHANGES


def test_joins_of_tables_are_by_key_or_by_foreign_key() -> None:
    by_key = plan_of("CREATE TABLE a AS SELECT * FROM users u JOIN vips v ON u.uid = v.vid;")
    foreign = plan_of("CREATE TABLE a AS SELECT * FROM users u JOIN pages p ON p.p = u.home;")

    assert isinstance(by_key, PutQuery) and by_key.query.joins[0].how is JoinHow.TABLE_TABLE
    assert isinstance(foreign, PutQuery) and foreign.query.joins[0].how is JoinHow.FOREIGN_KEY
    assert foreign.query.kind is SourceKind.TABLE


def test_functions_of_the_user_are_called_by_their_types() -> None:
    functions = (
        Functions()
        .with_scalar("twice", ["(INT) -> INT", "(STRING) -> STRING"], lambda value: value * 2)
        .with_table_function("letters", ["(STRING) -> STRING"], list)
        .with_aggregate(
            "product", [aggregate("(DOUBLE) -> DOUBLE", lambda: 1.0, lambda a, v: a * v, lambda a, b: a * b)]
        )
    )

    plan = plan_of("CREATE STREAM a AS SELECT id, twice(page) AS t, letters(page) AS l FROM pv;", functions)
    table = plan_of("CREATE TABLE a AS SELECT id, product(ms) AS p FROM pv GROUP BY id;", functions)

    assert isinstance(plan, PutQuery) and plan.target.schema == "ID INTEGER KEY, T STRING, L STRING"
    assert isinstance(table, PutQuery) and table.target.schema == "ID INTEGER PRIMARY KEY, P DOUBLE"
    with pytest.raises(FunctionError, match="UCASE"):
        Functions().with_scalar("ucase", ["(INT) -> INT"], abs)


def test_a_row_is_written_by_columns() -> None:
    plan = plan_of("INSERT INTO pv (page, id, rowtime) VALUES ('a' || 'b', 3, 1000);")

    assert isinstance(plan, WriteRow)
    assert [name for name, _ in plan.values] == ["PAGE", "ID", "ROWTIME"]


def test_explain_says_what_runs_where() -> None:
    from ottla.sql.lowering.explain import explained

    plan = plan_of(
        "CREATE TABLE a AS SELECT page, COUNT(*) AS n, SUM(price) AS t FROM pv WINDOW TUMBLING (SIZE 1 MINUTE, "
        "GRACE PERIOD 0 SECONDS) WHERE ms / 2 > 3 GROUP BY page HAVING COUNT(*) > 1 EMIT FINAL;"
    )
    stream = plan_of(
        "CREATE STREAM a AS SELECT u.uid, INITCAP(page) AS p FROM pv JOIN users u ON pv.id = u.uid;"
    )

    assert isinstance(plan, PutQuery) and isinstance(stream, PutQuery)
    assert explained(plan.query).splitlines() == [
        "from stream PV (topic pv, JSON)",
        "where ((PV.MS / CAST(2 AS BIGINT)) > CAST(3 AS BIGINT))  [Spark]",
        "group by PV.PAGE  [Spark]",
        "  tumbling windows of 60000 ms, grace 0 ms",
        "  KSQL_AGG_0 = COUNT(*)",
        "  KSQL_AGG_1 = SUM(PV.PRICE)",
        "  aggregates  [Python, state]",
        "having (KSQL_AGG_0 > CAST(1 AS BIGINT))  [Spark]",
        "select PAGE AS PAGE (key), KSQL_AGG_0 AS N, KSQL_AGG_1 AS T  [Spark]",
        "emits rows: each window once, when it is closed",
    ]
    assert explained(stream.query).splitlines() == [
        "from stream PV (topic pv, JSON)",
        "inner stream-table join table USERS as U (topic u, JSON) on PV.ID = U.UID  [Python, state]",
        "select U.UID AS UID (key), INITCAP(PV.PAGE) AS P  [Python]",
        "emits rows",
    ]
