"""A position and a server: whether the stream goes on, and what is told where it does not."""

from __future__ import annotations

import pytest

from ottla.connect.cdc.postgres.continuity import gap, switches_of
from ottla.connect.cdc.postgres.position import History, Position
from ottla.connect.cdc.postgres.slots import Slot, WalStatus

FILE = "1\t0/2000\tno recovery target specified\n\n# a comment\n2\t0/5000\treason\n"
SLOT = Slot(0x1000, False, 0, 0, None, WalStatus.RESERVED)
HERE = History("7", 3)


def at(commit: int, timeline: int | None, system: str = "7") -> Position:
    return Position(commit, history=None if timeline is None else History(system, timeline))


def test_a_timelines_history_file_is_read() -> None:
    assert switches_of(FILE) == {1: 0x2000, 2: 0x5000}
    assert switches_of("") == {}


@pytest.mark.parametrize(
    ("position", "slot"),
    [
        (at(0x6000, 3), SLOT),
        (at(0x5000, 2), SLOT),
        (at(0x2000, 1), SLOT),
        (at(0x1000, 3), SLOT),
        (at(0x500, None), SLOT),  # Debezium's: its slot may be ahead
    ],
)
def test_it_goes_on_where_the_server_has_all_of_it(position: Position, slot: Slot) -> None:
    assert gap(position, HERE, switches_of(FILE), slot, "s") is None


@pytest.mark.parametrize(
    ("position", "slot", "words"),
    [
        (at(0x1000, 3, "8"), SLOT, "another database cluster"),
        (at(0x1000, 4), SLOT, "on timeline 3, and the offset on 4"),
        (at(0x5001, 2), SLOT, "promoted at 0/5000"),
        (at(0x2001, 1), SLOT, "promoted at 0/2000"),
        (at(0x6000, 3), None, "gone, and so are the changes"),
        (at(0x1500, 2), None, "which was promoted"),
        (at(0xFFF, 3), SLOT, "begins at 0/1000, but the offset is 0/FFF"),
        (at(0x6000, None), None, "is gone"),
        (at(0x6000, None), Slot(0, False, 0, 0, None, WalStatus.LOST), "is lost"),
    ],
)
def test_what_is_missing_is_told(position: Position, slot: Slot | None, words: str) -> None:
    found = gap(position, HERE, switches_of(FILE), slot, "s")
    assert found is not None and words in found


def test_a_timeline_that_is_no_ancestor_is_told() -> None:
    found = gap(at(0x1000, 2), HERE, {1: 0x2000}, SLOT, "s")
    assert found is not None and "does not descend" in found
