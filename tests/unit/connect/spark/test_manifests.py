"""Manifests: a batch's files are there once, whatever step of a commit a kill or another run comes
between.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.spark.files.manifest import Manifest, Manifests, Move, Place
from ottla.connect.spark.files.places import LocalPlace
from ottla.connect.spark.ledger import Fenced, Ledger, LedgerError, Owner

OWNER = Owner("cluster", "files")


class Killed(Exception):
    """The process is gone."""


class DyingPlace:
    """A place that is killed before a write of some number."""

    def __init__(self, place: Place, writes: int) -> None:
        self._place = place
        self._left = writes
        self.names = place.names
        self.read = place.read

    def create(self, path: str, data: bytes) -> bool:
        self._write()
        return self._place.create(path, data)

    def rename(self, source: str, target: str) -> None:
        self._write()
        self._place.rename(source, target)

    def remove(self, path: str) -> None:
        self._write()
        self._place.remove(path)

    def _write(self) -> None:
        if self._left == 0:
            raise Killed
        self._left -= 1


def stage(root: Path, manifests: Manifests, run: str, batch: int) -> Manifest:
    ledger = Ledger(0, batch, {"t": {0: batch * 10}})
    staging = manifests.staging(run, batch)
    moves = [Move(f"{staging}/p={part}/x.json", f"topics/t/{batch}-{part}.json") for part in range(3)]
    for move in moves:
        path = root / move.staged
        path.parent.mkdir(parents=True)
        path.write_text(f"{batch}-{move.final}")
    return Manifest(ledger, staging, moves)


def files(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "topics").rglob("*.json"))


def test_a_kill_at_each_write_leaves_a_batch_whole_or_absent(tmp_path: Path) -> None:
    for writes in range(6):
        root = tmp_path / str(writes)
        root.mkdir()
        place = LocalPlace(root)
        Manifests(place, OWNER, 10).commit(stage(root, Manifests(place, OWNER, 10), "a", 1))
        dying = Manifests(DyingPlace(place, writes), OWNER, 10)
        manifest = stage(root, dying, "a", 2)
        killed = False
        try:
            dying.commit(manifest)
        except Killed:
            killed = True
        assert killed == (writes < 5)

        ledger = Manifests(place, OWNER, 10).recover()

        assert ledger is not None
        expected = [1, 2][: ledger.sequence]
        assert ledger.sequence == (1 if writes == 0 else 2)
        assert files(root) == [f"{batch}-{part}.json" for batch in expected for part in range(3)]
        assert [name for name in place.names(f"_ottla/{OWNER.slug}") if name != "manifests"] == []


def test_of_two_runs_the_second_is_refused(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    first, second = Manifests(place, OWNER, 10), Manifests(place, OWNER, 10)
    one, other = stage(tmp_path, first, "a", 1), stage(tmp_path, second, "b", 1)
    first.commit(one)
    with pytest.raises(Fenced):
        second.commit(other)
    assert files(tmp_path) == ["1-0.json", "1-1.json", "1-2.json"]


def test_a_run_that_was_frozen_for_long_is_refused_though_its_number_is_free_again(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    live = Manifests(place, OWNER, 2)
    frozen = stage(tmp_path, live, "frozen", 1)
    for batch in range(1, 6):
        live.commit(stage(tmp_path, live, "live", batch))
    assert len(place.names(f"_ottla/{OWNER.slug}/manifests")) == 2
    with pytest.raises(Fenced):
        Manifests(place, OWNER, 2).commit(frozen)


def test_a_manifest_that_is_damaged_is_an_error_and_not_a_new_beginning(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    Manifests(place, OWNER, 2).commit(stage(tmp_path, Manifests(place, OWNER, 2), "a", 1))
    (path,) = (tmp_path / "_ottla" / OWNER.slug / "manifests").iterdir()
    path.write_text(path.read_text()[:-9])
    with pytest.raises(LedgerError):
        Manifests(place, OWNER, 2).recover()
