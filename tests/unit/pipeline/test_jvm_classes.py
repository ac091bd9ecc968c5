"""The jar of ottla's classes for Spark's JVM: made once, kept, and left out where it can't be made."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.pipeline.spark import jvm_classes
from ottla.pipeline.spark.java_runtime import find_java
from ottla.pipeline.spark.jvm_classes import LAKE_COMMITS_CLASS, classes_jar
from ottla.pipeline.spark.session import installed_spark
from ottla.pipeline.spark.spark_jars import kafka_connector_jars, local_files_jar

MISCOMPILED = """
public final class Miscompiled {
    static void twoCatchesInALoop() {
        boolean isInterrupted = false;
        try {
            while (true) {
                try {
                    System.gc();
                    return;
                } catch (IllegalStateException error) {
                    if (isInterrupted) {
                        throw error;
                    }
                } catch (IllegalArgumentException error) {
                    isInterrupted = true;
                }
            }
        } finally {
            System.gc();
        }
    }
}
"""


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[Path]:
    """The connector's jars from the user's cache; what is made goes to an empty one."""
    found = kafka_connector_jars(installed_spark()[1])
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    return found


def test_the_jar_is_made_once(jars: Sequence[Path], tmp_path: Path) -> None:
    home, _ = installed_spark()
    jar = classes_jar(find_java(), home, jars)
    assert jar is not None
    made = jar.stat()
    with zipfile.ZipFile(jar) as archive:
        names = set(archive.namelist())
    assert {f"ottla/pipeline/{name}.class" for name in ("ExactlyOnceKafka", "PlannedKafka")} <= names
    assert not any("BuildJar" in name for name in names)

    assert classes_jar(find_java(), home, jars) == jar
    assert jar.stat().st_mtime_ns == made.st_mtime_ns
    assert [path.name for path in jar.parent.iterdir()] == [jar.name], "what making it left"


def test_local_files_that_lakes_are_committed_to_are_there_where_their_jar_is(jars: Sequence[Path]) -> None:
    local_files = local_files_jar()
    if local_files is None:
        pytest.skip("the jar of local files can't be fetched")
    jar = classes_jar(find_java(), installed_spark()[0], jars, local_files)
    assert jar is not None
    with zipfile.ZipFile(jar) as archive:
        assert f"{LAKE_COMMITS_CLASS.replace('.', '/')}.class" in archive.namelist()


def test_other_jars_get_a_jar_of_their_own_or_none(jars: Sequence[Path]) -> None:
    """Without Kafka's client the sources can't be compiled: Python writes then."""
    home, _ = installed_spark()
    assert classes_jar(find_java(), home, [jar for jar in jars if "kafka-clients" not in jar.name]) is None
    assert classes_jar(find_java(), home, jars) is not None


def test_a_class_that_the_jvm_refuses_makes_no_jar(jars: Sequence[Path], tmp_path: Path) -> None:
    """Janino compiles this, and the JVM would only look at it when a task uses it."""
    builder = Path(jvm_classes.__file__).with_name("BuildJar.java").read_text(encoding="utf-8")
    class_path = [installed_spark()[0] / "jars" / "*", *jars]
    made = tmp_path / "made.jar"

    with pytest.raises(subprocess.CalledProcessError) as failure:
        jvm_classes._build(
            made, {"BuildJar.java": builder, "Miscompiled.java": MISCOMPILED}, find_java(), class_path
        )

    assert b"VerifyError" in failure.value.stderr
    assert not made.exists()


def test_a_cache_that_cannot_be_written_leaves_no_jar(
    jars: Sequence[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "a file"))
    assert classes_jar(find_java(), installed_spark()[0], jars) is None
