"""Rows of COPY, and how large ranges of keys are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.cdc.postgres.connector import PostgresConnector
from ottla.connect.cdc.postgres.copying.reading import copied_row
from ottla.connect.cdc.postgres.settings import range_rows
from ottla.connect.plugins.configuring import configured
from support.connect.cdc.postgres_changes import configuration

CELLS = st.lists(
    st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"))), min_size=1
)
ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def written(cell: str | None) -> str:
    return "\\N" if cell is None else "".join(ESCAPES.get(each, each) for each in cell)


@given(CELLS)
def test_a_row_that_copy_writes_comes_back(cells: list[str | None]) -> None:
    data = ("\t".join(map(written, cells)) + "\n").encode()
    assert copied_row(data) == tuple(cells)


def test_threads_ask_for_more_ranges_and_the_older_way_for_none() -> None:
    def rows(table_rows: int, **others: str) -> int:
        given = configuration("postgresql://u@h:5/d", **others)
        return range_rows(configured(PostgresConnector.TABLE, given), table_rows)

    assert rows(10**6) == 100_000
    assert rows(10**5, snapshot_max_threads="4") == 25_000
    assert rows(10**7, snapshot_max_threads="4") == 100_000
    assert rows(10**5, snapshot_max_threads="4", snapshot_max_threads_multiplier="5") == 5000
    assert rows(10**6, legacy_snapshot_max_threads="true") == 0
    assert rows(10**6, ottla_snapshot_range_rows="0", snapshot_max_threads="4") == 0
