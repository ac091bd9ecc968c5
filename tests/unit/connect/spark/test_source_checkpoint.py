"""Checkpoints of sources that begin at an altered offset, and what offsets are in Connect's API."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.errors import ConfigError
from ottla.connect.data.schema import DataError
from ottla.connect.spark.files.manifest import Place
from ottla.connect.spark.files.places import LocalPlace
from ottla.connect.spark.query_offsets import json_of_offset, offset_in_log, offset_of_json
from ottla.connect.spark.source_checkpoint import begin_at

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSONS)
def test_every_offset_of_a_source_comes_back_from_the_api(found: Any) -> None:
    offset = offset_of_json(json.dumps(found))
    assert json.loads(json_of_offset(offset)) == found


@pytest.mark.parametrize("offset", [{}, {"json": 5}, {"json": "{"}, {"a": [1]}, {"a": {"b": 1}}])
def test_what_is_no_offset_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        json_of_offset(offset)


def entry(batch: int, number: int) -> str:
    told = {"path": f"file:///in/{batch}-{number}", "timestamp": 1, "batchId": batch}
    return json.dumps(told, separators=(",", ":"))


def files_read(directory: Path, source: random.Random, batches: int) -> dict[int, list[str]]:
    """A checkpoint as Spark leaves it when it has read files: the log, whose older parts may be compacted."""
    log = directory / "sources" / "0"
    log.mkdir(parents=True)
    told = {batch: [entry(batch, at) for at in range(source.randint(1, 3))] for batch in range(batches)}
    for batch in range(batches):
        is_compact = (batch + 1) % 10 == 0
        upto = range(batch + 1) if is_compact else (batch,)
        text = "\n".join(["v1", *(line for each in upto for line in told[each])])
        (log / (f"{batch}.compact" if is_compact else str(batch))).write_text(text)
        if is_compact and source.random() < 0.5:
            for older in range(batch):
                (log / str(older)).unlink(missing_ok=True)
    (log / ".0.crc").write_bytes(b"x")
    (directory / "offsets").mkdir()
    for batch in range(batches):
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": batch, "conf": {"spark.x": "5"}}
        lines = ["v1", json.dumps(metadata), f'{{"logOffset":{batch}}}']
        (directory / "offsets" / str(batch)).write_text("\n".join(lines))
    return told


def log_of(directory: Path) -> dict[int, list[str]]:
    """What a log tells of each batch; fails where a batch is missing or is told twice."""
    log = directory / "sources" / "0"
    names = [each.name for each in log.iterdir()]
    found: dict[int, list[str]] = {}
    for name in sorted(names, key=lambda each: int(each.removesuffix(".compact"))):
        lines = (log / name).read_text().split("\n")
        assert lines[0] == "v1"
        for line in lines[1:]:
            found.setdefault(json.loads(line)["batchId"], []).append(line)
    return found


class Killed(Exception):
    pass


class DyingPlace:
    """Ends before the n-th file is made."""

    def __init__(self, place: Place, left: int) -> None:
        self.place = place
        self.left = left

    def names(self, directory: str) -> list[str]:
        return self.place.names(directory)

    def read(self, path: str, most_bytes: int) -> bytes:
        return self.place.read(path, most_bytes)

    def create(self, path: str, data: bytes) -> bool:
        if not self.left:
            raise Killed
        self.left -= 1
        return self.place.create(path, data)

    def rename(self, source: str, target: str) -> None:
        raise AssertionError

    def remove(self, path: str) -> None:
        raise AssertionError


@pytest.mark.parametrize("seed", range(12))
def test_a_source_of_files_goes_on_behind_any_batch_it_has_read(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    batches = source.choice((1, 5, 9, 10, 11, 25, 40))
    told = files_read(tmp_path / "g0", source, batches)
    place = LocalPlace(tmp_path)
    last = source.randrange(batches)
    for left in range(50):
        try:
            begin_at(DyingPlace(place, left), "g0", "g1", f'{{"logOffset":{last}}}')
        except Killed:
            assert not (tmp_path / "g1" / "offsets").exists()
            continue
        break
    assert log_of(tmp_path / "g1") == {batch: told[batch] for batch in range(last + 1)}
    assert offset_in_log((tmp_path / "g1" / "offsets" / "0").read_bytes()) == f'{{"logOffset":{last}}}'
    assert '"spark.x":"5"' in (tmp_path / "g1" / "offsets" / "0").read_text()
    assert (tmp_path / "g1" / "commits" / "0").read_text().startswith("v1\n{")
    assert json.loads((tmp_path / "g1" / "metadata").read_text())["id"]
    # The newest one is at its end; what was begun stays as it is.
    begin_at(place, "g0", "g1", '{"logOffset":0}')
    assert offset_in_log((tmp_path / "g1" / "offsets" / "0").read_bytes()) == f'{{"logOffset":{last}}}'


def test_another_source_keeps_what_it_has_beside_its_offsets(tmp_path: Path) -> None:
    (tmp_path / "g3" / "sources" / "0" / "deep").mkdir(parents=True)
    (tmp_path / "g3" / "sources" / "0" / "0").write_text("v1\n1700000000000")
    (tmp_path / "g3" / "sources" / "0" / "deep" / "x").write_text("y")
    begin_at(LocalPlace(tmp_path), "g3", "g5", "12")
    kept = tmp_path / "g5" / "sources" / "0"
    assert (kept / "0").read_text() == "v1\n1700000000000" and (kept / "deep" / "x").read_text() == "y"
    assert offset_in_log((tmp_path / "g5" / "offsets" / "0").read_bytes()) == "12"
    shutil.rmtree(tmp_path / "g5")
    begin_at(LocalPlace(tmp_path), None, "g5", "12")
    assert offset_in_log((tmp_path / "g5" / "offsets" / "0").read_bytes()) == "12"


def test_offsets_that_were_never_reached_are_refused(tmp_path: Path) -> None:
    files_read(tmp_path / "g0", random.Random(1), 3)
    place = LocalPlace(tmp_path)
    with pytest.raises(ConfigError, match="the last one is 2"):
        begin_at(place, "g0", "g1", '{"logOffset":3}')
    with pytest.raises(ConfigError, match="nothing was read"):
        begin_at(place, None, "g1", '{"logOffset":0}')
    with pytest.raises(ConfigError, match="whole number"):
        begin_at(place, "g0", "g1", '{"logOffset":"2"}')
    begin_at(place, "g0", "g1", '{"logOffset":-1}')
    assert not (tmp_path / "g1").exists()  # an empty checkpoint begins with the first file
