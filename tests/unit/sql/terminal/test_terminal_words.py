"""The words that ksqlDB's terminal has of its own: each works, or says how it is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import __version__
from ottla.cli.main import main
from ottla.cli.sql.runner import ACTIONS, Runner
from ottla.cli.sql.sheet import Form, Sheet
from ottla.cli.sql.shell_words import FIRST_WORDS, Exit, ShellWords, is_own
from ottla.cli.sql.tables import Paper, head_lines, laid_out, row_lines
from ottla.cli.sql.terminal_settings import SETTINGS
from ottla.client.rest_access import RestAccess
from ottla.config.errors import UserError
from ottla.sql.terminal.access import SQL
from ottla.sql.terminal.api import SqlApi
from ottla.sql.terminal.http import SqlUnreachable
from ottla.sql.terminal.session import Session
from support.sql.fake_server import FakeSql

ORDERS = """CREATE STREAM orders (id INT KEY, item STRING)
  WITH (kafka_topic='orders', value_format='json', partitions=1);"""


@pytest.fixture
def fake() -> Iterator[FakeSql]:
    with FakeSql.running() as running:
        running.run(ORDERS)
        running.put("ORDERS", {"ID": 1, "ITEM": "a long text for a column"})
        yield running


@pytest.fixture
def words(fake: FakeSql) -> ShellWords:
    api = SqlApi(RestAccess.from_properties(SQL, fake.url, {}))
    runner = Runner(Session(api), Sheet(Form.TABLE))
    return ShellWords(runner, lambda: ["SHOW STREAMS;", "SELECT 1\nFROM x;"])


def said(words: ShellWords, capsys: pytest.CaptureFixture[str], text: str) -> str:
    assert is_own(text) and words.takes(text)
    return "".join(capsys.readouterr())  # where the form is one for machines, sentences go to stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("output", "results are written as table\n"),
        ("output TABULAR", "results are written as table\n"),
        ("OUTPUT JSON", "results are written as json\n"),
        ("wrap", "long texts go on below\n"),
        ("wrap off;", "long texts are cut\n"),
        ("column-width 12", "columns are 12 wide\n"),
        ("column-width", "columns are as wide as their texts\n"),
        ("live OFF", "rows of tables come row below row\n"),
        ("request_pipelining", "statements wait for the one before\n"),
        ("request_pipelining ON", "statements do not wait for the one before\n"),
        ("request-timeout", "a server may take 120 seconds to answer\n"),
        ("request-timeout 7", "a server may take 7 seconds to answer\n"),
        ("SET CLI COLUMN-WIDTH 12", "columns are 12 wide\n"),
        ("set cli column-width 0;", "columns are as wide as their texts\n"),
        ("SET CLI WRAP OFF;", "long texts are cut\n"),
        ("SET CLI REQUEST-TIMEOUT 7;", "a server may take 7 seconds to answer\n"),
        ("history", "    1  SHOW STREAMS;\n    2  SELECT 1\n       FROM x;\n"),
        ("history show", "    1  SHOW STREAMS;\n"),
        ("version", f"terminal: ottla {__version__}\nserver: version 0.29.0, service default_\n"),
        ("clear", "\x1b[2J\x1b[H"),
        ("help set", "SET CLI name value;"),
        ("help", "column-width [NUMBER]"),
    ],
)
def test_a_word_does_what_it_says(
    words: ShellWords, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    written = said(words, capsys, text)
    assert told in written if text.startswith("help") else written == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("output xml", "there is no form xml; there are: table, expanded, json, csv, tsv"),
        ("wrap perhaps", "write ON or OFF, not perhaps"),
        ("column-width wide", "write a number from 0 to 10,000, not wide"),
        ("column-width 1", "columns are at least 2 wide"),
        ("column-width 10001", "write a number from 0 to 10,000, not 10001"),
        ("request-timeout 0", "from 1 on"),
        ("wrap ON OFF", "write wrap [ON|OFF]"),
        ("spool", "write spool FILE, or spool OFF"),
        ("spool OFF", "nothing is written to a file"),
        ("spool /no/such/directory/file", "No such file or directory"),
        ("help nonsense", "there is no help about nonsense"),
        ("server nowhere:1", "nowhere:1"),
    ],
)
def test_a_word_that_is_not_right_says_how_it_is_written(words: ShellWords, text: str, told: str) -> None:
    assert is_own(text)
    with pytest.raises(UserError) as refused:
        words.takes(text)
    assert told in str(refused.value)


def test_exit_and_quit_end_it(words: ShellWords) -> None:
    for text in ("exit", "EXIT;", "quit"):
        with pytest.raises(Exit):
            words.takes(text)


def test_spool_and_run_script_and_server(
    words: ShellWords, fake: FakeSql, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "two words.sql"
    script.write_text("SET CLI OUTPUT CSV; SELECT id FROM orders;")
    assert said(words, capsys, f"spool '{tmp_path / 'out.txt'}'") == ""
    assert said(words, capsys, f"run script '{script}'") == "ID\n1\nresults are written as csv\n"
    assert said(words, capsys, "spool OFF") == ""
    assert (tmp_path / "out.txt").read_text().splitlines() == ["ID", "1"]
    words.runner.sheet.form = Form.TABLE
    said(words, capsys, "request-timeout 9")
    with FakeSql.running() as other:
        told = said(words, capsys, f"server {other.url}")
        assert told == f"the server is {other.url}: version 0.29.0, service default_\n"
    assert words.runner.session.api.answer_seconds == 9


def test_a_column_width_holds_for_tables_that_go_into_a_file_too(
    fake: FakeSql, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_SQL_URL", fake.url)
    statements = "SET CLI COLUMN-WIDTH 8; SELECT * FROM orders; SET CLI WRAP OFF; SELECT * FROM orders;"
    assert main(["sql", "-e", statements]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "columns are 8 wide",
        " ID       │ ITEM",
        "──────────┼──────────",
        "        1 │ a long",
        "          │ text",
        "          │ for a",
        "          │ column",
        "(1 row)",
        "long texts are cut",
        " ID       │ ITEM",
        "──────────┼──────────",
        "        1 │ a long …",
        "(1 row)",
    ]


def test_a_column_width_gives_way_to_a_terminal_that_is_too_narrow() -> None:
    for width, expected in ((None, 2), (80, 2), (40, 2), (12, None)):
        paper = Paper(width, colours=False, boxes=True, wraps=False, column_width=30)
        layout = laid_out(["A", "B"], [["x" * 50, "y"]], [False, False], paper)
        if expected is None:
            assert layout is None
            continue
        assert layout is not None
        lines = [*head_lines(layout, paper), *row_lines(["x" * 50, "y"], layout, paper)]
        assert width is None or all(len(line) <= width for line in lines)
        if width != 40:
            assert layout.widths == (30, 30)


@pytest.mark.parametrize(
    "word", [*ACTIONS, "wrap OFF", "column-width 5", "request_pipelining", "live", "output json"]
)
def test_words_among_given_statements_are_told_from_statements(
    fake: FakeSql, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("OTTLA_SQL_URL", fake.url)
    assert main(["sql", "-e", f"{word};"]) == 1
    told = capsys.readouterr().err
    assert f"line 1, column 1: {word.split()[0]} is a word of the terminal, no statement" in told
    assert ("write SET CLI" in told) == (word.split()[0] in SETTINGS)
    assert not fake.texts()


def test_every_word_is_known() -> None:
    assert set(FIRST_WORDS) == {*ACTIONS, *SETTINGS, "run script"}
    assert not is_own("SET 'auto.offset.reset' = 'earliest';") and not is_own("run")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SET CLI COLUMN-WIDTH;", "write SET CLI name value;"),
        ("SET CLI COLOUR ON;", "the terminal has no setting COLOUR; it has: OUTPUT, WRAP, COLUMN-WIDTH"),
        ("SET CLI WRAP perhaps;", "write ON or OFF, not perhaps"),
    ],
)
def test_set_cli_tells_what_it_takes_at_its_place(
    fake: FakeSql, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.setenv("OTTLA_SQL_URL", fake.url)
    assert main(["sql", "-e", f"SHOW TYPES;\n{text}"]) == 1
    written = capsys.readouterr().err
    assert told in written and "line 2, column 1" in written


def test_a_server_that_takes_too_long_is_given_up(fake: FakeSql) -> None:
    api = SqlApi(RestAccess.from_properties(SQL, fake.url, {}))
    api.answer_seconds = 0.2
    held = threading.Event()

    def hold(path: str, body: object) -> None:
        held.wait(30)

    fake.before = hold
    try:
        with pytest.raises(SqlUnreachable, match=r"no answer in 0\.2 seconds"):
            api.statements("SHOW TABLES;")
    finally:
        held.set()
