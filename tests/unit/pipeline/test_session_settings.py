"""The sources of a session's master and properties, and their precedence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ottla.pipeline.sink.exactly_once_settings import CLASSES_PROPERTY
from ottla.pipeline.spark import session
from ottla.pipeline.spark.errors import SparkError
from ottla.pipeline.spark.session import SparkSettings, requested_properties, with_local_files


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_SPARK_MASTER", raising=False)
    monkeypatch.delenv("OTTLA_SPARK_PROPERTIES", raising=False)


def master_of(settings: SparkSettings) -> str:
    return requested_properties(settings)["spark.master"]


def test_each_place_overrides_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("# a cluster\nspark.master spark://file:7077\nspark.executor.memory=2g\n")

    assert master_of(SparkSettings("a", tmp_path)) == "local[*,4]"
    monkeypatch.setenv("OTTLA_SPARK_PROPERTIES", str(file))
    assert master_of(SparkSettings("a", tmp_path)) == "spark://file:7077"
    monkeypatch.setenv("OTTLA_SPARK_MASTER", "yarn")
    assert master_of(SparkSettings("a", tmp_path)) == "yarn"
    assert master_of(SparkSettings("a", tmp_path, master="k8s://host:443")) == "k8s://host:443"
    last = SparkSettings("a", tmp_path, master="yarn", properties={"spark.master": "sc://host"})
    assert master_of(last) == "sc://host"
    assert requested_properties(last)["spark.executor.memory"] == "2g"


def test_a_file_of_the_settings_is_read_in_place_of_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_SPARK_PROPERTIES", str(tmp_path / "not there"))
    (tmp_path / "mine").write_text("spark.master: local[3]\n")
    assert master_of(SparkSettings("a", tmp_path, properties_file=tmp_path / "mine")) == "local[3,4]"


@pytest.mark.parametrize(
    ("master", "resolved"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_tries_a_task_more_than_once(master: str, resolved: str, tmp_path: Path) -> None:
    assert master_of(SparkSettings("a", tmp_path, master=master)) == resolved


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("executor.memory 2g\n", "spark.conf:1: executor.memory is no Spark property"),
        ("spark.master \\u12\n", "spark.conf:1: "),
        (None, "spark.conf: can't read it"),
    ],
)
def test_a_bad_file_is_one_line(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SparkError, match=message) as error:
        requested_properties(SparkSettings("a", tmp_path, properties_file=file))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("master", "collector"),
    [
        ("local[1]", "-XX:+UseSerialGC"),
        ("local[2,4]", "-XX:+UseSerialGC"),
        ("local[3]", "-XX:+UseParallelGC"),
    ],
)
def test_the_collector_goes_by_the_threads_of_tasks(master: str, collector: str) -> None:
    assert session._long_run(master)[0] == collector


@pytest.mark.parametrize(
    ("properties", "has_classes"),
    [
        ({"spark.master": "local[2]"}, True),
        ({"spark.master": "spark://head:7077"}, True),
        ({"spark.master": "local[2]", "spark.jars": "my.jar"}, True),
        ({"spark.master": "spark://head:7077", "spark.jars": "my.jar"}, False),
        ({"spark.master": "local-cluster[2,1,1024]", "spark.jars": "my.jar"}, False),
    ],
)
def test_the_jvms_classes_are_not_used_where_other_jars_replace_them(
    properties: dict[str, str], has_classes: bool
) -> None:
    found = session._classes_property(properties, Path("/cache/ottla-1.jar"))
    assert found == ({CLASSES_PROPERTY: "ottla-1.jar"} if has_classes else {})


def test_the_installed_spark_is_found_without_importing_it() -> None:
    told = "from ottla.pipeline.spark.session import installed_spark as f; import sys; print(f()[1]); "
    told += "print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [pyspark.__version__, "False"]


def test_the_jar_of_local_files_joins_a_class_path_that_is_given() -> None:
    properties = with_local_files({"spark.driver.extraClassPath": "/mine/*"}, Path("/jars/files.jar"))

    assert properties["spark.driver.extraClassPath"] == os.pathsep.join(("/jars/files.jar", "/mine/*"))
    assert properties["spark.executor.extraClassPath"] == "/jars/files.jar"
    given = {"spark.hadoop.fs.file.impl": "org.example.Files"}
    assert (
        with_local_files(given, Path("/jars/files.jar"))["spark.hadoop.fs.file.impl"] == "org.example.Files"
    )
