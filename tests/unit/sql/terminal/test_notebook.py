"""`%sql` and `%%sql` in IPython's own shell: what cells show, live tables, DataFrames, errors, completion."""

from __future__ import annotations

import _thread
import html
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import IPCompleter, provisionalcompleter
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from ottla.sql.notebook.frames import frame_of
from ottla.sql.notebook.live import Head, Tail
from ottla.sql.notebook.options import Options, parsed
from ottla.sql.notebook.views import Cells, View
from ottla.sql.terminal.row_stream import RowColumn
from support.sql.fake_server import FakeSql

TIMEOUT_S = 60.0
SOURCES = """CREATE STREAM orders (id INT KEY, item STRING, price DECIMAL(6, 2))
  WITH (kafka_topic='orders', value_format='json', partitions=1);
CREATE TABLE stock (item STRING PRIMARY KEY, n INT)
  WITH (kafka_topic='stock', value_format='json', partitions=1);"""


class Page(DisplayPublisher):
    """The outputs of a cell as a page has them: an update takes the place of what has its id."""

    def __init__(self, *words: Any, **others: Any) -> None:
        super().__init__(*words, **others)
        self.outputs: dict[str, dict[str, Any]] = {}
        self.updates = 0
        self.changed = threading.Condition()

    def publish(  # type: ignore[override]
        self, data: dict[str, Any], *_: Any, transient: dict[str, Any] | None = None, **others: Any
    ) -> None:
        with self.changed:
            key = (transient or {}).get("display_id") or f"output {len(self.outputs)}"
            self.updates += bool(others.get("update"))
            self.outputs[key] = data
            self.changed.notify_all()

    def until(self, fits: Callable[[list[str]], bool]) -> list[str]:
        """Wait until the texts of the outputs fit; those texts."""
        with self.changed:
            assert self.changed.wait_for(lambda: fits(self.texts), TIMEOUT_S), self.texts
            return self.texts

    @property
    def texts(self) -> list[str]:
        return [each["text/plain"] for each in self.outputs.values()]

    @property
    def pages(self) -> list[str]:
        return [each.get("text/html", "") for each in self.outputs.values()]


@pytest.fixture(scope="module")
def ipython(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.Completer.use_jedi = False
    home = tmp_path_factory.mktemp("ipython")
    before = (sys.displayhook, sys.excepthook, sys.ps1 if hasattr(sys, "ps1") else None)
    shell = InteractiveShell.instance(config=settings, ipython_dir=str(home), display_pub_class=Page)
    yield shell
    InteractiveShell.clear_instance()
    sys.displayhook, sys.excepthook, _ = before


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSql]:
    with FakeSql.running() as running:
        running.run(SOURCES)
        monkeypatch.setenv("OTTLA_SQL_URL", running.url)
        yield running


@pytest.fixture
def shell(ipython: InteractiveShell, fake: FakeSql) -> Iterator[InteractiveShell]:
    ipython.run_line_magic("load_ext", "ottla.sql.notebook")
    page_of(ipython).outputs.clear()
    yield ipython
    ipython.run_line_magic("unload_ext", "ottla.sql.notebook")
    assert ipython.find_cell_magic("sql") is None


def page_of(shell: InteractiveShell) -> Page:
    page = shell.display_pub
    assert isinstance(page, Page)
    return page


def run(shell: InteractiveShell, cell: str) -> ExecutionResult:
    return shell.run_cell(cell)


# -- what cells show


