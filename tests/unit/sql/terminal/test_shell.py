"""The terminal on a real pty: keys go in, the screen is looked at."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.sql.fake_server import FakeSql
from support.terminal.tmux import Terminal, terminal

WITH = "WITH (kafka_topic='{}', value_format='json', partitions=1);"
STOCK = "CREATE TABLE stock (item STRING PRIMARY KEY, n INT) " + WITH.format("stock")
ORDERS = "CREATE STREAM orders (id INT KEY, item STRING) " + WITH.format("orders")

pytestmark = pytest.mark.system("tmux")


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeSql]:
    with FakeSql.running() as running:
        running.run(STOCK + ORDERS)
        yield running


@pytest.fixture
def window(fake: FakeSql, tmp_path: Path) -> Iterator[Terminal]:
    variables = {"OTTLA_SQL_URL": fake.url, "TERM": "screen-256color", "PS1": "$ "}
    with terminal(tmp_path, "bash --norc", columns=70, lines=24, variables=variables) as found:
        found.wait_for("$")
        found.type("ottla sql")
        found.press("Enter")
        found.wait_for("sql>")
        yield found


def await_prompt(window: Terminal) -> None:
    """The line at the bottom is there while something can be typed."""
    window.wait_for(" · output ")


def enter(window: Terminal, text: str) -> None:
    await_prompt(window)
    window.type(text)
    window.wait_for(text[-9:])
    window.press("Enter")


def test_statements_run_over_several_lines_and_stay_in_the_history(window: Terminal, tmp_path: Path) -> None:
    assert any("version 0.29.0, service default_" in line for line in window.screen())
    enter(window, "DESCRIBE")
    window.wait_for("->")
    enter(window, "stock;")
    screen = window.wait_for("STRING (primary key)")
    assert "sql> DESCRIBE" in screen and "  -> stock;" in screen
    # what begins with a space is not kept
    enter(window, " DEFINE secret = 'hush';")
    window.wait_for("secret is 'hush'")
    enter(window, "history")
    screen = window.wait_for("1  DESCRIBE")
    assert screen[screen.index("    1  DESCRIBE") + 1] == "       stock;"
    kept = tmp_path / ".local" / "state" / "ottla" / "sql_history"
    assert "hush" not in kept.read_text() and kept.stat().st_mode & 0o777 == 0o600
    # Ctrl-C drops a line, Ctrl-D ends
    await_prompt(window)
    window.type("SELECT nothing")
    window.wait_for("SELECT nothing")
    window.press("C-c")
    enter(window, "version")
    window.wait_for("terminal: ottla")
    window.press("C-d")
    window.wait_for("$")
    # the next terminal has it; the first line of the last one, for Up goes line by line
    window.type("ottla sql")
    window.press("Enter")
    window.wait_for("ends.")
    enter(window, "history DESCR")
    window.wait_for("1  DESCRIBE")


def test_names_are_completed(window: Terminal, fake: FakeSql) -> None:
    await_prompt(window)
    window.type("select it")
    window.press("C-a")
    window.press("C-e")
    for _ in range(2):
        window.press("BSpace")
    # the whole text first: a menu before its last letter may offer others
    window.type("* from sto")
    window.wait_for("from sto")
    window.wait_for("stock  table")
    window.press("Tab")
    window.type(" where it")
    window.wait_for("from stock where it")
    window.wait_for("column STRING")
    window.press("Tab")
    window.type(" = 'nothing there';")
    window.wait_for("sql> select * from stock where item = 'nothing there';")
    window.press("Enter")
    window.wait_for("(0 rows)")
    # what a statement makes is known to the next
    enter(window, "CREATE STREAM zebras AS SELECT * FROM orders;")
    window.wait_for("Stream ZEBRAS created")
    await_prompt(window)
    window.type("DROP STREAM Z")
    window.wait_for("STREAM Z")
    window.wait_for("ZEBRAS  stream")
    window.press("C-c")


def test_names_that_come_while_somebody_types_are_offered(window: Terminal, fake: FakeSql) -> None:
    typed = threading.Event()

    def hold(path: str, body: Any) -> None:
        """Names are known when the last kind of them is answered."""
        if body and body.get("ksql") == "SHOW TYPES;":
            typed.wait(30)

    fake.before = hold
    enter(window, "CREATE STREAM quaggas AS SELECT * FROM orders;")
    window.wait_for("Stream QUAGGAS created")
    await_prompt(window)
    window.type("DROP STREAM Q")
    window.wait_for("STREAM Q")
    typed.set()
    window.wait_for("QUAGGAS  stream")
    window.press("C-c")


def test_a_table_is_written_anew_in_its_place(window: Terminal, fake: FakeSql) -> None:
    drawn = random.Random()
    last = {}
    enter(window, "SELECT * FROM stock EMIT CHANGES;")
    window.wait_for("Ctrl-C ends")
    for _ in range(40):
        item, number = f"item-{drawn.randrange(6)}", drawn.randrange(1000)
        last[item] = number
        fake.put("STOCK", {"ITEM": item, "N": number})
    fake.put("STOCK", {"ITEM": "item-x", "N": 1}, {"ITEM": "item-x", "N": None})
    screen = window.wait_for("42 changes")
    shown = [line for line in screen if line.startswith(" item-")]
    assert {line.split(" │ ")[0].strip(): int(line.split(" │ ")[1]) for line in shown} == last
    assert len(shown) == len(last) and f"({len(last)} rows), 42 changes; Ctrl-C ends" in screen
    window.press("C-c")
    screen = window.wait_for(f"({len(last)} rows), 42 changes")
    assert fake.closed_query(fake.closed[-1])
    # the terminal goes on
    enter(window, "SHOW TABLES;")
    window.wait_for("value format")
    # more keys than lines: those that changed last
    fake.put("STOCK", *({"ITEM": f"more-{number:03}", "N": number} for number in range(200)))
    window.press("C-l")
    enter(window, "SELECT * FROM stock EMIT CHANGES;")
    screen = window.wait_for("rows not shown")
    assert any("more-199" in line for line in screen) and len(screen) <= 24
    window.press("C-c")
    window.wait_for("sql>")


def test_rows_of_a_stream_come_one_below_the_other_and_errors_do_not_end_it(
    window: Terminal, fake: FakeSql, tmp_path: Path
) -> None:
    enter(window, f"spool {tmp_path}/out.txt")
    fake.put("ORDERS", {"ID": 1, "ITEM": "pen"}, {"ID": 1, "ITEM": "ink"})
    enter(window, "SELECT * FROM orders EMIT CHANGES;")
    window.wait_for("  1 │ ink")
    fake.put("ORDERS", {"ID": 1, "ITEM": "a long text " * 12})
    window.wait_for("    │ long text a long")
    window.press("C-c")
    window.wait_for("(3 rows)")
    enter(window, "SELECT itm FROM orders;")
    window.wait_for("there is no column ITM")
    window.wait_for("       ^")
    enter(window, "output nothing")
    window.wait_for("there is no form nothing")
    enter(window, "output json")
    window.wait_for("results are written as json")
    enter(window, "SELECT * FROM orders LIMIT 1;")
    window.wait_for('{"ID": 1, "ITEM": "pen"}')
    enter(window, "server http://127.0.0.1:1")
    window.wait_for("no server of SQL answers")
    enter(window, "SHOW STREAMS;")
    window.wait_for("sql>")
    enter(window, "spool off")
    enter(window, "exit")
    window.wait_for("$")
    text = (tmp_path / "out.txt").read_text()
    assert "sql> SELECT * FROM orders EMIT CHANGES;" in text and "(3 rows)" in text and "\x1b" not in text


def test_a_narrow_terminal_shows_a_line_a_value(fake: FakeSql, tmp_path: Path) -> None:
    variables = {"OTTLA_SQL_URL": fake.url, "TERM": "screen-256color", "PS1": "$ "}
    with terminal(tmp_path, "bash --norc", columns=16, lines=30, variables=variables) as window:
        window.wait_for("$")
        fake.put("ORDERS", {"ID": 77, "ITEM": "a pen, and an ink pot"})
        window.type("ottla sql -e 'SELECT id, item, rowtime, rowoffset FROM orders;'")
        window.press("Enter")
        window.wait_for("ITEM      │")
