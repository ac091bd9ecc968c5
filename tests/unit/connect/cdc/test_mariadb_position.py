"""Places in MariaDB's binary log, GTIDs, and which part of a schema history holds at a place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.connect.cdc.mariadb.history import FileStore, History, HistoryError, HistoryRecord, is_at_or_before
from ottla.connect.cdc.mariadb.model import CREATE, Column, Table, TableChange, TableId
from ottla.connect.cdc.mariadb.position import BadOffset, Position, gtids_of, position_of, whole_transactions


def test_an_offset_is_read_back() -> None:
    for place in (
        Position("log.000001", 4),
        Position("log.000001", 812, gtids_of("0-1-17,3-2-5"), 3, 2),
        Position("log.000009", 812, gtids_of("0-1-17"), copied=frozenset({"a.b"}), copying="a.c"),
    ):
        assert position_of(json.loads(json.dumps(dict(place.offset())))) == place


def test_debeziums_offset_is_read() -> None:
    offset = {
        "transaction_id": "0-7-19",
        "ts_sec": 1795830520,
        "file": "log.000001",
        "pos": 35235,
        "gtids": "0-7-18",
        "row": 1,
        "server_id": 7,
        "event": 3,
    }
    found = position_of(offset)
    assert found == Position("log.000001", 35235, gtids_of("0-7-18"), 3, 1)
    assert whole_transactions(offset, found) == Position("log.000001", 35235, gtids_of("0-7-18"))
    assert whole_transactions(found.offset(), found) == found


@pytest.mark.parametrize(
    "offset",
    [{}, {"file": 1}, {"file": "a", "pos": -1}, {"file": "a", "gtids": "x"}, {"file": "a", "row": "1"}],
)
def test_what_is_no_offset_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(BadOffset):
        position_of(offset)


def test_of_several_gtids_of_a_domain_the_last_counts() -> None:
    assert str(gtids_of("0-1-5, 0-2-9,1-1-1")) == "0-2-9,1-1-1"
    assert gtids_of("0-2-9").covers(gtids_of("0-1-5"))
    assert not gtids_of("0-2-9").covers(gtids_of("1-1-1"))


def test_a_place_of_the_history_lies_before_what_comes_later() -> None:
    ddl = Position("log.000002", 100, gtids_of("0-1-7"), 1)
    assert is_at_or_before(ddl, Position("log.000002", 200, gtids_of("0-1-8")))
    assert is_at_or_before(ddl, Position("log.000002", 100, gtids_of("0-1-7"), 1))
    assert not is_at_or_before(ddl, Position("log.000002", 100, gtids_of("0-1-7")))
    assert not is_at_or_before(ddl, Position("log.000002", 50, gtids_of("0-1-6"), 9))
    bare = Position("log.000010", 4)
    assert not is_at_or_before(bare, Position("log.000009", 1000))
    assert is_at_or_before(bare, Position("log.000010", 4))


def column_of(number: int) -> Table:
    return Table(TableId("d", "t"), (Column(f"c{number}", "INT"),))


def test_a_statement_that_was_written_again_late_counts_once(tmp_path: Path) -> None:
    history = History(FileStore(tmp_path / "history"), "srv")
    records = [
        HistoryRecord(
            Position("log.000001", number, gtids_of(f"0-1-{number}"), 1),
            "d",
            f"CREATE {number}",
            (TableChange(CREATE, TableId("d", "t"), column_of(number)),),
        )
        for number in (1, 2)
    ]
    history.append(records)
    history.append(records[:1])  # a worker that was thought dead
    tables = history.recover(Position("log.000001", 9, gtids_of("0-1-9")))
    assert tables is not None
    assert tables.tables == {TableId("d", "t"): column_of(2)}
    assert History(FileStore(tmp_path / "history"), "other").recover(Position("log.000001", 9)) is None


def test_half_a_line_is_cut_off_and_a_bad_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = History(FileStore(path), "srv")
    place = Position("log.000001", 4)
    change = TableChange(CREATE, TableId("d", "t"), column_of(1))
    history.append([HistoryRecord(place, "d", "", (change,))])
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:30])
    tables = history.recover(place)
    assert tables is not None and tables.tables
    history.append([HistoryRecord(place, "d", "", (change,))])
    assert len(path.read_bytes().splitlines()) == 2
    path.write_bytes(whole.replace(b'"position"', b'"nowhere"'))
    with pytest.raises(HistoryError, match="makes no sense"):
        history.recover(place)
