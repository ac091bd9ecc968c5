"""The parts of the terminal: completion, colours, keys of rows, tables, what servers tell."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.frame.terminal import width_of
from ottla.cli.sql.shell import is_finished
from ottla.cli.sql.tables import Paper, head_lines, laid_out, row_lines
from ottla.sql.terminal.completion import candidates
from ottla.sql.terminal.entities import blocks_of, type_name
from ottla.sql.terminal.highlighting import Look, spans
from ottla.sql.terminal.http import Reply, SqlUnreachable
from ottla.sql.terminal.live_rows import LiveRows
from ottla.sql.terminal.names import NamedColumn, NamedSource, Names
from ottla.sql.terminal.row_stream import RowStream
from ottla.sql.terminal.statements import Sort, is_complete, parts_of
from ottla.sql.terminal.values import json_text

NAMES = Names(
    {
        "ORDERS": NamedSource(
            "ORDERS", False, (NamedColumn("ID", "INTEGER", True), NamedColumn("ITEM", "STRING"))
        ),
        "STOCK": NamedSource(
            "STOCK", True, (NamedColumn("ITEM", "STRING", True), NamedColumn("N", "INTEGER"))
        ),
        "odd name": NamedSource("odd name", True, (NamedColumn("x y", "STRING"),)),
    },
    ("COUNT", "CONCAT", "UCASE"),
    ("CTAS_COUNTS_1",),
    ("orders-topic",),
    ("auto.offset.reset",),
)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("", ["SELECT", "CREATE"]),
        ("SEL", ["SELECT"]),
        ("sel", ["select"]),
        ("SELECT * FROM ", ["ORDERS", "STOCK", "`odd name`"]),
        ("SELECT * FROM od", ["`odd name`"]),
        ("SELECT * FROM orders WHERE I", ["ID", "ITEM"]),
        ("SELECT o.|, 1 FROM orders o JOIN stock s", ["ID", "ITEM"]),
        ("SELECT | FROM stock", ["ITEM", "N"]),
        ("SELECT s.I FROM x; SELECT s. FROM orders o JOIN stock s ON o.item = s.|", ["ITEM", "N"]),
        ("SELECT `odd name`.| FROM `odd name`", ["`x y`"]),
        ("SELECT con", ["concat("]),
        ("DROP TABLE ", ["STOCK", "`odd name`", "IF EXISTS"]),
        ("DROP STREAM ", ["ORDERS", "IF EXISTS"]),
        ("TERMINATE ", ["CTAS_COUNTS_1", "ALL"]),
        ("PRINT ", ["orders-topic"]),
        ("PRINT '", ["orders-topic"]),
        ("SET 'auto", ["auto.offset.reset"]),
        ("CREATE STREAM a (id INT) WITH (kafka_topic = 'or", ["orders-topic"]),
        ("CREATE STREAM a (id B", ["BIGINT", "BOOLEAN", "BYTES"]),
        ("SHOW T", ["TABLES", "TOPICS", "TYPES"]),
        ("SELECT 'a;b' FROM orders GROUP ", ["BY"]),
        ("SELECT * FROM orders EMIT ", ["CHANGES", "FINAL"]),
        ("SELECT 'in a te", []),
        ("SELECT /* in a com", []),
    ],
)
def test_what_may_come_is_offered(text: str, first: list[str]) -> None:
    before, _, after = text.partition("|")
    found = [each.text for each in candidates(before, after, NAMES)]
    assert found[: len(first)] == first
    assert first or not found


@given(st.text(alphabet="selct from'`\"/*-;.,()\n\t$ é", max_size=60))
def test_any_text_is_coloured_whole_and_offered_for(text: str) -> None:
    assert "".join(piece for _, piece in spans(text)) == text
    candidates(text, "", NAMES)
    is_finished(text)


def test_colours_are_those_of_the_words() -> None:
    found = [
        (look, text)
        for look, text in spans("SELECT ucase(a) -- why\n, 'x' || 12 FROM INT 'op")
        if text.strip()
    ]
    assert found == [
        (Look.KEYWORD, "SELECT"),
        (Look.FUNCTION, "ucase"),
        (Look.SIGN, "("),
        (Look.NAME, "a"),
        (Look.SIGN, ")"),
        (Look.COMMENT, " -- why\n"),
        (Look.SIGN, ","),
        (Look.TEXT, "'x'"),
        (Look.SIGN, "||"),
        (Look.NUMBER, "12"),
        (Look.KEYWORD, "FROM"),
        (Look.TYPE, "INT"),
        (Look.TEXT, "'op"),
    ]


def test_statements_are_told_apart() -> None:
    text = "SELECT 1 FROM a; select ';' from b emit changes;; -- c;\n"
    text += "Set 'a'='b'; list variables; run script 'x'; show x"
    parts = parts_of(text)
    assert [(part.sort, part.text) for part in parts] == [
        (Sort.PULL_QUERY, "SELECT 1 FROM a"),
        (Sort.PUSH_QUERY, "select ';' from b emit changes"),
        (Sort.SET, "Set 'a'='b'"),
        (Sort.SHOW_VARIABLES, "list variables"),
        (Sort.RUN_SCRIPT, "run script 'x'"),
        (Sort.STATEMENT, "show x"),
    ]
    assert [(part.at.line, part.at.column) for part in parts[1:3]] == [(1, 18), (2, 1)]
    assert not is_complete(text) and is_complete(text + ";") and is_complete("-- only this")
    assert not is_complete("select ';") and not is_complete("/* ;")


def test_random_changes_leave_the_last_row_of_each_key() -> None:
    drawn = random.Random()
    live, model = LiveRows([0], most=50), {}
    for _ in range(2_000):
        key, value = drawn.randrange(40), drawn.choice([None, drawn.randrange(100)])
        live.put([[key, value]])
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value
    assert {row[0]: row[1] for row in live.rows()} == model
    newest = sorted((number for _, number in live.shown(1_000)), reverse=True)[:5]
    assert {number for _, number in live.shown(5)} == set(newest)
    for number in range(200):
        live.put([[1000 + number, 1]])
    assert len(live) == 50 and {row[0] for row in live.rows()} == set(range(1150, 1200))


@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(), st.text()), min_size=3, max_size=3), max_size=8),
    st.integers(min_value=26, max_value=90),
    st.booleans(),
)
def test_a_table_is_never_wider_than_the_terminal(rows: list[list[Any]], width: int, wraps: bool) -> None:
    paper = Paper(width, colours=False, boxes=True, wraps=wraps)
    layout = laid_out(["A", "B" * 30, "😀"], rows, [False, True, False], paper)
    assert layout is not None
    lines = [*head_lines(layout, paper), *(line for row in rows for line in row_lines(row, layout, paper))]
    assert all(width_of(line) <= width for line in lines)
    assert wraps or len(lines) == len(rows) + 2


def test_decimals_keep_their_digits_and_rows_come_however_the_bytes_are_cut() -> None:
    drawn = random.Random()
    lines = ['{"queryId":"q","columnNames":["A","B"],"columnTypes":["DECIMAL(30,4)","STRING"]}']
    numbers = [f"{drawn.randrange(10**25)}.{drawn.randrange(10**4):04}" for _ in range(100)]
    lines += [json.dumps(["x"]).replace('"x"', f'{number}, "é😀\\n"') for number in numbers]
    data = ("\n".join(lines) + drawn.choice(["", "\n", "\n\n"])).encode()
    cuts = sorted(drawn.sample(range(1, len(data)), 40))
    pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    left = iter([*pieces, b""])
    ended = []
    with RowStream(Reply(200, lambda: next(left), lambda: ended.append(True))) as stream:
        rows: list[list[Any]] = []
        while True:
            chunk = stream.take(5)
            assert chunk is not None
            rows += chunk.rows
            if chunk.is_last:
                break
    assert [json_text(row[0]) for row in rows] == [str(Decimal(each)) for each in numbers] == numbers
    assert {row[1] for row in rows} == {"é😀\n"} and ended


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>\n", b"[1]\n", b'{"a": 1}\n', b'{"columnNames": "x"}\n', b"[" * 100_000 + b"\n", b"\xff\n"],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    left = iter([data, b""])
    with pytest.raises(SqlUnreachable):
        RowStream(Reply(200, lambda: next(left, b""), lambda: None))


def test_what_ksqldb_tells_is_shown() -> None:
    struct = {
        "type": "STRUCT",
        "fields": [{"name": "A", "schema": {"type": "ARRAY", "memberSchema": {"type": "INTEGER"}}}],
    }
    decimal = {"type": "DECIMAL", "parameters": {"precision": 5, "scale": 2}}
    assert type_name(struct) == "STRUCT<A ARRAY<INTEGER>>" and type_name(decimal) == "DECIMAL(5, 2)"
    (status,) = blocks_of(
        {"commandStatus": {"status": "SUCCESS", "message": "Stream created"}, "commandId": "x"}
    )
    assert status.lines == ("Stream created",)
    (queries,) = blocks_of(
        {
            "queries": [
                {
                    "id": "Q1",
                    "queryString": "a\n  b",
                    "sinks": ["S"],
                    "queryType": "PERSISTENT",
                    "statusCount": {"RUNNING": 1},
                }
            ]
        }
    )
    assert queries.rows == (("Q1", "PERSISTENT", "RUNNING: 1", "S", "a b"),)
    function = {
        "@type": "describe_function",
        "name": "LEN",
        "functions": [{"arguments": [{"name": "", "type": "STRING"}], "returnType": "INT"}],
    }
    assert blocks_of(function)[1].rows == (("LEN(STRING)", "INT", None),)
    assert blocks_of({"@type": "function_names", "functions": [{"name": "LEN", "type": "SCALAR"}]})[
        0
    ].rows == (("LEN", "scalar", None),)
    (unknown,) = blocks_of({"@type": "new", "statementText": "x", "answer": {"a": 1}, "warnings": []})
    assert unknown.rows == (("answer", '{"a": 1}'),)
    assert blocks_of({"@type": "insert", "statementText": "x", "warnings": []}) == []