def test_statements_of_a_cell_show_tables_one_below_the_other(
    shell: InteractiveShell, fake: FakeSql, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(
        shell,
        "%%sql\nINSERT INTO orders VALUES (1, '<b>pen</b> & \"ink\"', 2.50);\n"
        "INSERT INTO orders (id) VALUES (2);\nSHOW STREAMS; DESCRIBE stock;\nSELECT * FROM orders;",
    )
    assert result.success, capsys.readouterr()
    streams, described, rows = page_of(shell).texts
    assert streams.splitlines() == [
        " stream │ topic  │ key format │ value format │ windowed",
        "────────┼────────┼────────────┼──────────────┼──────────",
        " ORDERS │ orders │ KAFKA      │ JSON         │ false",
    ]
    assert described.splitlines()[0] == "table STOCK"
    assert rows.splitlines() == [
        " ID │ ITEM               │ PRICE",
        "────┼────────────────────┼───────",
        '  1 │ <b>pen</b> & "ink" │   2.5',
        "  2 │ NULL               │  NULL",
        "2 rows",
    ]
    page = page_of(shell).pages[2]
    assert "&lt;b&gt;pen&lt;/b&gt; &amp; &quot;ink&quot;" in page and "<b>pen" not in page
    assert "<i " in page and ">NULL</i>" in page


def test_a_line_and_what_set_says_hold_for_the_next_cells(
    shell: InteractiveShell, fake: FakeSql, capsys: pytest.CaptureFixture[str]
) -> None:
    for cell in (
        "%sql SET 'auto.offset.reset' = 'earliest'",
        "%sql DEFINE wanted = 'orders';",
        "%sql SELECT id FROM ${wanted} WHERE item = '{not_python}'",
    ):
        assert run(shell, cell).success
    assert "auto.offset.reset is 'earliest'" in capsys.readouterr().out
    (body,) = (body for _, path, body in fake.asked if path == "/query-stream")
    assert body["properties"] == {"auto.offset.reset": "earliest"}
    assert body["sessionVariables"] == {"wanted": "orders"}
    assert body["sql"] == "SELECT id FROM ${wanted} WHERE item = '{not_python}';"


def test_an_error_has_its_place_and_advice_without_a_traceback_and_ends_the_cell(
    shell: InteractiveShell, fake: FakeSql, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {
        "message": "line 2, column 3: there is no column ITM",
        "position": {"line": 2, "column": 3},
        "advice": "is ITEM meant?",
    }
    fake.before = lambda path, body: (400, refused) if path == "/query-stream" else None
    result = run(shell, "%%sql --limit 1\nSHOW TYPES;\nSELECT id,\n  itm FROM orders; DROP TABLE stock;")
    assert not result.success
    told = re.sub(r"\x1b\[[0-9;]*m", "", "".join(capsys.readouterr()))
    assert told.splitlines() == [
        "line 3, column 3: there is no column ITM",
        "    itm FROM orders; DROP TABLE stock;",
        "    ^",
        "  is ITEM meant?",
    ]
    assert "STOCK" in fake.catalog.sources


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("%sql SELECT 'open", "there is no end"),
        ("%sql --limit none SELECT 1;", "--limit ROWS: a whole number from 1, not none"),
        ("%sql --seconds", "write --seconds SECONDS"),
        ("%sql --colour red SHOW TABLES;", "there is no option --colour; there are: --server URL"),
        ("%sql --into my-rows SELECT 1;", "--into VARIABLE: the name of a variable, not my-rows"),
        ("%sql --server http://127.0.0.1:1 SHOW TABLES;", "no server of SQL answers at http://127.0.0.1:1"),
        ("%sql --command-config /no/such/file SHOW TABLES;", "/no/such/file: can't read it"),
        ("%sql SET 'no.such' = '1';", "no.such"),
        ("%sql RUN SCRIPT 'no-such.sql';", "no-such.sql: No such file"),
    ],
)
def test_what_can_not_be_done_is_told_in_lines(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], cell: str, told: str
) -> None:
    assert not run(shell, cell).success
    written = "".join(capsys.readouterr())
    if "SELECT 'open" in cell:
        assert "^" in written
    else:
        assert told in written
    assert "Traceback" not in written


