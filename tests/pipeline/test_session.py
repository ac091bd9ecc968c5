"""A session's properties; other masters than the tests' own: executors as processes, Spark Connect."""

from __future__ import annotations

import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.spark.errors import SparkError
from ottla.pipeline.spark.jvm_classes import LAKE_COMMITS_CLASS
from ottla.pipeline.spark.session import SparkSettings
from ottla.pipeline.spark.spark_connect import connect
from support.clients.confluent import produce
from support.pipeline.spark_masters import connect_server, run_pipeline
from support.servers.cluster import Cluster


@pytest.fixture
def runs(cluster: Cluster, unique_name: str, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Runs a pipeline over 50 records on a master, checks its output, gives what it saw."""
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(unique_name, partitions=2), Topic(f"{unique_name}-out", partitions=2)])
    produce(cluster.bootstrap, unique_name, [{"value": f"a{number}"} for number in range(50)])

    def run(master: str) -> dict[str, Any]:
        seen = run_pipeline(master, tmp_path / "spark", cluster.bootstrap, unique_name)
        written = Counter((message.value() or b"").decode() for message in kafka.read(f"{unique_name}-out"))
        assert written == Counter(f"A{number}" for number in range(50))
        assert (seen["rows"], seen["lag"], seen["shuffle_partitions"]) == (50, 0, "3")
        return seen

    return run


def test_workers_have_none_of_sparks_archives_on_their_path(spark: SparkSession) -> None:
    def module_path(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"entry": pa.array(sys.path, pa.string())})

    paths = spark.range(2).mapInArrow(module_path, "entry STRING").distinct().collect()
    names = {Path(row["entry"]).name for row in paths}
    assert not [name for name in names if name.startswith(("spark-core", "pyspark.zip", "py4j"))]
    assert "site-packages" in names


def test_local_files_are_made_without_a_process_for_each(spark: SparkSession) -> None:
    jvm, configuration = spark._jvm, spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    files = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI.create("file:///"), configuration)
    assert files.getClass().getName() == LAKE_COMMITS_CLASS


def test_a_commit_to_a_lake_never_takes_anothers_place(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg and Delta look whether a name is taken, then rename: in between, another JVM may take it."""
    jvm, configuration = spark._jvm, spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    files = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI.create("file:///"), configuration)

    def rename(target: Path, text: str) -> bool:
        source = tmp_path / f".{text}.tmp"
        source.write_text(text)
        target.parent.mkdir(parents=True, exist_ok=True)
        hadoop_path = jvm.org.apache.hadoop.fs.Path
        return bool(files.rename(hadoop_path(source.as_uri()), hadoop_path(target.as_uri())))

    for name in ("metadata/v2.metadata.json", "metadata/v2.gz.metadata.json", f"_delta_log/{7:020}.json"):
        commit = tmp_path / name
        assert rename(commit, "first")
        assert not rename(commit, "second")
        assert commit.read_text() == "first"
        assert (tmp_path / ".second.tmp").exists() and not (tmp_path / ".first.tmp").exists()
    hint = tmp_path / "metadata/version-hint.text"
    assert rename(hint, "1") and rename(hint, "2")
    assert hint.read_text() == "2"


@pytest.mark.long
def test_executors_in_processes_of_their_own(runs: Callable[[str], dict[str, Any]]) -> None:
    seen = runs("local-cluster[2,1,1024]")
    assert seen["executors"] == 2
    assert seen["again"] == "this process has a Spark session already: close it first"


@pytest.mark.long
def test_a_spark_connect_server_that_gets_its_kafka_connector_from_us(
    runs: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    with connect_server(tmp_path / "server") as address:
        seen = runs(address)
    assert seen["runtime"] == f"Spark Connect at {address}"
    assert seen["again"] == "this process has a Spark session already: close it first"
    assert not seen["remote_mode_after"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sc://", "is no Spark Connect address: it looks like sc://host:15002"),
        ("sc://host:x", "is no Spark Connect address"),
        ("sc://no-such-host.invalid", "no Spark Connect server answers at no-such-host.invalid:15002"),
    ],
)
def test_an_address_that_is_none_is_one_line(address: str, message: str) -> None:
    with pytest.raises(SparkError, match=message) as error:
        connect(address, {}, None, None)
    assert "\n" not in str(error.value)


def test_a_connect_server_that_is_away_is_found_out_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(SparkError, match=f"no Spark Connect server answers at 127.0.0.1:{port}"):
        connect(f"sc://127.0.0.1:{port}", {}, None, None)


def test_a_checkpoint_location_names_the_queries_checkpoints(tmp_path: Path) -> None:
    from ottla.pipeline.spark.session import SparkPipelineSession

    made = SparkPipelineSession(None, None, tmp_path, None, None)  # type: ignore[arg-type]
    assert made.checkpoint_of("orders") == f"{tmp_path.as_uri()}/checkpoints/orders"
    made._checkpoint_location = "hdfs://host/checkpoints/"
    assert made.checkpoint_of("orders") == "hdfs://host/checkpoints/orders"
    assert SparkSettings("a", tmp_path).checkpoint_location is None
