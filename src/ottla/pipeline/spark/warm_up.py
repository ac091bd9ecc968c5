"""Starts Spark's Python workers while the application still prepares its queries.

Spark starts them with the first task that needs one: a Python process that imports PySpark, and a fork of it
for each core, which takes a second or two of the first batch. A job of its own does that beside the driver's
other work. It is a small job of the kind that the exactly-once sink makes, so it also loads classes and
compiles code that the first batch needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.pipeline")


def start_workers(spark: SparkSession) -> threading.Thread:
    """Run the job in a thread; a failure is only logged, as the queries' own tasks will tell it."""
    thread = threading.Thread(target=_run, args=(spark,), name="ottla-warm-up", daemon=True)
    thread.start()
    return thread


def _run(spark: SparkSession) -> None:
    try:
        tasks = spark.sparkContext.defaultParallelism
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(nothing, "id BIGINT")
        rows.write.format("noop").mode("overwrite").save()
    except Exception as error:
        log.debug("Python's workers were not started before the first batch: %s", error)


def nothing(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Read a task's rows, and give none."""
    for _ in batches:
        pass
    return iter(())
