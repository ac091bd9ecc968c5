"""The mode in which a query runs, and the reason that is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.pipeline.query.query_spec import ProcessingTime, RealTime
from ottla.pipeline.query.realtime import ModeError, ModeKind, PlanFacts, Wanted, choose_mode
from ottla.pipeline.spark.low_latency import low_latency_properties, version_tuple

FITTING = PlanFacts(exactly_once=False, source_partitions=2, cores=2)

OBSTACLES = [
    (replace(FITTING, exactly_once=True), "4.2.0", "exactly-once output needs batches"),
    (replace(FITTING, stateful=True), "4.2.0", "keeps no state"),
    (replace(FITTING, shuffles=True), "4.2.0", "moves no records between tasks"),
    (replace(FITTING, python_functions=True), "4.2.0", "runs no Python functions"),
    (replace(FITTING, kafka_to_kafka=False), "4.2.0", "Kafka to Kafka"),
    (replace(FITTING, repeated_source=True), "4.2.0", "a topic only once"),
    (
        replace(FITTING, source_partitions=3),
        "4.2.0",
        "a core for each of 3 source partitions, and there are 2",
    ),
    (FITTING, "4.0.0", r"Spark 4\.0\.0 has no real-time mode"),
]


@pytest.mark.parametrize("version", ["4.1.0", "4.2.0", "4.1.0-preview1", "5.0"])
def test_a_query_that_fits_gets_real_time_mode(version: str) -> None:
    for wanted in (Wanted.AUTO, Wanted.REAL_TIME):
        mode = choose_mode(FITTING, version, wanted)
        assert mode.kind is ModeKind.REAL_TIME
        assert "may come twice" in str(mode)
    assert choose_mode(replace(FITTING, cores=None), version).kind is ModeKind.REAL_TIME


@pytest.mark.parametrize(("facts", "version", "reason"), OBSTACLES)
def test_what_stands_against_it_is_said(facts: PlanFacts, version: str, reason: str) -> None:
    mode = choose_mode(facts, version)
    assert mode.kind is ModeKind.MICRO_BATCH
    with pytest.raises(ModeError, match=f"real-time mode is not possible here: .*{reason}"):
        choose_mode(facts, version, Wanted.REAL_TIME)


def test_micro_batches_are_never_refused() -> None:
    assert str(choose_mode(FITTING, "4.2.0", Wanted.MICRO_BATCH)) == "micro-batch: asked for"


def test_a_mode_gives_its_trigger() -> None:
    assert choose_mode(FITTING, "4.2.0").trigger(real_time_batch_ms=7_000) == RealTime(7_000)
    assert choose_mode(FITTING, "4.0.0").trigger(interval_ms=500) == ProcessingTime(500)


def test_by_default_a_query_is_exactly_once_and_so_in_micro_batches() -> None:
    assert choose_mode(PlanFacts(), "4.2.0").kind is ModeKind.MICRO_BATCH


def test_the_file_manager_has_moved_within_spark() -> None:
    name = "spark.sql.streaming.checkpointFileManagerClass"
    for version, package in (("4.0.0", "streaming"), ("4.2.0", "streaming.checkpointing")):
        manager = low_latency_properties(version, checkpoints_are_local=True)[name]
        assert manager == (f"org.apache.spark.sql.execution.{package}.FileSystemBasedCheckpointFileManager")
    assert low_latency_properties("4.0.0", checkpoints_are_local=False) == {}


def test_what_is_no_version() -> None:
    with pytest.raises(ValueError, match="no Spark version: 'four'"):
        version_tuple("four")
