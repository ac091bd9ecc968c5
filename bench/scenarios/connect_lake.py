"""Connect's sinks into lakes: a topic of JSON into Parquet files and into an Iceberg table, on local disks.

No connector of Java's is beside them (none of these is on Maven as it is run): both sides are ottla's sink,
in one Spark host; the left column reads from Apache Kafka, the right one from ottla's broker.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.pipeline_clients import watching
from bench.scenarios.scenario import Scenario, Turn
from support.connect.lakes import iceberg_metadata
from support.connect.spark_host import SparkHost, spark_host

TOPIC: Final = "input"
CONNECTOR: Final = "lake"
RECORDS: Final = 12_000_000
BATCH: Final = 600_000
PARTITIONS: Final = 2
VALUE_BYTES: Final = 100
TIMEOUT_SECONDS: Final = 900.0
START_SECONDS: Final = 120.0
COLUMNS: Final = "id BIGINT, name STRING, price DOUBLE, at BIGINT"

Config = Callable[[Path], dict[str, str]]


def parquet_config(directory: Path) -> dict[str, str]:
    """The file sink, as a configuration of Confluent's S3 sink has it."""
    return {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "ottla.url": str(directory),
        "flush.size": str(BATCH),
        "rotate.interval.ms": "1000",
    }


def iceberg_config(directory: Path) -> dict[str, str]:
    """The Iceberg sink, appending."""
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "iceberg.tables": "db.rows",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.warehouse": str(directory),
        "ottla.commit.interval.ms": "1000",
    }


def _run(config: Config, count: Callable[[Path], int], turn: Turn) -> dict[str, float]:
    records, lake = turn.size(RECORDS), turn.workspace / "lake"
    batch = turn.size(BATCH)
    with turn.server() as server:
        fill(server.bootstrap, records)
        os.sync()
        started_at = time.perf_counter()
        with spark_host(server.bootstrap, turn.workspace / "host") as host:
            given = {
                **config(lake),
                "topics": TOPIC,
                "tasks.max": "2",
                "value.schema": COLUMNS,
                "ottla.batch.max.records": str(batch),
            }
            host.begin(CONNECTOR, given, worker={"ottla.spark.driver.memory": "2g"})
            with contextlib.closing(
                watching.CommittedOffsets(server.bootstrap, f"connect-{CONNECTOR}", TOPIC, PARTITIONS)
            ) as offsets:
                course = watching.watch(
                    offsets,
                    records,
                    started_at=started_at,
                    pids=lambda: [host.process.pid],
                    check_running=lambda: _check_running(host),
                    server_cpu_seconds=server.cpu_seconds,
                    timeout_seconds=TIMEOUT_SECONDS,
                )
        turn.other_cpu_shares.append(course.other_cpu_share)
    found = count(lake)
    if found != records:
        raise BenchError(f"{found:,} rows are there of {records:,} records")
    return dict(watching.figures(course))


def fill(bootstrap: str, records: int) -> None:
    """Write the input: JSON objects of about VALUE_BYTES."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    base = json.dumps({"name": "", "price": 0.5, "at": 1_700_000_000_000, "id": 10**8})
    name = "n" * (VALUE_BYTES - len(base))
    for at in range(records):
        value = b'{"id": %d, "name": "%b", "price": %d.25, "at": %d}' % (
            at,
            name.encode(),
            at % 1_000,
            1_700_000_000_000 + at,
        )
        while True:
            try:
                producer.produce(TOPIC, value, partition=at % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if at % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise BenchError(f"{TOPIC} could not be filled")


def _check_running(host: SparkHost) -> None:
    if host.process.poll() is not None or any(type(event).__name__ == "Ended" for event in host.events):
        raise BenchError(f"the sink ended by itself:\n{host.tail()}")


def _parquet_rows(lake: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in (lake / "topics").rglob("*.parquet"))


def _iceberg_rows(lake: Path) -> int:
    from pyiceberg.table import StaticTable

    metadata = iceberg_metadata(lake / "db" / "rows")
    if metadata is None:
        return 0
    return StaticTable.from_metadata(metadata.as_uri()).scan().count()


_MEASURES: Final = (
    Measure("records_per_second", "steady rate", "records/s", Target(Bound.VALUE_AT_LEAST, 200_000)),
    Measure("whole_records_per_second", "with the start of Spark", "records/s"),
    Measure("start_seconds", "until the first commit", "s"),
    Measure("cpu_seconds_per_million", "sink's CPU time", "s/million"),
    Measure("peak_mebibytes", "most RSS", "MiB"),
)
_METHOD: Final = (
    f"{RECORDS:,} JSON records of {VALUE_BYTES} bytes, {PARTITIONS} partitions, with a given schema, into "
    f"{{}} on a local disk, exactly once, in batches of {BATCH:,}. Both sides are ottla's sink "
    "in one Spark host "
    "(local[2]): the left one reads from Apache Kafka. The rate is taken from the first "
    "quarter to the end; all rows "
    "are counted afterwards."
)
SCENARIOS: Final = (
    Scenario(
        "connect-parquet",
        _METHOD.format("Parquet files"),
        _MEASURES,
        functools.partial(_run, parquet_config, _parquet_rows),
    ),
    Scenario(
        "connect-iceberg",
        _METHOD.format("an Iceberg table"),
        _MEASURES,
        functools.partial(_run, iceberg_config, _iceberg_rows),
    ),
)
