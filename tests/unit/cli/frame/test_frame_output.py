"""What commands write: tables that fit, JSON lines, names alone; colours and bars on terminals alone."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.frame.output import Output, OutputMode
from ottla.cli.frame.table import Column, table_lines
from ottla.cli.frame.terminal import Style, has_colours, pieces_of, printable, width_of

ROWS = [
    {"name": "orders", "partitions": 12, "replicas": [1, 2], "leader": None},
    {"name": "é漢字", "partitions": 1, "replicas": [], "leader": 3},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [
        Column("name", "TOPIC"),
        Column("partitions", right=True),
        Column("replicas"),
        Column("leader"),
    ]
    Output().listing(ROWS, columns)
    assert capsys.readouterr().out.splitlines() == [
        "topic   partitions  replicas  leader",
        "orders          12  1,2       -",
        "é漢字            1  -         3",
    ]


def test_json_has_a_line_a_row_and_quiet_a_name_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Output(OutputMode.JSON).listing(ROWS, [Column("name")])
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS
    Output(OutputMode.QUIET).listing(ROWS, [Column("partitions")])
    assert capsys.readouterr().out == "orders\né漢字\n"
    Output(OutputMode.JSON).listing([])
    Output(OutputMode.QUIET).listing([])
    assert capsys.readouterr() == ("", "")


def test_sentences_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    for mode in OutputMode:
        output = Output(mode)
        output.say("12 topics")
        output.note("none is empty")
        output.done("topic orders is deleted", {"name": "orders"})
        output.listing([], empty="there is no topic")
    out, err = capsys.readouterr()
    assert out == '12 topics\ntopic orders is deleted\n{"name": "orders"}\norders\n'
    assert err == "none is empty\nthere is no topic\n"


def test_facts_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"name": "orders", "in sync": [1, 2], "internal": False}
    for mode in OutputMode:
        Output(mode).facts(facts)
    assert capsys.readouterr().out.splitlines() == [
        "name      orders",
        "in sync   1,2",
        "internal  no",
        json.dumps(facts),
        "orders",
    ]


def test_control_characters_of_names_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Output().listing([{"name": "a\x1b[31mb\u202e\u009b"}])
    assert capsys.readouterr().out == "name\na\\x1b[31mb\\u202e\\x9b\n"
    # JSON escapes them, and names alone are as they are: a program reads them.
    Output(OutputMode.JSON).listing([{"name": "a\x1b"}])
    assert capsys.readouterr().out == '{"name": "a\\u001b"}\n'


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert has_colours(Terminal()) is coloured
    assert not has_colours(io.StringIO())


def test_a_table_is_coloured_on_a_terminal_and_aligned_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    columns = [Column("name"), Column("state", style=lambda state: Style.RED if state == "Dead" else "")]
    Output().listing([{"name": "a", "state": "Dead"}, {"name": "b", "state": "Stable"}], columns)
    assert terminal.getvalue() == (
        "\x1b[1mname\x1b[0m  \x1b[1mstate\x1b[0m\na     \x1b[31mDead\x1b[0m\nb     Stable\n"
    )


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=60)


@given(
    st.lists(st.fixed_dictionaries({"topic": TEXT, "note": TEXT, "n": st.integers(0, 10**12)}), min_size=1),
    st.integers(24, 120),
)
def test_a_table_fits_any_terminal_and_loses_nothing(rows: list[dict[str, object]], width: int) -> None:
    columns = [Column("topic"), Column("note"), Column("n", right=True)]
    lines = list(table_lines(rows, columns, width))
    assert all(width_of(line) <= width for line in lines), lines
    shown = re.sub(r"\s", "", "".join(lines))
    for row in rows:
        for value in row.values():
            # cells are cut at the right place when the characters of each come in order
            left = iter(shown)
            assert all(each in left for each in re.sub(r"\s", "", printable(str(value))))


@given(TEXT, st.integers(2, 30))
def test_pieces_of_a_text_are_the_text(text: str, width: int) -> None:
    shown = printable(text)
    pieces = pieces_of(shown, width)
    assert all(width_of(piece) <= width for piece in pieces)
    assert "".join(pieces).replace(" ", "") == shown.replace(" ", "")


def test_a_narrow_terminal_gets_a_block_a_row() -> None:
    rows = [{"partition": n, "leader": 1, "in-sync replicas": [1, 2, 3], "offset": 10**9} for n in range(2)]
    columns = [Column(key) for key in rows[0]]
    assert list(table_lines(rows, columns, 30)) == [
        "partition         0",
        "leader            1",
        "in-sync replicas  1,2,3",
        "offset            1000000000",
        "",
        "partition         1",
        "leader            1",
        "in-sync replicas  1,2,3",
        "offset            1000000000",
    ]


def test_a_bar_appears_after_a_second_and_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.cli.frame import progress

    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    for stream, mode, shown in (
        (Terminal(), OutputMode.PEOPLE, True),
        (Terminal(), OutputMode.JSON, False),
        (io.StringIO(), OutputMode.PEOPLE, False),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        now[0] = 0.0
        with Output(mode).progress("reading", 10, "records") as bar:
            bar.advance(3)
            assert stream.getvalue() == ""
            now[0] = 1.5
            bar.advance(4)
        assert ("7/10" in stream.getvalue()) is shown
        assert bool(stream.getvalue()) is shown
