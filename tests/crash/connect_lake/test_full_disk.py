"""A full disk below sinks of each kind: the reason is told, and with room again each row is there once."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import produce
from support.connect.workers import ConnectWorker, until
from support.servers.cluster import Cluster
from support.servers.full_disk import FullDisk, mounted_disk, needs_a_disk
from support.servers.processes import descendants

pytestmark = [pytest.mark.spark, pytest.mark.long, needs_a_disk]
SIZE = "64m"
PARTITIONS = 2
NO_ROOM = "No space left on device"
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
ON_SPARK = JSON | {"tasks.max": "2", "ottla.commit.interval.ms": "0", "ottla.batch.max.records": "500"}
ICEBERG, DELTA, FILES, LINES, DIRECTORY = "iceberg", "delta", "files", "lines", "directory"
IDS_OF_A_TABLE = """
import json, os, sys
from pathlib import Path
from support.connect import lakes
print(json.dumps([row["id"] for row in getattr(lakes, sys.argv[1])(Path(sys.argv[2]))]), flush=True)
os._exit(0)  # threads of the readers' libraries may abort the interpreter's end
"""


def configs(root: Path) -> dict[str, dict[str, str]]:
    """A sink of each kind that writes to a disk."""
    return {
        ICEBERG: ON_SPARK
        | {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "iceberg.tables": "db.rows",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.catalog.warehouse": str(root / ICEBERG),
        },
        DELTA: ON_SPARK
        | {"connector.class": "ottla.connect.spark.DeltaSinkConnector", "delta.path": str(root / DELTA)},
        FILES: ON_SPARK
        | {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "ottla.url": str(root / FILES),
            "flush.size": "400",
            "rotate.interval.ms": "0",
        },
        LINES: {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(root / "lines.txt"),
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        },
        DIRECTORY: JSON
        | {
            "connector.class": "ottla.connect.DirectorySink",
            "output.path": str(root / DIRECTORY),
            "flush.size": "400",
            "rotate.interval.ms": "500",
        },
    }


class SinksOnADisk:
    """A worker whose sinks write to a small disk."""

    def __init__(self, worker: ConnectWorker, disk: FullDisk, root: Path, bootstrap: str, topic: str) -> None:
        self.worker, self.disk, self.root = worker, disk, root
        self.bootstrap, self.topic = bootstrap, topic
        self.sent = 0

    def send(self, count: int) -> None:
        """Records of a few hundred bytes that can't be compressed."""
        records = [
            {
                "value": json.dumps({"id": self.sent + at, "noise": os.urandom(150).hex()}).encode(),
                "partition": at % PARTITIONS,
            }
            for at in range(count)
        ]
        produce(self.bootstrap, self.topic, records)
        self.sent += count

    def ids(self, kind: str) -> Counter[int]:
        """What a sink has written, as an independent reader finds it."""
        outside = self.disk.outside
        match kind:
            case "iceberg":
                return self._table_ids("iceberg_rows", self.root / ICEBERG / "db" / "rows")
            case "delta":
                return self._table_ids("delta_rows", self.root / DELTA)
            case "files":
                found = (outside / FILES / "topics").rglob("*.parquet")
                return Counter(row["id"] for path in found for row in pq.read_table(path).to_pylist())
            case "lines":
                texts = [(outside / "lines.txt").read_text(encoding="utf-8")]
            case _:
                texts = [path.read_text(encoding="utf-8") for path in (outside / DIRECTORY).glob("*.json*")]
        return Counter(json.loads(line)["id"] for text in texts for line in text.splitlines())

    def _table_ids(self, reader: str, table: Path) -> Counter[int]:
        """By a process that sees the disk where the table's files say that they are."""
        words = [*self.disk.enter, sys.executable, "-c", IDS_OF_A_TABLE, reader, str(table)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=environment)
        return Counter(json.loads(done.stdout))

    def wait_for_all(self, kinds: list[str]) -> None:
        """Wait until each sink has written as many rows as were sent, or more."""
        for kind in kinds:
            with contextlib.suppress(AssertionError):
                until(functools.partial(self._some_ids, kind), lambda ids: ids.total() >= self.sent, 180)
            assert self.ids(kind).total() >= self.sent, f"{kind}: {self.told(kind)}"

    def _some_ids(self, kind: str) -> Counter[int]:
        """As `ids`, while the sink writes."""
        with contextlib.suppress(OSError, ValueError, subprocess.CalledProcessError):
            return self.ids(kind)
        return Counter()

    def told(self, kind: str) -> str:
        """What the worker says of a connector: its status, and its log."""
        status = self.worker.ask("GET", f"/connectors/{kind}/status")
        logs = self.worker.ask("GET", f"/connectors/{kind}/logs")
        return f"{status.body}\n{logs.body}"


@contextlib.contextmanager
def sinks_on_a_disk(bootstrap: str, topic: str, directory: Path, is_all: bool) -> Iterator[SinksOnADisk]:
    """is_all: Spark's own files lie on the disk too."""
    root = directory / "disk"
    with mounted_disk(root, SIZE) as disk:
        settings = {
            "group.id": topic,
            "config.storage.topic": f"{topic}-configs",
            "status.storage.topic": f"{topic}-status",
            "offset.storage.topic": f"{topic}-offsets",
            "offset.flush.interval.ms": "300",
            "ottla.task.restart.max": "100",
            "ottla.task.restart.backoff.max.ms": "4000",
            "ottla.spark.directory": str((root if is_all else directory) / "spark"),
        }
        worker = ConnectWorker.installed(bootstrap, directory / "worker.log", settings)
        worker.server.command = [*disk.enter, *worker.server.command]
        worker.server.start()
        try:
            yield SinksOnADisk(worker, disk, root, bootstrap, topic)
        finally:
            if worker.server.running:
                hosts = descendants(worker.server.process.pid)
                worker.kill()
                for host in hosts:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(host, 9)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("is_all", [False, True], ids=["the sinks", "the sinks and Spark"])
def test_a_full_disk_is_told_and_with_room_again_each_row_is_there_once(
    cluster: Cluster, unique_name: str, tmp_path: Path, is_all: bool
) -> None:
    KafkaCluster(cluster.bootstrap).ensure_topics([Topic(unique_name, PARTITIONS)])
    with sinks_on_a_disk(cluster.bootstrap, unique_name, tmp_path, is_all) as sinks:
        # given sinks that have written
        wanted = configs(sinks.root)
        for kind, config in wanted.items():
            answer = sinks.worker.ask("PUT", f"/connectors/{kind}/config", {"topics": unique_name, **config})
            assert answer.status == 201, answer
        sinks.send(800)
        sinks.wait_for_all(list(wanted))
        # when the disk is full
        sinks.disk.fill()
        sinks.send(3000)
        # then each of them says so
        for kind in wanted:
            until(functools.partial(sinks.told, kind), lambda said: NO_ROOM in said, 120)
        # and with a little room, then with enough, they go on
        sinks.disk.fill(free_kib=700)
        sinks.send(500)
        sinks.disk.make_room()
        sinks.send(500)
        sinks.wait_for_all(list(wanted))
        assert sinks.worker.server.stop() == 0
        for kind in wanted:
            found, all_ids = sinks.ids(kind), Counter(range(sinks.sent))
            assert not found - all_ids, f"{kind}: twice {sorted(found - all_ids)[:20]}"
            assert not all_ids - found, f"{kind}: missing {sorted(all_ids - found)[:20]}"
