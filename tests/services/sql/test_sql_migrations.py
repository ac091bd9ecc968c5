"""`ottla sql migrate` on a real server and broker, without Spark: what is applied, told, and removed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.cli.main import main
from support.clients.confluent import admin_client
from support.servers.ottla_broker import OttlaBroker
from support.sql.sql_server import SqlServer


@pytest.fixture(scope="module")
def server(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    directory = tmp_path_factory.mktemp("sql")
    with SqlServer.start(broker.bootstrap, directory, f"id{uuid.uuid4().hex[:8]}_") as running:
        yield running


def migrate(*words: str) -> int:
    return main(["sql", "migrate", *words])


def test_versions_are_applied_once_whoever_applies(
    server: SqlServer,
    broker: OttlaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"S_{uuid.uuid4().hex[:10]}".upper()
    assert migrate("new-project", str(tmp_path / "shop"), server.url) == 0
    monkeypatch.chdir(tmp_path / "shop")
    assert migrate("info") == 1
    assert "initialize-metadata" in capsys.readouterr().err
    assert migrate("initialize-metadata") == 0
    assert migrate("initialize-metadata") == 0
    files = tmp_path / "shop" / "migrations"
    create = f"CREATE STREAM {name} (id INT KEY, item STRING)\n  WITH (kafka_topic='{name}', partitions=1,"
    (files / "V000001__made.sql").write_text(f"{create} value_format='${{form}}');\n")
    (files / "V000002__filled.sql").write_text(f"INSERT INTO {name} VALUES (1, 'it''s; one');\n")
    words = ("apply", "--all", "-d", "form=json")
    with ThreadPoolExecutor(4) as threads:
        codes = list(threads.map(lambda _: migrate(*words), range(4)))
    assert 0 in codes or migrate(*words) == 0
    assert server.rows(f"SELECT * FROM {name};") == [[1, "it's; one"]]
    capsys.readouterr()
    assert migrate("info", "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["state"], each["previous"]) for each in found] == [("MIGRATED", None), ("MIGRATED", 1)]
    query = "SELECT version, state FROM MIGRATION_SCHEMA_VERSIONS WHERE version_key = 'CURRENT';"
    server.until(query, lambda rows: rows == [["2", "MIGRATED"]])

    (files / "V000003__wrong.sql").write_text(f"DROP STREAM {name};\nINSERT INTO {name} VALUES (2, 'x');")
    assert migrate("apply", "--next") == 1
    assert "V000003__wrong.sql" in capsys.readouterr().err
    assert migrate("info") == 0
    assert "ERROR" in capsys.readouterr().out

    topics = admin_client(broker.bootstrap).list_topics(timeout=30).topics
    (topic,) = (each for each in topics if each.endswith("ksql_MIGRATION_EVENTS"))
    assert migrate("destroy-metadata", "--yes") == 0
    assert topic not in admin_client(broker.bootstrap).list_topics(timeout=30).topics
