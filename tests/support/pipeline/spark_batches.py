"""Run a streaming frame over batches that a test cuts, and see what each of them gave."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ottla.streams.host.watermarks import Watermark, watermark_of
from support.pipeline.stream_models import Batches

RECORDS = (
    "key STRING, value BIGINT, timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "topic STRING, partition INT, offset BIGINT"
)
TIMEOUT_SECONDS = 240


def time_of(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def stream_of(
    spark: SparkSession, directory: Path, batches: Batches, *, heartbeats: bool = False
) -> DataFrame:
    """A stream that reads one batch a time: its records, or with `heartbeats` the heartbeats among them."""
    directory.mkdir()
    offset = 0
    for number, batch in enumerate(batches):
        rows: list[Mapping[str, Any]] = []
        for fact in batch:
            if fact.heartbeat == heartbeats:
                row = {"key": fact.key, "value": fact.value, "timestamp": time_of(fact.time)}
                rows.append(row | {"topic": "facts", "partition": 0, "offset": offset})
                offset += 1
        path = directory / f"{number:05}.json"
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        # Files are read in the order of their times.
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    frame = spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1).json(str(directory))
    return frame.select("timestamp") if heartbeats else frame


@dataclass(slots=True)
class Ran:
    """A query's results: rows and event time of each batch, and the rows of state at the end."""

    rows: list[list[Any]] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    state_rows: int = 0


def run(frame: DataFrame, directory: Path, output_mode: str, columns: Sequence[Any]) -> Ran:
    """Run until all batches are read, and the one without records behind them."""
    return run_together({"": (frame, output_mode, columns)}, directory)[""]


def run_together(
    frames: Mapping[str, tuple[DataFrame, str, Sequence[Any]]], directory: Path
) -> dict[str, Ran]:
    """Several queries at once, by name: frame, output mode, columns to see."""
    found = {name: Ran() for name in frames}
    queries = {}
    for name, (frame, output_mode, columns) in frames.items():
        writer = frame.select(*columns).writeStream.outputMode(output_mode)
        writer = writer.option("checkpointLocation", (directory / f"checkpoint-{name}").as_uri())
        queries[name] = writer.foreachBatch(_collector(found[name])).trigger(availableNow=True).start()
    for name, query in queries.items():
        assert query.awaitTermination(TIMEOUT_SECONDS), name
        told = query.recentProgress
        found[name].watermarks = [watermark_of(each) for each in told]
        found[name].state_rows = sum(operator.numRowsTotal for operator in told[-1].stateOperators)
    return found


def _collector(ran: Ran) -> Callable[[DataFrame, int], None]:
    def collect(frame: DataFrame, batch_id: int) -> None:
        assert batch_id == len(ran.rows)
        ran.rows.append(frame.collect())

    return collect


@contextmanager
def one_task_each(spark: SparkSession) -> Iterator[None]:
    """Shuffles of one task: many small batches are over sooner."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "1")
    try:
        yield
    finally:
        spark.conf.set(name, str(before))
