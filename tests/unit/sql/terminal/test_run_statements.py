"""`ottla sql -e` and `-f`: what statements give, in each form, and how they fail."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.security.making_certificates import Authority
from support.servers.cluster import free_port
from support.sql.fake_server import FakeSql

ORDERS = """CREATE STREAM orders (id INT KEY, item STRING, price DECIMAL(6, 2), tags ARRAY<STRING>)
  WITH (kafka_topic='orders', value_format='json', partitions=1);"""
STOCK = """CREATE TABLE stock (item STRING PRIMARY KEY, n INT)
  WITH (kafka_topic='stock', value_format='json', partitions=1);"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSql]:
    with FakeSql.running() as running:
        running.run(ORDERS + STOCK)
        monkeypatch.setenv("OTTLA_SQL_URL", running.url)
        yield running


def sql(*words: str) -> int:
    return main(["sql", *words])


# -- forms


def test_what_the_server_tells_comes_as_tables(fake: FakeSql, capsys: pytest.CaptureFixture[str]) -> None:
    assert sql("-e", "SHOW STREAMS; DESCRIBE stock;") == 0
    assert capsys.readouterr().out.splitlines() == [
        " stream │ topic  │ key format │ value format │ windowed",
        "────────┼────────┼────────────┼──────────────┼──────────",
        " ORDERS │ orders │ KAFKA      │ JSON         │ false",
        "(1 row)",
        "table STOCK",
        " column │ type",
        "────────┼──────────────────────",
        " ITEM   │ STRING (primary key)",
        " N      │ INTEGER",
    ]


def test_rows_come_in_each_form(fake: FakeSql, capsys: pytest.CaptureFixture[str]) -> None:
    fake.put("ORDERS", {"ID": 1, "ITEM": None, "TAGS": ["a"]}, {"ID": 20, "ITEM": "", "TAGS": []})
    expected = {
        "table": ' ID │ ITEM │ TAGS\n────┼──────┼───────\n  1 │ NULL │ ["a"]\n 20 │      │ []\n(2 rows)\n',
        "json": '{"ID": 1, "ITEM": null, "TAGS": ["a"]}\n{"ID": 20, "ITEM": "", "TAGS": []}\n',
        "csv": 'ID,ITEM,TAGS\n1,,"[""a""]"\n20,,[]\n',
        "tsv": 'ID\tITEM\tTAGS\n1\t\\N\t["a"]\n20\t\t[]\n',
    }
    for form, text in expected.items():
        assert sql("-e", "SELECT id, item, tags FROM orders;", "--output", form) == 0
        assert capsys.readouterr().out == text
    assert sql("-e", "SELECT id, item FROM orders LIMIT 1;", "--output", "expanded") == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["ID   │ 1", "ITEM │ NULL", "(1 row)"]


def test_any_text_can_be_read_back(fake: FakeSql, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = random.Random()
    signs = "aé€😀\t\n\r\"',;\\|\x1b\x00 "
    texts = ["".join(drawn.choices(signs, k=drawn.randrange(12))) for _ in range(200)]
    fake.put("ORDERS", *({"ID": number, "ITEM": text} for number, text in enumerate(texts)))
    assert sql("-e", "SELECT id, item FROM orders;", "--json") == 0
    read = [json.loads(line) for line in capsys.readouterr().out.split("\n") if line]
    assert [each["ITEM"] for each in read] == texts
    assert sql("-e", "SELECT id, item FROM orders;", "--output", "csv") == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))
    assert [row[1] for row in rows[1:]] == texts
    # on a terminal they steer nothing
    assert sql("-e", "SELECT id, item FROM orders;") == 0
    assert not set(capsys.readouterr().out) & set("\x1b\x00\r\t")


# -- push queries


