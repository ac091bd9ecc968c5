"""Keeps a query's first batch small, so that its results are there soon; the next ones are of full size.

The first batch of a process runs in a JVM that has compiled nothing yet, and 600,000 records took it ten
seconds. Spark fixes the size of batches when a query starts. So the source starts with the small one, and
once the first batch is planned, the running query is given the other: Spark asks for it anew for each
batch, and no checkpoint fixes it. Spark has no public way for this; the versions below were tried, and with
others the first batch is as large as all.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.spark.low_latency import version_tuple

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.pipeline.query.source import KafkaSource

FIRST_BATCH_RECORDS: Final = 20_000
_TRIED: Final = frozenset({(4, 0), (4, 1), (4, 2)})

log = logging.getLogger("ottla.pipeline")


def can_be_raised(spark_version: str) -> bool:
    """Whether a running query of this Spark can be given another number of records a batch."""
    return version_tuple(spark_version) in _TRIED


def needs_raising(sources: Sequence[KafkaSource]) -> bool:
    """Whether a query over these sources begins with a smaller batch."""
    return any(source.first_limit is not None for source in sources)


def raise_limits(query: StreamingQuery, sources: Sequence[KafkaSource]) -> None:
    """Let the next batches of a query be of full size; call it when the first one is planned.

    All sources that begin with a smaller batch have the same limits.
    """
    source = next(source for source in sources if source.first_limit is not None)
    first = source.first_limit
    java_query: Any = getattr(query, "_jsq", None)
    assert first is not None
    try:
        _raise(java_query.streamingQuery(), first, source.max_offsets_per_trigger)
    except Exception:
        log.warning("query %s: its batches stay at %d records", query.name, first, exc_info=True)


def _raise(execution: Any, first: int, largest: int | None) -> None:
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    read_limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
    wanted = read_limit.allAvailable() if largest is None else read_limit.maxRows(largest)
    limits = execution.uniqueSources()
    found = limits.iterator()
    raised = limits
    while found.hasNext():
        entry = found.next()
        stream, limit = entry._1(), entry._2()
        # Streams of the query's own, such as the heartbeats', have no limit.
        if limit.equals(read_limit.maxRows(first)):
            raised = raised.updated(stream, wanted)
    getattr(execution, "uniqueSources_$eq")(raised)
