"""Which queries of an application begin with a small batch: those whose results it cannot change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.pipeline.query.first_batch import FIRST_BATCH_RECORDS, can_be_raised
from ottla.pipeline.query.query_spec import Admission, Beginning, QuerySpec
from ottla.pipeline.query.source import KafkaSource
from ottla.streams import Streams, StreamsSettings, tumbling
from ottla.streams.plan.planner import plan
from ottla.streams.run.admitted import admit

LARGEST = 1_000
MINUTE = timedelta(minutes=1)


@dataclass
class Cluster:
    """A cluster with so many records in each of two partitions."""

    records: int

    def start_positions(self, topic: str) -> Mapping[int, int]:
        return {0: 5, 1: 0}

    def end_positions(self, topic: str) -> Mapping[int, int]:
        return {0: 5 + self.records, 1: self.records}


@dataclass
class Runner:
    """Admits every query as a new one."""

    specs: list[QuerySpec] = field(default_factory=list)

    def admit(self, spec: QuerySpec) -> Admission:
        topics = tuple(tuple(source.topics) for source in spec.sources)
        return Admission(spec, tuple(spec.sources), Beginning.NEW, topics)


def stateless(app: Streams) -> None:
    app.stream("a", value=str).filter(lambda record: record.value.isNotNull()).to("out", value=str)


def counted(app: Streams) -> None:
    app.stream("a", key=str).group_by_key().count().to("out", key=str, value=int)


def windowed(app: Streams) -> None:
    windows = app.stream("a").group_by_key().windowed_by(tumbling(MINUTE, grace=MINUTE))
    windows.count().to_stream().to("out", value=int)


def joined(app: Streams) -> None:
    stream = app.stream("a", key=str, value=str).join_table(
        app.table("b", key=str, value=str), lambda left, right: left.value
    )
    stream.to("out", key=str, value=str)


def first_batch(
    build: Callable[[Streams], None], state: Path, records: int = 10, spark: str = "4.1.1", **given: Any
) -> int | None:
    app = Streams("app")
    build(app)
    settings = StreamsSettings(state=state, batch_records=LARGEST, **given)
    session = SimpleNamespace(is_connect=False, checkpoint_of=lambda name: str(state / name))
    context: Any = SimpleNamespace(
        settings=settings,
        session=session,
        spark=SimpleNamespace(version=spark),
        cluster=Cluster(records),
        runner=Runner(),
    )
    query = plan(app.topology()).queries[0]
    admitted = admit(context, f"app-{query.name}", query, None)
    limits = {source.first_limit for source in admitted.admission.sources}
    assert len(limits) == 1
    return limits.pop()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.streams.run.admitted.FIRST_BATCH_RECORDS", 50)


def test_queries_over_one_source_without_event_time_begin_small(tmp_path: Path) -> None:
    assert first_batch(stateless, tmp_path) == 50
    assert first_batch(counted, tmp_path) == 50


def test_where_event_time_decides_a_backlog_of_one_batch_stays_one(tmp_path: Path) -> None:
    assert first_batch(windowed, tmp_path, records=LARGEST // 2) is None
    assert first_batch(windowed, tmp_path, records=LARGEST // 2 + 1) == 50


def test_where_sources_meet_the_first_batch_is_as_large_as_all(tmp_path: Path) -> None:
    assert first_batch(joined, tmp_path, records=10 * LARGEST) is None


def test_what_is_to_catch_up_only_and_an_unknown_spark_have_batches_of_one_size(tmp_path: Path) -> None:
    assert first_batch(stateless, tmp_path, until_caught_up=True) is None
    assert first_batch(stateless, tmp_path, spark="4.9.0") is None


def test_batches_that_are_small_anyhow_stay_as_they_are() -> None:
    assert can_be_raised("4.0.0") and can_be_raised("4.2.0")
    source = KafkaSource("127.0.0.1:1", ["a"], max_offsets_per_trigger=50, first_batch_records=50)
    assert source.first_limit is None
    assert FIRST_BATCH_RECORDS == 20_000
