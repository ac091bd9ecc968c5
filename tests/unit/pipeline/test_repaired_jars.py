"""Published jars with a fault are repaired in the cache."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from ottla.pipeline.spark import repaired_jars
from ottla.pipeline.spark.maven import Jar, MavenError
from ottla.pipeline.spark.repaired_jars import REPAIRS, Repair, repaired
from ottla.pipeline.spark.spark_jars import KAFKA_CONNECTOR_JARS

REPAIR = Repair("org/example/A.class", b"fault", b"sound")


def published(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/services/x", b"fault")
        archive.writestr(REPAIR.entry, data)
    return file.getvalue()


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Jar, Path]:
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.jar"
    path.write_bytes(published(b"a fault here"))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(repaired_jars, "REPAIRS", {sha256: REPAIR})
    return Jar("org.example", "a", "1.0", sha256), path


def test_a_fault_is_replaced_in_its_entry_alone_and_once(jar: tuple[Jar, Path], tmp_path: Path) -> None:
    place = repaired(*jar)

    assert place == tmp_path / "cache/maven/org/example/a/1.0/a-1.0.repaired.jar"
    with zipfile.ZipFile(place) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "META-INF/services/x": b"fault",
            REPAIR.entry: b"a sound here",
        }
    before = place.stat().st_mtime_ns, place.read_bytes()
    assert repaired(*jar) == place
    assert (place.stat().st_mtime_ns, place.read_bytes()) == before

    place.write_bytes(b"damaged")
    assert repaired(*jar).read_bytes() == before[1]


def test_a_jar_without_a_fault_is_used_as_it_is(tmp_path: Path) -> None:
    assert repaired(Jar("org.example", "a", "1.0", "0" * 64), tmp_path / "a.jar") == tmp_path / "a.jar"


@pytest.mark.parametrize("data", [b"none", b"fault and fault"])
def test_another_class_than_the_repair_is_for_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not the class"):
        repaired_jars.repaired_bytes(published(data), REPAIR)


def test_a_cache_that_cannot_be_written_is_one_line(
    jar: tuple[Jar, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "file"))
    with pytest.raises(MavenError, match="OTTLA_CACHE"):
        repaired(*jar)


def test_every_repair_is_for_a_jar_of_the_table() -> None:
    assert set(REPAIRS) <= {jar.sha256 for jars in KAFKA_CONNECTOR_JARS.values() for jar in jars}
