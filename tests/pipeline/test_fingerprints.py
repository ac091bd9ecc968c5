"""The properties on which a query's state depends are remembered, and a change of one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.streams import Streams
from ottla.streams.plan.planner import plan
from ottla.streams.run.fingerprints import Fingerprint, StateChanged, check_fingerprint, fingerprint

pytestmark = pytest.mark.spark


def counted(spark: SparkSession, value_type: str, partitions: int = 2) -> Fingerprint:
    """A count in Python of records of this type: what comes out is a BIGINT whatever they are."""
    app = Streams("app")
    app.stream("in").group_by_key().aggregate(int, lambda total, value: total + 1, returns=int).to(
        "out", value=int
    )
    (query,) = plan(app.topology()).queries
    assert query.stateful is not None
    before = spark.createDataFrame([], f"key STRING, value {value_type}")
    behind = spark.createDataFrame([], "key STRING, value BIGINT")
    return fingerprint(query.stateful, [before], behind, partitions, heartbeats=False)


def test_a_change_of_the_input_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "query.json"
    check_fingerprint(path, counted(spark, "STRING"), has_checkpoint=False)
    check_fingerprint(path, counted(spark, "STRING"), has_checkpoint=True)

    with pytest.raises(StateChanged, match="input values was string and is int"):
        check_fingerprint(path, counted(spark, "INT"), has_checkpoint=True)
    with pytest.raises(StateChanged, match="parts was 2 and is 3"):
        check_fingerprint(path, counted(spark, "STRING", partitions=3), has_checkpoint=True)


def test_without_a_checkpoint_it_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "query.json"
    check_fingerprint(path, counted(spark, "STRING"), has_checkpoint=False)
    check_fingerprint(path, counted(spark, "INT"), has_checkpoint=False)
    check_fingerprint(path, counted(spark, "INT"), has_checkpoint=True)
