"""A standalone worker's offsets file: the last line counts, cut lines are passed over, history goes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.host import offset_file
from ottla.connect.host.offset_file import OffsetFile, OffsetFileError


def test_random_writes_and_cuts_leave_what_was_written_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_file, "COMPACT_BYTES", 500)
    rng = random.Random(7)
    path = tmp_path / "deep" / "offsets"
    wanted: dict[str, dict[str, Any]] = {"a": {}, "b": {}}
    largest = 0
    for number in range(120):
        connector, part = rng.choice("ab"), str(rng.randrange(5))
        offset = None if rng.random() < 0.2 else {"at": number}
        OffsetFile(path).write(connector, [({"part": part}, offset)])
        if offset is None:
            wanted[connector].pop(part, None)
        else:
            wanted[connector][part] = offset
        largest = max(largest, path.stat().st_size)
        if rng.random() < 0.1:
            with path.open("ab") as file:
                file.write(rng.choice((b'["a",{"part"', b'["a",{"part":"1"},{"at":', b"\xff")))
    for connector, offsets in wanted.items():
        found = OffsetFile(path).of(connector)
        assert {partition["part"]: offset for partition, offset in found} == offsets
    assert largest < 2500


def test_a_file_that_is_none_of_ours_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap")
    with pytest.raises(OffsetFileError, match="line 1 is not"):
        OffsetFile(path).of("c")
    with pytest.raises(OffsetFileError):
        OffsetFile(tmp_path).of("c")


def test_a_missing_file_has_no_offsets(tmp_path: Path) -> None:
    assert OffsetFile(tmp_path / "none").of("c") == []