def test_a_push_query_ends_after_rows_or_seconds_and_is_closed_at_the_server(
    fake: FakeSql, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("STOCK", *({"ITEM": f"i{number}", "N": number} for number in range(9)))
    assert sql("-e", "SELECT * FROM stock EMIT CHANGES;", "--limit", "4", "--json") == 0
    assert [json.loads(line)["N"] for line in capsys.readouterr().out.splitlines()] == [0, 1, 2, 3]
    (first,) = fake.closed
    assert sql("-e", "SELECT * FROM stock EMIT CHANGES;", "--timeout", "0.3", "--json") == 0
    assert len(capsys.readouterr().out.splitlines()) == 9
    assert len(fake.closed) == 2 and fake.closed[1] != first
    # LIMIT ends it at the server: there is nothing to close
    assert sql("-e", "SELECT * FROM stock EMIT CHANGES LIMIT 2;", "--json") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 and len(fake.closed) == 2


def test_rows_are_written_while_the_query_runs_and_ctrl_c_ends_it(fake: FakeSql) -> None:
    command = [sys.executable, "-m", "ottla", "sql", "-e", "SELECT * FROM stock EMIT CHANGES;", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        for number in range(3):
            fake.put("STOCK", {"ITEM": "a", "N": number})
            assert json.loads(process.stdout.readline()) == {"ITEM": "a", "N": number}
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert "Traceback" not in process.stderr.read()
    (query,) = fake.closed
    assert query.startswith("transient_")


def test_an_error_among_the_rows_is_told_behind_them(
    fake: FakeSql, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("STOCK", {"ITEM": "a", "N": 1})
    fake.failing["STOCK"] = "the query host has ended"
    assert sql("-e", "SELECT * FROM stock EMIT CHANGES;", "--json") == 1
    told = capsys.readouterr()
    assert told.out == '{"ITEM": "a", "N": 1}\n' and told.err == "the query host has ended\n"


# -- errors


def test_an_error_has_its_line_and_a_caret_in_the_file(
    fake: FakeSql, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SHOW STREAMS; -- well\n\n  SELECT id,\n    itm FROM orders;\nSHOW TABLES;\n")
    assert sql("-f", str(script)) == 1
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        f"{script}: line 4, column 5: there is no column ITM (is ITEM meant?)",
        "      itm FROM orders;",
        "      ^",
    ]
    assert "STOCK" not in told.out
    assert sql("-f", str(script), "--keep-going") == 1
    assert "STOCK" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "line 1:8: no viable input",
            "line 2, column 10: no viable input\n    SELECT xx FROM t;\n           ^\n",
        ),
        (
            "line 1, column 8: no\n  SELECT xx FROM t;\n         ^\n  write x",
            "line 2, column 10: no\n    SELECT xx FROM t;\n           ^\n  write x\n",
        ),
        ("two\nlines", "two\nlines\n"),
    ],
)
def test_messages_of_every_server_are_placed(
    fake: FakeSql, capsys: pytest.CaptureFixture[str], message: str, shown: str
) -> None:
    refusal = {"@type": "generic_error", "error_code": 40001, "message": message}
    fake.before = lambda path, body: (400, refusal) if path == "/query-stream" else None
    assert sql("-e", "SHOW STREAMS;\n  SELECT xx FROM t;") == 1
    assert capsys.readouterr().err == shown


def test_advice_without_a_place_is_told_once(fake: FakeSql, capsys: pytest.CaptureFixture[str]) -> None:
    refusal = {"error_code": 40001, "message": "no registry\n  name one", "advice": "name one"}
    fake.before = lambda path, body: (400, refusal) if path == "/ksql" else None
    assert sql("-e", "SHOW STREAMS;") == 1
    assert capsys.readouterr().err == "no registry\n  name one\n"


def test_a_command_that_fails_at_the_server_fails(fake: FakeSql, capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"commandSequenceNumber": 3, "commandStatus": {"status": "ERROR", "message": "no topic x"}}
    fake.before = lambda path, body: (200, [failed]) if path == "/ksql" else None
    assert sql("-e", "CREATE STREAM a AS SELECT * FROM orders;") == 1
    assert capsys.readouterr().err == "no topic x\n"


