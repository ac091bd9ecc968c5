"""Spark's settings for the state of one query, where the session's own would cost too much.

Spark 4.0 opens an aggregate's RocksDB anew for each batch: its two steps, reading the old groups and
writing the new, open the store each, and the end of the first closes the store that the second has left open.
With changelog checkpoints, the session's setting, all changes since the last snapshot are then repeated in
every batch: a batch of 4 records behind 2 M others took 17 s. With whole snapshots it took 4 s, most of them
the removal of a closed window. Spark 4.2 keeps the store open.

Operators with one step (joins of streams, Python's state) keep their store open and stay with the changelog.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.pipeline.spark.low_latency import version_tuple
from ottla.streams.plan.node import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORES_STAY_OPEN_SINCE: Final = (4, 1)


def begin_one_by_one(spark_version: str) -> bool:
    """Whether a query's start may change the session's settings, so that no other may start meanwhile."""
    return version_tuple(spark_version) < STORES_STAY_OPEN_SINCE


def settings_for(stateful: Node | None, spark_version: str) -> Mapping[str, str]:
    """The settings that a query with this stateful node is to be started with."""
    state = None if stateful is None else stateful.facts.state
    if state is None or not state.two_steps or not begin_one_by_one(spark_version):
        return {}
    return {CHANGELOG: "false"}


@contextlib.contextmanager
def store_settings(spark: SparkSession, stateful: Node | None) -> Iterator[None]:
    """The session's settings while a query is started: Spark takes them over at that moment, for good."""
    before = {}
    try:
        for name, value in settings_for(stateful, spark.version).items():
            before[name] = spark.conf.get(name, None)
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
