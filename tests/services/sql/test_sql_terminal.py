"""`ottla sql -e` on a real server and broker, without Spark: what it writes, how it fails, how it ends."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from ottla.cli.main import main
from support.clients.confluent import eventually
from support.servers.ottla_broker import OttlaBroker
from support.sql.sql_server import TIMEOUT_S, SqlServer


@pytest.fixture(scope="module")
def server(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    directory = tmp_path_factory.mktemp("sql")
    with SqlServer.start(broker.bootstrap, directory, f"id{uuid.uuid4().hex[:8]}") as running:
        yield running


@pytest.fixture
def url(server: SqlServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OTTLA_SQL_URL", server.url)
    return server.url


def new_name() -> str:
    return f"S_{uuid.uuid4().hex[:10]}".upper()


def sql(*words: str) -> int:
    return main(["sql", *words])


def test_statements_rows_and_lists(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, drawn = new_name(), random.Random()
    rows = {number: drawn.choice(["pen", "", "é😀", "it''s"]) for number in drawn.sample(range(1000), 5)}
    create = (
        f"CREATE STREAM {name} (id INT KEY, item STRING, price DECIMAL(9, 2)) "
        f"WITH (kafka_topic='{name}', value_format='json', partitions=1);"
    )
    assert sql("-e", create) == 0
    assert capsys.readouterr().out == "Stream created\n"
    written = [f"INSERT INTO {name} VALUES ({key}, '{item}', {key}.50);" for key, item in rows.items()]
    assert sql("-e", " ".join(written)) == 0
    capsys.readouterr()
    assert sql("-e", f"SELECT * FROM {name};", "--json") == 0
    out = capsys.readouterr().out
    expected = [
        {"ID": key, "ITEM": item.replace("''", "'"), "PRICE": key + 0.5} for key, item in rows.items()
    ]
    assert [json.loads(line) for line in out.splitlines()] == expected
    assert all(f'"PRICE": {key}.50' in out for key in rows)
    assert sql("-e", f"SHOW STREAMS; DESCRIBE {name};") == 0
    told = capsys.readouterr().out
    assert f" {name} │" in told and "│ INTEGER (key)" in told and "DECIMAL(9, 2)" in told
    for text in ("TOPICS", "QUERIES", "FUNCTIONS", "PROPERTIES", "TYPES", "TABLES"):
        assert sql("-e", f"SHOW {text};") == 0
    assert sql("-e", f"SET 'auto.offset.reset' = 'earliest'; PRINT '{name}' FROM BEGINNING LIMIT 2;") == 0
    assert capsys.readouterr().out.count('"PRICE"') >= 2
    assert sql("-e", f"DROP STREAM {name};") == 0


def test_errors_have_their_place_and_their_advice_once(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = new_name()
    create = (
        f"CREATE STREAM {name} (id INT KEY, item STRING) WITH (kafka_topic='{name}', value_format='json', "
    )
    assert sql("-e", create + "partitions=1);") == 0
    capsys.readouterr()
    assert sql("-e", f"SHOW TYPES;\n  SELECT id,\n  itm FROM {name};") == 1
    assert capsys.readouterr().err.splitlines() == [
        "line 3, column 3: there is no column ITM",
        f"    itm FROM {name};",
        "    ^",
        "  is ITEM meant?",
    ]
    assert sql("-e", f"  DESCRIBE {name}x;") == 1
    told = capsys.readouterr().err
    assert "there is no stream or table" in told and told.count("meant?") == 1
    assert sql("-e", "SET 'no.such.property' = '1';") == 1
    assert "no.such.property" in capsys.readouterr().err


def test_a_push_query_shows_rows_as_they_come_and_is_gone_after_ctrl_c(server: SqlServer, url: str) -> None:
    name = new_name()
    server.run(
        f"CREATE STREAM {name} (id INT KEY, n INT) "
        f"WITH (kafka_topic='{name}', value_format='json', partitions=1);"
    )
    text = f"SELECT * FROM {name} EMIT CHANGES;"
    command = [sys.executable, "-m", "ottla", "sql", "-e", text, "--json"]
    command += ["--property", "auto.offset.reset=earliest", "--server", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number in range(3):
            server.run(f"INSERT INTO {name} VALUES ({number}, {number});")
            assert json.loads(process.stdout.readline()) == {"ID": number, "N": number}
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130

    def is_gone() -> bool:
        (shown,) = server.run("SHOW QUERIES;")
        return not any(name in each["queryString"] for each in shown["queries"])

    eventually(is_gone, "the query is gone", TIMEOUT_S)