def test_a_password_comes_from_the_environment_and_another_server_stays(
    shell: InteractiveShell, fake: FakeSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeSql.running() as other:
        other.password = "ann:secret"
        monkeypatch.setenv("OTTLA_SQL_PASSWORD", "secret")
        assert run(shell, f"%sql --server {other.url} --user ann SHOW TABLES;").success
        assert run(shell, "%sql SHOW STREAMS;").success
        assert any(text.startswith("SHOW STREAMS") for text in other.texts())
        assert not fake.texts()
        assert run(shell, f"%sql --server {fake.url} SHOW TABLES;").success
        assert fake.texts()


def test_a_script_runs_another_one_beside_it(
    shell: InteractiveShell, fake: FakeSql, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "outer.sql").write_text("RUN SCRIPT 'inner.sql'; SHOW TABLES;")
    (tmp_path / "inner.sql").write_text("INSERT INTO orders VALUES (7, 'ink', 1.00);")
    assert run(shell, f"%sql RUN SCRIPT '{tmp_path / 'outer.sql'}';").success
    assert fake.rows["ORDERS"][0]["ID"] == 7
    (tmp_path / "inner.sql").write_text("SHOW\n  NONSENSE;")
    fake.before = lambda path, body: (
        (400, {"message": "line 2:3: no such thing"}) if path == "/ksql" else None
    )
    assert not run(shell, f"%sql RUN SCRIPT '{tmp_path / 'outer.sql'}';").success
    assert f"{tmp_path / 'inner.sql'}: line 2, column 3: no such thing" in "".join(capsys.readouterr())
    (tmp_path / "inner.sql").write_text("RUN SCRIPT 'outer.sql';")
    assert not run(shell, f"%sql RUN SCRIPT '{tmp_path / 'outer.sql'}';").success
    assert "more than 16 deep" in "".join(capsys.readouterr())


def test_lines_of_a_topic_come_as_text(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shell, "%sql --limit 2 PRINT orders FROM BEGINNING;").success
    assert capsys.readouterr().out.splitlines() == ["Key format: KAFKA_INT", "Value format: JSON"]


# -- live tables


def test_a_tables_rows_take_the_place_of_those_before_until_the_limit(
    shell: InteractiveShell, fake: FakeSql
) -> None:
    page = page_of(shell)
    fake.put("STOCK", {"ITEM": "pen", "N": 1}, {"ITEM": "ink", "N": 2})

    def more() -> None:
        page.until(lambda texts: any("│ 2" in each for each in texts))
        fake.put("STOCK", {"ITEM": "pen", "N": 3}, {"ITEM": "nib", "N": 4})

    writer = threading.Thread(target=more)
    writer.start()
    assert run(shell, "%%sql --limit 4\nSELECT * FROM stock EMIT CHANGES;").success
    writer.join(TIMEOUT_S)
    (text,) = page.texts
    assert text.splitlines() == [
        " ITEM │ N",
        "──────┼───",
        " pen  │ 3",
        " ink  │ 2",
        " nib  │ 4",
        "3 rows, 4 changes",
    ]
    assert page.updates >= 2
    assert len(fake.closed) == 1


def test_of_a_stream_the_last_rows_are_shown_until_an_interrupt_which_ends_the_query(
    shell: InteractiveShell, fake: FakeSql, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_of(shell)
    fake.put("ORDERS", *({"ID": number, "ITEM": "pen"} for number in range(5)))
    live: list[str] = []

    def interrupt() -> None:
        live.extend(page.until(lambda texts: any("5 rows" in each for each in texts)))
        _thread.interrupt_main()

    stopper = threading.Thread(target=interrupt)
    stopper.start()
    cell = "%%sql --rows 2 --into seen\nSELECT id FROM orders EMIT CHANGES;"
    assert run(shell, cell).success
    stopper.join(TIMEOUT_S)
    assert live[0].splitlines()[-1].startswith("5 rows; the last 2 are shown; more may come")
    (text,) = page.texts
    assert text.splitlines() == [" ID", "────", "  3", "  4", "5 rows; the last 2 are shown"]
    assert len(fake.closed) == 1
    assert list(shell.user_ns["seen"]["ID"]) == [0, 1, 2, 3, 4]

    page.outputs.clear()
    stopper = threading.Thread(target=interrupt)
    stopper.start()
    assert not run(shell, "%%sql\nSELECT id FROM orders EMIT CHANGES; SHOW TABLES;").success
    stopper.join(TIMEOUT_S)
    assert "interrupted: 1 of 2 statements were not run" in "".join(capsys.readouterr())


def test_a_push_query_ends_after_its_seconds_and_tells_an_error_among_its_rows(
    shell: InteractiveShell, fake: FakeSql, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = time.monotonic()
    assert run(shell, "%%sql --seconds 0.3\nSELECT * FROM orders EMIT CHANGES;").success
    assert time.monotonic() - begin >= 0.3
    assert page_of(shell).texts[0].splitlines()[-1] == "0 rows"
    assert len(fake.closed) == 1
    fake.put("ORDERS", {"ID": 1, "ITEM": "pen"})
    fake.failing["ORDERS"] = "the query has died"
    assert not run(shell, "%sql SELECT id FROM orders EMIT CHANGES;").success
    assert "the query has died" in "".join(capsys.readouterr())
    assert page_of(shell).texts[-1].splitlines()[-2:] == ["  1", "1 row"]


def test_where_an_output_can_not_be_written_anew_the_last_state_alone_is_shown(
    shell: InteractiveShell, fake: FakeSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.sql.notebook.magic.TerminalInteractiveShell", InteractiveShell)
    page, updates = page_of(shell), page_of(shell).updates
    fake.put("STOCK", {"ITEM": "pen", "N": 1}, {"ITEM": "pen", "N": 2})
    assert run(shell, "%sql --limit 2 SELECT * FROM stock EMIT CHANGES;").success
    assert page.texts == [" ITEM │ N\n──────┼───\n pen  │ 2\n1 row, 2 changes"]
    assert page.updates == updates


# -- DataFrames


def test_rows_become_a_frame_whose_numbers_stay_whole_beside_null(shell: InteractiveShell) -> None:
    cell = (
        "%%sql --into df --rows 1\nINSERT INTO orders VALUES (1, 'pen', 2.50);\n"
        "INSERT INTO orders (id) VALUES (2);\nSELECT * FROM orders;"
    )
    assert run(shell, cell).success
    frame = shell.user_ns["df"]
    assert list(frame.columns) == ["ID", "ITEM", "PRICE"]
    assert [str(each) for each in frame.dtypes] == ["Int32", "object", "object"]
    assert list(frame["ITEM"]) == ["pen", None]
    assert frame["PRICE"][0] == Decimal("2.5") and frame["PRICE"][1] is None
    assert page_of(shell).texts[0].splitlines()[-1] == "2 rows; the first 1 are shown"


def test_columns_of_a_frame_have_pandas_types() -> None:
    columns = [
        RowColumn("N", "BIGINT"),
        RowColumn("X", "DOUBLE"),
        RowColumn("YES", "BOOLEAN"),
        RowColumn("AT", "TIMESTAMP"),
        RowColumn("D", "DECIMAL(4, 2)"),
        RowColumn("N", "INTEGER"),
        RowColumn("M", "MAP<STRING, INTEGER>"),
    ]
    rows = [
        [2**62 + 1, Decimal("1.5"), True, "2024-05-06T07:08:09.012", Decimal("1.10"), 3, {"a": 1}],
        [None, None, None, None, 2, 2**40, None],
        [1, "NaN", False, "1969-12-31T00:00:00.000", None, None],
    ]
    frame = frame_of(columns, rows)
    assert [str(each) for each in frame.dtypes] == [
        *("Int64", "float64", "boolean", "datetime64[ms]", "object"),
        *("object", "object"),  # a number that is no INTEGER: all stay as they came
    ]
    assert frame.iloc[0, 0] == 2**62 + 1
    assert frame["AT"][0].isoformat() == "2024-05-06T07:08:09.012000"
    assert str(frame["D"][0]) == "1.10"
    assert frame_of(columns, []).shape == (0, 7)


def test_without_pandas_the_query_is_not_begun(
    shell: InteractiveShell,
    fake: FakeSql,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not run(shell, "%sql --into df SELECT * FROM orders;").success
    assert "pip install pandas" in "".join(capsys.readouterr())
    assert not any(path == "/query-stream" for _, path, _ in fake.asked)


def test_a_variable_takes_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.sql.notebook.live.MAX_KEPT", 3)
    kept = Head(2, wants_all=True)
    kept.put([[1], [2], [3]])
    assert (kept.rows(), kept.shown(2)) == ([[1], [2], [3]], [([1], 0), ([2], 0)])
    with pytest.raises(Exception, match="a DataFrame takes 3 rows at most: add a LIMIT"):
        kept.put([[4]])
    first = Head(2, wants_all=False)
    first.put([[1], [2], [3]])
    first.put([[4]])
    assert (first.rows(), len(first)) == ([[1], [2]], 4)


def test_rows_that_are_new_are_told_from_those_before() -> None:
    tail = Tail(3)
    tail.put([[1], [2]])
    tail.put([[3], [4]])
    assert tail.shown(2) == [([3], 3), ([4], 4)]
    assert (tail.rows(), tail.changes) == ([[2], [3], [4]], 4)
    page = View(cells=Cells(("A",), [[3], [4]], (True,), frozenset({1}))).html()
    old, new = page.split("<tr>")[-2:]
    assert "background" in new and "background" not in old


# -- options, texts


def test_options_stand_before_the_statement() -> None:
    options, rest = parsed(
        "--limit=3 --seconds 1.5 --command-config 'my file'  SELECT '--limit 4' -- comment"
    )
    assert options == Options(limit=3, seconds=1.5, command_config=Path("my file"))
    assert rest == "SELECT '--limit 4' -- comment"
    assert parsed("-- only a comment") == (Options(), "-- only a comment")


def test_a_row_steers_neither_a_page_nor_a_terminal() -> None:
    cells = Cells(("A\x1b[2J",), [["<script>\x1b[31m\u202ex"], ["y" * 2000]], (False,))
    view = View("</div><script>", cells, ("<pre>",), "&")
    text, page = view.text(), view.html()
    assert "\x1b" not in text + page and "\u202e" not in text + page
    assert "<script>" not in page and html.escape("<script>") in page
    assert "y" * 500 + "…" in page and "y" * 501 not in page


# -- completion


def completed(shell: InteractiveShell, text: str, cursor: int | None = None) -> dict[str, str | None]:
    completer = shell.Completer
    assert isinstance(completer, IPCompleter)
    with provisionalcompleter():
        found = list(completer.completions(text, len(text) if cursor is None else cursor))
    return {each.text: each.type for each in found}


def test_statements_are_completed_in_the_magics_and_nowhere_else(
    shell: InteractiveShell, fake: FakeSql
) -> None:
    assert "SELECT" in completed(shell, "%%sql --limit 3\nSEL")
    assert run(shell, "%sql SHOW TABLES;").success
    deadline = time.monotonic() + TIMEOUT_S
    while "ORDERS" not in completed(shell, "%%sql\nSELECT *\nFROM OR"):
        assert time.monotonic() < deadline
    found = completed(shell, "%%sql\nSELECT p FROM orders;", len("%%sql\nSELECT p"))
    assert found["price"] == "column"
    assert "orders" in completed(shell, "x = 1\n%sql SELECT * FROM or")
    assert set(completed(shell, "%%sql --se")) == {"--server", "--seconds"}
    assert set(completed(shell, "%sql --limit 3 --in")) == {"--into"}
    assert "price" not in completed(shell, "p")


# -- what others need


def test_the_extension_is_loaded_without_ipython() -> None:
    code = (
        "import sys, ottla.sql.notebook, ottla.cli.main, ottla.cli.sql.terminal\n"
        "assert not {'IPython', 'pandas', 'traitlets'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
