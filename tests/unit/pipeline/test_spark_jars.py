"""The table of connector jars and its override."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import pyspark
import pytest

from ottla.pipeline.spark import spark_jars
from ottla.pipeline.spark.maven import Jar, fetch_jars
from ottla.pipeline.spark.spark_jars import (
    KAFKA_CONNECTOR_JARS,
    SparkJarsError,
    kafka_connector_jars,
    local_files_jar,
)
from support.servers.http_files import http_files


def test_the_installed_spark_is_in_the_table() -> None:
    names = [jar.artifact for jar in KAFKA_CONNECTOR_JARS[pyspark.__version__]]
    assert len(names) == 4
    assert "kafka-clients" in names


def test_each_set_has_the_jars_of_its_own_spark_and_the_clients_that_it_was_built_with() -> None:
    clients = {"4.0.0": ("3.9.0", "2.12.0"), "4.1.1": ("3.9.1", "2.12.1"), "4.2.0": ("3.9.2", "2.13.1")}
    for version, jars in KAFKA_CONNECTOR_JARS.items():
        assert tuple(jar.version for jar in jars) == (version, version, *clients[version])


def test_an_unknown_spark_names_the_known_ones_and_the_way_out() -> None:
    with pytest.raises(SparkJarsError, match=r"Spark 4\.0\.7 \(known: 4\.0\.0.*OTTLA_SPARK_JARS"):
        kafka_connector_jars("4.0.7")


def test_the_override_takes_files_and_coordinates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    local = tmp_path / "local.jar"
    local.write_bytes(b"local")
    sha256 = hashlib.sha256(b"remote").hexdigest()
    with http_files() as repository:
        repository.files["org/example/far/1/far-1.jar"] = b"remote"
        monkeypatch.setenv("OTTLA_MAVEN_BASE", repository.base)
        monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("OTTLA_SPARK_JARS", f"org.example:far:1:{sha256}, {local}")

        paths = kafka_connector_jars("9.9")

    assert [path.read_bytes() for path in paths] == [b"remote", b"local"]


@pytest.mark.parametrize("entry", ["nowhere.jar", "a:b:c:d", "a:b:c"])
def test_an_override_that_is_neither_is_an_error(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    monkeypatch.setenv("OTTLA_SPARK_JARS", entry)
    with pytest.raises(SparkJarsError, match="OTTLA_SPARK_JARS"):
        kafka_connector_jars("4.0.0")


def test_once_fetched_the_jars_need_no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"remote").hexdigest()
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OTTLA_SPARK_JARS", f"org.example:far:1:{sha256}")
    with http_files() as repository:
        repository.files["org/example/far/1/far-1.jar"] = b"remote"
        monkeypatch.setenv("OTTLA_MAVEN_BASE", repository.base)
        online = kafka_connector_jars("9.9")

    # the repository is gone, and so is every other
    monkeypatch.setenv("OTTLA_MAVEN_BASE", "http://127.0.0.1:1")
    assert kafka_connector_jars("9.9") == online


def test_a_jar_that_only_saves_time_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    jar = Jar("org.example", "files", "1", hashlib.sha256(b"remote").hexdigest())
    monkeypatch.setattr(spark_jars, "LOCAL_FILES_JAR", jar)
    monkeypatch.setenv("OTTLA_MAVEN_BASE", "http://127.0.0.1:1")
    monkeypatch.setattr(spark_jars, "fetch_jars", partial(fetch_jars, retry_delays_seconds=(0.0,)))
    assert local_files_jar() is None

    with http_files() as repository:
        repository.files["org/example/files/1/files-1.jar"] = b"remote"
        monkeypatch.setenv("OTTLA_MAVEN_BASE", repository.base)
        found = local_files_jar()
    assert found is not None
    assert found.read_bytes() == b"remote"
