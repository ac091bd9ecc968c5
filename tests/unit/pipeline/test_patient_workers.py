"""The class of Spark that waits for Python processes is changed in its one constant, or left alone."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pyspark
import pytest

from ottla.pipeline.spark.patient_workers import ENTRY, PATIENCE_MS, patient_workers_jar

HOME = Path(pyspark.__file__).parent
PUBLISHED_MS = 10_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entry_of(jar: Path) -> bytes:
    with zipfile.ZipFile(jar) as opened:
        return opened.read(ENTRY)


def test_the_installed_sparks_class_waits_longer_and_is_otherwise_its_own(cache: Path) -> None:
    made = patient_workers_jar(HOME)
    assert made is not None and cache in made.parents
    (core,) = (HOME / "jars").glob("spark-core_*.jar")
    published, changed = entry_of(core), entry_of(made)
    assert len(published) == len(changed)
    differ = [number for number, (old, new) in enumerate(zip(published, changed, strict=True)) if old != new]
    begin = changed.index(struct.pack(">Bq", 5, PATIENCE_MS))
    assert all(begin < number <= begin + 8 for number in differ)
    assert struct.unpack_from(">q", published, begin + 1) == (PUBLISHED_MS,)
    before = made.stat().st_mtime_ns
    assert patient_workers_jar(HOME) == made and made.stat().st_mtime_ns == before
    made.write_bytes(b"damaged")
    assert patient_workers_jar(HOME) == made and entry_of(made) == changed


@pytest.mark.parametrize("waits", [0, 2], ids=["none", "two"])
def test_another_class_stays_as_it_is(tmp_path: Path, waits: int) -> None:
    (tmp_path / "jars").mkdir()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        made.writestr(ENTRY, b"class" + struct.pack(">Bq", 5, PUBLISHED_MS) * waits)
    (tmp_path / "jars" / "spark-core_2.13-9.9.9.jar").write_bytes(content.getvalue())
    assert patient_workers_jar(tmp_path) is None
    assert patient_workers_jar(tmp_path / "nowhere") is None
