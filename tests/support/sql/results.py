"""Statements and the rows that they write, out of tests/unit/sql/results.txt, whose head says its form."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.language.errors import START
from ottla.sql.types.sql_types import Base

FILE = Path(__file__).parents[2] / "unit" / "sql" / "results.txt"
Shown = tuple[Any, ...]
"""A row as it is compared: its window, its columns, for streams its time."""


@dataclass(frozen=True)
class Given:
    """A row of a source."""

    source: str
    at_ms: int
    columns: Mapping[str, Any]

    def row(self, catalog: Catalog) -> dict[str, Any]:
        """The row by the names of the columns."""
        source = catalog.source(self.source, START)
        found = {}
        for name, value in self.columns.items():
            column = source.column(name.upper())
            assert column is not None, f"{self.source} has no column {name}"
            is_decimal = column.type.base is Base.DECIMAL and value is not None
            found[column.name] = Decimal(value) if is_decimal else value
        return found


@dataclass(frozen=True)
class Case:
    """A statement and the rows that are expected."""

    is_table: bool
    statement: str
    expected: tuple[Shown, ...]

    def as_statement(self, name: str) -> str:
        """The statement that makes a stream or table of that name."""
        return f"CREATE {'TABLE' if self.is_table else 'STREAM'} {name} AS {self.statement};\n"


@dataclass(frozen=True)
class Block:
    """Sources with rows, and statements over them."""

    title: str
    script: str
    rows: tuple[Given, ...]
    cases: tuple[Case, ...]


def blocks() -> list[Block]:
    """All of the file."""
    return list(_blocks(FILE.read_text(encoding="utf-8")))


def _blocks(text: str) -> Iterator[Block]:
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        head, *cases = re.split(r"^== ", body, flags=re.MULTILINE)
        lines = head.splitlines()
        script = "".join(f"{each}\n" for each in lines if not each.startswith(">"))
        rows = [each[2:].split(" ", 2) for each in lines if each.startswith("> ")]
        given = tuple(Given(source.upper(), int(at), json.loads(row)) for source, at, row in rows)
        yield Block(title, script, given, tuple(map(_case, cases)))


def _case(text: str) -> Case:
    statement, *lines = text.strip().splitlines()
    kind, _, query = statement.partition(" ")
    assert kind in ("stream", "table"), statement
    expected = [one for line in lines for one in _rows(line.removeprefix("=").strip())]
    return Case(kind == "table", query, tuple(expected))


def _rows(text: str) -> Iterator[Shown]:
    decoder = json.JSONDecoder()
    while text:
        window = re.match(r"(\d+)\.\.(\d+) ", text)
        if window is not None:
            text = text[window.end() :]
        columns, end = decoder.raw_decode(text)
        text = text[end:]
        time = re.match(r"@(\d+)", text)
        if time is not None:
            text = text[time.end() :]
        text = text.strip()
        bounds = None if window is None else tuple(map(int, window.groups()))
        yield (bounds, columns, None if time is None else int(time[1]))


def found_rows(rows: Sequence[Mapping[str, Any]], source: Source) -> list[Shown]:
    """Rows of a source in the form of those that are expected."""
    found = []
    for row in rows:
        bounds = (row["WINDOWSTART"], row["WINDOWEND"]) if source.windowed is not None else None
        columns = [_plain(row[each.name]) for each in (*source.keys, *source.values)]
        found.append((bounds, columns, None if source.is_table else row["ROWTIME"]))
    return found


def same_rows(case: Case, found: Sequence[Shown], *, ordered: bool = True) -> bool:
    """Whether they are the rows of a case; of tables the order does not count."""
    expected = list(case.expected)
    if case.is_table or not ordered:
        return sorted(map(_text, found)) == sorted(map(_text, expected))
    return list(map(_text, found)) == list(map(_text, expected))


def _text(row: Shown) -> str:
    return json.dumps(row, sort_keys=True)


def _plain(value: Any) -> Any:
    match value:
        case Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return repr(value)
        case Mapping():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return value
