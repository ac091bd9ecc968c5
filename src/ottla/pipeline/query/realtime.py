"""Chooses whether a query runs in Spark's real-time mode or in micro-batches, and says why.

*Real-time mode* (Spark 4.1 and newer, `trigger(realTime=…)`): each source partition has a task that runs for
the length of a long batch, and records flow through as they come. It is only for plans without state and
without Python functions, from Kafka to Spark's own Kafka sink, which writes at least once: after a failure
the records since the begin of the last batch come again. *Micro-batches*: all other plans, exactly once if
the sink is.

`choose_mode` takes real-time mode only if the caller has said that records may come twice. It never trades a
guarantee for speed by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ottla.config.errors import UserError
from ottla.pipeline.query.query_spec import ProcessingTime, RealTime, Trigger
from ottla.pipeline.spark.low_latency import version_tuple

REAL_TIME_SINCE = (4, 1)
REAL_TIME_OUTPUT_MODE = "update"


class ModeError(UserError):
    """The caller requires real-time mode and the query can't run in it; the message says why."""


class ModeKind(Enum):
    """How records move through a query."""

    REAL_TIME = "real-time"
    MICRO_BATCH = "micro-batch"


class Wanted(Enum):
    """The mode that the caller wants. AUTO: real-time mode if the query allows it."""

    AUTO = "auto"
    REAL_TIME = "real-time"
    MICRO_BATCH = "micro-batch"


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The facts about a plan that decide on its mode.

    stateful: has aggregations, joins of streams, deduplication or timers. python_functions: runs Python for
    its records, formats included. exactly_once: every output record must be written exactly once.
    kafka_to_kafka: all sources and the sink are Kafka topics. shuffles: records change tasks.
    repeated_source: reads a topic more than once. source_partitions: the partitions of all sources, None if
    unknown. cores: the number of tasks that can run at the same time, None if unknown.
    """

    stateful: bool = False
    python_functions: bool = False
    exactly_once: bool = True
    kafka_to_kafka: bool = True
    shuffles: bool = False
    repeated_source: bool = False
    source_partitions: int | None = None
    cores: int | None = None


@dataclass(frozen=True, slots=True)
class Mode:
    """The mode of a query, and the reason in a few words."""

    kind: ModeKind
    reason: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.reason}"

    def trigger(self, interval_ms: int = 0, real_time_batch_ms: int = RealTime().batch_ms) -> Trigger:
        """The trigger for this mode. interval_ms: between micro-batches, 0 for none."""
        match self.kind:
            case ModeKind.REAL_TIME:
                return RealTime(real_time_batch_ms)
            case ModeKind.MICRO_BATCH:
                return ProcessingTime(interval_ms)


def choose_mode(facts: PlanFacts, spark_version: str, wanted: Wanted = Wanted.AUTO) -> Mode:
    """The mode of a query. Raises ModeError for REAL_TIME if the query can't run in it."""
    if wanted is Wanted.MICRO_BATCH:
        return Mode(ModeKind.MICRO_BATCH, "asked for")
    obstacle = _obstacle(facts, spark_version)
    if obstacle is None:
        reason = "no state, no Python functions, Kafka to Kafka, and records may come twice after a failure"
        return Mode(ModeKind.REAL_TIME, reason)
    if wanted is Wanted.REAL_TIME:
        raise ModeError(f"real-time mode is not possible here: {obstacle}")
    return Mode(ModeKind.MICRO_BATCH, obstacle)


def _obstacle(facts: PlanFacts, spark_version: str) -> str | None:
    """The first reason against real-time mode; None if there is none."""
    if version_tuple(spark_version) < REAL_TIME_SINCE:
        return f"Spark {spark_version} has no real-time mode, 4.1 and newer have it"
    if facts.exactly_once:
        return "exactly-once output needs batches; real-time mode writes at least once"
    if facts.stateful:
        return "real-time mode keeps no state, and the query does"
    if facts.shuffles:
        return "real-time mode moves no records between tasks, and the query does"
    if facts.python_functions:
        return "real-time mode runs no Python functions, and the query does"
    if not facts.kafka_to_kafka:
        return "real-time mode is for Kafka to Kafka"
    if facts.repeated_source:
        return "real-time mode reads a topic only once in a query"
    partitions, cores = facts.source_partitions, facts.cores
    if partitions is not None and cores is not None and cores < partitions:
        return (
            f"real-time mode needs a core for each of {partitions} source partitions, and there are {cores}"
        )
    return None
