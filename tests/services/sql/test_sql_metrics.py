"""What a server of SQL tells of itself at a scrape, after a load whose figures are known."""

from __future__ import annotations

import uuid
from pathlib import Path

import httpx

from support.clients.confluent import eventually
from support.metrics.samples import by_labels, sample, scrape
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.sql.sql_server import TIMEOUT_S, Push, SqlServer


def test_the_figures_of_statements_queries_rows_and_tables(broker: OttlaBroker, tmp_path: Path) -> None:
    port, service = free_port(), f"id{uuid.uuid4().hex[:8]}"
    settings = {"ottla.metrics.listen": f"127.0.0.1:{port}"}
    stream, table = (f"{kind}_{uuid.uuid4().hex[:8]}".upper() for kind in "ST")
    with SqlServer.start(broker.bootstrap, tmp_path, service, settings=settings) as server:
        form = "value_format='json', partitions=1"
        server.run(
            f"CREATE STREAM {stream} (a INT) WITH (kafka_topic='{stream}', {form});"
            f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT) WITH (kafka_topic='{table}', {form});"
        )
        push = Push(server, f"SELECT * FROM {stream} EMIT CHANGES;")
        for number in range(5):
            server.run(
                f"INSERT INTO {stream} VALUES ({number}); INSERT INTO {table} VALUES ({number}, {number});"
            )
        push.until(lambda rows: len(rows) == 5)
        server.until(f"SELECT * FROM {table};", lambda rows: len(rows) == 5)
        before = scrape(f"http://127.0.0.1:{port}/metrics")
        assert server.rows(f"SELECT * FROM {table} WHERE id = 3;") == [[3, 3]]
        assert server.rows(f"SELECT * FROM {table} WHERE id IN (1, 2, 9);") == [[1, 1], [2, 2]]
        assert len(server.rows(f"SELECT * FROM {table};")) == 5
        assert len(server.rows(f"SELECT * FROM {stream};")) == 5
        refused = {
            "sql": f"SELECT * FROM {table};",
            "properties": {"ksql.query.pull.max.allowed.offset.lag": "x"},
        }
        assert httpx.post(f"{server.url}/query-stream", json=refused, timeout=TIMEOUT_S).status_code == 200
        server.refused("CREATE STREAM x AS SELECT * FROM nowhere;")
        server.refused("SHOW QUERIES; NONSENSE;")

        def grown(name: str, *labels: str) -> dict[tuple[str, ...], float]:
            now, then = by_labels(text, name, *labels), by_labels(before, name, *labels)
            return {key: value - then.get(key, 0) for key, value in now.items() if value != then.get(key, 0)}

        text = scrape(f"http://127.0.0.1:{port}/metrics")
        assert grown("ottla_sql_pull_queries_total", "reads", "outcome") == {
            ("key", "ok"): 2,
            ("table", "ok"): 2,
            ("stream", "ok"): 1,
        }
        assert grown("ottla_sql_pull_query_duration_seconds_count", "reads") == {
            ("key",): 2,
            ("table",): 2,
            ("stream",): 1,
        }
        assert grown("ottla_sql_rows_sent_total", "query") == {("pull",): 1 + 2 + 5 + 5 + 5}
        assert by_labels(text, "ottla_sql_rows_sent_total", "query")["push",] == 5
        assert grown("ottla_sql_statements_total", "statement", "outcome") == {
            ("CreateAsSelect", "error"): 1,
            ("Show", "ok"): 1,
            ("unparsed", "error"): 1,
        }
        assert by_labels(text, "ottla_sql_push_queries", "runs_on") == {("server",): 1, ("spark",): 0}
        assert by_labels(text, "ottla_sql_sources", "kind") == {("stream",): 1, ("table",): 1}
        assert by_labels(text, "ottla_sql_views", "state")["running",] == 1
        assert by_labels(text, "ottla_sql_view_lag_records", "table") == {(table,): 0}
        assert set(by_labels(text, "ottla_sql_persistent_queries", "state").values()) == {0}
        assert sample(text, "ottla_sql_commands") == 2
        assert sample(text, "ottla_sql_host_starts_total") == 0
        topic = f"_ottla-sql-{service}-commands"
        assert by_labels(text, "ottla_replicated_lag", "topic") == {(topic,): 0}
        httpx.post(f"{server.url}/close-query", json={"queryId": push.head["queryId"]}, timeout=TIMEOUT_S)
        push.until_ended()

        def ended() -> bool:
            found = scrape(f"http://127.0.0.1:{port}/metrics")
            rows = by_labels(found, "ottla_sql_rows_sent_total", "query")["push",]
            return rows == 5 and by_labels(found, "ottla_sql_push_queries", "runs_on")["server",] == 0

        eventually(ended, "the push query is counted as ended", TIMEOUT_S)
        assert sample(scrape(f"http://127.0.0.1:{port}/metrics"), "ottla_sql_push_query_errors_total") == 0