def test_statements_wait_for_the_command_before(fake: FakeSql) -> None:
    create = "CREATE STREAM {} AS SELECT * FROM orders;"
    assert sql("-e", create.format("a") + create.format("b"), "-e", "SHOW STREAMS;") == 0
    numbers = [body.get("commandSequenceNumber") for _, path, body in fake.asked if path == "/ksql"]
    assert numbers == [None, fake.commands - 1, fake.commands]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT 'a FROM x;", "line 1, column 8: the quote ' is not closed"),
        ("SET 'a';", "SET is not complete"),
        ("DEFINE x;", "write DEFINE name = 'value';"),
        ("UNDEFINE x;", "the variable x is not defined"),
        ("SET 'no.such' = 'x';", "prohibited: no.such"),
        ("RUN SCRIPT 'not-here.sql';", "not-here.sql: No such file or directory"),
        ("SELECT id FROM ${where};", "the variable where is not defined"),
    ],
)
def test_mistakes_are_told(fake: FakeSql, capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    assert sql("-e", text) == 1
    assert told in capsys.readouterr().err


def test_wrong_words_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert sql("-e", "SHOW STREAMS;", "-f", "x") == 2
    assert sql("-e", "SHOW STREAMS;", "-d", "x") == 2
    assert sql("--server", "nowhere", "-e", "SHOW STREAMS;") == 1
    assert "must begin with http://" in capsys.readouterr().err


# -- scripts and variables


def test_scripts_run_scripts_and_variables_hold_in_them(
    fake: FakeSql, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "inner.sql").write_text("INSERT INTO ${into} (id, item) VALUES (${id}, '${what}');")
    (tmp_path / "outer.sql").write_text("DEFINE id = '7'; RUN SCRIPT 'inner.sql'; RUN SCRIPT 'inner.sql';")
    assert sql("-f", str(tmp_path / "outer.sql"), "-d", "into=orders", "--define", "what=a b") == 0
    assert [(row["ID"], row["ITEM"]) for row in fake.rows["ORDERS"]] == [(7, "a b")] * 2
    (tmp_path / "endless.sql").write_text("RUN SCRIPT 'endless.sql';")
    assert sql("-f", str(tmp_path / "endless.sql")) == 1
    assert "16 deep" in capsys.readouterr().err


def test_properties_are_given_to_statements_until_they_are_unset(fake: FakeSql) -> None:
    text = "SHOW STREAMS; SET 'b' = '2'; SHOW STREAMS; UNSET 'a'; SHOW STREAMS; UNSET ALL; SHOW STREAMS;"
    assert sql("-e", text, "--property", "a=1") == 0
    given = [body["streamsProperties"] for _, path, body in fake.asked if path == "/ksql"]
    assert given == [{"a": "1"}, {"a": "1", "b": "2"}, {"b": "2"}, {}]


def test_a_pipe_is_run(fake: FakeSql) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "sql", "--output", "csv"],
        input="SHOW STREAMS;\nSELECT nothing FROM orders;",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["ORDERS,orders,KAFKA,JSON,false"]
    assert "there is no column NOTHING" in done.stderr


# -- how servers are reached


def test_servers_are_tried_in_turn_and_passwords_are_not_shown(
    fake: FakeSql, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = f"http://u:secret@127.0.0.1:{free_port()}"
    assert sql("--server", f"{dead},{fake.url}", "-e", "SHOW STREAMS;") == 0
    assert sql("--server", dead, "-e", "SHOW STREAMS; SHOW STREAMS;", "--keep-going") == 1
    told = capsys.readouterr().err
    assert told.count("no server of SQL answers") == 1 and "secret" not in told


def test_the_user_and_the_password_are_given(
    fake: FakeSql, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake.password = "alice:pass:word"
    assert sql("-e", "SHOW STREAMS;") == 1
    assert "Unauthorized" in capsys.readouterr().err
    monkeypatch.setenv("OTTLA_SQL_PASSWORD", "pass:word")
    assert sql("-e", "SHOW STREAMS;", "--user", "alice") == 0
    config = tmp_path / "client.properties"
    config.write_text("basic.auth.user.info=alice:pass:word\n")
    assert sql("-e", "SHOW STREAMS;", "--command-config", str(config)) == 0
    assert sql("-e", "SHOW STREAMS;", "--server", fake.url.replace("//", "//alice:pass%3Aword@")) == 0
    assert sql("-e", "SHOW STREAMS;", "--set", "bearer.auth.token=t0k") == 1
    assert fake.headers[-1]["Authorization"] == "Bearer t0k"


def test_a_server_with_tls_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.create("trial", now, 2)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem())
    (tmp_path / "node.pem").write_bytes(authority.issue("sql", now, 2, hosts=["127.0.0.1"]).pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "node.pem")
    with FakeSql.running(context) as fake:
        fake.run(ORDERS)
        fake.put("ORDERS", {"ID": 1})
        words = ("-e", "SELECT id FROM orders EMIT CHANGES;", "--limit", "1", "--json", "--server", fake.url)
        assert sql(*words, "--set", f"ssl.ca.location={tmp_path / 'ca.pem'}") == 0
        assert capsys.readouterr().out == '{"ID": 1}\n'
        assert sql(*words) == 1
        assert "certificate verify failed" in capsys.readouterr().err


@pytest.mark.parametrize("body", [b"<html>", b'{"a": 1}', b"[]", b""])
def test_other_servers_are_told(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            assert sql("--server", url, "-e", "SELECT 1 FROM x;") == 1
            assert "server of SQL" in capsys.readouterr().err or body == b"<html>"
            if body != b"[]":
                assert sql("--server", url, "-e", "SHOW STREAMS;") == 1
                assert "server of SQL" in capsys.readouterr().err
        finally:
            server.shutdown()
            thread.join(10)


def test_output_to_a_closed_pipe_ends_quietly(fake: FakeSql) -> None:
    fake.put("ORDERS", *({"ID": number, "ITEM": "x" * 500} for number in range(3_000)))
    command = f"{sys.executable} -m ottla sql -e 'SELECT * FROM orders;' --json | head -1"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ)
    )
    assert json.loads(done.stdout)["ID"] == 0 and done.stderr == ""
