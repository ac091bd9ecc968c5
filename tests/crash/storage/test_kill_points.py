"""The copies that stand for kills are what kills leave, byte for byte."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from support.storage.kill_points import Report, killed_everywhere, run_until_killed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def live_a_life(root: Path, report: Report) -> None:
    """Each kind of file operation, some of them within what an earlier one made."""
    os.mkdir(root)
    for number in range(3):
        report("writing", number)
        path = root / f"file {number}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        assert os.write(descriptor, b"first line\n") == 11
        assert os.write(descriptor, b"second line %d\n" % number) == 14
        assert os.pwrite(descriptor, b"SECOND", 11) == 6
        os.ftruncate(descriptor, 20 + number)
        assert os.write(descriptor, b"at the end") == 10
        os.close(descriptor)
        with path.open("ab") as file:
            file.write(b"kept by Python until it is closed")
            report("written", number)
        os.replace(path, root / "replaced")
        os.rename(root / "replaced", root / f"renamed {number}")
    os.truncate(root / "renamed 1", 3)
    os.unlink(root / "renamed 0")


def found(root: Path) -> dict[str, bytes] | None:
    return {path.name: path.read_bytes() for path in root.iterdir()} if root.exists() else None


@pytest.mark.parametrize(("first", "stride"), [(1, 1), (2, 5), (1000, 3)])
def test_a_copy_has_what_a_kill_leaves(tmp_path: Path, first: int, stride: int) -> None:
    lives = list(killed_everywhere(live_a_life, tmp_path / "copies", first=first, stride=stride))

    assert [life.died for life in lives] == [True] * (len(lives) - 1) + [False]
    assert [life.operation for life in lives] == [first + stride * index for index in range(len(lives))]
    for life in random.Random(first).sample(lives, min(len(lives), 20)):
        root = tmp_path / f"killed {life.operation}"
        died, reports = run_until_killed(live_a_life, root, life.operation)
        assert (life.died, life.reports, found(life.root)) == (died, reports, found(root)), life.operation


def test_a_life_goes_on_from_what_was_there_before(tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    (before / "old").write_bytes(b"old")

    lives = list(
        killed_everywhere(lambda root, _: (root / "old").unlink(), tmp_path / "lives", before=before)
    )

    assert [found(life.root) for life in lives] == [{"old": b"old"}, {}]
    assert found(before) == {"old": b"old"}
